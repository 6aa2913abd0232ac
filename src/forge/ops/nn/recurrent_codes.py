"""Weights of recurrent layers as integers of 8 bits: their meaning, their packing, and the products of the input with them.

Codes ``[D, G * H, K]`` of int8 stand for ``(code - zero point) * scale`` with a scale, and maybe a zero point, for each row:
``[D, G * H]``. Packed for the kernel they are ``[D, G * ceil(H / p), s, p, g]``: the rows of each gate in panels of p, groups of
g neighbours of a row together, ``ceil(K / g)`` or more, and zeros beyond the last ones. So are weights of bfloat16, in pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dtypes
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.signatures import Array, Builder
from forge.ops.core.term import Term

GROUPS = (1, 2, 4)
"""Neighbours of a row that may lie together."""
WORD = 4
"""Products with packed codes take a depth that is a multiple of this."""


def centred(codes: Array, zero: Array | None) -> Array:
    """Without their zero points, as int64."""
    whole: Array = codes.astype(np.int64)
    return whole if zero is None else whole - zero.astype(np.int64)[..., None]


def real(codes: Array, scale: Array, zero: Array | None) -> Array:
    """What codes stand for, in the type of the scales."""
    return centred(codes, zero).astype(scale.dtype) * scale[..., None]


def rounded_by_range(x: Array, counted: Array) -> tuple[Array, Array]:
    """``x`` as codes of uint8 without their zero point, and their scale, which the range of what is ``counted`` and 0 gives."""
    width = counted.max(initial=0) - counted.min(initial=0)
    scale = x.dtype.type(1) if width == 0 else width / x.dtype.type(255)
    low, high = dtypes.integer_range("uint8")
    zero = np.clip(np.rint(-counted.min(initial=0) / scale), low, high)
    codes = np.clip(np.nan_to_num(np.rint(x / scale), nan=0.0) + zero, low, high)
    return np.nan_to_num(codes - zero, nan=0.0).astype(np.int64), scale


def packed(codes: Array, gates: int, panel: int, group: int, steps: int = 0) -> Array:
    """``[D, G * H, K]`` in panels of at least ``steps`` groups."""
    directions, rows, depth = codes.shape
    hidden = rows // gates
    spare = -hidden % panel, max(steps, -(-depth // group)) * group - depth
    whole = np.pad(codes.reshape(directions, gates, hidden, depth), ((0, 0), (0, 0), (0, spare[0]), (0, spare[1])))
    parts = whole.reshape(directions, -1, panel, (depth + spare[1]) // group, group)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 2, 4))


def unpacked(parts: Array, gates: int, hidden: int) -> Array:
    """Panels as ``[D, G * H, H]``."""
    directions, _, steps, _, group = parts.shape
    whole = parts.transpose(0, 1, 3, 2, 4).reshape(directions, gates, -1, steps * group)
    return np.ascontiguousarray(whole[:, :, :hidden, :hidden].reshape(directions, gates * hidden, hidden))


def input_products(
    builder: Builder, attrs: Any, x: Value, w: Value, scale: Value, zero: Value | None, lengths: Value | None
) -> Value:
    """The products of all inputs with the codes ``w``: by matrix products that later passes find."""
    g = Composer(builder)
    rows = w.shape[0] * w.shape[1]
    flat, by_row = _reshaped(g, w, (rows, w.shape[2])), _reshaped(g, scale, (rows,))
    if getattr(attrs, "dynamic_quantization", False):
        codes, x_scale, x_zero = _rounded(g, x, _counted(g, attrs, x, lengths))
        points = None if zero is None else _reshaped(g, zero, (rows, 1))
        total = g.call("nn.dense", _whole(g, codes, x_zero), _whole(g, flat, points))
        return g.call("multiply", g.call("cast", total, dtype="float32"), g.call("multiply", x_scale, by_row))
    points = None if zero is None else _reshaped(g, zero, (rows,))
    depth = w.shape[2]
    if flat.constant is not None and isinstance(depth, int) and depth % WORD:
        spare = -depth % WORD
        flat = builder.constant(np.pad(flat.constant, ((0, 0), (0, spare))), name=w.name)
        x = g.call("nn.pad", x, g.scalar(0, x), pad_width=((0, 0), (0, 0), (0, spare)))
    return g.call("nn.dense", x, g.call("qnn.dequantize", flat, by_row, points, axis=0, out_dtype=x.dtype))


def _reshaped(g: Composer, value: Value, shape: tuple[Any, ...]) -> Value:
    """Constants of any size stay constants."""
    if value.constant is None:
        return g.call("reshape", value, newshape=shape)
    return g.builder.constant(value.constant.reshape([int(d) for d in shape]), name=value.name)


def _whole(g: Composer, codes: Value, zero: Value | None) -> Value:
    wide = g.call("cast", codes, dtype="int32")
    return wide if zero is None else g.call("subtract", wide, g.call("cast", zero, dtype="int32"))


def _counted(g: Composer, attrs: Any, x: Value, lengths: Value | None) -> Value:
    """``x``, with 0 in steps that no row has."""
    if lengths is None:
        return x
    longest = g.call("max", lengths, axis=(0,), keepdims=False)
    batch = g.call("broadcast_to", longest, shape=lengths.shape)
    return g.call("sequence_mask", x, batch, axis=1 if attrs.layout else 0, mask_value=0.0)


def _rounded(g: Composer, x: Value, counted: Value) -> tuple[Value, Value, Value]:
    """Codes of uint8, their scale and zero point, as ``rounded_by_range`` gives them."""
    axes = tuple(range(x.rank))
    low, high = (Term(g, g.call(op, counted, axis=axes, keepdims=False)) for op in ("min", "max"))
    low, high = low.minimum(0), high.maximum(0)
    width = high - low
    scale = width.equals(0).where(1, width / 255)
    zero = g.call("cast", g.call("clip", g.call("round", (0 - low / scale).value), a_min=0.0, a_max=255.0), dtype="uint8")
    return g.call("qnn.quantize", x, scale.value, zero, out_dtype="uint8"), scale.value, zero
