"""Bags of embeddings against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose.embedding import embedding_bag
from forge.errors import OpAttributeInvalid
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import build, run, run_compiled

rng = np.random.default_rng(43)
TABLE = rng.standard_normal((9, 4)).astype(np.float32)
ROWS = rng.integers(0, 9, (3, 5))
FLAT, OFFSETS = rng.integers(0, 9, 7), np.array([0, 2, 2, 5])


def torch_bags(indices: Any, offsets: Any = None, weights: Any = None, **options: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    given = [None if x is None else torch.from_numpy(x) for x in (indices, TABLE, offsets, weights)]
    result: np.ndarray = torch.nn.functional.embedding_bag(*given[:3], per_sample_weights=given[3], **options).numpy()
    return result


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_those_of_torch(mode: str) -> None:
    for operands in ((ROWS,), (FLAT, OFFSETS)):
        wanted = torch_bags(*operands, mode=mode)
        check(run(lambda g, *v: embedding_bag(g, *v, mode=mode), TABLE, *operands)[0], wanted, Accuracy.ACCUMULATING)
    (got,) = run_compiled(lambda g, *v: embedding_bag(g, *v, mode=mode), TABLE, FLAT, OFFSETS, symbolic=True)
    check(got, wanted, Accuracy.ACCUMULATING)


def test_weighted_bags_are_those_of_torch() -> None:
    for operands in ((ROWS, None), (FLAT, OFFSETS)):
        weights = rng.uniform(0, 1, operands[0].shape).astype(np.float32)
        check(run(embedding_bag, TABLE, *operands, weights)[0], torch_bags(*operands, weights, mode="sum"), Accuracy.ACCUMULATING)


@pytest.mark.parametrize(
    ("operands", "mode", "message"),
    [
        ((ROWS,), "min", "expected one of sum"),
        ((ROWS, None, ROWS.astype(np.float32)), "mean", "with sum only"),
        ((ROWS, OFFSETS), "sum", "expected 2 without offsets"),
        ((FLAT,), "sum", "expected 2 without offsets"),
    ],
)
def test_what_does_not_fit_is_an_error(operands: Any, mode: str, message: str) -> None:
    with pytest.raises(OpAttributeInvalid, match=message):
        build(lambda g, *v: embedding_bag(g, *v, mode=mode), [TABLE, *operands])
