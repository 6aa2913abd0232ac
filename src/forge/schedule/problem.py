"""What the schedules of reductions start from: reductions and the code after them, with canonical indices and collapsed axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from forge.loops import Loop, element_size, memory_sizes, supports_masks
from forge.loops.contract import KernelCall
from forge.schedule.access import Accesses, analyse, collapse
from forge.schedule.algebra import Algebra
from forge.schedule.guards import GuardedReads
from forge.schedule.simplify import IndexSimplifier, renaming
from forge.schedule.stages import Reduction
from forge.target import Target
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import map_expressions
from forge.tir.stmt import Evaluate, Stmt, seq
from forge.tir.visit import free_variables, stores

# After a reduction of this many steps, storing its result does not matter.
LONG: Final = 32


@dataclass(frozen=True, eq=False)
class Problem:
    """Canonical and collapsed: reductions over outer axes, then ``body`` over outer and rest axes."""

    target: Target
    algebra: Algebra
    outer: tuple[Loop, ...]
    rest: tuple[Loop, ...]
    reductions: tuple[Reduction, ...]
    body: Stmt
    again: bool  # whether elements may be computed twice

    @property
    def lanes(self) -> int:
        """Elements of a vector of the widest data; what is stored after long reductions does not count."""
        parts: list[Stmt] = [Evaluate(r.value) for r in self.reductions]
        sizes = [element_size(r.value) for r in self.reductions]
        if self.rest or all(r.steps < LONG for r in self.reductions):
            parts.append(self.body)
            sizes += [element_size(s.value) for s in stores(self.body)]
        return max(1, self.target.vector_bits // (8 * max(*sizes, *memory_sizes(seq(*parts)), 1)))

    @property
    def memory_sizes(self) -> set[int]:
        return memory_sizes(seq(self.body, *(Evaluate(r.value) for r in self.reductions)))

    @property
    def masked(self) -> bool:
        return supports_masks(self.target, self.memory_sizes)

    def accesses(self, reduction: Reduction) -> Accesses:
        return analyse((reduction.value,), (), self.algebra)


def prepare(call: KernelCall, loops: Sequence[Loop], reductions: Sequence[Reduction], body: Stmt, algebra: Algebra) -> Problem:
    """Finds the outer axes, brings indices to canonical form and collapses axes."""
    simplify = IndexSimplifier(algebra)
    guard = GuardedReads(call.target, algebra)
    body = simplify.stmt(map_expressions(body, guard))
    reductions = [replace(r, value=simplify.expr(guard(r.value))) for r in reductions]
    used = set[Var]().union(*(free_variables(r.value) for r in reductions))
    outer = [axis for axis in loops if axis.var in used]
    rest = [axis for axis in loops if axis.var not in used]
    removed: dict[Var, Expr] = {}
    everything = analyse([r.value for r in reductions], (body,), algebra)
    groups = []
    for group in (outer, rest, *(r.axes for r in reductions)):
        collapsed = collapse(group, everything, algebra)
        removed.update(collapsed.substitution)
        groups.append(collapsed.loops)
    if removed:
        simplify = IndexSimplifier(algebra)
        rename = renaming(removed)
        body = simplify.stmt(map_expressions(body, rename))
        reductions = [replace(r, value=simplify.expr(rename(r.value))) for r in reductions]
    merged = tuple(replace(r, axes=list(axes)) for r, axes in zip(reductions, groups[2:]))
    return Problem(call.target, algebra, groups[0], groups[1], merged, body, not call.overwrites)
