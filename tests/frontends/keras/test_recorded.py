"""Each layer, each of its options, and operations of ``keras.ops``, beside what Keras gave (`record`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from tests.frontends.keras.record import Recorded, flat, kept

CASES = kept()


def difference(case: Recorded, *how: str) -> str:
    """What is wrong with what Forge gives, compiled or by ``how``; "" where nothing is."""
    found: Any = forge.from_keras(case.data, layout="NHWC").get_inference_function(*how)(*case.inputs)
    results = [np.asarray(one) for one in flat(found)]
    if len(results) != len(case.outputs):
        return f"got {len(results)} results; expected {len(case.outputs)}"
    for number, (one, wanted) in enumerate(zip(results, case.outputs)):
        if one.shape != wanted.shape or one.dtype != wanted.dtype and str(one.dtype) != "bfloat16":
            return f"result {number}: got {one.dtype}{one.shape}; expected {wanted.dtype}{wanted.shape}"
        if wanted.dtype.kind in "iub":
            if not np.array_equal(one, wanted):
                return f"result {number} differs"
            continue
        known = np.isfinite(wanted)
        bound = case.accuracy * max(float(np.abs(wanted[known].astype(np.float64)).max(initial=0)), 1.0)
        away = np.abs(one.astype(np.float64) - wanted.astype(np.float64))[known].max(initial=0)
        if not away <= bound or not np.array_equal(one[~known], wanted[~known], equal_nan=True):
            return f"result {number} differs by {away:.3g}; expected at most {bound:.3g}"
    return ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reference(case: Recorded) -> None:
    assert difference(case, "reference") == ""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled(case: Recorded) -> None:
    assert difference(case) == ""
