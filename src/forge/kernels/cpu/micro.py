"""Statements of the innermost loops: register tiles of accumulators, unrolled reductions, row copies, index arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from forge import dtypes
from forge.kernels.cpu import pairs
from forge.kernels.cpu.tiles import RegisterTile
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike, Var
from forge.tir.stmt import Allocate, If, Let, Stmt, loop, seq, store

IndexFunction = Callable[[Expr], Expr]

HALF = ("float16", "bfloat16")

CHUNK_WORK = 200_000
"""Multiply-adds that are worth waking a thread: a few microseconds."""


def vector_var(name: str, like: Expr) -> Var:
    """A variable of the dtype and lanes of ``like``."""
    return Var(like.dtype, like.lanes, name)


def static(extent: Expr) -> int | None:
    """The value of a constant extent, else None."""
    return int(extent.value) if isinstance(extent, E.Const) else None  # type: ignore[arg-type]


def product(extents: Sequence[Expr]) -> Expr:
    result: Expr = E.const(1)
    for extent in extents:
        result = result * extent
    return result


def ceildiv(extent: ExprLike, block: int) -> Expr:
    return (E.as_expr(extent) + (block - 1)) // block


def bind(name: str, value: ExprLike) -> tuple[list[Stmt], Expr]:
    """A ``Let`` of ``value`` and the variable that it binds; constants and variables need none."""
    value = E.as_expr(value)
    if isinstance(value, (E.Const, Var)):
        return [], value
    variable = vector_var(name, value)
    return [Let(variable, value)], variable


def unravel(flat: Expr, shape: Sequence[Expr]) -> list[Expr]:
    """Row-major indices of element ``flat`` of an array of ``shape``."""
    indices: list[Expr] = []
    rest = flat
    for position, extent in reversed(list(enumerate(shape))):
        if E.is_const(extent, 1):
            indices.append(E.const(0))
        elif all(E.is_const(e, 1) for e in shape[:position]):
            indices.append(rest)
            rest = E.const(0)
        else:
            indices.append(rest % extent)
            rest = rest // extent
    return indices[::-1]


def bound_indices(flat: Expr, extents: Mapping[str, Expr]) -> tuple[Stmt, list[Expr]]:
    """What binds the row-major indices of element ``flat`` to variables of those names, and the variables."""
    lets, indices = [], []
    for name, index in zip(extents, unravel(flat, list(extents.values()))):
        let, variable = bind(name, index)
        lets.append(seq(let))
        indices.append(variable)
    return seq(lets), indices


def multiply_add(a: Expr, b: Expr, c: Expr) -> Expr:
    """a * b + c; one rounding for floats where the target can. Of pairs of bfloat16 the sum of both products, and c."""
    if a.dtype == pairs.PAIR and c.dtype == "float32":
        return E.call("dot_bf16", c, a, b)
    return E.call("fma", a, b, c) if dtypes.is_float(c.dtype) else a * b + c


def local(name: str, dtype: str, size: int, lanes: int = 1) -> Buffer:
    """A local buffer of ``size`` elements."""
    return Buffer(name, dtype, (E.const(size),), "local", lanes, 64 if lanes == 1 else 0)


@dataclass(frozen=True)
class Accumulators:
    """The accumulators of a register tile: a local buffer of vectors, which lives in registers."""

    tile: RegisterTile
    name: str = "acc"
    buffer: Buffer = field(init=False)

    def __post_init__(self) -> None:
        size = self.tile.rows * self.tile.vectors
        object.__setattr__(self, "buffer", local(self.name, self.tile.dtype, size, self.tile.lanes))

    def allocate(self) -> Stmt:
        return Allocate(self.buffer)

    def get(self, row: ExprLike, vector: int) -> Expr:
        return E.load(self.buffer, self._index(row, vector))

    def set(self, row: ExprLike, vector: int, value: Expr) -> Stmt:
        return store(self.buffer, self._index(row, vector), value)

    def _index(self, row: ExprLike, vector: int) -> Expr:
        return E.as_expr(row) * self.tile.vectors + vector

    def clear(self) -> Stmt:
        """Sets every accumulator to zero."""
        zero = E.const(0, self.tile.dtype, self.tile.lanes)
        return unrolled("z", self.tile.rows * self.tile.vectors, lambda i: store(self.buffer, i, zero))

    def update(self, scalar: IndexFunction, vector: Callable[[int], Expr]) -> Stmt:
        """One reduction step: adds scalar(row) * vector(v) to every accumulator."""
        body: list[Stmt] = []
        vectors: list[Expr] = []
        for v in range(self.tile.vectors):
            let, value = bind(f"b{v}", vector(v))
            body += let
            vectors.append(value)

        def row_update(row: Expr) -> Stmt:
            let, a = bind("a", E.broadcast(scalar(row), self.tile.lanes))
            return seq(let, (self.set(row, v, multiply_add(a, b, self.get(row, v))) for v, b in enumerate(vectors)))

        return seq(body, unrolled("r", self.tile.rows, row_update))

    def each(self, statement: Callable[[Expr, int], Stmt]) -> Stmt:
        """``statement(row, vector)`` for every accumulator."""
        return unrolled("r", self.tile.rows, lambda row: seq(statement(row, v) for v in range(self.tile.vectors)))


def finished(value: Expr, dtype: str) -> Expr:
    """``value`` for a writer of ``dtype``; half precision is rounded only once, behind the epilogue."""
    half = dtype in HALF and value.dtype == "float32"
    return E.call("unrounded", value, dtype=dtype) if half else E.cast(value, dtype)


def unrolled(name: str, extent: int, body: Callable[[Expr], Stmt]) -> Stmt:
    """``body`` for each index below ``extent``, written out by code generation."""
    if extent == 1:
        return body(E.const(0))
    index = E.var(name)
    return loop(index, extent, body(index), "unrolled")


def serial(name: str, extent: ExprLike, body: Callable[[Expr], Stmt], begin: ExprLike = 0) -> Stmt:
    """A serial loop; one iteration of known extent needs none."""
    if E.is_const(E.as_expr(extent), 1):
        return body(E.as_expr(begin))
    index = E.var(name)
    return loop(index, extent, body(index), "serial", begin)


def parallel(extent: ExprLike, work: ExprLike, body: Callable[[Expr], Stmt]) -> Stmt:
    """The outermost loop of a kernel; ``work`` is the number of multiply-adds of one iteration."""
    index = E.var("task")
    grain = E.binary("max", E.const(1), E.const(CHUNK_WORK) // E.binary("max", E.const(1), E.as_expr(work)))
    return loop(index, extent, body(index), "parallel", grain=grain)


def reduction(name: str, extent: ExprLike, unroll: int, step: Callable[[Expr], Stmt]) -> Stmt:
    """``step(k)`` for k below ``extent``, ``unroll`` of them in one iteration; what is left over follows."""
    extent = E.as_expr(extent)
    known = static(extent)
    if known is not None and known <= unroll:
        return unrolled(name, known, step)
    whole = extent // unroll

    def chunk(outer: Expr) -> Stmt:
        let, base = bind(f"{name}_base", outer * unroll)
        return seq(let, unrolled(name, unroll, lambda inner: step(base + inner)))

    main = serial(f"{name}_outer", whole, chunk)
    if known is not None:
        rest, begin = known % unroll, known - known % unroll
        return main if rest == 0 else seq(main, unrolled(name, rest, lambda inner: step(inner + begin)))
    if unroll == 1:
        return main
    return seq(main, serial(name, extent - whole * unroll, step, whole * unroll))


def guarded(condition: Expr, then: Stmt, otherwise: Stmt | None = None) -> Stmt:
    """An ``If`` that is decided at once where the condition is constant."""
    if isinstance(condition, E.Const):
        return then if condition.value else (otherwise if otherwise is not None else seq())
    return If(condition, then, otherwise)


def each_vector(name: str, extent: ExprLike, lanes: int, statement: Callable[[Expr, Expr | None], Stmt]) -> Stmt:
    """``statement(index, mask)`` over ``extent`` elements in vectors of ``lanes``; only the last, partial vector has a mask."""
    extent = E.as_expr(extent)

    def vector(base: Expr, masked: bool) -> Stmt:
        index = E.ramp(base, 1, lanes)
        return statement(index, index < extent if masked else None)

    whole = extent // lanes
    main = serial(name, whole, lambda i: vector(i * lanes, masked=False))
    known = static(extent)
    if lanes == 1 or known is not None and known % lanes == 0:
        return main
    last = vector(whole * lanes, masked=True)
    if known is not None:
        return last if known < lanes else seq(main, last)
    return seq(main, guarded(whole * lanes < extent, last))


def zeros(dtype: str, lanes: int) -> Expr:
    return E.const(0, dtype, lanes)
