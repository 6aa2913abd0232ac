"""Rows of slices that are placed or written at run time."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, boolean, f16, f32, f64, i32, i64, row


def _bounded(start, shape, sizes):
    return tuple(slice(int(np.clip(s, 0, e - n)), int(np.clip(s, 0, e - n)) + n) for s, e, n in zip(start, shape, sizes))


def _updated(x, u, start):
    result = x.copy()
    result[_bounded(start, x.shape, u.shape)] = u
    return result


def slice_rows() -> list[Case]:
    rows = []
    for start in ([1, 2], [-3, 9], [0, 0], [2**40, -(2**40)]):
        rows += [
            row("dynamic_slice", [f32(4, 7), start], lambda x, s: x[_bounded(s, x.shape, (2, 3))], slice_sizes=(2, 3)),
            row("dynamic_update_slice", [f32(4, 7), f32(2, 3), start], _updated),
        ]
    return [
        *rows,
        row("dynamic_slice", [boolean(4), np.array([3], np.int32)], lambda x, s: x[2:], slice_sizes=(2,)),
        row("dynamic_slice", [i32(4, 3), [1, 1]], lambda x, s: x[:, 1:2], slice_sizes=(4, 1), symbolic=False),
        row("dynamic_slice", [Fixed(f32(4)), [1]], lambda x, s: x[:0], slice_sizes=(0,)),
        row("dynamic_update_slice", [f16(4, 3), f16(4, 3), [1, 1]], lambda x, u, s: u),
        row("dynamic_update_slice", [Fixed(f32(4, 3)), Fixed(f32(0, 2)), [1, 1]], lambda x, u, s: x),
        row("dynamic_update_slice", [i64(5), i64(1), np.array([200], np.uint8)], lambda x, u, s: np.append(x[:4], u)),
    ]


def _set(x, u, index):
    result = x.copy()
    result[index] = u
    return result


def set_rows() -> list[Case]:
    far = 2**40
    return [
        row("strided_set", [f32(5, 6), Fixed(f32(3, 6))], lambda x, u: _set(x, u, np.s_[1:4]), begin=(1,), end=(4,),
            symbolic=False),
        row("strided_set", [f32(5, 6), Fixed(f32(2, 3))], lambda x, u: _set(x, u, np.s_[1:4:2, ::2]), symbolic=False,
            begin=(1, 0), end=(4, far), strides=(2, 2)),
        row("strided_set", [f32(5, 6), f32(5, 2)], lambda x, u: _set(x, u, np.s_[:, 4:0:-3]), symbolic=False,
            begin=(4,), end=(0,), strides=(-3,), axes=(-1,)),
        row("strided_set", [i32(5), i32(5)], lambda x, u: u[::-1], begin=(-1,), end=(-far,), strides=(-1,)),
        row("strided_set", [f64(5), Fixed(f64(0))], lambda x, u: x, begin=(4,), end=(2,), symbolic=False),
    ]


def view_rows() -> list[Case]:
    strided = np.lib.stride_tricks.as_strided
    return [
        row("roll", [f32(3, 5)], lambda x: np.roll(x, 2, 1), shift=(2,), axis=(1,)),
        row("roll", [i32(3, 5)], lambda x: np.roll(x, (-1, 7), (0, 1)), shift=(-1, 7), axis=(0, -1)),
        row("roll", [Fixed(f32(0, 5))], lambda x: x, shift=(2,), axis=(0,)),
        row("as_strided", [f32(4, 6)], lambda x: strided(x.reshape(-1)[2:], (3, 4), (20, 4)), size=(3, 4), stride=(5, 1),
            storage_offset=2),
        row("as_strided", [f32(4, 6)], lambda x: np.broadcast_to(x[0, :3], (2, 3)), size=(2, 3), stride=(0, 1)),
        row("as_strided", [f32(7)], lambda x: x[3], size=(), stride=(), storage_offset=3),
        row("as_strided", [Fixed(f32(7))], lambda x: x[:0], size=(0,), stride=(100,)),
    ]


CASES = [*slice_rows(), *set_rows(), *view_rows()]
