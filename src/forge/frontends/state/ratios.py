"""Sizes that programs compute in floating point, where integers give the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from forge import dims
from forge.dims import Dim


@dataclass(frozen=True)
class Ratio:
    """``value / divisor`` of sizes below 2**31, as arithmetic in float64 gives it.

    ``is_exact``: float64 represents it, so that it may be computed with. Of others, only the integer below is known.
    """

    value: Dim
    divisor: int = 1
    is_exact: bool = True

    @staticmethod
    def of(number: int | float) -> Ratio:
        """Raises ValueError: no ratio of small integers whose products with sizes float64 rounds down as it should."""
        if isinstance(number, int):
            return Ratio(number)
        if not math.isfinite(number):
            raise ValueError("number")
        exact = Fraction(number)
        if exact.denominator & (exact.denominator - 1) == 0 and _is_small(exact):
            return Ratio(exact.numerator, exact.denominator)
        near = exact.limit_denominator(_MAX_PARTS)
        error = (exact - near) / near if near else Fraction(1)
        if float(near) != number or not _is_small(near) or number < 0 or error < -Fraction(1, 1 << 54):
            raise ValueError("factor")
        return Ratio(near.numerator, near.denominator, False)

    def __mul__(self, other: Ratio) -> Ratio:
        if not self.is_exact and (not other.is_integer or isinstance(self.value, int) and isinstance(other.value, int)):
            raise ValueError("product")
        if not other.is_exact:
            return other * self
        return Ratio(self.value * other.value, self.divisor * other.divisor, self.is_exact)._checked()

    def __add__(self, other: Ratio) -> Ratio:
        if not self.is_exact or not other.is_exact:
            raise ValueError("sum")
        return Ratio(self.value * other.divisor + other.value * self.divisor, self.divisor * other.divisor)._checked()

    def __truediv__(self, other: Ratio) -> Ratio:
        if not self.is_integer or not other.is_integer or not isinstance(other.value, int) or not 0 < other.value <= _MAX_PARTS:
            raise ValueError("quotient")
        return Ratio(self.value, other.value, other.value & (other.value - 1) == 0)

    @property
    def is_integer(self) -> bool:
        return self.divisor == 1

    def integer(self) -> Dim:
        """Raises ValueError: it is none."""
        if not self.is_integer:
            raise ValueError("integer")
        return self.value

    def _checked(self) -> Ratio:
        if self.divisor > _MAX_PARTS:
            raise ValueError("divisor")
        return self


_MAX_PARTS = 1 << 12
"""Largest divisor: quotients of other integers are far enough apart for float64."""


def _is_small(fraction: Fraction) -> bool:
    return fraction.denominator <= _MAX_PARTS and abs(fraction.numerator) < 1 << 20


def floor(ratio: Ratio) -> Dim:
    return ratio.value if ratio.is_integer else dims.floordiv(ratio.value, ratio.divisor)


def trunc(ratio: Ratio) -> Dim:
    """Raises ValueError: it may be negative."""
    low, _ = dims.bounds(ratio.value)
    if low is None or low < 0:
        raise ValueError("sign")
    return floor(ratio)
