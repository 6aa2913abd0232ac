"""Random PyTorch modules are equal to eager torch, or refused by name."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from tests.random_torch_checks import check  # noqa: E402

FAST, CHUNK = 40, 50
SEEDS = int(os.environ.get("FORGE_RANDOM_TORCH", "2000"))


def test_random_modules() -> None:
    outcomes = [check(seed) for seed in range(FAST)]
    for way in ("export", "trace"):
        assert sum(found[way] in ("equal", "same") for found in outcomes) > FAST // 2, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(0, SEEDS, CHUNK))
def test_many_random_modules(chunk: int) -> None:
    for seed in range(chunk, min(chunk + CHUNK, SEEDS)):
        check(seed)
