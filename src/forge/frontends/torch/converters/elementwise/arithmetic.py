"""Arithmetic: numbers take part in the element type of the result, which torch says."""

from __future__ import annotations

from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def scaled(g: Context, value: Value, alpha: Operand) -> Value:
    """``alpha * value``."""
    return value if alpha == 1 else g.call("multiply", value, g.tensor(alpha, value.dtype))


@converts("add.Tensor", "add.Scalar")
def add(g: Context, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    if g.dtype == "bool":
        return g.call("logical_or", g.tensor(self), g.tensor(other))
    return g.call("add", g.tensor(self, g.dtype), scaled(g, g.tensor(other, g.dtype), alpha))


@converts("sub.Tensor", "sub.Scalar")
def subtract(g: Context, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    return g.call("subtract", g.tensor(self, g.dtype), scaled(g, g.tensor(other, g.dtype), alpha))


@converts("mul.Tensor", "mul.Scalar")
def multiply(g: Context, self: Operand, other: Operand) -> Value:
    if g.dtype == "bool":
        return g.call("logical_and", g.tensor(self), g.tensor(other))
    return g.call("multiply", g.tensor(self, g.dtype), g.tensor(other, g.dtype))


@converts("div.Tensor", "div.Scalar")
def divide(g: Context, self: Operand, other: Operand) -> Value:
    return g.call("divide", g.tensor(self, g.dtype), g.tensor(other, g.dtype))


def _unary(name: str, *ops: str) -> None:
    @converts(*ops)
    def convert(g: Context, self: Value) -> Value:
        return g.call(name, g.cast(self, g.dtype))


for _name, _op in (("exp", "exp"), ("tanh", "tanh"), ("sqrt", "sqrt"), ("rsqrt", "rsqrt"), ("sigmoid", "sigmoid"),
                   ("nn.relu", "relu"), ("negative", "neg"), ("sin", "sin"), ("cos", "cos"), ("erf", "erf"), ("log", "log")):
    _unary(_name, f"{_op}.default")


def _comparison(name: str, op: str) -> None:
    @converts(f"{op}.Tensor", f"{op}.Scalar")
    def convert(g: Context, self: Operand, other: Operand) -> Value:
        return g.call(name, *g.promoted(self, other))


for _name, _op in (("equal", "eq"), ("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"), ("greater", "gt"),
                   ("greater_equal", "ge")):
    _comparison(_name, _op)


@converts("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(g: Context, self: Operand, exponent: Operand) -> Value:
    if exponent == 2 and isinstance(self, Value):
        return g.call("multiply", g.cast(self, g.dtype), g.cast(self, g.dtype))
    return g.call("power", g.tensor(self, g.dtype), g.tensor(exponent, g.dtype))
