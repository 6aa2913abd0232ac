"""Dot products: groups of neighbouring numbers along the summed axis, whose products one step of a sum adds.

A group is one word: 32 bits hold a pair of bfloat16, float16 or int16, or four bytes. The instruction set says how many numbers a
group has (``forge.target.blocking.group_size``), a micro-kernel how its products are added (``forge.kernels.cpu.micro``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from forge import dtypes
from forge.loops.values import HALF
from forge.target import Target
from forge.target.blocking import group_size
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr

# Local copies of bfloat16 and float16 consist of their bits: they are moved without conversion.
BITS: Final = "uint16"


@dataclass(frozen=True)
class Group:
    """The elements of data and weights that one step of a sum of products takes: ``size`` neighbours, multiplied as ``dtype``.

    Single numbers have the accumulators' dtype. Bytes in pairs are multiplied as int16: data are so in local copies, weights
    become so where they are read. In fours one side is unsigned: data, or where ``dtype`` is int8, weights. ``small``: its
    numbers are below 128, so that the sum of two products has 16 bits.
    """

    size: int
    dtype: str
    small: bool = False

    @staticmethod
    def of(weight: str, size: int, accumulators: str) -> Group:
        """Returns the group of weights of dtype ``weight`` that are packed by ``size``."""
        if size == 1:
            return Group(1, accumulators)
        return Group(size, weight if weight in HALF else "int16" if size == 2 else "uint8")

    @staticmethod
    def chosen(target: Target, data: str, weight: str, depth: Expr, accumulators: str, tiles: bool = True) -> Group:
        """Returns the group in which ``target`` multiplies operands of these dtypes; of one number where ``depth`` has a rest."""
        grouped = data == weight in HALF or (data, weight) == ("uint8", "int8")
        size = group_size(target, data, weight, tiles) if grouped else 1
        return Group.of(weight, size if E.is_const(depth % size, 0) else 1, accumulators)

    @property
    def word(self) -> str:
        """The dtype of what one step multiplies."""
        return f"uint{self.size * dtypes.bits(self.dtype)}" if self.size > 1 else self.dtype

    @property
    def copied(self) -> str:
        """The dtype of local copies of data."""
        return BITS if self.dtype in HALF else self.dtype

    @property
    def registers(self) -> int:
        """The number of registers that a step needs for products that are not added yet."""
        return 1 if self.dtype == "int16" else 0

    def copy(self, value: Expr) -> Expr:
        """Returns ``value`` as copies hold it."""
        return self.bits(value) if self.copied == BITS else E.cast(value, self.copied)

    def bits(self, value: Expr) -> Expr:
        """Returns the bits of one number of a step."""
        number = E.cast(value, self.dtype)
        return number if self.dtype == "uint8" else E.call("reinterpret", number, dtype=BITS)

    def load(self, buffer: Buffer, first: Expr) -> Expr:
        """Loads the group that begins at number ``first`` of data, or of a copy."""
        if self.size == 1:
            return E.load(buffer, first)
        if buffer.dtype in (self.dtype, self.copied):
            return self.words(buffer, first)
        return E.call("reinterpret", E.cast(E.load(buffer, E.ramp(first, 1, self.size)), self.dtype), dtype=self.word, lanes=1)

    def words(self, buffer: Buffer, first: Expr, lanes: int = 1) -> Expr:
        """Loads ``lanes`` neighbouring groups from number ``first`` of a buffer of such numbers or of their bits."""
        return E.call("reinterpret", E.load(buffer, E.ramp(first, 1, self.size * lanes)), dtype=self.word, lanes=lanes)

    def joined(self, numbers: Sequence[Expr]) -> Expr:
        """Returns the group of ``numbers``, or vectors of groups, one number of each from every vector."""
        width = dtypes.bits(self.word) // self.size
        words = (E.binary("shl", E.cast(self.bits(number), self.word), i * width) for i, number in enumerate(numbers))
        return reduce(lambda a, b: a | b, words)

    def read(self, number: Callable[[Expr], Expr], first: Expr) -> Expr:
        """Reads the group from number ``first`` of what ``number`` gives one by one."""
        return self.joined([number(first + i) for i in range(self.size)])

    def numbers(self, step: Expr) -> Expr:
        """Returns the indices of the numbers of a step, or of a vector of neighbouring steps."""
        base = step.base if isinstance(step, E.Ramp) else step
        return E.ramp(base * self.size, 1, self.size * step.lanes)

    def adjacent(self, number: Callable[[Expr], Expr], step: Expr) -> Expr:
        """Reads the group of a step, or of neighbouring ones, of what ``number`` gives for a vector of indices."""
        value = E.broadcast(E.cast(number(self.numbers(step)), self.dtype), self.size * step.lanes)
        return E.call("reinterpret", value, dtype=self.word, lanes=step.lanes)

    def weights(self, buffer: Buffer, first: Expr, lanes: int) -> Expr:
        """Loads the groups of ``lanes`` columns, from number ``first`` of packed weights."""
        if self.size > 1 and self.dtype != "int16":
            return self.words(buffer, first, lanes)
        return E.cast(E.load(buffer, E.ramp(first, 1, self.size * lanes)), self.dtype)

    def widened(self, words: Expr) -> list[Expr]:
        """Returns the numbers of groups as float32: the first of each, then the second."""
        width = dtypes.bits(self.dtype)
        bits = [E.cast(E.binary("shr", words, i * width), f"uint{width}") for i in range(self.size)]
        return [E.cast(E.call("reinterpret", number, dtype=self.dtype), "float32") for number in bits]

    def factor(self, group: Expr) -> Expr:
        """Returns a vector of groups of the right operand as micro-kernels take it."""
        return E.call("reinterpret", group, dtype="int16", lanes=2 * group.lanes) if self.dtype == "int16" else group


FOUR_BYTES: Final = Group(4, "uint8")
