"""Pairs of bfloat16 along the summed axis, or fours of 8 bits: 32 bits, whose products one step of a dot product adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from forge import dtypes
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr

PAIR: Final = "uint32"
# Local copies of bfloat16 numbers consist of their bits: they are moved without conversion.
BITS: Final = "uint16"


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
