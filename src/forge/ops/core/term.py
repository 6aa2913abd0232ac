"""Arithmetic on values with Python's operators, so that formulas read as formulas."""

from __future__ import annotations

from typing import Any, Self

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


class Term:
    """A numeric value in a formula; numbers on the other side become constants of its element type."""

    def __init__(self, g: Composer, value: Value) -> None:
        self.g = g
        self.value = value

    def _lift(self, other: Any) -> Value:
        return other.value if isinstance(other, Term) else self.g.scalar(other, self.value)

    def _apply(self, op: str, *operands: Value, **attributes: Any) -> Self:
        return type(self)(self.g, self.g.call(op, *operands, **attributes))

    def _binary(self, op: str, other: Any) -> Self:
        return self._apply(op, self.value, self._lift(other))

    def _swapped(self, op: str, other: Any) -> Self:
        return self._apply(op, self._lift(other), self.value)

    def __add__(self, other: Any) -> Self:
        return self._binary("add", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Self:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> Self:
        return self._swapped("subtract", other)

    def __mul__(self, other: Any) -> Self:
        return self._binary("multiply", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Self:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._swapped("divide", other)

    def __lt__(self, other: Any) -> Self:
        return self._binary("less", other)

    def __le__(self, other: Any) -> Self:
        return self._binary("less_equal", other)

    def __gt__(self, other: Any) -> Self:
        return self._binary("greater", other)

    def __ge__(self, other: Any) -> Self:
        return self._binary("greater_equal", other)

    def equals(self, other: Any) -> Self:
        return self._binary("equal", other)

    def either(self, other: Term) -> Self:
        """Whether one of two conditions holds."""
        return self._binary("logical_or", other)

    def both(self, other: Term) -> Self:
        """Whether two conditions hold."""
        return self._binary("logical_and", other)

    def floor_mod(self, other: Any) -> Self:
        return self._binary("floor_mod", other)

    def floor_divide(self, other: Any) -> Self:
        return self._binary("floor_divide", other)

    def minimum(self, other: Any) -> Self:
        return self._binary("minimum", other)

    def maximum(self, other: Any) -> Self:
        return self._binary("maximum", other)

    def floor(self) -> Self:
        return self._apply("floor", self.value)

    def ceil(self) -> Self:
        return self._apply("ceil", self.value)

    def __abs__(self) -> Self:
        return self._apply("abs", self.value)

    def cast(self, dtype: str) -> Self:
        return type(self)(self.g, self.g.cast(self.value, dtype))

    def reshape(self, *shape: Any) -> Self:
        return type(self)(self.g, self.g.reshape(self.value, shape))

    def sum(self, axis: int) -> Self:
        """The sum along an axis, which stays with size 1."""
        return self._apply("sum", self.value, axis=(axis,), keepdims=True)

    def where(self, yes: Any, no: Any) -> Self:
        """``yes`` where this condition holds, else ``no``; one of them is a Term."""
        like = yes if isinstance(yes, Term) else no
        return self._apply("where", self.value, like._lift(yes), like._lift(no))
