"""Pad and CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.shape.reshape import is_value
from forge.frontends.onnx.converters.shape.slice import slice_of
from forge.frontends.onnx.registry import converts

_PAD_MODES = ("constant", "reflect", "edge", "wrap")


@converts("Pad", since=1)
def pad_1(g: Context, x: Value, *, paddings: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Value:
    return _pad(g, x, paddings, g.scalar(value, x), mode)


@converts("Pad", since=2)
def pad_2(g: Context, x: Value, *, pads: tuple[int, ...], mode: str = "constant", value: float = 0.0) -> Value:
    return _pad(g, x, pads, g.scalar(value, x), mode)


@converts("Pad", since=11, introduced={"axes": 18})
def pad(
    g: Context, x: Value, pads: Value, value: Value | None = None, axes: Value | None = None, *, mode: str = "constant"
) -> Value:
    fill = _nothing(g, x) if value is None else g.reshape(value, ())
    known = g.dims(pads)
    chosen = range(x.rank) if axes is None else g.ints(axes)
    if known is None or chosen is None:
        widths = pads if axes is None else _scattered(g, pads, axes, x.rank)
        pairs = g.call("transpose", g.reshape(widths, (2, x.rank)), axes=(1, 0))
        return g.call("nn.pad", x, fill, pairs, pad_width=None, pad_mode=_pad_mode(g, mode))
    places = [g.axis(a, x.rank, "axes") for a in chosen]
    if len(known) != 2 * len(places):
        raise g.invalid(f"pads: got {len(known)} numbers; expected {2 * len(places)}, two for each axis")
    full: list[Dim] = [0] * (2 * x.rank)
    for position, place in enumerate(places):
        full[place], full[place + x.rank] = known[position], known[position + len(places)]
    return _pad(g, x, full, fill, mode)


def _nothing(g: Context, x: Value) -> Value:
    return g.constant(np.array("", dtype=object)) if x.dtype == "string" else g.scalar(0, x)


def _scattered(g: Context, pads: Value, axes: Value, rank: int) -> Value:
    """Pads of some axes as pads of all."""
    before = g.call("floor_mod", g.cast(axes, "int64"), g.constant(rank, "int64"))
    after = g.call("add", before, g.constant(rank, "int64"))
    places = g.call("expand_dims", g.call("concatenate", before, after, axis=0), axis=0)
    return g.call("scatter_nd", g.constant([0] * (2 * rank), pads.dtype), places, pads)


def _pad(g: Context, x: Value, pads: Sequence[Dim], fill: Value, mode: str) -> Value:
    if len(pads) != 2 * x.rank:
        raise g.invalid(f"pads: got {len(pads)} numbers; expected {2 * x.rank}, two for each axis")
    pairs = tuple(zip(pads[: x.rank], pads[x.rank :]))
    if all(is_value(a, 0) and is_value(b, 0) for a, b in pairs):
        return x
    return g.call("nn.pad", x, fill, pad_width=pairs, pad_mode=_pad_mode(g, mode))


def _pad_mode(g: Context, mode: str) -> str:
    if mode not in _PAD_MODES:
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected one of {', '.join(_PAD_MODES)}")
    return mode


@converts("CenterCropPad", since=18)
def center_crop_pad(g: Context, x: Value, shape: Value, *, axes: tuple[int, ...] | None = None) -> Any:
    places = [g.axis(a, x.rank, "axes") for a in (range(x.rank) if axes is None else axes)]
    wanted = g.ints(shape)
    if wanted is None or not all(isinstance(x.shape[place], int) for place in places):
        return NotImplemented
    for place, size in zip(places, wanted):
        x = _centred(g, x, place, size)
    return x


def _centred(g: Context, x: Value, axis: int, size: int) -> Value:
    """``x`` cut or padded with zeros on both sides of ``axis``; the end takes the odd element of padding."""
    present = x.shape[axis]
    assert isinstance(present, int)
    if size < present:
        start = (present - size) // 2
        return slice_of(g, x, (start,), (start + size,), (axis,), None)
    before = (size - present) // 2
    pads: list[Dim] = [0] * (2 * x.rank)
    pads[axis], pads[axis + x.rank] = before, size - present - before
    return _pad(g, x, pads, g.scalar(0, x), "constant")
