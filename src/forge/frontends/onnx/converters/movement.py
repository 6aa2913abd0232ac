"""Operators that reshape, join, cut and move tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.ops.core.broadcast import with_equal_sizes
from forge.ops.core.inference import MAX_PARTS

INT64_MAX = (1 << 63) - 1


@converts("Reshape", since=1)
def reshape_1(g: Context, x: Value, *, shape: tuple[int, ...] = ()) -> Value:
    return _reshape(g, x, shape, allowzero=False)


@converts("Reshape", since=5, introduced={"allowzero": 14})
def reshape(g: Context, x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    known = g.dims(shape)
    if known is None:
        return g.call("reshape", x, shape, newshape=None, allowzero=bool(allowzero))
    return _reshape(g, x, known, bool(allowzero))


def _reshape(g: Context, x: Value, wanted: Sequence[Dim], allowzero: bool) -> Value:
    return g.reshape(x, resolved_shape(g, x.shape, wanted, allowzero))


def resolved_shape(g: Context, shape: Sequence[Dim], wanted: Sequence[Dim], allowzero: bool) -> tuple[Dim, ...]:
    """``wanted`` with 0 (keep, unless ``allowzero``) and one -1 (what remains) replaced by sizes."""
    sizes = list(wanted)
    for axis, size in enumerate(sizes):
        if _is(size, 0) and not allowzero:
            if axis >= len(shape):
                raise g.invalid(
                    f"shape {_text(wanted)}: 0 at position {axis} copies a dimension; the input has rank {len(shape)}"
                )
            sizes[axis] = shape[axis]
    open_axes = [axis for axis, size in enumerate(sizes) if _is(size, -1)]
    if len(open_axes) > 1:
        raise g.invalid(f"shape {_text(wanted)}: got {len(open_axes)} times -1; expected at most one")
    if open_axes:
        others = dims.product(size for axis, size in enumerate(sizes) if axis != open_axes[0])
        total = dims.product(shape)
        if _is(others, 0) or dims.different(dims.floormod(total, others), 0):
            raise g.invalid(f"shape {_text(wanted)}: {_text(shape)} has {total} elements; expected a multiple of {others}")
        sizes[open_axes[0]] = dims.floordiv(total, others)
    return tuple(sizes)


def _is(size: Dim, number: int) -> bool:
    return isinstance(size, int) and size == number


def _text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(str(d) for d in shape)}]"


@converts("Flatten", since=1)
def flatten(g: Context, x: Value, *, axis: int = 1) -> Value:
    if not -x.rank <= axis <= x.rank:
        raise g.invalid(f"axis: got {axis}; expected {-x.rank} to {x.rank} for rank {x.rank}")
    first = axis + x.rank if axis < 0 else axis
    if first == 1 and x.rank >= 2:
        return g.call("nn.batch_flatten", x)
    return g.reshape(x, (dims.product(x.shape[:first]), dims.product(x.shape[first:])))


@converts("Transpose", since=1)
def transpose(g: Context, x: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    axes = tuple(reversed(range(x.rank))) if perm is None else perm
    return g.call("transpose", x, axes=axes)


@converts("Squeeze", since=1)
def squeeze_1(g: Context, x: Value, *, axes: tuple[int, ...] | None = None) -> Value:
    return _squeeze(g, x, axes)


@converts("Squeeze", since=13)
def squeeze(g: Context, x: Value, axes: Value | None = None) -> Value:
    if axes is None:
        return _squeeze(g, x, None)
    known = g.ints(axes)
    return g.call("squeeze", x, axes, axis=None) if known is None else _squeeze(g, x, known)


def _squeeze(g: Context, x: Value, axes: Sequence[int] | None) -> Value:
    chosen = [i for i, d in enumerate(x.shape) if _is(d, 1)] if axes is None else [g.axis(a, x.rank, "axes") for a in axes]
    return g.call("squeeze", x, axis=tuple(chosen)) if chosen else x


@converts("Unsqueeze", since=1)
def unsqueeze_1(g: Context, x: Value, *, axes: tuple[int, ...]) -> Value:
    return insert_axes(g, x, axes)


@converts("Unsqueeze", since=13)
def unsqueeze(g: Context, x: Value, axes: Value) -> Value:
    known = g.ints(axes)
    return g.call("expand_dims", x, axes, axis=None) if known is None else insert_axes(g, x, known)


def insert_axes(g: Context, x: Value, axes: Sequence[int]) -> Value:
    """``x`` with axes of size 1 at these positions of the result."""
    rank = x.rank + len(axes)
    places = sorted(g.axis(a, rank, "axes") for a in axes)
    if len(set(places)) != len(places):
        raise g.invalid(f"axes: got {list(axes)}; expected distinct axes")
    if places and places == list(range(places[0], places[0] + len(places))):
        return g.call("expand_dims", x, axis=places[0], num_newaxis=len(places))
    rest = iter(x.shape)
    return g.reshape(x, [1 if i in places else next(rest) for i in range(rank)])


@converts("Concat", since=1)
def concat_1(g: Context, *values: Value, axis: int = 1) -> Value:
    return concat(g, *values, axis=axis)


@converts("Concat", since=4)
def concat(g: Context, *values: Value, axis: int) -> Value:
    if not values:
        raise g.invalid("got no inputs; expected 1 or more")
    if len(values) == 1:
        return values[0]
    place = g.axis(axis, values[0].rank)
    if any(v.rank != values[0].rank for v in values):
        raise g.invalid(f"got ranks {[v.rank for v in values]}; expected equal ranks")
    return g.call("concatenate", *with_equal_sizes(g.builder, values, place), axis=place)


@converts("Split", since=1)
def split_1(
    g: Context, x: Value, sizes: Value | None = None, *, axis: int = 0, split: tuple[int, ...] | None = None
) -> list[Value]:
    return split_2(g, x, axis=axis, split=split) if sizes is None else split_13(g, x, g.cast(sizes, "int64"), axis=axis)


@converts("Split", since=2)
def split_2(g: Context, x: Value, *, axis: int = 0, split: tuple[int, ...] | None = None) -> list[Value]:
    return _equal_parts(g, x, axis, g.num_outputs) if split is None else _parts(g, x, axis, split)


@converts("Split", since=13)
def split_13(g: Context, x: Value, sizes: Value | None = None, *, axis: int = 0) -> list[Value]:
    if sizes is None:
        return _equal_parts(g, x, axis, g.num_outputs)
    known = g.dims(sizes)
    if known is None:
        return g.multi("split", x, sizes, indices_or_sections=None, axis=axis)
    return _parts(g, x, axis, known)


@converts("Split", since=18)
def split(g: Context, x: Value, sizes: Value | None = None, *, axis: int = 0, num_outputs: int | None = None) -> list[Value]:
    if sizes is not None:
        return split_13(g, x, sizes, axis=axis)
    count = g.num_outputs if num_outputs is None else num_outputs
    if not 1 <= count <= MAX_PARTS:
        raise g.invalid(f"attribute 'num_outputs': got {count}; expected 1 to {MAX_PARTS}")
    total = x.shape[g.axis(axis, x.rank)]
    size = dims.ceildiv(total, count)
    return _parts(g, x, axis, [size] * (count - 1) + [total - size * (count - 1)])


def _equal_parts(g: Context, x: Value, axis: int, count: int) -> list[Value]:
    return g.multi("split", x, indices_or_sections=count, axis=g.axis(axis, x.rank))


def _parts(g: Context, x: Value, axis: int, sizes: Sequence[Dim]) -> list[Value]:
    axis = g.axis(axis, x.rank)
    if not sizes:
        raise g.invalid("split: got no sizes; expected one for each output")
    if dims.different(sum(sizes[1:], sizes[0]), x.shape[axis]):
        raise g.invalid(f"split: got sizes {_text(sizes)}; expected a sum of {x.shape[axis]}, the size of axis {axis}")
    if len(sizes) == 1:
        return [x]
    if all(dims.equal(s, sizes[0]) for s in sizes):
        return _equal_parts(g, x, axis, len(sizes))
    ends: list[Dim] = [sizes[0]]
    for size in sizes[1:-1]:
        ends.append(ends[-1] + size)
    return g.multi("split", x, indices_or_sections=tuple(ends), axis=axis)


@converts("Slice", since=1)
def slice_1(
    g: Context, x: Value, *, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...] | None = None
) -> Value:
    return _slice(g, x, starts, ends, axes, None)


@converts("Slice", since=10)
def slice_10(g: Context, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None) -> Value:
    operands = _of_known_length(g, x, (starts, ends, axes, steps))
    known = [None if v is None else g.dims(v) for v in operands]
    axes_known, steps_known = (g.ints(v) for v in operands[2:])
    static = known[0] is not None and known[1] is not None
    if static and (axes is None or axes_known is not None) and (steps is None or steps_known is not None):
        return _slice(g, x, known[0], known[1], axes_known, steps_known)  # type: ignore[arg-type]
    return _runtime_slice(g, x, operands, known)


def _of_known_length(g: Context, x: Value, operands: Sequence[Value | None]) -> list[Value | None]:
    """``operands`` with lengths that are known: that of any, which all have, or the rank of ``x``."""
    lengths = [v.shape[0] for v in operands if v is not None]
    if dims.is_static(*lengths):
        return list(operands)
    length = next((d for d in lengths if isinstance(d, int)), None)
    if length is not None:
        return [None if v is None else g.reshape(v, (length,)) for v in operands]
    starts, ends, axes, steps = operands
    if axes is not None:
        raise g.unsupported("axes: their number is known only at run time; expected a known one")

    def filled(value: Value | None, default: int) -> Value | None:
        if value is None:
            return None
        rest = g.constant(np.full(x.rank, default), value.dtype)
        return g.reshape(g.call("strided_slice", g.call("concatenate", value, rest), begin=(0,), end=(x.rank,)), (x.rank,))

    return [filled(starts, 0), filled(ends, 2**31 - 1), None, filled(steps, 1)]


def _runtime_slice(g: Context, x: Value, operands: Sequence[Value | None], known: Sequence[Sequence[Dim] | None]) -> Value:
    """What is known becomes an attribute, the rest stays an operand."""
    begin, end, axes, strides = (v if k is None else None for v, k in zip(operands, known))
    attributes = dict(zip(("begin", "end", "axes", "strides"), known))
    return g.call("strided_slice", x, begin, end, strides, axes, **attributes)


def _slice(
    g: Context, x: Value, starts: Sequence[Dim], ends: Sequence[Dim], axes: Sequence[int] | None, steps: Sequence[int] | None
) -> Value:
    count = len(starts)
    chosen = range(count) if axes is None else axes
    if len(ends) != count or len(chosen) != count or (steps is not None and len(steps) != count):
        raise g.invalid(f"got {count} starts, {len(ends)} ends, {len(chosen)} axes; expected equal numbers")
    places = tuple(g.axis(a, x.rank, "axes") for a in chosen)
    strides = (1,) * count if steps is None else tuple(steps)
    if not count:
        return x
    return g.call("strided_slice", x, begin=tuple(starts), end=tuple(ends), strides=strides, axes=places)


@converts("Expand", since=8)
def expand(g: Context, x: Value, shape: Value) -> Value:
    known = g.dims(shape)
    if known is None:
        return g.call("broadcast_to", x, shape, shape=None)
    target = broadcast_target(x.shape, known)
    return x if target == x.shape else g.call("broadcast_to", x, shape=target)


def broadcast_target(shape: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[Dim, ...]:
    """Both shapes broadcast against each other; where nothing is proven, the wanted size holds."""
    rank = max(len(shape), len(wanted))
    own, other = ((*(1,) * (rank - len(s)), *s) for s in (shape, wanted))
    return tuple(a if _is(b, 1) or (isinstance(a, int) and a > 1 and not isinstance(b, int)) else b for a, b in zip(own, other))


@converts("Tile", since=1)
def tile_1(g: Context, x: Value, tiles: Value, axis: Value) -> Value:
    """``tiles`` and ``axis`` hold one number each, of the data's element type."""
    positions, one = g.constant(np.arange(x.rank), "int64"), g.constant(1, "int64")
    count, place = (g.reshape(g.cast(v, "int64"), ()) for v in (tiles, axis))
    return tile(g, x, g.call("where", g.call("equal", positions, place), count, one))


