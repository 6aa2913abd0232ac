"""What the bodies of reductions, scatters and sorts mean: combinations with a name, and keys of orders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from forge.frontends.stablehlo.module import Block, Operation, Value

COMMUTATIVE = frozenset(("add", "and", "maximum", "minimum", "multiply", "or", "xor"))
MAX_TEXT = 2000
MAX_KEYS = 8


def producers_of(block: Block) -> dict[Value, Operation]:
    return {result: operation for operation in block.operations for result in operation.results}


def combinations(block: Block, ordered: Collection[str] = ()) -> list[str] | None:
    """The operation, by name, by which each result combines its two arguments; None where one is anything else.

    Args:
        ordered: names of operations that take the arguments in this order.
    """
    found, count, producers = [], len(block.results), producers_of(block)
    if len(block.arguments) != 2 * count:
        return None
    for position, result in enumerate(block.results):
        operation = producers.get(result)
        pair = [block.arguments[position], block.arguments[count + position]]
        name = operation.name.removeprefix("stablehlo.") if operation is not None else ""
        operands = operation.operands if operation is not None else []
        if not (name in COMMUTATIVE and operands in (pair, pair[::-1]) or name in ordered and operands == pair):
            return None
        found.append(name)
    return found


def combination(block: Block) -> str | None:
    """`combinations` of a body with one result."""
    found = combinations(block)
    return found[0] if found is not None and len(found) == 1 else None


def text_of(block: Block, value: Value, names: Mapping[Value, str] | None = None) -> str:
    """How a value of a body is computed of its arguments, ``0``, ``1``, .. or as ``names`` says; "?" where that is long."""
    known = {argument: str(k) if names is None else names.get(argument, "?") for k, argument in enumerate(block.arguments)}
    for operation in _needed(block, value):
        name = operation.attributes.get("comparison_direction") or operation.name.removeprefix("stablehlo.")
        number = operation.attributes.get("value")
        text = f"{name}({','.join(known.get(operand, '?') for operand in operation.operands)})"
        if name == "constant":
            text = "?"
            if isinstance(number, np.ndarray) and number.size == 1 and number.dtype.kind != "c":
                text = str(float(number.reshape(())))
        if operation.regions or len(text) > MAX_TEXT:
            text = "?"
        known.update(dict.fromkeys(operation.results, text))
    return known.get(value, "?")


def arguments_of(block: Block, value: Value) -> set[int]:
    """Numbers of the arguments that a value of a body is computed of."""
    known: dict[Value, set[int]] = {argument: {k} for k, argument in enumerate(block.arguments)}
    for operation in _needed(block, value):
        used = set[int]().union(*(known.get(operand, set()) for operand in operation.operands))
        known.update(dict.fromkeys(operation.results, used))
    return known.get(value, set())


def _needed(block: Block, value: Value) -> list[Operation]:
    """The operations that a value of a body is computed by, in order."""
    wanted, found = {value}, []
    for operation in reversed(block.operations):
        if not wanted.isdisjoint(operation.results):
            wanted.update(operation.operands)
            found.append(operation)
    return found[::-1]


_BETTER = "or({0}(0,2),NE(0,0))"
_SELECTED = ("select({p},0,2)", "select(or({p},and(EQ(0,2),LT(1,3))),1,3)")


def extreme_with_position(block: Block) -> str | None:
    """``argmax`` or ``argmin`` for a body that keeps the larger or smaller of two numbers, and its position, as jax writes it."""
    if len(block.results) != 2:
        return None
    found = tuple(text_of(block, result) for result in block.results)
    for name, direction in (("argmax", "GT"), ("argmin", "LT")):
        if found == tuple(text.format(p=_BETTER.format(direction)) for text in _SELECTED):
            return name
    return None


@dataclass(frozen=True)
class SortKey:
    """One of the numbers by which elements are ordered.

    Attributes:
        value: of the body: the number, computed of an element.
        operand: which operand the element is of.
        is_itself: the number is the element; -0 and 0 are equal, and NaN is the largest.
        is_total: floats are in the total order, in which -NaN < -0 < 0 < NaN.
    """

    value: Value
    operand: int
    ascending: bool
    is_itself: bool
    is_total: bool


_CANONICAL = ("select(NE(x,x),nan,select(EQ(x,0.0),0.0,x))", "select(EQ(x,0.0),0.0,select(NE(x,x),nan,x))")


def sort_keys(block: Block) -> list[SortKey] | None:
    """The keys of a comparator, the most significant first; None where it is another function."""
    producers = producers_of(block)

    def keys(value: Value, depth: int = 0) -> list[SortKey] | None:
        operation = producers.get(value)
        if operation is None or depth > MAX_KEYS:
            return None
        if operation.name == "stablehlo.compare":
            found = _key(block, operation)
            return None if found is None else [found]
        if operation.name != "stablehlo.or" or len(operation.operands) != 2:
            return None
        first, rest = operation.operands
        both = producers.get(rest)
        if both is None or both.name != "stablehlo.and" or len(both.operands) != 2:
            return None
        tied, less = both.operands
        head, tail, ties = keys(first, depth + 1), keys(less, depth + 1), producers.get(tied)
        if not head or not tail or len(head) != 1 or ties is None or ties.attributes.get("comparison_direction") != "EQ":
            return None
        same = _sides(block, ties)
        return [*head, *tail] if same is not None and same[0] == head[0].operand else None

    return keys(block.results[0]) if len(block.results) == 1 else None


def _sides(block: Block, operation: Operation) -> tuple[int, bool] | None:
    """The operand whose two elements a comparison compares, and whether the first one is on its left."""
    used = [arguments_of(block, operand) for operand in operation.operands]
    if len(used) != 2 or any(len(found) != 1 for found in used):
        return None
    (left,), (right,) = used
    if left // 2 != right // 2 or left == right:
        return None
    texts = [
        text_of(block, operand, {block.arguments[position]: "x"}) for operand, position in zip(operation.operands, (left, right))]
    return (left // 2, left < right) if texts[0] == texts[1] and "?" not in texts[0] else None


def _key(block: Block, operation: Operation) -> SortKey | None:
    direction, sides = operation.attributes.get("comparison_direction"), _sides(block, operation)
    if sides is None or direction not in ("LT", "GT"):
        return None
    operand, in_order = sides
    value = operation.operands[0]
    (argument,) = arguments_of(block, value)
    text = text_of(block, value, {block.arguments[argument]: "x"})
    total = operation.attributes.get("compare_type") == "TOTALORDER"
    itself = text in _CANONICAL or text == "x" and not total
    return SortKey(value, operand, (direction == "LT") == in_order, itself, total)
