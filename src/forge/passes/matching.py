"""What rules share: how to read producers, numbers, factors, reductions and vectors along channels, and to keep outputs apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.edits.rewrite import is_taken
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.select import copied
from forge.ops.reduce import reduction

MAX_FACTORS = 8


def made_by(value: Value | None, *ops: str) -> Node | None:
    """Returns the node that computes ``value``, if it applies one of ``ops``."""
    return value.producer if value is not None and value.producer is not None and value.producer.op in ops else None


def operand(node: Node, position: int = 0) -> Value:
    """Returns the operand at ``position``, which is not absent."""
    value = node.operands[position]
    assert value is not None
    return value


def again(builder: Builder, node: Node, *operands: Value | None, **changes: Any) -> Value:
    """Applies the operator of ``node``, which has one result, to other operands, with changed attributes."""
    return builder.call(node.op_def, *operands, name=node.name, **node.attributes | changes)


def has_only_data(node: Node) -> bool:
    """Returns whether no operand takes the place of an attribute: axes, sizes or bounds that are known at run time only."""
    return all(v is None for v in node.operands[1:])


def scalar(value: Value | None) -> float | None:
    """Returns the number that a constant of one element holds: the shortest decimal one that its dtype rounds to it."""
    array = None if value is None else value.constant
    return float(str(array.reshape(-1)[0])) if array is not None and array.size == 1 and array.dtype.kind in "fiuV" else None


def is_close(value: float | None, expected: float) -> bool:
    """Returns whether both are equal up to the rounding of constants that models keep in float32 or print with few digits."""
    return value is not None and math.isclose(value, expected, rel_tol=1e-5, abs_tol=1e-12)


def pairs(node: Node | None) -> tuple[tuple[Value, Value], ...]:
    """Returns the two operands of ``node``, and the other way round where the operator commutes; nothing for no node."""
    a, b = (None, None) if node is None else node.operands
    if node is None or a is None or b is None:
        return ()
    return ((a, b), (b, a)) if node.op_def.commutes else ((a, b),)


def with_scalar(value: Value | None, op: str) -> Iterator[tuple[Value, float]]:
    """Yields (x, c) for a value that is ``x op c`` with a number c (``c op x`` as well, where the operator commutes)."""
    for x, c in pairs(made_by(value, op)):
        number = scalar(c)
        if number is not None:
            yield x, number


def factors(value: Value) -> tuple[float, list[Value]]:
    """Returns ``value`` as a number times other values, looking through products, quotients by numbers and signs."""
    number, found = 1.0, [value]
    for _ in range(MAX_FACTORS):
        index, node = next(((i, p) for i, v in enumerate(found) if (p := _product(v)) is not None), (0, None))
        if node is None:
            break
        terms = [v for v in node.operands if v is not None]
        if node.op == "negative":
            number = -number
        elif node.op == "divide":
            number /= scalar(terms.pop()) or 1.0
        else:
            numbers = [scalar(v) for v in terms]
            terms = [v for v, c in zip(terms, numbers) if c is None]
            number = math.prod((c for c in reversed(numbers) if c is not None), start=number)
        found[index : index + 1] = terms
    return number, found


def _product(value: Value) -> Node | None:
    """The product, negative value, or quotient by a number, that ``value`` is."""
    return made_by(value, "multiply", "negative") or next((value.producer for _, c in with_scalar(value, "divide") if c), None)


def squared(value: Value | None) -> Value | None:
    """Returns x of x * x or power(x, 2)."""
    node = made_by(value, "multiply")
    if node is not None and node.operands[0] is node.operands[1]:
        return node.operands[0]
    return next((x for x, exponent in with_scalar(value, "power") if exponent == 2.0), None)


def reduced(value: Value | None, op: str) -> tuple[Value, tuple[int, ...]] | None:
    """Returns (x, axes) of a reduction that keeps its axes with extent 1; a mean may be a sum times a number."""
    node = made_by(value, op)
    if node is None and op == "mean" and value is not None:
        return _scaled_sum(value)
    if node is None or not node.attrs.keepdims or not has_only_data(node):
        return None
    return operand(node), reduced_axes(node)


def _scaled_sum(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """(x, axes) of sum(x, axes) / (the number of its terms)"""
    number, parts = factors(value)
    total = reduced(parts[0], "sum") if len(parts) == 1 else None
    if total is None or value.type != parts[0].type:
        return None
    count = dims.product(total[0].shape[axis] for axis in total[1])
    return total if isinstance(count, int) and is_close(number * count, 1.0) else None


def reduced_axes(node: Node) -> tuple[int, ...]:
    """Returns the axes that a reduction sums over, ascending and counted from the front."""
    return reduction.reduced_axes(node.op, node.attrs, operand(node).rank)


def channel_vector(value: Value, rank: int, axis: int, channels: Dim) -> np.ndarray | None:
    """Returns a constant that broadcasts along ``axis`` of a tensor of ``rank``, as a vector ``[channels]``.

    None: not a constant, or it varies along another axis.
    """
    array = value.constant
    if array is None or not isinstance(channels, int) or array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(extent != 1 for k, extent in enumerate(shape) if k != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,)) if shape[axis] == 1 else array.reshape(-1)


def distinct(builder: Builder, node: Node, values: Iterable[Value]) -> list[Value]:
    """Returns ``values`` for the results of ``node``, copied where an output would share one with an input or another output."""
    found: list[Value] = []
    for old, new in zip(node.results, values, strict=True):
        shared = builder.graph.is_output(old) and (is_taken(builder.graph, new) or new in found)
        found.append(copied(builder, new) if shared else new)
    return found
