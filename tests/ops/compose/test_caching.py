"""Caches that are written over."""

from __future__ import annotations

import numpy as np
import pytest

from forge.compose.caching import cache_update
from forge.errors import OpAttributeInvalid
from tests.ops.compose.support import build, run, run_compiled

PAST = np.arange(20, dtype=np.float32).reshape(2, 5, 2)
NEW = -np.arange(1, 13, dtype=np.float32).reshape(2, 3, 2)


@pytest.mark.parametrize("circular", [False, True])
def test_each_sample_is_written_from_its_own_position(circular: bool) -> None:
    positions = np.array([1, 4 if circular else 2])
    wanted = PAST.copy()
    for sample, start in enumerate(positions):
        for i in range(3):
            wanted[sample, (start + i) % 5] = NEW[sample, i]
    (got,) = run_compiled(lambda g, *v: cache_update(g, *v, circular=circular), PAST, NEW, positions)
    assert np.array_equal(got, wanted)
    (got,) = run(lambda g, *v: cache_update(g, *v, circular=circular), PAST, NEW, positions, symbolic=True)
    assert np.array_equal(got, wanted)


def test_without_positions_the_start_is_written() -> None:
    (got,) = run(cache_update, PAST, NEW)
    assert np.array_equal(got, np.concatenate([NEW, PAST[:, 3:]], 1))


def test_the_batch_axis_is_refused() -> None:
    with pytest.raises(OpAttributeInvalid, match="batch axis"):
        build(lambda g, *v: cache_update(g, *v, axis=0), [PAST, NEW])
