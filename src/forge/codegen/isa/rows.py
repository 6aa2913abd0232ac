"""The records of native instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forge.codegen.llvm import Values


@dataclass(frozen=True)
class Row:
    """A native instruction, or a short sequence of them.

    Attributes:
        operation: what it does, as code generation calls it.
        dtype, lanes: of the result; "" and 0: any.
        needs: features that a target must have.
        intrinsic: LLVM's name, without ``llvm.``.
        flags: operands after those of the operation, with their types.
        emit: for what is more than a call: the instructions, of operands that stand where the operation is used.
    """

    operation: str
    dtype: str
    lanes: int
    needs: tuple[str, ...]
    intrinsic: str = ""
    flags: tuple[str, ...] = ()
    emit: Callable[..., Any] | None = None

    def call(self, t: Values, *typed: str) -> str:
        """The instruction on operands with their types, whose result is of type ``t``."""
        return t.native(self.intrinsic, *typed, *self.flags)


@dataclass(frozen=True)
class Table:
    """What is native to an architecture.

    Attributes:
        rows: instructions; of several for one operation, type and number of lanes the first counts that a target has.
        clock: LLVM's intrinsic that reads a counter of constant rate, which any program may read, with its operands.
        has_layout: whether the text says the data layout. Without one, LLVM's passes assume another than the machine has.
        attributes: attributes of functions, beside CPU and features, by the bits of a vector.
    """

    rows: tuple[Row, ...]
    clock: str
    has_layout: bool = True
    attributes: Callable[[int], str] = lambda bits: ""
