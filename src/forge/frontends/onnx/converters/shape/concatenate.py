"""Concat and Split."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.shape.reshape import shape_text
from forge.frontends.onnx.registry import converts
from forge.ops.core.broadcast import with_equal_sizes
from forge.ops.core.inference import MAX_PARTS


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


converts("Concat", since=1)(forwarding(concat, None, axis=1))


@converts("Split", since=1)
def split_1(
    g: Context, x: Value, sizes: Value | None = None, *, axis: int = 0, split: tuple[int, ...] | None = None
) -> list[Value]:
    given = g.constant(split, "int64") if sizes is None and split is not None else sizes
    return split_2(g, x, None if given is None else g.cast(given, "int64"), axis=axis)


@converts("Split", since=2, introduced={"num_outputs": 18}, attribute_before={"split": 13})
def split_2(g: Context, x: Value, split: Value | None = None, *, axis: int = 0, num_outputs: int | None = None) -> list[Value]:
    if split is not None:
        known = g.dims(split)
        return g.multi("split", x, split, indices_or_sections=None, axis=axis) if known is None else _parts(g, x, axis, known)
    if g.opset < 18:
        return _equal_parts(g, x, axis, g.num_outputs)
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
        raise g.invalid(f"split: got sizes {shape_text(sizes)}; expected a sum of {x.shape[axis]}, the size of axis {axis}")
    if len(sizes) == 1:
        return [x]
    if all(dims.equal(s, sizes[0]) for s in sizes):
        return _equal_parts(g, x, axis, len(sizes))
    ends: list[Dim] = [sizes[0]]
    for size in sizes[1:-1]:
        ends.append(ends[-1] + size)
    return g.multi("split", x, indices_or_sections=tuple(ends), axis=axis)
