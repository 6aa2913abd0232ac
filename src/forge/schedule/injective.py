"""Loop nests of injective expressions: every element of the results is computed by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from forge import loops
from forge.loops import PARALLEL_WORK, Loop, Vectorizer
from forge.loops.contract import KernelCall
from forge.schedule.access import OTHER, UNIT, Accesses, analyse, collapse, pattern, vector_cost
from forge.schedule.algebra import Algebra, Poly
from forge.schedule.blocks import whole_blocks
from forge.schedule.guards import GuardedReads
from forge.schedule.interior import Interior, decided, depends_on_places, fixed, interior
from forge.schedule.interleave import interleaved_axes, interleaved_store
from forge.schedule.simplify import IndexSimplifier, renaming
from forge.schedule.stretch import cases, unstretched
from forge.schedule.transpose import TransposedLoads
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr, Var
from forge.tir.rewrite import Rewriter, map_expressions, substitute
from forge.tir.stmt import If, Stmt, Store, loop, seq
from forge.tir.visit import stores

# A flat loop that is cut for several threads has blocks of this many bytes of the widest element.
BLOCK_BYTES: Final = 16384

# Axes of at most this many elements in all are parts of a row.
MAX_ROW: Final = 256

# Loops of at most this many iterations in a row are written out.
MAX_WRITTEN_OUT: Final = 4

# A loop of at most this many vector operations per vector is unrolled; less along rows of unknown length, which are mostly short.
CHEAP: Final = 12

# At the ends of rows of unknown length at most this many operations are done on vectors: for each place that is read, how far its
# lanes lie apart is computed.
MAX_AT_ENDS: Final = 100


@dataclass(frozen=True)
class _Manner:
    """How loops are made. ``again``: elements may be computed twice; ``rare``: with little code, as they hardly ever run."""

    target: Target
    algebra: Algebra
    again: bool = False
    rare: bool = False


def schedule_injective(call: KernelCall, axes: Sequence[Loop], body: Stmt, algebra: Algebra) -> Stmt:
    """Returns vectorized and parallel loops over ``loops`` around the scalar statement ``body``."""
    body = IndexSimplifier(algebra).stmt(map_expressions(body, GuardedReads(call.target, algebra)))
    manner = _Manner(call.target, algebra, not call.overwrites)
    found = (fixed(body, algebra), unstretched(body, axes, algebra)) if depends_on_places(body) else ()
    cases_of_sizes = [case for case in found if case is not None]
    nests = _nests(replace(manner, rare=bool(cases_of_sizes)), axes, body)
    for condition, part in cases_of_sizes:
        nests = If(condition, _nests(manner, axes, part), nests)
    return nests


def _nests(manner: _Manner, axes: Sequence[Loop], body: Stmt) -> Stmt:
    algebra = manner.algebra
    whole = [(tuple(axes), body)] if _is_interleaved(axes, body, algebra) else whole_blocks(tuple(axes), body, algebra)
    parts = [part for nest in whole for part in _split(*nest, algebra)]
    return seq(*(_nest(manner, *part) for part in parts))


def _nest(manner: _Manner, axes: Sequence[Loop], body: Stmt) -> Stmt:
    kept, body = _collapsed(axes, body, manner.algebra)
    return _Injective(manner, kept, body).build() if kept else body


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
        divisors = set[Poly]().union(*(algebra.divisors(item.index, axis.var) for item in accesses.items))
        if not divisors:
            continue
        factor = min(divisors, key=lambda p: (p.constant is None, p.constant, p.terms))
        divided = Rewriter(_divided(axis.var, factor, E.const(0), E.const(0), algebra))
        if axis.var not in analyse((), (map_expressions(body, divided),), algebra).value_uses:
            whole = algebra.floordiv(algebra.poly(axis.extent), factor)
            rest = algebra.poly(axis.extent) - whole * factor
            if rest.constant == 0 or rest.constant is not None and factor.constant is not None:
                return _split_axis(axes, k, algebra.expr(whole), rest.constant, factor, body, algebra)
    return [(axes, body)]


def _split_axis(
    axes: tuple[Loop, ...], k: int, whole: Expr, rest: int, factor: Poly, body: Stmt, algebra: Algebra
) -> list[tuple[tuple[Loop, ...], Stmt]]:
    parts, size = [], algebra.expr(factor)
    for first, outer_extent, inner_extent in ((E.const(0), whole, size), (whole, E.const(1), E.const(rest))):
        if E.is_const(outer_extent, 0) or E.is_const(inner_extent, 0):
            continue
        outer, inner = algebra.loop("o", outer_extent), algebra.loop("i", inner_extent)
        divided = Rewriter(_divided(axes[k].var, factor, outer.var + first, inner.var, algebra))
        rename = renaming({axes[k].var: (outer.var + first) * size + inner.var})
        moved = IndexSimplifier(algebra).stmt(map_expressions(map_expressions(body, divided), rename))
        parts += _split((*axes[:k], outer, inner, *axes[k + 1 :]), moved, algebra)
    return parts


def _divided(variable: Var, factor: Poly, quotient: Expr, rest: Expr, algebra: Algebra) -> Callable[[Expr], Expr | None]:
    """A rule that replaces what ``variable`` is when divided by ``factor``."""

    def rule(x: Expr) -> Expr | None:
        if isinstance(x, E.Binary) and x.a is variable and x.op in ("floordiv", "floormod") and algebra.poly(x.b) == factor:
            return quotient if x.op == "floordiv" else rest
        return None

    return rule


def serial_nest(target: Target, axes: Sequence[Loop], body: Stmt, algebra: Algebra) -> Stmt:
    """Builds loops over ``loops`` around a body with canonical indices, in vectors along one axis, in the calling thread."""
    return _Injective(_Manner(target, algebra), axes, body).serial()


class _Injective:
    def __init__(self, manner: _Manner, axes: Sequence[Loop], body: Stmt) -> None:
        self.manner, self.target, self.algebra = manner, manner.target, manner.algebra
        self.axes = tuple(axes)
        self.body = body
        self.accesses: Accesses = analyse((), (body,), self.algebra)
        sizes = loops.memory_sizes(body)
        widest = max(*sizes, *(loops.element_size(s.value) for s in stores(body)))
        self.lanes = 1 if "string" in loops.memory_dtypes(body) else max(1, self.target.vector_bits // (8 * widest))
        self.masked = loops.supports_masks(self.target, sizes)
        self.cost = loops.statement_cost(body)
        self.varies = depends_on_places(body)
        self.rows: Loop | None = None

    def build(self) -> Stmt:
        axis = self._vector_axis()
        contiguous = self.lanes == 1 or self._is_contiguous(axis)
        pair = None if contiguous else self._interleaved()
        if pair is not None:
            return self._over(*pair)
        tile = self._tile_axis(axis)
        if tile is not None and self.lanes > 1:
            return TransposedLoads(self.target, self.axes, axis, tile, self.body, self.algebra, self.accesses).build()
        return self._over(axis)

    def _interleaved(self) -> tuple[Loop, Loop] | None:
        """The vector axis, and the short axis along which vectors are interleaved, at least in the interior."""
        pair = interleaved_axes(self.axes, self.body, self.accesses, self.algebra)
        for axis in [] if pair is not None or not self.varies else reversed(self.axes):
            found = interior(self.body, axis, self.algebra, [other for other in self.axes if other.static is not None])
            if found is not None:
                body = found.inside.body
                pair = interleaved_axes(self.axes, body, analyse((), (body,), self.algebra), self.algebra)
            if pair is not None and pair[0] is axis:
                return pair
        return pair

    def _over(self, axis: Loop, short: Loop | None = None) -> Stmt:
        """Vectors along ``axis``, which are interleaved along ``short`` where there is one."""
        outer = [other for other in self.axes if other not in (axis, short)]
        row = self._row(axis) if short is None and self.varies else None
        if row is not None:
            return self._rows(axis, *row)
        if self._must_cut(axis, outer):
            return self._blocked(axis, outer, short)
        if short is not None and outer and outer[-1].static is not None and outer[-1].static <= MAX_WRITTEN_OUT:
            self.rows = outer.pop()
        work = E.const(self.cost * (1 if short is None else short.assumed)) * loops.ceildiv(axis.extent, self.lanes)
        inner = self._cases(axis, short, lambda body: self._inner(body, axis, axis.extent, short))
        return loops.parallel_nest(outer, inner, work)

    def _row(self, axis: Loop) -> tuple[int, Interior] | None:
        """The number of the last axis before short ``axis`` that has an interior, and that; the axes between are short, too."""
        place = len(self.axes) - 1
        is_short = axis is self.axes[place] and axis.static is not None and axis.static <= MAX_ROW
        if not is_short or interior(self.body, axis, self.algebra) is not None:
            return None
        for k in reversed(range(place)):
            found = interior(self.body, self.axes[k], self.algebra, self.axes[k + 1 :])
            if found is not None:
                return k, found
            if self.axes[k].static is None or math.prod(other.static or 1 for other in self.axes[k:]) > MAX_ROW:
                return None
        return None

    def _rows(self, axis: Loop, place: int, found: Interior) -> Stmt:
        """Loops over the axes before ``place`` around the parts of that one, each in vectors along ``axis``."""
        row, inner = self.axes[place], self.axes[place + 1 :]
        parts: list[Stmt] = []
        begin = loops.bound(E.binary("min", found.inside.begin, row.extent), parts, "begin")
        end = loops.bound(E.binary("max", begin, found.inside.end), parts, "end")
        held = decided(found.inside.body, [row, *inner], self.algebra)
        if held is None:
            inside = self._piece(found.inside.body, row, begin, end, inner)
        else:
            condition, *bodies = held
            inside = If(condition, *(self._piece(body, row, begin, end, inner) for body in bodies))
        ends = [self._piece(self.body, row, first, last, inner) for first, last in ((E.const(0), begin), (end, row.extent))]
        around = (other.extent for other in self.axes[place:-1])
        work = loops.product([*around, loops.ceildiv(axis.extent, self.lanes)]) * self.cost
        return loops.parallel_nest(self.axes[:place], seq(parts, ends[0], inside, ends[1]), work)

    def _piece(self, body: Stmt, row: Loop, first: Expr, last: Expr, inner: Sequence[Loop]) -> Stmt:
        """Serial loops over ``row`` from ``first`` to ``last``, and ``inner`` ones; together where they lie side by side."""
        part = self.algebra.loop(row.var.name, last - first)
        moved = IndexSimplifier(self.algebra).stmt(map_expressions(body, renaming({row.var: first + part.var})))
        kept, moved = _collapsed((part, *inner), moved, self.algebra)
        return _Injective(self.manner, kept, moved).serial() if kept else moved

    def _cases(self, axis: Loop, short: Loop | None, inner: Callable[[Stmt], Stmt]) -> Stmt:
        """``inner`` of the body, or of what that is where operands are stretched along ``axis`` or not."""
        result = inner(self.body)
        for condition, body in [] if short is not None or not self.varies else reversed(cases(self.body, axis, self.algebra)):
            result = If(condition, inner(body), result)
        return result

    def serial(self) -> Stmt:
        axis = self._vector_axis()
        inner = self._inner(self.body, axis, axis.extent)
        for other in reversed([other for other in self.axes if other is not axis]):
            short = other.static is not None and other.static <= MAX_WRITTEN_OUT
            inner = loop(other.var, other.extent, inner, "unrolled" if short else "serial")
        return inner

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
            return self._interleaved_parts(body, Loop(axis.var, extent), short, lanes)
        is_row = len(self.axes) > 1 and self.manner.again and loops.static(extent) is None
        unroll = 1 if self.manner.rare or self.cost > CHEAP else 2 if is_row or self.cost > CHEAP // 2 else 4
        if not self.varies:
            return self._vectors(body, axis, extent, lanes, unroll)
        held = decided(body, [axis], self.algebra)
        condition, body, otherwise = (E.const(True, "bool"), body, body) if held is None else held
        inside = self._with_interior(body, Loop(axis.var, extent), lanes, 1 if is_row else unroll)
        return inside if held is None else If(condition, inside, self._vectors(otherwise, axis, extent, lanes, unroll))

    def _interleaved_parts(self, body: Stmt, axis: Loop, short: Loop, lanes: int) -> Stmt:
        """Interleaved vectors in the interior of ``axis``, single elements at its ends; each for all ``self.rows``."""

        def some(part: Stmt, kind: str, end: Expr, at: Expr, width: int, mask: Expr | None) -> Stmt:
            assert isinstance(part, Store)
            whole = interleaved_store(part, axis, short, end, at, width, mask)
            return whole if self.rows is None else loop(self.rows.var, self.rows.extent, whole, kind)

        def vectors(part: Stmt, begin: Expr, end: Expr) -> Stmt:
            vector = partial(some, part, "unrolled", end)
            return loops.vector_loop(end - begin, lanes, vector, 1, self.masked, begin, self.manner.again)

        inner = [short] if self.rows is None else [short, self.rows]
        found = interior(body, axis, self.algebra, inner)
        if found is None:
            return vectors(body, E.const(0), axis.extent)
        parts: list[Stmt] = []
        begin = loops.bound(E.binary("min", found.inside.begin, axis.extent), parts, "begin")
        end = loops.bound(E.binary("max", begin, found.inside.end), parts, "end")
        ends = [loops.serial("v", last - first, lambda at: some(body, "unrolled", axis.extent, at, 1, None), first)
                for first, last in ((E.const(0), begin), (end, axis.extent))]
        singly = seq(vectors(found.inside.body, begin, end), *ends)
        has_permute = lanes >= 8 and lanes in self.target.isa.permuted_lanes and loops.memory_dtypes(body) == {"float32"}
        if not self.manner.again or not has_permute or axis.static is None and self.cost > MAX_AT_ENDS:
            return seq(parts, singly)
        return seq(parts, self._whole_vectors(some, body, found.inside.body, axis, (begin, end), lanes, singly))

    def _whole_vectors(
        self, some: Callable[..., Stmt], body: Stmt, inside: Stmt, axis: Loop, limits: tuple[Expr, Expr], lanes: int, singly: Stmt
    ) -> Stmt:
        """The ends of ``axis`` in vectors, whose lanes permute those of a load, where all then overlap little; else ``singly``.

        ``limits``: from where to where ``body`` is ``inside``.
        """
        (begin, end), size = limits, axis.extent

        def middle(v: Expr) -> Stmt:
            place = E.binary("max", begin, E.binary("min", lanes + v * lanes, end - lanes))
            return some(inside, "unrolled", end, place, lanes, None)

        between = loops.serial("v", loops.ceildiv(size - 2 * lanes, lanes), middle)
        first, last = (some(body, "unrolled", size, place, lanes, None) for place in (E.const(0), size - lanes))
        overlap = loops.ceildiv(size, lanes) * lanes - size
        fits = E.logical_and(E.logical_and(size >= lanes, begin + size - end <= lanes), overlap <= lanes // 2)
        return loops.guard(fits, seq(first, between, last), singly)

    def _with_interior(self, body: Stmt, axis: Loop, lanes: int, unroll: int) -> Stmt:
        """Vectors along ``axis``: inside of its interior as that says, others as ``body`` says.

        Where sizes are known, vectors at both ends go a little into the interior, unless they are gathered.
        """
        found = interior(body, axis, self.algebra)
        if found is None:
            return self._vectors(body, axis, axis.extent, lanes, unroll)
        inside = found.inside
        known = [loops.static(limit) for limit in (inside.begin, inside.end, axis.extent)]
        is_gathered = None in analyse((), (body,), self.algebra).strides(self.algebra, axis.var)
        if None not in known and not is_gathered:
            low, high, size = (int(limit) for limit in known if limit is not None)
            low, high = loops.round_up(max(0, low), lanes), min(high, size) // lanes * lanes
            if high - low < 2 * lanes:
                return self._vectors(body, axis, axis.extent, lanes, unroll)
            return seq(self._vectors(body, axis, E.const(low), lanes, unroll),
                       self._vectors(inside.body, axis, E.const(high - low), lanes, unroll, E.const(low)),
                       self._vectors(body, axis, E.const(size - high), lanes, unroll, E.const(high)))
        parts: list[Stmt] = []
        start, stop = (self.algebra.poly(limit) for limit in (E.binary("min", inside.begin, axis.extent), inside.end))
        begin, end = (loops.bound(self.algebra.expr(limit), parts, name) for limit, name in ((start, "begin"), (stop, "end")))
        fits, pieces, after = begin <= end, [], (self.algebra.poly(axis.extent) - stop).constant
        for part, first, last in ((found.before, E.const(0), begin), (inside, begin, end), (found.after, end, axis.extent)):
            own = body if part is None else part.body
            if part is not None and part is not inside:
                fits = E.logical_and(fits, E.logical_and(part.begin <= first, last <= part.end))
            extent = last - first if after is None or first is not end else E.const(after)
            pieces.append(self._vectors(own, axis, extent, lanes, unroll if part is inside else 1, first))
        return seq(parts, If(fits, seq(*pieces), self._vectors(body, axis, axis.extent, lanes, 1)))

    def _vectors(self, body: Stmt, axis: Loop, extent: Expr, lanes: int, unroll: int, begin: Expr | None = None) -> Stmt:
        def vector(at: Expr, width: int, mask: Expr | None) -> Stmt:
            return _vectorized(body, axis, at, width, mask)

        return loops.vector_loop(extent, lanes, vector, unroll, self.masked, begin, self.manner.again)

    def _must_cut(self, axis: Loop, outer: Sequence[Loop]) -> bool:
        """Whether threads need more iterations than the outer loops give."""
        total = self.cost * axis.assumed // self.lanes
        for other in outer:
            total *= other.assumed
        iterations = loops.likely_iterations(outer)
        if all(loop_.static is not None for loop_ in self.axes) and total < 2 * PARALLEL_WORK:
            return False
        return iterations < 16 and (axis.static is None or axis.static > self._block())

    def _block(self) -> int:
        return loops.round_up(max(1, BLOCK_BYTES // max(loops.memory_sizes(self.body))), 4 * self.lanes)

    def _blocked(self, axis: Loop, outer: Sequence[Loop], short: Loop | None = None) -> Stmt:
        """``for i in n``  -->  ``parallel b in ceil(n / B): for i in [b*B, min(n, b*B + B))``."""
        size = self._block()
        block, start, extent = loops.blocks(axis.extent, size)

        def part(body: Stmt) -> Stmt:
            moved = map_expressions(body, lambda x: substitute(x, {axis.var: start + axis.var}))
            return self._inner(moved, Loop(axis.var, extent), extent, short)

        inner = self._cases(axis, short, part)
        return loops.parallel_nest([block, *outer], inner, E.const(max(1, self.cost * size // self.lanes)))


def _vectorized(body: Stmt, axis: Loop, at: Expr, lanes: int, mask: Expr | None) -> Stmt:
    if lanes == 1:
        return map_expressions(body, lambda x: substitute(x, {axis.var: at}))
    return Vectorizer(axis.var, at, lanes, mask).stmt(body)
