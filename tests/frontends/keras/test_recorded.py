"""Each layer, each of its options, and operations of ``keras.ops``, beside what Keras gave (`record`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from tests.frontends.keras.case import difference
from tests.frontends.keras.record import Recorded, flat, kept

CASES = kept()


def wrong(case: Recorded, *how: str) -> str:
    """What is wrong with what Forge gives, compiled or by ``how``; "" where nothing is."""
    found: Any = forge.from_keras(case.data, layout="NHWC").get_inference_function(*how)(*case.inputs)
    return difference([np.asarray(one) for one in flat(found)], case.outputs, case.accuracy)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reference(case: Recorded) -> None:
    assert wrong(case, "reference") == ""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled(case: Recorded) -> None:
    assert wrong(case) == ""
