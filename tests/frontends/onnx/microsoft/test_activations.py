"""Activations of com.microsoft."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forge.errors import OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import check, floats, node_model

X = floats(0, 2, 5, 8)
BIAS = floats(1, 8)


def gelu(x: np.ndarray) -> np.ndarray:
    erf: Any = np.vectorize(math.erf)
    return np.asarray(x / 2 * (1 + erf(x / math.sqrt(2))))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def softmax(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    powers = np.exp(x.astype(np.float64))
    return np.asarray(powers / powers.sum(axis=axes, keepdims=True), np.float32)


@pytest.mark.parametrize("op", ["Gelu", "FastGelu", "QuickGelu"])
def test_unary(op: str) -> None:
    check(op, [X * 3], symbolic=(2, 5))


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_quick_gelu_of_another_slope(alpha: float) -> None:
    check("QuickGelu", [X], {"alpha": alpha})


@pytest.mark.parametrize("op", ["BiasGelu", "FastGelu"])
@pytest.mark.parametrize("constant", [(), (1,)])
def test_with_bias(op: str, constant: tuple[int, ...]) -> None:
    check(op, [X, BIAS], constant=constant, symbolic=(2, 5))


def test_bias_add() -> None:
    check("BiasAdd", [X, BIAS, X * 2], oracle=lambda x, b, s: x + b + s, symbolic=(2, 5))


def test_bias_split_gelu() -> None:
    def oracle(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
        total = x + bias
        return np.asarray(total[..., :4] * gelu(total[..., 4:]), np.float32)

    check("BiasSplitGelu", [X, BIAS], oracle=oracle, symbolic=(2, 5))


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("bias", [floats(2, 2, 1, 8), floats(2, 1, 5, 8)])
def test_bias_softmax(axis: int, bias: np.ndarray) -> None:
    def oracle(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return softmax(x + bias, tuple(range(axis % 3, 3)))

    check("BiasSoftmax", [X, bias], {"axis": axis, "is_inner_broadcast": int(bias.shape[1] == 1)}, oracle=oracle)


@pytest.mark.parametrize("residual", [None, X * 2])
def test_bias_dropout_of_inference(residual: np.ndarray | None) -> None:
    def oracle(x: np.ndarray, bias: np.ndarray, residual: Any, ratio: Any) -> list[np.ndarray]:
        return [x + bias + (0 if residual is None else residual), np.ones(x.shape, bool)]

    check("BiasDropout", [X, BIAS, residual, np.array(0.5, np.float32)], outputs=(True, True), oracle=oracle)


def test_bias_dropout_of_training_is_refused() -> None:
    proto = node_model("BiasDropout", [X, BIAS, None, np.array(0.5, np.float32), np.array(True)], constant=(4,))
    with pytest.raises(OpAttributeUnimplemented, match=r"'the_BiasDropout'.*: training_mode is not known to be false"):
        import_model(proto)
