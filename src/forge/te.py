"""Tensor expressions. Import as ``from forge import te``: ``te.compute``, ``te.call("exp", x)``, ``te.select``, ..."""

from forge.tir.expr import (
    BFLOAT16_INTRINSICS,
    Axis,
    Call,
    Expr,
    Tensor,
    Var,
    binary,
    call,
    cast,
    compare,
    complex_of,
    const,
    imaginary_part,
    is_const,
    logical_and,
    logical_not,
    negate,
    real_part,
    select,
)
from forge.tir.tensor import (
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
from forge.tir.text import Expression, read_expression
from forge.tir.text import expression_of as expression

__all__ = [
    "BFLOAT16_INTRINSICS", "Axis", "Call", "Expr", "Expression", "Tensor", "Var", "binary", "broadcast_read", "call", "cast",
    "clamp", "compare", "complex_of", "compute", "const", "dim", "expression", "imaginary_part", "inline", "is_const",
    "logical_and", "logical_not", "negate", "placeholder", "read_expression", "reads", "real_part", "reduce", "reduce_axis",
    "select", "shape_of", "substitute_reads", "symbol_var",
]
