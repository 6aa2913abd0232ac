"""Tensor expressions. Import as ``from forge import te``: ``te.compute``, ``te.exp``, ``te.select``, ..."""

from forge.te.tensor import (
    Tensor,
    broadcast_read,
    clamp,
    compute,
    dim,
    inline,
    placeholder,
    reads,
    reduce,
    reduce_axis,
    shape_of,
    substitute_reads,
    symbol_var,
)
from forge.tir.expr import Axis, Expr, Var, call, cast, const, logical_and, logical_not, select

__all__ = [
    "Axis", "Expr", "Tensor", "Var", "broadcast_read", "call", "cast", "clamp", "compute", "const", "dim", "inline",
    "logical_and", "logical_not", "placeholder", "reads", "reduce", "reduce_axis", "select", "shape_of", "substitute_reads",
    "symbol_var",
]
