"""Blocks of which the last is not whole: the others need no condition, and the last gets loops of its own.

``for o in 4: for i in 16: A[o, i] = select(16 * o + i < 61, B[16 * o + i], 0)``  -->  ``for o in 3: for i in 16: A[o, i] =
B[16 * o + i]``; ``for i in 13: A[3, i] = B[48 + i]``; ``for i in 3: A[3, 13 + i] = 0``
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forge.loops import Loop
from forge.schedule.algebra import Algebra
from forge.schedule.simplify import IndexSimplifier
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import Rewriter, map_expressions
from forge.tir.stmt import Stmt
from forge.tir.visit import nodes, roots

Nest = tuple[tuple[Loop, ...], Stmt]


@dataclass(frozen=True)
class _Condition:
    """``block * outer + inner < count``, with ``inner`` below ``block`` and ``count`` in the last block."""

    comparison: Expr
    outer: Loop
    inner: Loop
    block: int
    count: int


def whole_blocks(loops: tuple[Loop, ...], body: Stmt, algebra: Algebra) -> list[Nest]:
    """Returns the nests that ``body`` under ``loops`` becomes; itself where there is no such condition."""
    conditions = (_condition(x, loops) for root in roots(body) for x in nodes(root))
    found = next((c for c in conditions if c is not None), None)
    if found is None:
        return [(loops, body)]
    last, block = int(found.outer.static or 0) - 1, found.block
    rest = found.count - last * block
    parts = []
    ranges = ((0, last, 0, block, True), (last, 1, 0, rest, True), (last, 1, rest, block - rest, False))
    for first, outer, begin, inner, holds in ranges:
        if outer == 0:
            continue
        new = {found.outer: algebra.loop("o", E.const(outer)), found.inner: algebra.loop("i", E.const(inner))}
        values = {found.outer.var: new[found.outer].var + first, found.inner.var: new[found.inner].var + begin}
        moved = map_expressions(body, _known(found.comparison, holds, values))
        nest = tuple(new.get(loop, loop) for loop in loops)
        parts += whole_blocks(nest, IndexSimplifier(algebra).stmt(moved), algebra)
    return parts


def _known(comparison: Expr, holds: bool, values: Mapping[Var, Expr]) -> Rewriter:
    def rule(x: Expr) -> Expr | None:
        if x is comparison:
            return E.const(holds, "bool")
        return values.get(x) if isinstance(x, Var) else None

    return Rewriter(rule)


def _condition(x: Expr, loops: tuple[Loop, ...]) -> _Condition | None:
    terms = difference(x)
    if terms is None:
        return None
    start = terms.pop(None, 0)
    by_factor = {-factor: v for v, factor in terms.items() if factor}
    axes = {loop.var: loop for loop in loops}
    if len(by_factor) != 2 or 1 not in by_factor or not all(v in axes for v in by_factor.values()):
        return None
    block = max(by_factor)
    outer, inner = axes[by_factor[block]], axes[by_factor[1]]  # type: ignore[index]
    if outer.static is None or inner.static != block or block < 2:
        return None
    if not (outer.static - 1) * block < start + 1 < outer.static * block:
        return None
    return _Condition(x, outer, inner, block, start + 1)


def difference(x: Expr) -> dict[Var | None, int] | None:
    """Returns a sum, as ``linear`` gives it, that is at least 0 where the scalar comparison ``x`` holds; else None."""
    if not isinstance(x, E.Compare) or x.op != "ge" or x.lanes > 1:
        return None
    a, b = linear(x.a), linear(x.b)
    return None if a is None or b is None else _combined("sub", a, b)


def linear(x: Expr) -> dict[Var | None, int] | None:
    """Returns the factor of every variable in ``x``, and under None what is added; None: ``x`` is not such a sum."""
    match x:
        case E.Const() if isinstance(x.value, int) and not isinstance(x.value, bool):
            return {None: x.value}
        case Var():
            return {x: 1}
        case E.Cast() if x.dtype in ("int32", "int64"):
            return linear(x.x)
        case E.Binary(op="add" | "sub" | "mul" as op):
            a, b = linear(x.a), linear(x.b)
            return None if a is None or b is None else _combined(op, a, b)
    return None


def _combined(op: str, a: dict[Var | None, int], b: dict[Var | None, int]) -> dict[Var | None, int] | None:
    if op == "mul":
        if set(a) != {None}:
            a, b = b, a
        return {v: a[None] * factor for v, factor in b.items()} if set(a) == {None} else None
    sign = 1 if op == "add" else -1
    return {v: a.get(v, 0) + sign * b.get(v, 0) for v in (*a, *b)}
