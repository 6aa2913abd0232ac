"""Affine grids against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose.grids import affine_grid
from forge.errors import OpAttributeInvalid
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import build, run, run_compiled

rng = np.random.default_rng(31)


def by_scalars(align: bool) -> Any:
    def compose(g: Composer, theta: Value, *sizes: Value) -> Value:
        return affine_grid(g, theta, sizes, align_corners=align)

    return compose


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("sizes", [(4, 5), (1, 3), (2, 3, 4)])
def test_grids_are_those_of_torch(sizes: tuple[int, ...], align: bool) -> None:
    torch = pytest.importorskip("torch")
    rank = len(sizes)
    theta = rng.standard_normal((2, rank, rank + 1)).astype(np.float32)
    if align and 1 in sizes:
        theta[:, :, 1] = 0  # torch puts a single element at 0
    wanted = torch.nn.functional.affine_grid(torch.from_numpy(theta), (2, 1, *sizes), align_corners=align).numpy()

    def known(g: Composer, theta: Value) -> Value:
        return affine_grid(g, theta, [g.constant(s, "int64") for s in sizes], align_corners=align)

    check(run(known, theta)[0], wanted, Accuracy.ACCUMULATING)
    check(run_compiled(by_scalars(align), theta, *(np.array(s) for s in sizes))[0], wanted, Accuracy.ACCUMULATING)


def test_matrices_that_do_not_fit_are_an_error() -> None:
    with pytest.raises(OpAttributeInvalid, match=r"expected \[N, 3, 4\]"):
        build(by_scalars(False), [np.zeros((1, 2, 3), np.float32), *[np.array(2)] * 3])
