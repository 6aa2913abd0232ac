"""Blocks of memory that are watched for writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from forge_runtime import checksums


def watched(arrays: Sequence[np.ndarray]) -> tuple[tuple[int, int], ...]:
    return tuple((array.ctypes.data, array.nbytes) for array in arrays)


def arrays(*sizes: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, size, dtype=np.uint8) for size in sizes]


FEW = 24 * 1024


@pytest.mark.parametrize("sizes", [
    (1,), (7,), (63,), (64,), (65,), (200,), (256,), (257,), (2049,), (FEW,), (5000, 0, 3, 9000, 64), (FEW - 200, 1, 199)])
def test_small_memory_is_compared_at_each_call(sizes: Sequence[int]) -> None:
    given = arrays(*sizes)
    sums = checksums(watched(given))
    for array in filter(len, given):
        for place in {0, *np.random.default_rng(0).integers(0, array.size, 50).tolist(), array.size - 1}:
            assert sums.unchanged()
            array[place] ^= 1
            assert not sums.unchanged()
            array[place] ^= 1
    assert sums.unchanged()


def test_larger_memory_is_sampled() -> None:
    (array,) = arrays(FEW + 1)
    sums = checksums(watched([array]))
    array[3000] ^= 1
    assert sums.unchanged()
    assert not all(sums.unchanged() for _ in range(4096))


def test_samples() -> None:
    given = arrays(5, 0, 100_000, 64, 30_001)
    sums = checksums(watched(given))
    for array in (given[0], given[2], given[4]):
        assert sums.unchanged()
        array += 1
        assert not sums.unchanged()
        array -= 1


@pytest.mark.parametrize("size", [100_000, 10_000_000])
def test_all_memory_is_compared_in_the_end(size: int) -> None:
    given = arrays(size, 0, 3000)
    sums = checksums(watched(given))
    for array in (given[0], given[2]):
        assert all(sums.unchanged() for _ in range(5000))
        array[array.size // 3 + 700] += 1
        assert not all(sums.unchanged() for _ in range(4096))
        array[array.size // 3 + 700] -= 1


def test_digests() -> None:
    given = arrays(5, 0, 5000, 5000)
    before = checksums(watched(given)).digests()
    assert checksums(watched([array.copy() for array in given])).digests() == before and len(set(before)) == 4
    given[3][4321] += 1
    after = checksums(watched(given)).digests()
    assert [one == other for one, other in zip(before, after)] == [True, True, True, False]


def test_structured_changes() -> None:
    array = np.random.default_rng(0).standard_normal(4096, dtype=np.float32)
    found = {checksums(watched([changed])).digests() for changed in (
        array, -array, array[::-1].copy(), np.roll(array, 8), np.roll(array, 256), array * 2, np.zeros_like(array),
        np.where(np.arange(4096) < 16, -array, array))}  # fmt: skip
    assert len(found) == 8


def test_nothing_is_watched() -> None:
    assert checksums(()).unchanged() and checksums(()).digests() == ()
    with pytest.raises(TypeError, match=r"got \[\]; expected a tuple of pairs"):
        checksums([])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        checksums(((1,),))  # type: ignore[arg-type]
