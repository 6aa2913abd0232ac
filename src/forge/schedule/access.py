"""How a statement walks through memory: strides of its accesses along the axes, and which axes collapse into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from forge.loops import Loop
from forge.schedule.algebra import ONE, ZERO, Algebra, Poly
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.stmt import Stmt
from forge.tir.visit import nodes, roots, stores


@dataclass(frozen=True, eq=False)
class Access:
    """A load or store. ``node`` is the Load (None for a store)."""

    node: E.Load | None
    index: Poly
    masked: bool


@dataclass(frozen=True, eq=False)
class Accesses:
    """All memory accesses of some expressions, and the variables that they use as plain values."""

    items: tuple[Access, ...]
    value_uses: frozenset[Var]

    def strides(self, algebra: Algebra, variable: Var) -> list[Poly | None]:
        """Returns the step of every access along ``variable``; None where it is not affine."""
        return [algebra.coefficient(item.index, variable) for item in self.items]


def analyse(expressions: Iterable[Expr], statements: Iterable[Stmt], algebra: Algebra) -> Accesses:
    """Returns the accesses of expressions and statements with canonical scalar indices."""
    held = list(expressions)
    items: list[Access] = []
    for statement in statements:
        held.extend(roots(statement))
        items.extend(Access(None, algebra.poly(s.index), s.mask is not None) for s in stores(statement))
    indices = {s.index for statement in statements for s in stores(statement)}
    seen: dict[E.Load, None] = {}
    for root in held:
        seen.update(dict.fromkeys(x for x in nodes(root) if isinstance(x, E.Load)))
    items.extend(Access(x, algebra.poly(x.index), x.mask is not None) for x in seen)
    used: set[Var] = set()
    for root in held:
        if root not in indices:
            used.update(_value_variables(root))
    return Accesses(tuple(items), frozenset(used))


def _value_variables(root: Expr) -> set[Var]:
    """Variables that are used outside the indices of loads."""
    walk = nodes(root, children=lambda x: E.children(x)[1:] if isinstance(x, E.Load) else E.children(x))
    return {x for x in walk if isinstance(x, Var)}


def mergeable(outer: Loop, inner: Loop, accesses: Accesses, algebra: Algebra) -> bool:
    """Returns whether one axis may run over both: every access steps along ``outer`` by ``inner.extent`` steps along ``inner``.

    What depends on them inside of the index of a load is an access of its own.
    """
    if outer.var in accesses.value_uses or inner.var in accesses.value_uses:
        return False
    extent = algebra.poly(inner.extent)
    for item in accesses.items:
        a, b = (_step(item, axis.var, algebra) for axis in (outer, inner))
        if a is None or b is None or a != b * extent:
            return False
    return True


def _step(item: Access, variable: Var, algebra: Algebra) -> Poly | None:
    """The step of an access along ``variable``, but for what other loads give; None where it is not affine."""
    if item.node is not None and variable not in _value_variables(item.node.index):
        return ZERO
    return algebra.coefficient(item.index, variable)


@dataclass(frozen=True, eq=False)
class Collapsed:
    """Axes after merging; ``substitution`` sets the variables that were removed to 0."""

    loops: tuple[Loop, ...]
    substitution: dict[Var, Expr]


def collapse(loops: Sequence[Loop], accesses: Accesses, algebra: Algebra) -> Collapsed:
    """Merges adjacent axes where every access permits, and drops axes of extent 1.

    ``for i in I: for j in J: A[i*J + j] = f(B[i*J + j])``  -->  ``for j in I*J: A[j] = f(B[j])``
    """
    removed: dict[Var, Expr] = {}
    kept: list[Loop] = []
    for axis in loops:
        if axis.static == 1:
            removed[axis.var] = E.const(0)
        elif kept and mergeable(kept[-1], axis, accesses, algebra):
            outer = kept.pop()
            removed[outer.var] = E.const(0)
            kept.append(Loop(axis.var, algebra.expr(algebra.poly(outer.extent * axis.extent))))
            algebra.declare(kept[-1].var, kept[-1].extent)
        else:
            kept.append(axis)
    return Collapsed(tuple(kept), removed)


UNIT, INVARIANT, OTHER = "unit", "invariant", "other"


def pattern(stride: Poly | None) -> str:
    """Returns how one access proceeds when its axis is vectorized."""
    if stride == ONE:
        return UNIT
    return INVARIANT if stride == ZERO else OTHER


def vector_cost(accesses: Accesses, axis: Loop, lanes: int, algebra: Algebra) -> float:
    """Returns the cost of all accesses per element when ``axis`` is the vector axis; less is better."""
    per_vector = 0.0
    for item, stride in zip(accesses.items, accesses.strides(algebra, axis.var)):
        scattered = 1.0 * lanes if item.node is None else 0.75 * lanes
        per_vector += {UNIT: 1.0, INVARIANT: 0.5, OTHER: scattered}[pattern(stride)]
    vectors = -(-axis.assumed // lanes)
    return max(per_vector, 0.5) * vectors / max(1, axis.assumed)
