"""Reductions, by operators where their bodies have names, else pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dtypes
from forge.frontends.stablehlo import regions
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.elementwise import binary
from forge.frontends.stablehlo.importer import build_region, inline
from forge.frontends.stablehlo.module import Block
from forge.frontends.stablehlo.registry import converts
from forge.frontends.stablehlo.scope import StablehloScope
from forge.ir.nodes import Value

Ints = tuple[int, ...]
_OPERATORS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_OF_BOOLS = {"add": "any", "multiply": "all", "maximum": "any", "minimum": "all", "and": "all", "or": "any"}


def neutral(name: str, dtype: str) -> float | int:
    """What changes no result of a combination."""
    if name in ("maximum", "minimum"):
        if dtypes.is_float(dtype):
            return float("-inf") if name == "maximum" else float("inf")
        low, high = (0, 1) if dtype == "bool" else dtypes.integer_range(dtype)
        return low if name == "maximum" else high
    if name == "and":
        return 1 if dtype == "bool" else -1 if dtype.startswith("int") else dtypes.integer_range(dtype)[1]
    return 1 if name == "multiply" else 0


def is_neutral(g: Context, name: str, value: Value) -> bool:
    """Whether a number changes no result of a combination."""
    array = g.array(value)
    return array is not None and array.size == 1 and bool(array.reshape(()) == array.dtype.type(neutral(name, value.dtype)))


def with_start(g: Context, name: str, value: Value, start: Value) -> Value:
    """``value`` combined with what a reduction begins with."""
    return value if is_neutral(g, name, start) else binary(g, name, value, start)


@converts("reduce")
def reduce(g: Context, *operands: Value, dimensions: Ints) -> list[Value]:
    count = len(operands) // 2
    values, starts, body = operands[:count], operands[count:], g.region(0)
    names = regions.combinations(body)
    if names is not None:
        return [with_start(g, name, _reduced(g, name, v, dimensions), start) for name, v, start in zip(names, values, starts)]
    extreme = regions.extreme_with_position(body)
    if extreme is not None and len(dimensions) == 1 and _counts(g, 1, dimensions[0]):
        ordered = g.cast(values[0], "uint8") if values[0].dtype == "bool" else values[0]
        position = g.call(extreme, ordered, axis=dimensions)
        return [g.cast(g.call(extreme[3:], ordered, axis=dimensions), values[0].dtype), g.cast(position, values[1].dtype)]
    return in_pairs(g, body, _aligned(g, values), starts, dimensions)


def _aligned(g: Context, values: Sequence[Value]) -> list[Value]:
    return [g.broadcast(v, values[0].shape) for v in values]


def _reduced(g: Context, name: str, value: Value, axes: Ints) -> Value:
    if not axes:
        return value
    op = _OF_BOOLS.get(name) if value.dtype == "bool" else _OPERATORS.get(name)
    if op is not None:  # rank and all, as whoever repeats the result asks for it
        kept = [size for axis, size in enumerate(value.shape) if axis not in axes]
        return g.reshape(g.call(op, value, axis=axes, keepdims=True), kept)
    if value.dtype == "bool":
        return g.cast(g.call("reduce_bitwise_xor", g.cast(value, "uint8"), axis=axes), "bool")
    return g.call(f"reduce_bitwise_{name}", value, axis=axes)


def _counts(g: Context, position: int, axis: int) -> bool:
    """Whether an operand has the positions along ``axis``."""
    value = g.operation.operands[position]
    for _ in range(8):
        producer = g.scope.producer(value)
        if producer is None:
            return False
        if producer.name in ("stablehlo.iota", "stablehlo.dynamic_iota"):
            return producer.attributes.get("iota_dimension") == axis
        if producer.name != "stablehlo.broadcast_in_dim":
            return False
        axes = list(producer.attributes.get("broadcast_dimensions", ()))
        if axis not in axes:
            return False
        value, axis = producer.operands[0], axes.index(axis)
    return False


def in_pairs(g: Context, body: Block, values: Sequence[Value], starts: Sequence[Value], axes: Ints) -> list[Value]:
    """A reduction by any body: neighbours are combined, then neighbours among these, until one is left.

    The body is associative by the specification, and operands keep their order.
    """
    rest = [k for k in range(values[0].rank) if k not in axes]
    order, shape = (*axes, *rest), [values[0].shape[k] for k in rest]
    moved = [g.moved(v, order) for v in values]
    flat = moved if len(axes) == 1 else [g.call("reshape", v, newshape=(-1, *shape)) for v in moved]
    count = flat[0].shape[0]
    begin = [g.broadcast(g.reshape(s, (1,) * len(shape)), shape) for s in starts]
    if not isinstance(count, int):
        return _row_by_row(g, body, flat, begin)
    while count > 1:
        even, odd = ([_every(g, v, k, count // 2 * 2, 2) for v in flat] for k in (0, 1))
        joined = combined(g, body, even, odd)
        tail = [_every(g, v, count - 1, count, 1) for v in flat]
        flat = [g.call("concatenate", a, b, axis=0) for a, b in zip(joined, tail)] if count % 2 else joined
        count = count // 2 + count % 2
    if count == 0:
        return begin
    return combined(g, body, begin, [g.reshape(v, shape) for v in flat])


def _row_by_row(g: Context, body: Block, rows: Sequence[Value], begin: Sequence[Value]) -> list[Value]:
    """A reduction of a number of rows that is known at run time only."""
    count = len(begin)
    types = [v.tensor_type for v in begin] * 2

    def step(scope: StablehloScope, inputs: list[Value]) -> list[Value]:
        return combined(Context(scope, g.operation, g.name), body, inputs[:count], inputs[count:])

    region = build_region(g, types, step)
    graph = region.with_captures(region.captured, len(types))
    return g.multi("scan", *begin, *rows, *region.captured, regions=[graph], num_states=count, num_scan_inputs=count)


def _every(g: Context, value: Value, begin: int, end: int, step: int) -> Value:
    """Rows of ``value``."""
    return g.call("strided_slice", value, begin=(begin,), end=(end,), strides=(step,), axes=(0,))


def combined(g: Context, body: Block, first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    """The results of a body for all elements of tensors at once."""
    results = inline(g, body, [*first, *second], by_element=True)
    shape = first[0].shape
    return [g.broadcast(g.reshape(v, (1,) * len(shape)) if v.rank < len(shape) else v, shape) for v in results]  # type: ignore[union-attr, arg-type]


@converts("map")
def map_(g: Context, *inputs: Value, dimensions: Ints) -> list[Value]:
    results = inline(g, g.region(0), inputs, by_element=True)
    shape = inputs[0].shape
    return [g.broadcast(g.reshape(v, (1,) * len(shape)) if v.rank < len(shape) else v, shape) for v in results]  # type: ignore[union-attr, arg-type]
