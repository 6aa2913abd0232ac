"""Rows of the operators on diagonals."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, f16, f32, i32, row


def _with_diagonals(k1, k2, right_above=True, right_below=False):
    """An oracle that goes through the elements of the bands one by one."""

    def run(x, d):
        result = x.copy()
        bands = d.reshape(*x.shape[:-2], k2 - k1 + 1, d.shape[-1])
        for r, c in np.ndindex(*x.shape[-2:]):
            k = c - r
            if k1 <= k <= k2:
                count = sum(0 <= a + k < x.shape[-1] for a in range(x.shape[-2]))
                right = right_above if k > 0 else right_below if k < 0 else False
                result[..., r, c] = bands[..., k2 - k, min(r, c) + (d.shape[-1] - count if right else 0)]
        return result

    return run


def banded(shape, length, k1, k2, above=True, below=False) -> Case:
    bands = Fixed(f32(*shape[:-2], k2 - k1 + 1, length))
    return row("matrix_set_diag", [f32(*shape), bands], _with_diagonals(k1, k2, above, below), symbolic=False,
               k1=k1, k2=k2, super_diag_right_align=above, sub_diag_right_align=below)


CASES = [
    row("eye", [], lambda: np.eye(3, 5), n=3, m=5),
    row("eye", [], lambda: np.eye(4, 3, -2), n=4, m=3, k=-2, dtype="int64"),
    row("eye", [], lambda: np.eye(2, 2, 9, dtype=bool), n=2, m=2, k=9, dtype="bool"),
    row("eye", [], lambda: np.eye(0, 3), n=0, m=3),
    *(row("diagonal", [f32(4, 6)], lambda x, k=k: np.diagonal(x, k), offset=k) for k in (0, 2, -3, 5)),
    row("diagonal", [i32(2, 3, 4)], lambda x: np.diagonal(x, -1, 2, 0), offset=-1, axis1=2, axis2=0),
    row("diagonal", [f32(2, 5, 5)], lambda x: np.diagonal(x, 1, -2, -1), offset=1, axis1=-2, axis2=-1),
    row("diagonal", [Fixed(f32(3, 4))], lambda x: np.zeros(0), offset=7),
    row("matrix_set_diag", [f32(2, 4, 4), f32(2, 4)], _with_diagonals(0, 0)),
    row("matrix_set_diag", [f32(3, 5), Fixed(f32(2))], _with_diagonals(-1, -1), k1=-1, k2=-1, symbolic=False),
    row("matrix_set_diag", [f16(3, 5), Fixed(f16(0))], lambda x, d: x, k1=9, k2=9, symbolic=False),
    banded((2, 4, 6), 4, -1, 2),
    banded((4, 3), 3, -3, 2, above=False, below=True),
    banded((4, 3), 3, -2, -1, below=True),
    banded((3, 6), 3, 1, 4, above=False),
    banded((5, 5), 5, -4, 4, above=True, below=True),
]
