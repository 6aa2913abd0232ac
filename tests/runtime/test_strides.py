"""Inputs whose elements do not lie in C order: copied once, whatever their strides."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest

import forge
from forge_runtime import InputError, Runtime

DTYPES = ("uint8", "float16", "float32", "float64", "complex128")


@cache
def flattening(rank: int, dtype: str) -> Runtime:
    sizes = ", ".join("abcdefgh"[:rank])
    return forge.IRModule(f"def @main(%x: Tensor[({sizes}), {dtype}]) {{ reshape(%x, newshape=[-1]) }}").get_inference_function()


def strided(random: np.random.Generator, rank: int, dtype: str) -> Any:
    """An array of random sizes and strides: steps, reversed, permuted and broadcast axes, and empty ones."""
    sizes = random.choice([0, 1, 2, 3, 7, 33, 70] if rank < 3 else [1, 2, 3, 9], rank)
    steps = random.choice([1, 1, 1, 2, 3, -1, -2], rank)
    base = random.integers(0, 200, sizes * abs(steps)).astype(dtype)
    array = base[tuple(slice(None, None, step) for step in steps)].transpose(random.permutation(rank))
    return np.broadcast_to(array[:1], (5, *array.shape[1:])) if array.shape[0] and random.random() < 0.2 else array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 6, 8])
def test_any_strides(rank: int, dtype: str) -> None:
    random = np.random.default_rng(rank)
    for _ in range(60):
        x = strided(random, rank, dtype)
        np.testing.assert_array_equal(flattening(rank, dtype)(x), x.reshape(-1))


def test_misaligned() -> None:
    memory = np.arange(81, dtype=np.uint8)
    for x in (memory[1:].view(np.float64), memory[1:].view(np.float64)[::-2]):
        np.testing.assert_array_equal(flattening(1, "float64")(x).view(np.uint64), x.copy().view(np.uint64))


def test_more_axes_than_models_have() -> None:
    x = np.zeros((2,) * 10, np.float32).T
    with pytest.raises(InputError, match="rank out of range; got 10; expected at most 8"):
        flattening(3, "float32")(x)


def test_large_ones_from_many_threads() -> None:
    """Such copies run without the interpreter lock, in memory that serves later calls."""
    run = flattening(2, "float32")

    def work(number: int) -> None:
        for _ in range(5):
            x = np.random.default_rng(number).random((300 + number, 257), np.float32).T
            np.testing.assert_array_equal(run(x), x.reshape(-1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
