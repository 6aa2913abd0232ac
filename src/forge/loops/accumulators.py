"""Accumulators of reductions: identities, steps, horizontal reductions, and accumulators that live in registers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from forge import dtypes
from forge.errors import CompileError
from forge.loops.nest import unroll
from forge.loops.values import bind, bound, multiply_add
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.stmt import Allocate, Stmt, seq, store

# The maximum in one instruction per step, which may drop a NaN: for kernels that let NaN through in other ways.
LARGEST_NUMBER: Final = "largest_number"

_STEP = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or"}


def identity(kind: str, dtype: str, lanes: int = 1) -> Expr:
    """The value that changes nothing when it is reduced."""
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
    """One step of a reduction; a product that is summed becomes a fused multiply-add where ``target`` has one."""
    if kind in ("max", "min") and value.dtype == "bool":
        return E.binary("or" if kind == "max" else "and", accumulator, value)
    if kind == LARGEST_NUMBER:
        return E.select(E.compare("gt", accumulator, value), accumulator, value)
    is_product = isinstance(value, E.Binary) and value.op == "mul" and value.dtype in ("float32", "float64")
    if kind == "sum" and is_product and target is not None and target.has("fma"):
        return E.call("fma", *E.children(value), accumulator)
    return E.binary(_STEP[kind], accumulator, value)


def horizontal(kind: str, vector: Expr) -> Expr:
    """All lanes of ``vector`` reduced to a scalar."""
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
        return Allocate(self.buffer)

    def clear(self) -> Stmt:
        """Sets every accumulator to the identity of the reduction."""
        value = identity(self.kind, self.tile.dtype, self.tile.lanes)
        return unroll("z", self.tile.rows * self.tile.vectors, lambda i: store(self.buffer, i, value))

    def start(self) -> Stmt:
        """Allocates and clears them."""
        return seq(self.allocate(), self.clear())

    def get(self, row: ExprLike, vector: int) -> Expr:
        return E.load(self.buffer, self._index(row, vector))

    def set(self, row: ExprLike, vector: int, value: Expr) -> Stmt:
        return store(self.buffer, self._index(row, vector), value)

    def _index(self, row: ExprLike, vector: int) -> Expr:
        return E.as_expr(row) * self.tile.vectors + vector

    def each(self, statement: Callable[[Expr, int], Stmt]) -> Stmt:
        """``statement(row, vector)`` for every accumulator."""
        return unroll("r", self.tile.rows, lambda row: seq(statement(row, v) for v in range(self.tile.vectors)))

    def step(self, vector: int, value: Expr, mask: Expr | None = None) -> Stmt:
        """Reduces ``value`` into an accumulator of row 0; lanes with a false mask change nothing."""
        value = E.broadcast(value, self.tile.lanes)
        if mask is not None:
            value = E.select(mask, value, identity(self.kind, value.dtype, value.lanes))
        return self.set(0, vector, combine(self.kind, self.get(0, vector), value, self.target))

    def add_outer_product(self, scalar: Callable[[Expr], Expr], vector: Callable[[int], Expr]) -> Stmt:
        """One step of a matrix product: adds scalar(row) * vector(v) to every accumulator."""
        parts: list[Stmt] = []
        vectors = [bound(vector(v), parts, f"b{v}") for v in range(self.tile.vectors)]

        def update_row(row: Expr) -> Stmt:
            let, a = bind("a", E.broadcast(scalar(row), self.tile.lanes))
            return seq(let, (self.set(row, v, multiply_add(a, b, self.get(row, v))) for v, b in enumerate(vectors)))

        return seq(parts, unroll("r", self.tile.rows, update_row))

    def total(self, more: Accumulators | None = None) -> Expr:
        """All accumulators of row 0 and their lanes (and those of ``more``) reduced to a scalar."""
        vectors = [self.get(0, v) for v in range(self.tile.vectors)]
        whole = horizontal(self.kind, tree(vectors, lambda a, b: combine(self.kind, a, b)))
        return whole if more is None else combine(self.kind, whole, more.total())


class AxisAccumulators:
    """Accumulators along an axis that is run over in vectors: of whole ones, and of single elements where tails have no mask."""

    def __init__(self, tile: RegisterTile, kind: str, target: Target, masked: bool) -> None:
        self._whole = Accumulators(tile, kind, target)
        single = RegisterTile(1, 1, 1, tile.dtype)
        self._single = None if masked or tile.lanes == 1 else Accumulators(single, kind, target)

    def start(self) -> Stmt:
        """Allocates and clears them."""
        return seq(self._whole.start(), () if self._single is None else self._single.start())

    def step(self, vector: int, lanes: int, value: Expr, mask: Expr | None) -> Stmt:
        """Reduces ``value`` of ``lanes`` elements; vectors take the accumulators in turn."""
        into = self._whole if self._single is None or lanes == self._whole.tile.lanes else self._single
        return into.step(vector % into.tile.vectors, value, mask)

    def total(self) -> Expr:
        return self._whole.total(self._single)


def tree(values: list[Expr], join: Callable[[Expr, Expr], Expr]) -> Expr:
    """``values`` joined pairwise, so that the longest chain is short."""
    while len(values) > 1:
        pairs = [join(a, b) for a, b in zip(values[::2], values[1::2])]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
