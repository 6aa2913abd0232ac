"""Loop nests of injective expressions: every element of the results is computed by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forge import loops
from forge.loops import PARALLEL_WORK, Loop, Vectorizer
from forge.loops.contract import KernelCall
from forge.schedule.access import OTHER, UNIT, Accesses, analyse, collapse, pattern, vector_cost
from forge.schedule.algebra import Algebra
from forge.schedule.blocks import whole_blocks
from forge.schedule.guards import GuardedReads
from forge.schedule.interior import interior
from forge.schedule.interleave import interleaved_axes, interleaved_store
from forge.schedule.simplify import IndexSimplifier, renaming
from forge.schedule.transpose import TransposedLoads
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.rewrite import map_expressions, substitute
from forge.tir.stmt import Stmt, Store, seq
from forge.tir.visit import stores

# A flat loop that is cut for several threads has blocks of this many bytes of the widest element.
BLOCK_BYTES: Final = 16384

# A loop of at most this many vector operations per vector is unrolled.
CHEAP: Final = 12


def schedule_injective(call: KernelCall, axes: Sequence[Loop], body: Stmt, algebra: Algebra) -> Stmt:
    """Vectorised and parallel loops over ``loops`` around the scalar statement ``body``."""
    body = IndexSimplifier(algebra).stmt(map_expressions(body, GuardedReads(call.target, algebra)))
    whole = [(tuple(axes), body)] if _is_interleaved(axes, body, algebra) else whole_blocks(tuple(axes), body, algebra)
    parts = [part for nest in whole for part in _split(*nest, algebra)]
    return seq(*(_nest(call.target, *part, algebra) for part in parts))


def _nest(target: Target, axes: Sequence[Loop], body: Stmt, algebra: Algebra) -> Stmt:
    kept, body = _collapsed(axes, body, algebra)
    return _Injective(target, kept, body, algebra).build() if kept else body


def _collapsed(axes: Sequence[Loop], body: Stmt, algebra: Algebra) -> tuple[tuple[Loop, ...], Stmt]:
    """What axes and ``body`` are after merging."""
    collapsed = collapse(axes, analyse((), (body,), algebra), algebra)
    return collapsed.loops, IndexSimplifier(algebra).stmt(map_expressions(body, renaming(collapsed.substitution)))


def _is_interleaved(axes: Sequence[Loop], body: Stmt, algebra: Algebra) -> bool:
    """Whether vectors are stored side by side, also those that are padding: a block of them is not cut."""
    kept, body = _collapsed(axes, body, algebra)
    return interleaved_axes(kept, body, analyse((), (body,), algebra), algebra) is not None


def _split(axes: tuple[Loop, ...], body: Stmt, algebra: Algebra) -> list[tuple[tuple[Loop, ...], Stmt]]:
    """Splits axes that indices divide, so that the indices become affine; what is left over gets a nest of its own.

    ``for c in 24: A[c // 16, c % 16]``  -->  ``for o in 1: for i in 16: A[o, i]``; ``for i in 8: A[1, i]``
    """
    accesses = analyse((), (body,), algebra)
    for k, axis in enumerate(axes):
        divisors = set[int]().union(*(algebra.divisors(item.index, axis.var) for item in accesses.items))
        if axis.static is not None and divisors and axis.var not in accesses.value_uses:
            return _split_axis(axes, k, axis.static, min(divisors), body, algebra)
    return [(axes, body)]


def _split_axis(
    axes: tuple[Loop, ...], k: int, extent: int, factor: int, body: Stmt, algebra: Algebra
) -> list[tuple[tuple[Loop, ...], Stmt]]:
    whole, rest = divmod(extent, factor)
    parts = []
    for first, outer_extent, inner_extent in ((0, whole, factor), (whole, 1, rest)):
        if outer_extent == 0 or inner_extent == 0:
            continue
        outer, inner = algebra.loop("o", E.const(outer_extent)), algebra.loop("i", E.const(inner_extent))
        rename = renaming({axes[k].var: (outer.var + first) * factor + inner.var})
        moved = IndexSimplifier(algebra).stmt(map_expressions(body, rename))
        parts += _split((*axes[:k], outer, inner, *axes[k + 1 :]), moved, algebra)
    return parts


def serial_nest(target: Target, axes: Sequence[Loop], body: Stmt, algebra: Algebra) -> Stmt:
    """Loops over ``loops`` around a body with canonical indices, in vectors along one axis, in the calling thread."""
    return _Injective(target, axes, body, algebra).serial()


class _Injective:
    def __init__(self, target: Target, axes: Sequence[Loop], body: Stmt, algebra: Algebra) -> None:
        self.target = target
        self.axes = tuple(axes)
        self.body = body
        self.algebra = algebra
        self.accesses: Accesses = analyse((), (body,), algebra)
        sizes = loops.memory_sizes(body)
        widest = max(*sizes, *(loops.element_size(s.value) for s in stores(body)))
        self.lanes = 1 if "string" in loops.memory_dtypes(body) else max(1, target.vector_bits // (8 * widest))
        self.masked = loops.supports_masks(target, sizes)
        self.cost = loops.statement_cost(body)

    def build(self) -> Stmt:
        axis = self._vector_axis()
        contiguous = self.lanes == 1 or self._is_contiguous(axis)
        pair = None if contiguous else interleaved_axes(self.axes, self.body, self.accesses, self.algebra)
        if pair is not None:
            return self._over(*pair)
        tile = self._tile_axis(axis)
        if tile is not None and self.lanes > 1:
            return TransposedLoads(self.target, self.axes, axis, tile, self.body, self.algebra, self.accesses).build()
        return self._over(axis)

    def _over(self, axis: Loop, short: Loop | None = None) -> Stmt:
        """Vectors along ``axis``, which are interleaved along ``short`` where there is one."""
        outer = [other for other in self.axes if other not in (axis, short)]
        if self._must_cut(axis, outer):
            return self._blocked(axis, outer, short)
        work = E.const(self.cost * (1 if short is None else short.assumed)) * loops.ceildiv(axis.extent, self.lanes)
        return loops.parallel_nest(outer, self._inner(self.body, axis, axis.extent, short), work)

    def serial(self) -> Stmt:
        axis = self._vector_axis()
        return loops.nest([other for other in self.axes if other is not axis], self._inner(self.body, axis, axis.extent))

    def _vector_axis(self) -> Loop:
        """The axis with the cheapest accesses; of equal ones the last."""
        return min(reversed(self.axes), key=lambda axis: vector_cost(self.accesses, axis, self.lanes, self.algebra))

    def _is_contiguous(self, axis: Loop) -> bool:
        """Whether whole vectors along ``axis`` are loaded and stored, so that no other order of the elements is better."""
        strides = self.accesses.strides(self.algebra, axis.var)
        return axis.static is not None and axis.static % self.lanes == 0 and all(pattern(s) == UNIT for s in strides)

    def _tile_axis(self, axis: Loop) -> Loop | None:
        """An axis along which loads are contiguous that are strided along ``axis``, while stores are not."""
        strides = self.accesses.strides(self.algebra, axis.var)
        if any(item.node is None and pattern(stride) != UNIT for item, stride in zip(self.accesses.items, strides)):
            return None
        strided = [k for k, s in enumerate(strides) if pattern(s) == OTHER]
        if any(self.accesses.items[k].masked for k in strided):
            return None
        return self._common_unit_axis(axis, strided)

    def _common_unit_axis(self, axis: Loop, strided: Sequence[int]) -> Loop | None:
        if not strided or axis.assumed < 4:
            return None
        for other in self.axes:
            strides = self.accesses.strides(self.algebra, other.var)
            if other is not axis and other.assumed >= 4 and all(pattern(strides[k]) == UNIT for k in strided):
                return other
        return None

    def _inner(self, body: Stmt, axis: Loop, extent: Expr, short: Loop | None = None) -> Stmt:
        lanes = self.lanes
        if axis.static is not None:
            while lanes > 1 and lanes // 2 >= axis.static:
                lanes //= 2
        if short is not None:
            assert isinstance(body, Store)
            return loops.vector_loop(extent, lanes, lambda at, width, mask: interleaved_store(
                body, axis, short, extent, at, width, mask), 1, self.masked)
        unroll = 4 if self.cost <= CHEAP // 2 else 2 if self.cost <= CHEAP else 1
        part = interior(body, axis, lanes)
        if part is None:
            return self._vectors(body, axis, extent, lanes, unroll)
        return seq(
            self._vectors(body, axis, E.const(part.begin), lanes, unroll),
            self._vectors(part.body, axis, E.const(part.end - part.begin), lanes, unroll, part.begin),
            self._vectors(body, axis, E.const(int(axis.static or 0) - part.end), lanes, unroll, part.end))

    def _vectors(self, body: Stmt, axis: Loop, extent: Expr, lanes: int, unroll: int, begin: int = 0) -> Stmt:
        def vector(at: Expr, width: int, mask: Expr | None) -> Stmt:
            return _vectorised(body, axis, at, width, mask)

        return loops.vector_loop(extent, lanes, vector, unroll, self.masked, E.const(begin))

    def _must_cut(self, axis: Loop, outer: Sequence[Loop]) -> bool:
        """Whether threads need more iterations than the outer loops give."""
        total = self.cost * axis.assumed // self.lanes
        iterations = 1
        for other in outer:
            total *= other.assumed
            iterations *= other.static or 1
        if all(loop_.static is not None for loop_ in self.axes) and total < 2 * PARALLEL_WORK:
            return False
        return iterations < 16 and (axis.static is None or axis.static > self._block())

    def _block(self) -> int:
        return loops.round_up(max(1, BLOCK_BYTES // max(loops.memory_sizes(self.body))), 4 * self.lanes)

    def _blocked(self, axis: Loop, outer: Sequence[Loop], short: Loop | None = None) -> Stmt:
        """``for i in n``  -->  ``parallel b in ceil(n / B): for i in [b*B, min(n, b*B + B))``."""
        size = self._block()
        block, start, extent = loops.blocks(axis.extent, size)
        body = map_expressions(self.body, lambda x: substitute(x, {axis.var: start + axis.var}))
        inner = self._inner(body, Loop(axis.var, extent), extent, short)
        return loops.parallel_nest([*outer, block], inner, E.const(max(1, self.cost * size // self.lanes)))


def _vectorised(body: Stmt, axis: Loop, at: Expr, lanes: int, mask: Expr | None) -> Stmt:
    if lanes == 1:
        return map_expressions(body, lambda x: substitute(x, {axis.var: at}))
    return Vectorizer(axis.var, at, lanes, mask).stmt(body)
