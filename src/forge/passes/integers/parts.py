"""Products of data of 16 bits: sums of as few parts of the depth as 32 bits need to hold them, whatever the data are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forge.ir.edits.rewrite import Declined, RuleBuilder
from forge.ir.nodes import Value
from forge.ops.packed.pairs import MULTIPLE
from forge.passes.integers.operands import MAX_SUM, NINE_BITS, Integers, Weight
from forge.passes.integers.terms import scaled, signed, without_zero

HALF = 1 << 15
"""No int16 is farther from 0."""
ROWS = 256
"""Rows of a weight that are looked at together."""
MAX_PARTS = 16
"""Parts of the depth: more than those of 10000 usual weights."""
Multiply = Callable[[Value, np.ndarray, int], Value]


def sum_of_parts(
    builder: RuleBuilder, data: Integers, weight: Weight, array: np.ndarray, axis: int, multiply: Multiply, most: int = MAX_PARTS
) -> Value | Declined:
    """Multiplies data of 16 bits by ``array[N, K, ...]``, the weight; returns the real numbers of one int32 sum per part.

    Args:
        axis: that of the data along which the depth K is cut.
        multiply: gives the int32 sums of products of shifted data, a part of the weight, and the shift.
        most: the number of parts that are allowed.
    """
    if not weight.is_plain:
        return Declined(NINE_BITS)
    source, shift = signed(builder, data.data)
    zero = np.int32(0) if data.zero is None else data.zero.constant
    ends = _ends_of_parts(array, None if zero is None else int(zero.reshape(())) + shift, most)
    if ends is None:
        return Declined(f"sums of {array[0].size} products of 16 bits do not fit into {most} of 32 bits")
    along = (-1, *(1,) * (array.ndim - 2))
    scale = None if weight.scale is None else weight.scale.reshape(along)
    terms = list[Value]()
    for first, last in zip((0, *ends), ends):
        piece, part = source, array[:, first:last]
        if len(ends) > 1:
            piece = builder.call("strided_slice", source, begin=(first,), end=(last,), strides=(1,), axes=(axis,))
        sums = part.reshape(len(part), -1).sum(axis=1, dtype=np.int32).reshape(along)
        total = without_zero(builder, multiply(piece, part, shift), data.zero, shift, sums)
        terms.append(scaled(builder, total, data, scale))
    while len(terms) > 1:  # by halves, so that sums are not deep
        half = len(terms) // 2
        terms = [*(builder.call("add", *two) for two in zip(terms[:half], terms[half:])), *terms[2 * half :]]
    return terms[0]


def _ends_of_parts(array: np.ndarray, zero: int | None, most: int) -> tuple[int, ...] | None:
    """Where parts of the depth end, as few as sums of int32 need to hold every int16 less ``zero``; None: more than ``most``.

    ``zero`` None: not known.
    """
    units, depth = array.shape[:2]
    rows = [array[first : first + ROWS] for first in range(0, units, ROWS)]
    for count in range(1, most + 1):
        begins = np.arange(0, depth, -(-depth // (count * MULTIPLE)) * MULTIPLE)
        if all(_fit(part, begins, HALF if zero is None else abs(zero)) for part in rows):
            return (*begins[1:].tolist(), depth)
    return None


def _fit(rows: np.ndarray, begins: np.ndarray, zero: int) -> bool:
    """Whether sums of parts of the depth that begin there hold every int16 less ``zero``."""
    whole = rows.reshape(*rows.shape[:2], -1).astype(np.int64)
    total, size = (np.add.reduceat(v.sum(axis=2), begins, axis=1) for v in (whole, np.abs(whole)))
    return bool(np.all(size * HALF + np.abs(total) * zero <= MAX_SUM))
