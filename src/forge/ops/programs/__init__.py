"""Operators that users write as tensor expressions and loop programs, an optional family."""

OPERATORS = {
    "forge.ops.programs.expression": (
        "tensor_expression", "tensor_expression.elementwise", "tensor_expression.injective", "tensor_expression.reduction",
    ),
    "forge.ops.programs.program": ("tensor_program",),
}
