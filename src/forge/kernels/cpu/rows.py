"""Kernels that work row by row: what softmax, normalizations and searches along an axis share.

A *row* is what one reduction runs over. Vectors lie along the row where it is contiguous (``AlongRow``), else across rows
that are neighbours in memory (``AcrossRows``). Both offer the same steps: loops over the row, reductions, a scratch copy of
the row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forge import dtypes, loops
from forge.loops import Accumulators, AxisAccumulators, Loop, RegisterTile, Vectorizer
from forge.loops.contract import KernelCall
from forge.schedule.access import OTHER, analyse, collapse, pattern, vector_cost
from forge.schedule.algebra import Algebra, Poly
from forge.schedule.simplify import IndexSimplifier, renaming
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.rewrite import map_expressions, substitute
from forge.tir.stmt import Allocate, Evaluate, Function, If, Let, Stmt, Store, seq, store
from forge.tir.visit import stores

# A row of at most this many bytes is copied to the stack; longer ones are read again as fast.
SCRATCH_BYTES: Final = 16384

# Reductions along a row have at most this many independent accumulators.
ACCUMULATORS: Final = 4

# Rows of at most this many vectors are written out.
WRITTEN_OUT: Final = 8

# This many neighbouring rows are processed at once, as one vector of all their lanes: their chains of operations overlap,
# and memory is read in longer pieces.
TOGETHER: Final = 4

# At most this many rows take each step of a kernel before the next: what the steps of one wait for overlaps with the others.
STEPPED: Final = 8

# They take at most this many bytes on the stack: with what they read and write, much less than the first-level cache.
STEPPED_BYTES: Final = 4096


@dataclass(frozen=True, eq=False)
class Blocks:
    """The innermost row axis as ``outer * size + inner``, where that makes every access one of neighbours along ``inner``."""

    outer: Var
    inner: Var
    size: int
    reads: Mapping[str, Expr]
    write: Stmt


@dataclass(frozen=True, eq=False)
class RowProblem:
    """A row as scalar expressions: what is read at each of its elements, and how a result is written.

    Attributes:
        outer: loops over rows.
        row: loops over the elements of a row, innermost last.
        reads: element-wise values by name.
        write: stores variable ``result`` at the element.
        blocks: set where memory holds a row in blocks, as that of channels last in a blocked layout.
    """

    target: Target
    algebra: Algebra
    outer: tuple[Loop, ...]
    row: tuple[Loop, ...]
    reads: Mapping[str, Expr]
    result: Var
    write: Stmt
    blocks: Blocks | None = None

    def in_blocks(self, dtype: str) -> bool:
        """Returns whether vectors along the row lie inside of blocks."""
        return self.blocks is not None and self.blocks.size % self.lanes(dtype) == 0

    def lanes(self, dtype: str) -> int:
        """Elements in a vector of what is read, computed (as ``dtype``) and written."""
        widest = max(
            dtypes.itemsize(dtype),
            4,
            *(loops.element_size(x) for x in self.reads.values()),
            *(loops.element_size(s.value) for s in stores(self.write)),
        )
        return max(1, self.target.vector_bits // (8 * widest))

    @property
    def stored(self) -> Expr | None:
        """The element of the result as memory, where what is stored there can be read again."""
        write = self.write
        if not isinstance(write, Store) or write.value is not self.result or write.mask is not None or self.blocks is not None:
            return None
        return E.load(write.buffer, write.index)

    def is_plain(self, dtype: str) -> bool:
        """Returns whether data are memory of one element after the other, of the type of the computation."""
        data = self.reads["data"]
        return isinstance(data, E.Load) and data.dtype == dtype and not self.in_blocks(dtype)

    @property
    def masked(self) -> bool:
        """Whether tails run under a mask."""
        return loops.supports_masks(self.target, loops.memory_sizes(seq(self.write, *(Evaluate(x) for x in self.reads.values()))))

    @property
    def length(self) -> Expr:
        """Elements of a row."""
        return loops.product(axis.extent for axis in self.row)


def row_problem(call: KernelCall, axes: Sequence[int], reads: Callable[[Sequence[Expr]], Mapping[str, Expr]]) -> RowProblem:
    """Rows of the first result along ``axes``; ``reads(indices)`` gives the values at an element.

    Indices are brought to canonical form, and axes that are contiguous everywhere are merged.
    """
    algebra = Algebra()
    dimensions = algebra.loops(call.results[0].shape)
    indices = loops.places(dimensions)
    result = E.Var(call.results[0].dtype, 1, "y")
    simplify = IndexSimplifier(algebra)
    values = {name: simplify.expr(x) for name, x in reads(indices).items()}
    write = simplify.stmt(call.results[0].write(indices, result))
    accesses = analyse(values.values(), (write,), algebra)
    outer = collapse([axis for k, axis in enumerate(dimensions) if k not in axes], accesses, algebra)
    row = collapse([dimensions[k] for k in axes], accesses, algebra)
    rename = renaming({**outer.substitution, **row.substitution})
    values = {name: simplify.expr(rename(x)) for name, x in values.items()}
    write = simplify.stmt(map_expressions(write, rename))
    inner = row.loops or (Loop(E.var("one"), E.const(1)),)
    in_blocks = _blocks(inner[-1], values, write, algebra)
    return RowProblem(call.target, algebra, outer.loops, inner, values, result, write, in_blocks)


def _blocks(axis: Loop, values: Mapping[str, Expr], write: Stmt, algebra: Algebra) -> Blocks | None:
    """How the axis is cut by indices that divide it; None where it is not, or not evenly."""
    accesses = analyse(values.values(), (write,), algebra)
    divisors = set[Poly]().union(*(algebra.divisors(item.index, axis.var) for item in accesses.items))
    size = min((divisor.constant for divisor in divisors if divisor.constant is not None), default=0)
    if axis.static is None or not size or axis.static % size or axis.var in accesses.value_uses:
        return None
    outer, inner = algebra.loop("block", E.const(axis.static // size)), algebra.loop("inside", E.const(size))
    simplify = IndexSimplifier(algebra)
    rename = renaming({axis.var: outer.var * size + inner.var})
    reads = {name: simplify.expr(rename(x)) for name, x in values.items()}
    moved = simplify.stmt(map_expressions(write, rename))
    strides = analyse(reads.values(), (moved,), algebra).strides(algebra, inner.var)
    return None if any(pattern(s) == OTHER for s in strides) else Blocks(outer.var, inner.var, size, reads, moved)


@dataclass(frozen=True, eq=False)
class Position:
    """``lanes`` elements that a body handles at once: ``at`` is the index of the first along the innermost row axis."""

    at: Expr
    lanes: int
    mask: Expr | None


RowBody = Callable[[Position], tuple[Sequence[Stmt], Expr]]
"""Statements to run at a position, then the value to reduce."""


class KernelRow(ABC):
    """The row (or the vector of rows) that a kernel works on. ``cached``: what is computed of it is kept on the stack."""

    plain = False
    """Whether data are as easily read again as from the stack, and so not kept there."""

    def __init__(self, problem: RowProblem, dtype: str, cached: bool) -> None:
        self.problem = problem
        self.dtype = dtype
        self.cached = cached
        self.scratch: Buffer | None = None

    @abstractmethod
    def allocate(self, elements: int) -> Stmt:
        """Makes room for rows of at most ``elements``."""

    @abstractmethod
    def reduce(self, kind: str, body: RowBody) -> tuple[Stmt, Expr]:
        """Runs over the row; the result is a scalar, or has one lane a row."""

    @abstractmethod
    def each(self, body: Callable[[Position], Stmt]) -> Stmt:
        """Runs over the row."""

    @abstractmethod
    def _vectorizer(self, position: Position, bound: Mapping[Var, Expr]) -> Vectorizer:
        """Turns what is read or written at an element into that at ``position``."""

    @property
    def _accesses(self) -> RowProblem | Blocks:
        """What is read and written."""
        return self.problem

    def read(self, name: str, position: Position) -> Expr:
        """Reads the value ``name`` at ``position``, as the dtype of the computation."""
        value = self._vectorizer(position, {}).expr(self._accesses.reads[name])
        return E.broadcast(E.cast(value, self.dtype), position.lanes)

    def write(self, value: Expr, position: Position) -> Stmt:
        """Stores the result."""
        result = self.problem.result
        return self._vectorizer(position, {result: E.cast(value, result.dtype)}).stmt(self._accesses.write)

    @abstractmethod
    def _slot(self, position: Position) -> Expr:
        """Where the scratch holds ``position``."""

    def first(self, name: str, position: Position) -> tuple[list[Stmt], Expr]:
        """Reads ``name`` for the first time, and keeps it."""
        value = E.Var(self.dtype, position.lanes, name)
        parts: list[Stmt] = [Let(value, self.read(name, position))]
        return [*parts, *(() if self.plain else self.keep(value, position))], value

    def again(self, name: str, position: Position) -> Expr:
        """Returns what ``first`` read or ``keep`` kept, or reads it again."""
        return self.kept(position) if self.cached and not self.plain else self.read(name, position)

    def kept(self, position: Position) -> Expr:
        """Loads what the scratch holds."""
        assert self.scratch is not None
        return E.load(self.scratch, self._slot(position))

    def keep(self, value: Expr, position: Position) -> list[Stmt]:
        """Replaces what the scratch holds; nothing if there is none."""
        return [] if self.scratch is None else [store(self.scratch, self._slot(position), value)]


class AlongRow(KernelRow):
    """Vectors along the innermost row axis, with a masked tail."""

    def __init__(self, problem: RowProblem, dtype: str, cached: bool, part: tuple[Expr, Expr] | None = None) -> None:
        """``part``: first element and number of those to work on, of the innermost axis at the place of the loops around."""
        super().__init__(problem, dtype, cached)
        self.axis = problem.row[-1]
        self.part = part
        self.lanes = self.axis.lanes(problem.lanes(dtype))
        vectors = max(1, -(-self.axis.assumed // self.lanes))  # an empty row has none
        self.unroll = vectors if self.axis.static is not None and vectors <= WRITTEN_OUT else ACCUMULATORS
        self.stored: Expr | None = None
        """Set where what is kept lies in the result."""
        self.place: Expr = E.const(0)
        """Of the row in the scratch."""
        self.is_short = False
        """Whether the row is known to fit into the first-level cache."""

    def allocate(self, elements: int) -> Stmt:
        size = loops.round_up(elements, self.lanes)
        self.scratch = Buffer("row", self.dtype, (E.const(size),), scope="local", alignment=64)
        return Allocate(self.scratch)

    def kept(self, position: Position) -> Expr:
        return super().kept(position) if self.stored is None else self._vectorizer(position, {}).expr(self.stored)

    def keep(self, value: Expr, position: Position) -> list[Stmt]:
        return super().keep(value, position) if self.stored is None else [self.write(value, position)]

    def _loops(self, body: Callable[[Position, int], Stmt], collect: Stmt | None = None) -> Stmt:
        """``body`` over the row; ``collect`` before each block but the first of a long sum."""

        def group(at: Expr, lanes: int, mask: Expr | None, count: int) -> Stmt:
            return seq(*(body(Position(at + u * lanes, lanes, mask), u) for u in range(count)))

        if self.part is not None:
            return loops.group_loop(self.part[1], self.lanes, group, self.unroll, self.problem.masked, self.part[0])

        def along(begin: Expr, extent: Expr) -> Stmt:
            return loops.group_loop(extent, self.lanes, group, self.unroll, self.problem.masked, begin)

        if collect is not None:
            return loops.in_blocks(self.problem.row, self.lanes * ACCUMULATORS, along, collect)
        return loops.nest(self.problem.row[:-1], along(E.const(0), self.axis.extent))

    def _is_long(self, kind: str) -> bool:
        """Whether a sum over the row is done in blocks."""
        if self.is_short or self.part is not None or self.scratch is not None:
            return False
        steps = [*(axis.extent for axis in self.problem.row[:-1]), loops.ceildiv(self.axis.extent, self.lanes * ACCUMULATORS)]
        return not E.is_const(loops.is_long(kind, self.dtype, loops.product(steps)), False)

    def each(self, body: Callable[[Position], Stmt]) -> Stmt:
        return self._loops(lambda position, _: body(position))

    def reduce(self, kind: str, body: RowBody) -> tuple[Stmt, Expr]:
        tile = RegisterTile(1, min(self.unroll, ACCUMULATORS), self.lanes, self.dtype)
        long = self._is_long(kind)
        accumulators = AxisAccumulators(tile, kind, self.problem.target, self.problem.masked, long)

        def step(position: Position, u: int) -> Stmt:
            parts, value = body(position)
            return seq(parts, accumulators.step(u, position.lanes, value, position.mask))

        passes = self._loops(step, accumulators.collect() if long else None)
        total = E.Var(self.dtype, 1, kind)
        return seq(accumulators.start(), passes, Let(total, accumulators.total())), total

    @property
    def _accesses(self) -> RowProblem | Blocks:
        return self._blocks or self.problem

    @property
    def _blocks(self) -> Blocks | None:
        """Those that vectors from a multiple of their length on stay inside of."""
        return self.problem.blocks if self.part is None and self.problem.in_blocks(self.dtype) else None

    def _vectorizer(self, position: Position, bound: Mapping[Var, Expr]) -> Vectorizer:
        blocks = self._blocks
        if blocks is None:
            return Vectorizer(self.axis.var, position.at, position.lanes, position.mask, bound)
        inside, places = position.at % blocks.size, {**bound, blocks.outer: position.at // blocks.size}
        return Vectorizer(blocks.inner, inside, position.lanes, position.mask, places)

    def _slot(self, position: Position) -> Expr:
        return E.ramp(self.place + position.at, 1, position.lanes)


class AcrossRows(KernelRow):
    """A row in each lane: ``lanes`` rows that are neighbours along ``axis``, from row ``first`` on."""

    def __init__(self, problem: RowProblem, dtype: str, cached: bool, axis: Loop, first: Position) -> None:
        super().__init__(problem, dtype, cached)
        self.axis = axis
        self.first_row = first
        self.lanes = first.lanes

    def allocate(self, elements: int) -> Stmt:
        self.scratch = Buffer("rows", self.dtype, (E.const(elements),), scope="local", lanes=self.lanes, alignment=64)
        return Allocate(self.scratch)

    def each(self, body: Callable[[Position], Stmt]) -> Stmt:
        return loops.nest(self.problem.row, body(Position(self.problem.row[-1].var, self.lanes, None)))

    def reduce(self, kind: str, body: RowBody) -> tuple[Stmt, Expr]:
        accumulator = Accumulators(RegisterTile(1, 1, self.lanes, self.dtype), kind, self.problem.target)
        parts, value = body(Position(self.problem.row[-1].var, self.lanes, None))
        step, total = seq(parts, accumulator.step(0, value)), E.Var(self.dtype, self.lanes, kind)
        passes, result = loops.nest(self.problem.row, step), accumulator.get(0, 0)
        if self.scratch is None and not E.is_const(loops.is_long(kind, self.dtype, self.problem.length), False):
            passes, (result,) = loops.long_nest(accumulator, self.problem.row, step)
        return seq(accumulator.start(), passes, Let(total, result)), total

    def _vectorizer(self, position: Position, bound: Mapping[Var, Expr]) -> Vectorizer:
        return Vectorizer(self.axis.var, self.first_row.at, self.lanes, self.first_row.mask, bound)

    def _slot(self, position: Position) -> Expr:
        return position.at


Step = tuple[Stmt, "Expr | None"]
"""One pass over a row, and the variable with what it found, which later steps use."""

RowKernel = Callable[[KernelRow], Sequence[Step]]


def row_function(
    call: KernelCall, problem: RowProblem, dtype: str, kernel: RowKernel, cost: int, reads_only: bool = False, keeps: bool = False
) -> Function:
    """Makes the loop function that runs ``kernel`` on every row.

    Args:
        cost: vector operations per vector of a row.
        reads_only: the kernel keeps nothing of its own in the scratch: short rows that are plain memory need none. Longer ones
            are read from the scratch faster, as it is aligned, while they fit there.
        keeps: the kernel keeps what is computed again at more cost than it is read, also of rows that do not fit into the
            scratch: in the result, where that is memory of the type of the computation, else in a larger scratch.
    """
    across = None if problem.in_blocks(dtype) else _across_axis(problem)
    work = problem.length * cost
    if across is None:
        lanes = problem.row[-1].lanes(problem.lanes(dtype))
        short = problem.row[-1].assumed * dtypes.itemsize(dtype) * 4 <= problem.target.l1_cache
        work = work // lanes + 1
        stored = problem.stored if keeps and problem.result.dtype == dtype and len(problem.row) == 1 else None
        long = AlongRow(problem, dtype, stored is not None)
        long.stored, long.plain = stored, stored is not None and problem.is_plain(dtype)
        nest = loops.parallel_nest(problem.outer, _whole(kernel(long)), work)
        if not (reads_only and short and problem.is_plain(dtype)):
            most = SCRATCH_BYTES if not keeps else 2 * SCRATCH_BYTES if stored is None else STEPPED_BYTES // 2
            nest = _on_stack(problem, most // dtypes.itemsize(dtype), nest,
                             lambda room: _stepped(AlongRow(problem, dtype, True), kernel, room, work))
        return call.function(nest)
    lanes = across.lanes(problem.lanes(dtype) * TOGETHER)

    def tile(at: Expr, width: int, mask: Expr | None) -> Stmt:
        first = Position(at, width, mask)

        def cached(elements: int) -> Stmt:
            row = AcrossRows(problem, dtype, True, across, first)
            return seq(row.allocate(elements), _whole(kernel(row)))

        otherwise = _whole(kernel(AcrossRows(problem, dtype, False, across, first)))
        return _on_stack(problem, SCRATCH_BYTES // width // dtypes.itemsize(dtype), otherwise, cached)

    others = [axis for axis in problem.outer if axis is not across]
    if across.static is not None and across.static <= lanes:
        tiles = loops.vector_loop(across.extent, lanes, tile, 1, problem.masked)
        return call.function(loops.parallel_nest(others, tiles, work * TOGETHER))
    strip, start, extent = loops.blocks(across.extent, lanes)
    tiles = loops.vector_loop(extent, lanes, tile, 1, problem.masked, start)
    return call.function(loops.parallel_nest([*others, strip], tiles, work * TOGETHER))


def _on_stack(problem: RowProblem, limit: int, otherwise: Stmt, cached: Callable[[int], Stmt]) -> Stmt:
    """``cached`` for rows of at most ``limit`` elements, decided at run time for symbolic ones."""
    length = problem.row[0].extent
    known = loops.static(length)
    if len(problem.row) > 1 or known is not None and known > limit:
        return otherwise
    return If(E.compare("le", length, limit), cached(limit), otherwise) if known is None else cached(known)


def _whole(steps: Sequence[Step]) -> Stmt:
    return seq(*(step for step, _ in steps))


def _stepped(row: AlongRow, kernel: RowKernel, elements: int, work: Expr) -> Stmt:
    """Loops over rows of at most ``elements`` on the stack; each step is done for all of a block of rows before the next."""
    outer, together = row.problem.outer, STEPPED_BYTES // dtypes.itemsize(row.dtype)
    room = E.binary("max", loops.ceildiv(row.axis.extent, row.lanes) * row.lanes, E.const(row.lanes))
    count = E.binary("max", E.binary("min", E.const(together) // room, E.const(STEPPED)), E.const(1))
    most = max(loops.round_up(elements, row.lanes), together)
    allocated, steps = row.allocate(most), kernel(row)
    if not outer or len(steps) == 1 or E.is_const(count, 1):
        return loops.parallel_nest(outer, seq(allocated, _whole(steps)), work)
    row.plain = row.problem.is_plain(row.dtype)
    block, number, row.place = E.var("block"), E.var("number"), E.var("place")
    first, axis = block * count, outer[-1]
    parts: list[Stmt] = [allocated]
    bound: dict[Var, Expr] = {axis.var: first + number, row.place: number * room}
    for step, result in kernel(row):
        own = {variable: E.Var(variable.dtype, 1, variable.name) for variable in bound}
        lets = [Let(own[variable], value) for variable, value in bound.items()]
        moved = map_expressions(step, lambda x, own=own: substitute(x, own))  # type: ignore[misc]
        if isinstance(result, Var):
            kept = Buffer(f"{result.name}s", result.dtype, (E.const(STEPPED),), scope="local")
            parts.append(Allocate(kept))
            moved = seq(moved, store(kept, number, result))
            bound[result] = E.load(kept, number)
        parts.append(loops.nest([Loop(number, E.binary("min", count, axis.extent - first))], seq(lets, moved)))
    blocks = Loop(block, (axis.extent + count - 1) // count)
    return loops.parallel_nest([*outer[:-1], blocks], seq(*parts), work * count)


def _across_axis(problem: RowProblem) -> Loop | None:
    """The axis across rows to vectorize where rows are strided in memory and their neighbours are not."""
    accesses = analyse(problem.reads.values(), (problem.write,), problem.algebra)
    along = accesses.strides(problem.algebra, problem.row[-1].var)
    if not any(pattern(s) == OTHER for s in along):
        return None
    costs = [
        (vector_cost(accesses, axis, problem.lanes(problem.result.dtype), problem.algebra), -k, axis)
        for k, axis in enumerate((*problem.outer, problem.row[-1]))
    ]
    best = min(costs, key=lambda item: item[:2])[2]
    return None if best is problem.row[-1] else best
