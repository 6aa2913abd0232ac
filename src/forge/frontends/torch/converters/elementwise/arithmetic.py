"""Arithmetic: numbers take part in the element type of the result, which torch says."""

from __future__ import annotations

from forge.compose import elementwise
from forge.compose.checks import checked_divisor
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.converters.elementwise.functions import binary
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def scaled(g: Context, value: Value, alpha: Operand) -> Value:
    """``alpha * value``."""
    return value if alpha == 1 else g.call("multiply", value, g.tensor(alpha, value.dtype))


@converts("add.Tensor", "add.Scalar")
def add(g: Context, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    if g.dtype == "bool":
        first = g.tensor(self)
        return g.call("logical_or", first, g.tensor(other)) if alpha else g.call("broadcast_to", first, shape=g.shape)
    return g.call("add", g.tensor(self, g.dtype), scaled(g, g.tensor(other, g.dtype), alpha))


@converts("sub.Tensor", "sub.Scalar")
def subtract(g: Context, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    return g.call("subtract", g.tensor(self, g.dtype), scaled(g, g.tensor(other, g.dtype), alpha))


@converts("mul.Tensor", "mul.Scalar")
def multiply(g: Context, self: Operand, other: Operand) -> Value:
    if g.dtype == "bool":
        return g.call("logical_and", g.tensor(self), g.tensor(other))
    return g.call("multiply", g.tensor(self, g.dtype), g.tensor(other, g.dtype))


@converts("div.Tensor_mode", "div.Scalar_mode", "divide.Tensor_mode", "divide.Scalar_mode")
def divide_rounded(g: Context, self: Operand, other: Operand, *, rounding_mode: str | None) -> Value:
    names = {None: "divide", "floor": "floor_divide", "trunc": "trunc_divide"}
    if rounding_mode not in names:
        raise g.invalid(f"rounding_mode: got {rounding_mode!r}; expected None, 'floor' or 'trunc'")
    operands = g.tensor(self, g.dtype), checked_divisor(g, g.tensor(other, g.dtype))
    # Of 16-bit floats torch rounds the quotient before it truncates.
    if rounding_mode == "trunc" and g.dtype in ("float16", "bfloat16"):
        return g.call("trunc", g.call("divide", *operands))
    return g.call(names[rounding_mode], *operands)


def _quotient(name: str, *ops: str) -> None:
    @converts(*ops)
    def convert(g: Context, self: Operand, other: Operand) -> Value:
        return g.call(name, g.tensor(self, g.dtype), checked_divisor(g, g.tensor(other, g.dtype)))


_quotient("divide", "div.Tensor", "div.Scalar", "true_divide.Tensor", "true_divide.Scalar", "divide.Tensor", "divide.Scalar")
_quotient("floor_divide", "floor_divide.default", "floor_divide.Scalar")
_quotient("floor_mod", "remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
_quotient("mod", "fmod.Tensor", "fmod.Scalar")


binary("add", "add.default", domain="prims")
binary("subtract", "sub.default", domain="prims")
binary("multiply", "mul.default", domain="prims")


@converts("rsub.Tensor", "rsub.Scalar")
def subtract_from(g: Context, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    return subtract(g, other, self, alpha)


@converts("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "float_power.Tensor_Tensor", "float_power.Tensor_Scalar",
          "float_power.Scalar")
def power(g: Context, self: Operand, exponent: Operand) -> Value:
    if exponent == 2 and isinstance(self, Value):
        return g.call("multiply", g.cast(self, g.dtype), g.cast(self, g.dtype))
    return g.call("power", g.tensor(self, g.dtype), g.tensor(exponent, g.dtype))


@converts("addcmul.default")
def addcmul(g: Context, self: Value, tensor1: Value, tensor2: Value, value: Operand = 1) -> Value:
    product = g.call("multiply", g.cast(tensor1, g.dtype), g.cast(tensor2, g.dtype))
    return g.call("add", g.cast(self, g.dtype), scaled(g, product, value))


@converts("addcdiv.default")
def addcdiv(g: Context, self: Value, tensor1: Value, tensor2: Value, value: Operand = 1) -> Value:
    quotient = g.call("divide", g.cast(tensor1, g.dtype), g.cast(tensor2, g.dtype))
    return g.call("add", g.cast(self, g.dtype), scaled(g, quotient, value))


@converts("lerp.Scalar", "lerp.Tensor")
def lerp(g: Context, self: Value, end: Value, weight: Operand) -> Value:
    return elementwise.lerp(g, *(g.tensor(x, g.dtype) for x in (self, end, weight)))
