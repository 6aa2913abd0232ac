"""What programs have besides the statements of ``forge.tir.stmt``: accesses with an index for each axis."""

from __future__ import annotations

from dataclasses import dataclass

from forge.tir.expr import Expr, Tensor
from forge.tir.stmt import Stmt


@dataclass(frozen=True, slots=True, eq=False)
class Write(Stmt):
    """``tensor[indices] = value``."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Declare(Stmt):
    """Local memory, for the rest of the enclosing statements."""

    tensor: Tensor
