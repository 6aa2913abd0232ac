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
        return self.bits(value) if self.copied == BITS else E.cast(value, self.copied)

    def bits(self, value: Expr) -> Expr:
        """The bits of one number of a step."""
        number = E.cast(value, self.dtype)
        return number if self.dtype == "uint8" else E.call("reinterpret", number, dtype=BITS)

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
        parts = [E.binary("shl", E.cast(self.bits(number(first + i)), PAIR), i * width) for i in range(self.size)]
        return reduce(lambda a, b: a | b, parts)

    def numbers(self, step: Expr) -> Expr:
        """The numbers that a step takes, or a vector of neighbouring steps."""
        base = step.base if isinstance(step, E.Ramp) else step
        return E.ramp(base * self.size, 1, self.size * step.lanes)

    def adjacent(self, number: Callable[[Expr], Expr], step: Expr) -> Expr:
        """Those of a step, or of neighbouring ones, of what ``number`` gives for a vector of them."""
        value = E.broadcast(E.cast(number(self.numbers(step)), self.dtype), self.size * step.lanes)
        return E.call("reinterpret", value, dtype=PAIR, lanes=step.lanes)

    def weights(self, buffer: Buffer, first: Expr, lanes: int) -> Expr:
        """Those of ``lanes`` columns, from number ``first`` of packed weights."""
        if self.size > 1 and self.dtype != "int16":
            return load(buffer, first, lanes)
        return E.cast(E.load(buffer, E.ramp(first, 1, self.size * lanes)), self.dtype)

    def factor(self, group: Expr) -> Expr:
        """A vector of groups of the right operand as `multiply_add` takes it."""
        return E.call("reinterpret", group, dtype="int16", lanes=2 * group.lanes) if self.dtype == "int16" else group


def load(buffer: Buffer, first: Expr, lanes: int = 1) -> Expr:
    """``lanes`` neighbouring pairs, from number ``first`` of a buffer of bfloat16 or of their bits; or fours of 8 bits."""
    numbers = 4 // dtypes.itemsize(buffer.dtype)
    return E.call("reinterpret", E.load(buffer, E.ramp(first, 1, numbers * lanes)), dtype=PAIR, lanes=lanes)


BFLOAT16: Final = Group(2, "bfloat16")


def bits(value: Expr) -> Expr:
    """The bits of ``value`` as bfloat16."""
    return BFLOAT16.bits(value)


def joined(low: Expr, high: Expr) -> Expr:
    """Pairs of two vectors of numbers."""
    return E.cast(bits(low), PAIR) | E.binary("shl", E.cast(bits(high), PAIR), 16)
