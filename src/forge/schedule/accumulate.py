"""Accumulators of reductions: identities, steps, horizontal reductions, and accumulators that live in registers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from forge import dtypes
from forge.errors import CompileError
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Stmt, seq, store

LARGEST_NUMBER = "largest_number"
"""A maximum of one instruction a step, for kernels that let NaN through by other ways: a NaN may be dropped."""

_HORIZONTAL = {
    LARGEST_NUMBER: "reduce_max",
    "sum": "reduce_add",
    "prod": "reduce_mul",
    "max": "reduce_max",
    "min": "reduce_min",
    "and": "reduce_and",
    "or": "reduce_or",
}
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
    return E.const(_lowest(dtype) if kind == "max" else _highest(dtype), dtype, lanes)


def _lowest(dtype: str) -> int | float | bool:
    if dtypes.is_float(dtype):
        return -math.inf
    return False if dtype == "bool" else dtypes.integer_range(dtype)[0]


def _highest(dtype: str) -> int | float | bool:
    if dtypes.is_float(dtype):
        return math.inf
    return True if dtype == "bool" else dtypes.integer_range(dtype)[1]


def combine(kind: str, accumulator: Expr, value: Expr, target: Target | None = None) -> Expr:
    """One step of a reduction; a product that is summed becomes a fused multiply-add where ``target`` has one."""
    if kind in ("max", "min") and value.dtype == "bool":
        return E.binary("or" if kind == "max" else "and", accumulator, value)
    if kind == LARGEST_NUMBER:
        return E.select(E.compare("gt", accumulator, value), accumulator, value)
    if kind == "sum" and _is_product(value) and target is not None and target.has("fma"):
        assert isinstance(value, E.Binary)
        return E.call("fma", value.a, value.b, accumulator)
    return E.binary(_STEP[kind], accumulator, value)


def _is_product(value: Expr) -> bool:
    return isinstance(value, E.Binary) and value.op == "mul" and value.dtype in ("float32", "float64")


def horizontal(kind: str, vector: Expr) -> Expr:
    """All lanes of ``vector`` reduced to a scalar."""
    if vector.lanes == 1:
        return vector
    if kind in ("max", "min") and vector.dtype == "bool":
        kind = "or" if kind == "max" else "and"
    return E.call(_HORIZONTAL[kind], vector)


@dataclass(frozen=True, eq=False)
class Accumulators:
    """``count`` vectors of ``lanes`` that are reduced side by side; in registers as all their indices are constants."""

    kind: str
    buffer: Buffer
    count: int
    target: Target

    @staticmethod
    def create(kind: str, dtype: str, lanes: int, count: int, target: Target) -> Accumulators:
        return Accumulators(kind, Buffer("acc", dtype, (E.const(count),), scope="local", lanes=lanes), count, target)

    def start(self) -> Stmt:
        """Allocates and fills with the identity."""
        value = identity(self.kind, self.buffer.dtype, self.buffer.lanes)
        return seq(Allocate(self.buffer), *(store(self.buffer, k, value) for k in range(self.count)))

    def step(self, slot: int, value: Expr, mask: Expr | None = None) -> Stmt:
        """Reduces ``value`` into accumulator ``slot``; lanes with a false mask change nothing."""
        value = E.broadcast(value, self.buffer.lanes)
        if mask is not None:
            value = self._masked(value, mask)
        return store(self.buffer, slot, combine(self.kind, self.load(slot), value, self.target))

    def _masked(self, value: Expr, mask: Expr) -> Expr:
        return E.select(mask, value, identity(self.kind, value.dtype, value.lanes))

    def load(self, slot: int) -> Expr:
        return E.load(self.buffer, slot)

    def total(self, more: Accumulators | None = None) -> Expr:
        """All accumulators and lanes (and those of ``more``) reduced to a scalar."""
        whole = horizontal(self.kind, tree([self.load(k) for k in range(self.count)], lambda a, b: combine(self.kind, a, b)))
        return whole if more is None else combine(self.kind, whole, more.total())


def tree(values: list[Expr], join: Callable[[Expr, Expr], Expr]) -> Expr:
    """``values`` joined pairwise, so that the longest chain is short."""
    while len(values) > 1:
        pairs = [join(a, b) for a, b in zip(values[::2], values[1::2])]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
