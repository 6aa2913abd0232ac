"""Pairs of 16 bits along the summed axis, or fours of 8 bits: 32 bits, whose products one step of a dot product adds.

Pairs are of bfloat16, or of bytes that are made 16 bits wide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from forge import dtypes
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr

PAIR: Final = "uint32"
# Local copies of bfloat16 numbers consist of their bits: they are moved without conversion.
BITS: Final = "uint16"


@dataclass(frozen=True)
class Group:
    """What a step of a sum of products takes of data and weights: ``size`` neighbouring numbers, multiplied as ``dtype``.

    Single numbers have the accumulators' dtype. Bytes in pairs are multiplied as int16: data are so in local copies, weights
    become so where they are read.
    """

    size: int
    dtype: str

    @staticmethod
    def of(weight: str, size: int, accumulators: str) -> Group:
        """That of weights of dtype ``weight`` which are packed by ``size``."""
        return Group(size, {1: accumulators, 2: "bfloat16" if weight == "bfloat16" else "int16", 4: "uint8"}[size])

    @property
    def copied(self) -> str:
        """The dtype of local copies of data."""
        return BITS if self.dtype == "bfloat16" else self.dtype

    @property
    def registers(self) -> int:
        """How many a step needs for products that are not added yet."""
        return 1 if self.dtype == "int16" else 0

    def copy(self, value: Expr) -> Expr:
        """``value`` as copies hold it."""
        return bits(value) if self.copied == BITS else E.cast(value, self.copied)

    def load(self, buffer: Buffer, first: Expr) -> Expr:
        """Those from number ``first`` of data, or of a copy."""
        if self.size == 1:
            return E.load(buffer, first)
        if buffer.dtype in (self.dtype, self.copied):
            return load(buffer, first)
        return E.call("reinterpret", E.cast(E.load(buffer, E.ramp(first, 1, self.size)), self.dtype), dtype=PAIR, lanes=1)

    def read(self, number: Callable[[Expr], Expr], first: Expr) -> Expr:
        """Those from number ``first`` of what ``number`` gives one by one."""
        width = 32 // self.size
        parts = [E.binary("shl", E.cast(self.copy(number(first + i)), PAIR), i * width) for i in range(self.size)]
        return reduce(lambda a, b: a | b, parts)

    def weights(self, buffer: Buffer, first: Expr, lanes: int) -> Expr:
        """Those of ``lanes`` columns, from number ``first`` of packed weights."""
        if self.size > 1 and self.dtype != "int16":
            return load(buffer, first, lanes)
        return E.cast(E.load(buffer, E.ramp(first, 1, self.size * lanes)), self.dtype)


def load(buffer: Buffer, first: Expr, lanes: int = 1) -> Expr:
    """``lanes`` neighbouring pairs, from number ``first`` of a buffer of bfloat16 or of their bits; or fours of 8 bits."""
    numbers = 4 // dtypes.itemsize(buffer.dtype)
    return E.call("reinterpret", E.load(buffer, E.ramp(first, 1, numbers * lanes)), dtype=PAIR, lanes=lanes)


def numbers(pair: Expr) -> Expr:
    """The numbers that make up a pair, or a vector of neighbouring pairs."""
    base = pair.base if isinstance(pair, E.Ramp) else pair
    return E.ramp(base * 2, 1, 2 * pair.lanes)


def adjacent(read: Callable[[Expr], Expr], pair: Expr) -> Expr:
    """A pair, or a vector of neighbouring ones, of what ``read`` gives by number."""
    value = E.broadcast(E.cast(read(numbers(pair)), "bfloat16"), 2 * pair.lanes)
    return E.call("reinterpret", value, dtype=PAIR, lanes=pair.lanes)


def bits(value: Expr) -> Expr:
    """The bits of ``value`` as bfloat16."""
    return E.call("reinterpret", E.cast(value, "bfloat16"), dtype=BITS)


def joined(low: Expr, high: Expr) -> Expr:
    """Pairs of two vectors of numbers."""
    return E.cast(bits(low), PAIR) | E.binary("shl", E.cast(bits(high), PAIR), 16)
