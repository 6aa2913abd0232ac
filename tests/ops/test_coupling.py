"""``pairwise_coupling`` against the exact minimum, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.types import TensorType
from forge.ops.classical.coupling import PRECISION, PairwiseCoupling
from tests.ops.cases.classical.coupling import minimum, pairs, solution


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_comes_near_the_minimum(classes: int) -> None:
    data = pairs(50, classes, "float64")
    (found,) = PairwiseCoupling().reference(None, data)
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_allclose(found, minimum(data), atol=10 * PRECISION)


def test_pairs_that_agree_give_their_probabilities() -> None:
    data = pairs(50, 4, "float64", consistent=True)
    (found,) = PairwiseCoupling().reference(None, data)
    np.testing.assert_allclose(found, solution(50, 4), atol=10 * PRECISION)


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (TensorType((3, 2, 4), "float32"), "numbers of classes; got 2 and 4"),
        (TensorType((3, 0, 0), "float32"), "number of classes; got 0"),
        (TensorType((3, 2), "float32"), "wrong rank"),
        (TensorType((3, 2, 2), "int32"), "wrong element type"),
    ],
)
def test_refuses(type_: TensorType, message: str) -> None:
    builder = Builder()
    with pytest.raises(TypeInferenceError, match=message):
        builder.call("pairwise_coupling", builder.input(type_))