@converts("Tile", since=6)
def tile(g: Context, x: Value, repeats: Value) -> Value:
    known = g.dims(repeats)
    return g.call("tile", x, repeats, reps=None) if known is None else g.call("tile", x, reps=known)


@converts("Trilu", since=14)
def trilu(g: Context, x: Value, k: Value | None = None, *, upper: int = 1) -> Value:
    return g.call("trilu", x, g.constant(0, "int64") if k is None else k, upper=bool(upper))


@converts("DepthToSpace", introduced={"mode": 11})
def depth_to_space(g: Context, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    return g.call("nn.depth_to_space", x, block_size=blocksize, mode=mode)


@converts("SpaceToDepth", introduced={"mode": 28})
def space_to_depth(g: Context, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    if mode == "DCR":
        return g.call("nn.space_to_depth", x, block_size=blocksize)
    if mode != "CRD":
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected 'DCR' or 'CRD'")
    n, c, h, w = x.shape
    rows, columns = dims.floordiv(h, blocksize), dims.floordiv(w, blocksize)
    parts = g.reshape(x, (n, c, rows, blocksize, columns, blocksize))
    moved = g.call("transpose", parts, axes=(0, 1, 3, 5, 2, 4))
    return g.reshape(moved, (n, c * blocksize * blocksize, rows, columns))


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
    if all(_is(a, 0) and _is(b, 0) for a, b in pairs):
        return x
    return g.call("nn.pad", x, fill, pad_width=pairs, pad_mode=_pad_mode(g, mode))


def _pad_mode(g: Context, mode: str) -> str:
    if mode not in _PAD_MODES:
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected one of {', '.join(_PAD_MODES)}")
    return mode


@converts("ReverseSequence", since=10)
def reverse_sequence(g: Context, x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Value:
    return g.call("reverse_sequence", x, lengths, seq_axis=time_axis, batch_axis=batch_axis)


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
        return _slice(g, x, (start,), (start + size,), (axis,), None)
    before = (size - present) // 2
    pads: list[Dim] = [0] * (2 * x.rank)
    pads[axis], pads[axis + x.rank] = before, size - present - before
    return _pad(g, x, pads, g.scalar(0, x), "constant")
