"""Rows of einsum."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, f16, f32, i32, row


def einsum(equation: str, *operands: Any, symbolic: bool = True) -> Case:
    def oracle(*arrays: Any) -> Any:
        return np.einsum(equation.replace(" ", ""), *(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays))

    return row("einsum", operands, oracle, equation=equation, symbolic=symbolic)


CASES = [
    einsum("ij,jk->ik", f32(3, 4), f32(4, 5)),
    einsum("bij, bkj -> bik", f32(2, 3, 4), f32(2, 5, 4)),
    einsum("ab,bc", f32(3, 4), f32(4, 2)),
    einsum("i,j->ji", f32(3), f32(5)),
    einsum("abc,bd->a", f32(2, 3, 4), f32(3, 5)),
    einsum("iji->ij", f32(3, 2, 3)),
    einsum("ii", f32(4, 4)),
    einsum("iii->i", f32(3, 3, 3)),
    einsum("...ij,...jk->...ik", f32(2, 1, 3, 4), f32(5, 4, 2), symbolic=False),
    einsum("...i->...", f32(2, 3, 4)),
    row("einsum", [f32(2, 2, 3), f32(3)], lambda a, b: np.einsum("bik,j->ij", a, b), equation="...ik,...j->ij"),
    row("einsum", [f32(4, 1, 3), f32(2, 5)], lambda a, b: np.einsum("abi,cj->ij", a, b), equation="...i,...j->ij"),
    einsum("i...->...i", f32(2, 3, 4)),
    einsum("ab,bc,cd->da", f32(2, 3), f32(3, 4), f32(4, 5)),
    einsum("ij,ij->ij", f32(1, 4), f32(3, 4), symbolic=False),
    einsum("bhid,bhjd->bhij", f32(2, 3, 4, 8), f32(2, 3, 5, 8)),
    einsum("ij->", f32(3, 4)),
    einsum("ij,jk->ik", f32(3, 0), f32(0, 2)),
    einsum("ij,jk->ik", i32(3, 4), i32(4, 5)),
    einsum("ij,kj->ik", f16(3, 8), f16(4, 8)),
    einsum(",i->i", f32(), f32(4)),
]
