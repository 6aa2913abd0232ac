"""Accumulators of reductions: identities, steps, horizontal reductions, and accumulators that live in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from forge import dtypes
from forge.errors import CompileError
from forge.loops.nest import Loop, unroll
from forge.loops.totals import Totals, in_blocks
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.stmt import Allocate, Stmt, loop, seq, store

# The maximum in one instruction per step, which may drop a NaN: for kernels that let NaN through in other ways.
LARGEST_NUMBER: Final = "largest_number"

_STEP = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or"}


def identity(kind: str, dtype: str, lanes: int = 1) -> Expr:
    """Returns the value that changes nothing when it is reduced."""
    if kind in ("sum", "prod"):
        return E.const(0 if kind == "sum" else 1, dtype, lanes)
    if kind in ("and", "or"):
        everything = True if dtype == "bool" else -1
        return E.const(everything if kind == "and" else 0, dtype, lanes)
    if kind == LARGEST_NUMBER:
        kind = "max"
    if kind not in ("max", "min"):
        raise CompileError(f"schedule: reduction kind {kind!r}; expected one of {', '.join(_STEP)}")
    if dtypes.is_float(dtype):
        return E.const(-math.inf if kind == "max" else math.inf, dtype, lanes)
    low, high = (False, True) if dtype == "bool" else dtypes.integer_range(dtype)
    return E.const(low if kind == "max" else high, dtype, lanes)


def combine(kind: str, accumulator: Expr, value: Expr, target: Target | None = None) -> Expr:
    """Reduces ``value`` into ``accumulator``; a product that is summed is a fused multiply-add where ``target`` has one."""
    if kind in ("max", "min") and value.dtype == "bool":
        return E.binary("or" if kind == "max" else "and", accumulator, value)
    if kind == LARGEST_NUMBER:
        return E.select(E.compare("gt", accumulator, value), accumulator, value)
    is_product = isinstance(value, E.Binary) and value.op == "mul" and value.dtype in ("float32", "float64")
    if kind == "sum" and is_product and target is not None and target.isa.fused_multiply_add:
        return E.call("fma", *E.children(value), accumulator)
    return E.binary(_STEP[kind], accumulator, value)


def horizontal(kind: str, vector: Expr) -> Expr:
    """Reduces all lanes of ``vector`` to a scalar."""
    if vector.lanes == 1:
        return vector
    if kind in ("max", "min") and vector.dtype == "bool":
        kind = "or" if kind == "max" else "and"
    return E.call("reduce_max" if kind == LARGEST_NUMBER else f"reduce_{_STEP[kind]}", vector)


@dataclass(frozen=True)
class RegisterTile:
    """``rows`` x ``vectors`` accumulators of ``lanes`` elements of ``dtype``."""

    rows: int
    vectors: int
    lanes: int
    dtype: str

    @property
    def width(self) -> int:
        """Elements of one row."""
        return self.vectors * self.lanes


@dataclass(frozen=True, eq=False)
class Accumulators:
    """A register tile of vectors that are reduced side by side; in registers as all their indices are constants.

    ``kind`` is that of the reduction. With a ``target``, sums of products are fused multiply-adds where it has them.
    """

    tile: RegisterTile
    kind: str = "sum"
    target: Target | None = None
    buffer: Buffer = field(init=False)

    def __post_init__(self) -> None:
        size = self.tile.rows * self.tile.vectors
        object.__setattr__(self, "buffer", Buffer("acc", self.tile.dtype, (E.const(size),), "local", self.tile.lanes))

    def allocate(self) -> Stmt:
        """Allocates them, without values."""
        return Allocate(self.buffer)

    def clear(self) -> Stmt:
        """Sets every accumulator to the identity of the reduction."""
        value = identity(self.kind, self.tile.dtype, self.tile.lanes)
        return unroll("z", self.tile.rows * self.tile.vectors, lambda i: store(self.buffer, i, value))

    def start(self) -> Stmt:
        """Allocates and clears them."""
        return seq(self.allocate(), self.clear())

    def get(self, row: ExprLike, vector: int) -> Expr:
        """Returns the value of an accumulator."""
        return E.load(self.buffer, self._index(row, vector))

    def set(self, row: ExprLike, vector: int, value: Expr) -> Stmt:
        """Sets an accumulator."""
        return store(self.buffer, self._index(row, vector), value)

    def _index(self, row: ExprLike, vector: int) -> Expr:
        return E.as_expr(row) * self.tile.vectors + vector

    def each(self, statement: Callable[[Expr, int], Stmt]) -> Stmt:
        """Runs ``statement(row, vector)`` for every accumulator."""
        return unroll("r", self.tile.rows, lambda row: seq(statement(row, v) for v in range(self.tile.vectors)))

    def step(self, vector: int, value: Expr, mask: Expr | None = None) -> Stmt:
        """Reduces ``value`` into an accumulator of row 0; lanes with a false mask change nothing."""
        value = E.broadcast(value, self.tile.lanes)
        if mask is not None:
            value = E.select(mask, value, identity(self.kind, value.dtype, value.lanes))
        return self.set(0, vector, combine(self.kind, self.get(0, vector), value, self.target))

    def joined(self) -> Expr:
        """Reduces all accumulators of row 0 to one."""
        return tree([self.get(0, v) for v in range(self.tile.vectors)], lambda a, b: combine(self.kind, a, b))

    def total(self) -> Expr:
        """Reduces all accumulators of row 0 and their lanes to a scalar."""
        return horizontal(self.kind, self.joined())


class AxisAccumulators:
    """Accumulators along an axis that is run over in vectors: of whole ones, and of single elements where tails have no mask.

    A ``long`` sum is done in blocks: ``collect`` ends one.
    """

    def __init__(self, tile: RegisterTile, kind: str, target: Target, masked: bool, long: bool = False) -> None:
        self._kind = kind
        self._whole = Accumulators(tile, kind, target)
        self._all = [self._whole]
        if not masked and tile.lanes > 1:
            self._all.append(Accumulators(RegisterTile(1, 1, 1, tile.dtype), kind, target))
        self._totals = [Totals(tile.dtype, some.tile.lanes) for some in self._all] if long else []

    def start(self) -> Stmt:
        """Allocates and clears them."""
        return seq(*(some.start() for some in self._all), *(total.start() for total in self._totals))

    def step(self, vector: int, lanes: int, value: Expr, mask: Expr | None) -> Stmt:
        """Reduces ``value`` of ``lanes`` elements; vectors take the accumulators in turn."""
        into = self._whole if lanes == self._whole.tile.lanes else self._all[-1]
        return into.step(vector % into.tile.vectors, value, mask)

    def collect(self) -> Stmt:
        """Adds what they hold to their totals, and clears them."""
        return seq(*(seq(total.add(0, some.joined()), some.clear()) for some, total in zip(self._all, self._totals)))

    def total(self) -> Expr:
        """Returns all that was reduced, as a scalar."""
        values = [some.joined() for some in self._all]
        if self._totals:
            values = [total.get(0, value) for value, total in zip(values, self._totals)]
        return tree([horizontal(self._kind, value) for value in values], lambda a, b: combine(self._kind, a, b))


def long_nest(accumulators: Accumulators, axes: Sequence[Loop], step: Stmt) -> tuple[Stmt, list[Expr]]:
    """Makes loops over the axes of a long sum around ``step``, a term of each accumulator of row 0; returns the total too."""
    tile = accumulators.tile
    totals = Totals(tile.dtype, tile.lanes, tile.vectors)
    sums = [accumulators.get(0, k) for k in range(tile.vectors)]
    collect = seq(*(totals.add(k, value) for k, value in enumerate(sums)), accumulators.clear())
    passes = in_blocks(axes, 1, lambda begin, extent: loop(axes[-1].var, extent, step, "serial", begin), collect)
    return seq(totals.start(), passes), [totals.get(k, value) for k, value in enumerate(sums)]


def tree(values: list[Expr], join: Callable[[Expr, Expr], Expr]) -> Expr:
    """Joins ``values`` pairwise, so that the longest chain is short."""
    while len(values) > 1:
        pairs = [join(a, b) for a, b in zip(values[::2], values[1::2])]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
