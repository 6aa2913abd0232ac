"""Parts that elementary functions are built of, in loop IR: polynomials, exponents, bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge.tir import expr as tir
from forge.tir.expr import Expr


@dataclass(frozen=True)
class FloatFormat:
    """An IEEE binary format.

    ``shifter`` is 1.5 * 2**mantissa: adding it to a number below 2**(mantissa - 2) rounds that number to an integer,
    which then stands in the low bits.
    """

    dtype: str
    bits: str
    mantissa: int
    bias: int

    @property
    def shifter(self) -> float:
        return 1.5 * 2.0**self.mantissa

    @property
    def shifter_bits(self) -> int:
        return ((self.mantissa + self.bias) << self.mantissa) + (1 << (self.mantissa - 1))

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def max_exponent_bits(self) -> int:
        return 2 * self.bias + 1


FORMATS = {"float32": FloatFormat("float32", "int32", 23, 127), "float64": FloatFormat("float64", "int64", 52, 1023)}


def format_of(x: Expr) -> FloatFormat:
    return FORMATS[x.dtype]


def single(x: Expr) -> bool:
    return x.dtype == "float32"


def constant(x: Expr, value: float) -> Expr:
    """``value`` with the dtype and lanes of ``x``."""
    return tir.const(value, x.dtype, x.lanes)


def fma(a: Expr, b: Expr | float, c: Expr | float) -> Expr:
    return tir.call("fma", a, b, c)


def absolute(x: Expr) -> Expr:
    return tir.call("abs", x)


def is_nan(x: Expr) -> Expr:
    return tir.call("isnan", x)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Horner's rule; ``coefficients`` start with the constant term."""
    total = constant(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def polynomial_by_halves(x: Expr, square: Expr, coefficients: Sequence[float]) -> Expr:
    """``polynomial`` as even powers plus x times odd ones: half as long a chain of dependent operations."""
    return fma(polynomial(square, coefficients[1::2]), x, polynomial(square, coefficients[::2]))


def bits_of(x: Expr) -> Expr:
    return tir.call("reinterpret", x, dtype=format_of(x).bits)


def from_bits(x: Expr, dtype: str) -> Expr:
    return tir.call("reinterpret", x, dtype=dtype)


def copy_sign(magnitude: Expr, sign: Expr) -> Expr:
    """``magnitude`` (of any sign) with the sign of ``sign``."""
    f = format_of(magnitude)
    sign_bit = -(1 << (f.mantissa + f.max_exponent_bits.bit_length()))
    both = (bits_of(magnitude) & ~sign_bit) | (bits_of(sign) & sign_bit)
    return from_bits(both, magnitude.dtype)


def shifted(x: Expr, factor: float) -> Expr:
    """``x * factor`` plus the shifter: its low bits are the nearest integer; see ``unshifted``."""
    return fma(x, factor, format_of(x).shifter)


def unshifted(t: Expr) -> Expr:
    """The integer that ``t = shifted(...)`` holds, as a float."""
    return t - format_of(t).shifter


def shifted_integer(t: Expr) -> Expr:
    """The integer that ``t = shifted(...)`` holds, as an integer of the same width."""
    return bits_of(t) - format_of(t).shifter_bits


def power_of_two(n: Expr, f: FloatFormat) -> Expr:
    """2 ** n for an integer ``n`` in the range of normal exponents."""
    return from_bits(tir.binary("shl", n + f.bias, f.mantissa), f.dtype)


def scale(x: Expr, t: Expr) -> Expr:
    """``x * 2**n`` for ``t = shifted(...)`` that holds n, rounded once; |n| at most twice the exponent range."""
    return tir.call("scale", x, t)


def scale_in_steps(x: Expr, t: Expr) -> Expr:
    """``scale`` by two multiplications."""
    f = format_of(x)
    n = shifted_integer(t)
    half = tir.binary("shr", n, 1)
    return x * power_of_two(half, f) * power_of_two(n - half, f)


def clamp(x: Expr, low: float, high: float) -> Expr:
    """NaN stays NaN."""
    return tir.binary("min", tir.binary("max", x, low), high)
