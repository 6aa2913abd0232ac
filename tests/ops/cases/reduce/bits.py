"""Rows of reductions by bit operations, against Python's integers."""

from __future__ import annotations

import functools
import operator

import numpy as np

from tests.ops.case import Case, Fixed, i8, i32, i64, row, u8, u64

OPERATIONS = {"and": (operator.and_, -1), "or": (operator.or_, 0), "xor": (operator.xor, 0)}


def _folded(name, axis, keepdims=False):
    combine, neutral = OPERATIONS[name]

    def run(x):
        axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in axis)
        moved = np.moveaxis(x, axes, range(len(axes)))
        rows = moved.reshape(-1, *moved.shape[len(axes):])
        out = np.zeros(rows.shape[1:], x.dtype)
        for place in np.ndindex(out.shape):
            out[place] = functools.reduce(combine, (int(v) for v in rows[(slice(None), *place)]), neutral)
        return np.expand_dims(out, axes) if keepdims else out

    return run


def _row(name, operand, axis=None, keepdims=False) -> Case:
    return row(f"reduce_bitwise_{name}", [operand], _folded(name, axis, keepdims), axis=axis, keepdims=keepdims)


CASES = [
    *(_row(name, operand, axis) for name in OPERATIONS for operand, axis in (
        (i32(4, 5, low=-(2**30), high=2**30), (1,)), (u8(3, 4, 2, high=255), (0, -1)), (i8(17, low=-128, high=127), None))),
    *(_row(name, Fixed(i64(0, 3)), (0,)) for name in OPERATIONS),
    _row("xor", u64(2, 9, high=2**62), (1,), keepdims=True),
    _row("or", i32(), ()),
]
