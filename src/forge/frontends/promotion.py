"""The element type that operands of several types are brought to: rules that frameworks share, over a table of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, reduce
from types import MappingProxyType

from forge import dtypes
from forge.dims import DimExpr
from forge.errors import OpAttributeUnimplemented
from forge.ir.nodes import Value

Number = bool | int | float | complex | DimExpr
"""A number of Python, or a size."""


class Strength(IntEnum):
    """How much an operand counts; of those that yield to another, only the kind does."""

    NUMBER = 0
    SCALAR = 1
    TENSOR = 2


@dataclass(frozen=True, eq=False)
class Promotion:
    """Rules of one framework.

    Operands of the same strength give the least type that is above all of theirs, of the lowest kind if there are several. To
    stronger ones, weaker ones yield: they count only where they are of a higher kind (truth values, integers, floats, complex
    numbers), and to floats a complex number only adds an imaginary part.

    Attributes:
        framework: its name in messages.
        above: each type -> the next higher ones; a table without any is that of a framework which promotes nothing.
        numbers: types of Python's truth values, integers, floats and complex numbers without other operands.
        scalars_yield: tensors of rank 0 are weaker than those with axes.
    """

    framework: str
    above: Mapping[str, tuple[str, ...]]
    numbers: tuple[str, str, str, str]
    scalars_yield: bool = False

    def joined(self, a: str, b: str) -> str:
        """The least type above both.

        Raises:
            OpAttributeUnimplemented: there is none.
        """
        return a if a == b else _joined(self, a, b)

    def number(self, number: Number) -> str:
        """The type of a number of Python that is alone."""
        kinds = (bool, int | DimExpr, float, complex)
        return next(dtype for dtype, kind in zip(self.numbers, kinds) if isinstance(number, kind))

    def common(self, operands: Iterable[tuple[str, Strength]]) -> str:
        """The type to which operands of these types are brought.

        Raises:
            OpAttributeUnimplemented: there is none.
        """
        found: dict[Strength, str] = {}
        for dtype, strength in operands:
            at = Strength.TENSOR if strength is Strength.SCALAR and not self.scalars_yield else strength
            found[at] = self.joined(found.get(at, dtype), dtype)
        return reduce(self._yielded, (found[strength] for strength in sorted(found, reverse=True)))

    def of(self, *operands: Value | Number) -> str:
        """The type to which values and numbers are brought; errors are those of `common`."""
        return self.common(map(self._typed, operands))

    def _typed(self, operand: Value | Number) -> tuple[str, Strength]:
        if isinstance(operand, Value):
            return operand.dtype, Strength.TENSOR if operand.rank else Strength.SCALAR
        return self.number(operand), Strength.NUMBER

    def _yielded(self, strong: str, weak: str) -> str:
        if kind(weak) <= kind(strong):
            return strong
        if kind(weak) == _COMPLEX and kind(strong) == _FLOAT:
            return dtypes.complex_of(strong)
        return self.joined(strong, weak)


_BOOL, _INTEGER, _FLOAT, _COMPLEX = range(4)


def kind(dtype: str) -> int:
    """0 to 3: truth values, integers, floats, complex numbers."""
    if dtypes.is_complex(dtype):
        return _COMPLEX
    return _FLOAT if dtypes.is_float(dtype) else _INTEGER if dtypes.is_integer(dtype) else _BOOL


@cache
def _joined(table: Promotion, a: str, b: str) -> str:
    common = _reached(table, a) & _reached(table, b)
    minimal = [dtype for dtype in common if all(dtype is other or dtype not in _reached(table, other) for other in common)]
    least = [dtype for dtype in minimal if kind(dtype) == min(map(kind, minimal))]
    if len(least) != 1:
        raise OpAttributeUnimplemented(f"got types {a} and {b}; {table.framework} has no common one of them: cast an operand")
    return least[0]


@cache
def _reached(table: Promotion, dtype: str) -> frozenset[str]:
    """A type and all that are above it."""
    return frozenset({dtype}).union(*(_reached(table, higher) for higher in table.above.get(dtype, ())))


NUMPY = Promotion("NumPy", MappingProxyType({
    "bool": ("uint8", "int8"),
    "uint8": ("uint16", "int16", "float16"), "uint16": ("uint32", "int32", "float32"), "uint32": ("uint64", "int64"),
    "int8": ("int16", "float16"), "int16": ("int32", "float32"), "int32": ("int64",),
    "uint64": ("float64",), "int64": ("float64",),
    "float16": ("float32",), "float32": ("float64", "complex64"), "float64": ("complex128",), "complex64": ("complex128",),
}), ("bool", "int64", "float64", "complex128"))  # fmt: skip
"""Arrays of rank 0 count as others do (NEP 50)."""
