"""Kernel calls on plain buffers: no graph, no fusion groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from forge.kernels import FAMILIES
from forge.loops.contract import KernelCall, Reader, Writer
from forge.target import Target, TargetLike
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.stmt import Function, Stmt, store

Extent = int | Expr
Prologue = Callable[[Expr], Expr]
ReadExtra = Callable[[int], Expr]
Epilogue = Callable[[Expr, ReadExtra], Expr]


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of one operand or result; ``alignment`` of its base in bytes, 0 for that of an element."""

    shape: tuple[Extent, ...]
    dtype: str = "float32"
    alignment: int = 0

    def buffer(self, name: str, writable: bool = False) -> Buffer:
        return Buffer(name, self.dtype, tuple(map(E.as_expr, self.shape)), alignment=self.alignment, writable=writable)


@dataclass(frozen=True)
class Case:
    """A call of a kernel family.

    Attributes:
        family: registered name.
        operands: operands of the operator; None is an absent one.
        result: what the kernel writes, before the epilogue.
        attrs: attributes of the operator, by name.
        prologues: by operand number, what is applied to each element that is read.
        epilogue: ``epilogue(value, read_extra)`` gives what is stored; ``read_extra(k)`` reads ``extras[k]`` at the same
            place (broadcast as NumPy does).
        extras: operands of the epilogue.
        symbols: scalars of the function.
        operator: name of the operator, where the family serves several; else that of the family.
    """

    family: str
    operands: Sequence[Spec | None]
    result: Spec
    attrs: Mapping[str, Any] = field(default_factory=dict)
    prologues: Mapping[int, Prologue] = field(default_factory=dict)
    epilogue: Epilogue | None = None
    extras: Sequence[Spec] = ()
    symbols: tuple[Var, ...] = ()
    operator: str | None = None

    def call(self, target: TargetLike = "llvm") -> KernelCall:
        """The call; parameters are the operands that are there, the extras, the result."""
        operands = [None if s is None else s.buffer(f"x{k}") for k, s in enumerate(self.operands)]
        extras = [s.buffer(f"extra{k}") for k, s in enumerate(self.extras)]
        result = self.result.buffer("y", writable=True)
        readers = tuple(None if b is None else reader(b, self.prologues.get(k)) for k, b in enumerate(operands))
        buffers = (*(b for b in operands if b is not None), *extras, result)
        return KernelCall(self.family, self.operator or self.family, SimpleNamespace(**self.attrs), readers,
                          (writer(result, self.epilogue, extras),), buffers, self.symbols, Target.parse(target))

    def function(self, target: TargetLike = "llvm") -> Function:
        """The loop function that the family builds."""
        return FAMILIES[self.family](self.call(target))


def reader(buffer: Buffer, prologue: Prologue | None = None) -> Reader:
    """Reads ``buffer``, through ``prologue`` where there is one."""

    def read(indices: Sequence[Expr], mask: Expr | None = None) -> Expr:
        value = E.load(buffer, buffer.offset(*indices), mask)
        return value if prologue is None else prologue(value)

    return Reader(buffer.shape, buffer.dtype, read, buffer if prologue is None else None)


def writer(buffer: Buffer, epilogue: Epilogue | None = None, extras: Sequence[Buffer] = ()) -> Writer:
    """Writes ``buffer`` through ``epilogue``."""

    def write(indices: Sequence[Expr], value: Expr, mask: Expr | None = None) -> Stmt:
        def read_extra(k: int) -> Expr:
            return E.load(extras[k], _broadcast_offset(extras[k], indices), mask)

        stored = value if epilogue is None else epilogue(value, read_extra)
        return store(buffer, buffer.offset(*indices), stored, mask)

    return Writer(buffer.shape, buffer.dtype, write)


def _broadcast_offset(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    aligned = indices[len(indices) - len(buffer.shape):]
    return buffer.offset(*(E.const(0) if E.is_const(extent, 1) else i for i, extent in zip(aligned, buffer.shape)))


__all__ = ["Case", "Epilogue", "Prologue", "Spec", "reader", "writer"]
