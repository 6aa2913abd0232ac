"""Rows of space_to_batch_nd and batch_to_space_nd, against reshapes and transpositions."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.case import Case, Fixed, f16, f32, i32, row


def to_batch(x, blocks, paddings, value=0):
    m = len(blocks)
    x = np.pad(x, [(0, 0), *paddings, *[(0, 0)] * (x.ndim - 1 - m)], constant_values=value)
    split = [x.shape[0]]
    for extent, b in zip(x.shape[1:], blocks):
        split += [extent // b, b]
    y = x.reshape(*split, *x.shape[1 + m:])
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, y.ndim)]
    y = y.transpose(order)
    return y.reshape(math.prod(blocks) * x.shape[0], *y.shape[m + 1:])


def to_space(x, blocks, crops):
    m = len(blocks)
    batch = x.shape[0] // math.prod(blocks)
    y = x.reshape(*blocks, batch, *x.shape[1:])
    order = [m]
    for k in range(m):
        order += [m + 1 + k, k]
    y = y.transpose([*order, *range(2 * m + 1, y.ndim)])
    y = y.reshape(batch, *(e * b for e, b in zip(x.shape[1:], blocks)), *x.shape[1 + m:])
    return y[(slice(None), *(slice(a, e - b) for (a, b), e in zip(crops, y.shape[1:])))]


def batch(operand, blocks, paddings, value=0.0) -> Case:
    return row("nn.space_to_batch_nd", [operand], lambda x: to_batch(x, blocks, paddings, value), block_shape=blocks,
               paddings=paddings, pad_value=value)


def space(operand, blocks, crops) -> Case:
    return row("nn.batch_to_space_nd", [operand], lambda x: to_space(x, blocks, crops), block_shape=blocks, crops=crops)


CASES = [
    batch(f32(2, 4, 6, 3), (2, 3), ((0, 0), (0, 0))),
    batch(f32(1, 5, 4, 2), (2, 2), ((1, 0), (2, 0)), 1.5),
    batch(i32(3, 6), (3,), ((0, 0),)),
    batch(f16(2, 2, 3, 4), (2, 1, 2), ((1, 1), (0, 2), (0, 0))),
    batch(Fixed(f32(0, 4)), (2,), ((0, 0),)),
    space(f32(12, 2, 2, 3), (2, 3), ((0, 0), (0, 0))),
    space(f32(8, 3, 2, 1), (2, 2), ((1, 0), (2, 1))),
    space(i32(6, 4), (3,), ((0, 12),)),
    space(f16(8, 2, 3, 4), (2, 1, 4), ((0, 1), (1, 0), (3, 3))),
]
