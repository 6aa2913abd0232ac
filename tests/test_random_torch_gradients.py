"""Random functions under ``torch.compile`` where autograd records: values and gradients are eager PyTorch's, or refused."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from tests.random_torch_gradients import check  # noqa: E402

FAST, CHUNK = 20, 50
SEEDS = int(os.environ.get("FORGE_RANDOM_TORCH_GRADIENTS", "500"))


def test_random_functions() -> None:
    outcomes = [check(seed) for seed in range(FAST)]
    assert {"equal", "equal without gradients", "no gradients"} <= set(outcomes), outcomes


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(0, SEEDS, CHUNK))
def test_many_random_functions(chunk: int) -> None:
    for seed in range(chunk, min(chunk + CHUNK, SEEDS)):
        check(seed)
