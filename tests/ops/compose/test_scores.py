"""Transforms of scores against NumPy and SciPy, and labels."""

from __future__ import annotations

import numpy as np
import pytest

from forge.compose.scores import best_label, class_labels, label_if, transformed
from forge.errors import OpAttributeInvalid
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import run, run_compiled

SCORES = np.array([[0.5, -2, 0], [0, 0, 0], [30, -30, 1e-8], [-1, -1, -3]], np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    result: np.ndarray = powers / powers.sum(-1, keepdims=True)
    return result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_and_logistic(dtype: str) -> None:
    data = SCORES.astype(dtype)
    for name, expected in (("NONE", data), ("SOFTMAX", softmax(data)), ("LOGISTIC", 1 / (1 + np.exp(-data)))):
        got = run_compiled(lambda g, x, name=name: g.call("copy", transformed(g, x, name)), data)[0]
        check(got, expected.astype(dtype), Accuracy.ACCUMULATING)


def test_softmax_without_zeros() -> None:
    expected = np.zeros_like(SCORES)
    expected[0, :2], expected[3] = softmax(SCORES[0, :2]), softmax(SCORES[3])
    expected[1], expected[2] = 0.5, [1, 0, 0]
    (got,) = run(lambda g, x: transformed(g, x, "SOFTMAX_ZERO"), SCORES)
    np.testing.assert_allclose(got, expected, atol=1e-7)


def test_probit_is_near_the_quantile() -> None:
    special = pytest.importorskip("scipy.special")
    data = np.linspace(0.02, 0.98, 97)[None]
    (got,) = run(lambda g, x: transformed(g, x, "PROBIT"), data)
    np.testing.assert_allclose(got, special.ndtri(data), atol=0.01)
    (edges,) = run(lambda g, x: transformed(g, x, "PROBIT"), np.array([[0, 1, -0.5, 2]], np.float32))
    assert edges.tolist()[0][:2] == [-np.inf, np.inf] and np.isnan(edges[0, 2:]).all()


def test_unknown_transforms_are_refused() -> None:
    with pytest.raises(OpAttributeInvalid, match="post_transform: got 'TANH'; expected NONE, SOFTMAX"):
        run(lambda g, x: transformed(g, x, "TANH"), SCORES)


def test_labels() -> None:
    names = class_labels(None, ["a", "b", "c"])
    assert run(lambda g, x: best_label(g, x, names), SCORES)[0].tolist() == ["a", "a", "a", "a"]
    numbers = class_labels([4, 9], None)
    assert run(lambda g, x: label_if(g, x, numbers), np.array([True, False]))[0].tolist() == [9, 4]
    for given in ((None, None), ([1], ["a"])):
        with pytest.raises(OpAttributeInvalid, match="class labels"):
            class_labels(*given)  # type: ignore[arg-type]
