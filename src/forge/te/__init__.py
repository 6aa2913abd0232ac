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
from forge.tir.expr import Axis, Expr, Var, binary, call, cast, compare, const, is_const, logical_and, logical_not, negate, select

__all__ = [
    "Axis", "Expr", "Tensor", "Var", "binary", "broadcast_read", "call", "cast", "clamp", "compare", "compute", "const", "dim",
    "inline",
    "is_const", "logical_and", "logical_not", "negate", "placeholder", "reads", "reduce", "reduce_axis", "select", "shape_of",
    "substitute_reads", "symbol_var",
]
