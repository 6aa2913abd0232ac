"""Normalizations of com.microsoft, and those that onnxruntime writes into the standard's domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import OpAttributeInvalid
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import check, floats, node_model, same
from tests.frontends.onnx.support import onnxruntime_outputs

X, SKIP, GAMMA, BETA, BIAS = floats(0, 2, 5, 8), floats(1, 2, 5, 8), floats(2, 8), floats(3, 8), floats(4, 8)
OUTPUTS = [(True,), (True, True, True, True), (True, False, False, True), (True, False, True)]


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize(("beta", "bias"), [(BETA, BIAS), (BETA, None), (None, None), (None, BIAS)])
def test_skip_layer_norm(outputs: tuple[bool, ...], beta: Any, bias: Any) -> None:
    check("SkipLayerNormalization", [X, SKIP, GAMMA, beta, bias], {"epsilon": 1e-3}, outputs=outputs, symbolic=(2, 5))


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("bias", [BIAS, None])
def test_skip_simplified_layer_norm(outputs: tuple[bool, ...], bias: Any) -> None:
    check("SkipSimplifiedLayerNormalization", [X, SKIP, GAMMA, bias], {"epsilon": 1e-3}, outputs=outputs, symbolic=(2, 5))


@pytest.mark.parametrize("skip", [floats(1, 5, 8), floats(1, 1, 5, 8)])
@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skip_without_batch(op: str, skip: np.ndarray) -> None:
    check(op, [X, skip, GAMMA], outputs=(True, False, False, True))


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skip_in_half_precision(op: str) -> None:
    check(op, [v.astype(np.float16) for v in (X, SKIP, GAMMA)], outputs=(True, False, False, True))


def test_skip_of_two_axes() -> None:
    check("SkipLayerNormalization", [X[0], SKIP[0], GAMMA, BETA])


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("outputs", [(True,), (True, True)])
def test_simplified_layer_norm(axis: int, outputs: tuple[bool, ...]) -> None:
    scale = floats(2, *X.shape[axis:])
    check("SimplifiedLayerNormalization", [X, scale], {"axis": axis}, outputs=outputs, domain="", symbolic=(2,))


def test_layer_norm_before_its_opset() -> None:
    proto = node_model("LayerNormalization", [X, GAMMA, BETA], {"axis": -1}, outputs=(True, True, True), domain="", opset=12)
    same(import_model(proto), [X, GAMMA, BETA], onnxruntime_outputs(proto, X, GAMMA, BETA))


def grouped(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, activation: int) -> np.ndarray:
    """Three groups of channels, which come last."""
    parts = x.astype(np.float64).reshape(*x.shape[:-1], 3, -1)
    axes = (*range(1, x.ndim - 1), x.ndim)
    parts = parts - parts.mean(axis=axes, keepdims=True)
    parts = parts / np.sqrt((parts**2).mean(axis=axes, keepdims=True) + 1e-5)
    result = parts.reshape(x.shape) * gamma + beta
    return np.asarray(result / (1 + np.exp(-result)) if activation else result, x.dtype)


IMAGE, SCALE, SHIFT = floats(0, 2, 5, 4, 6), floats(1, 6), floats(2, 6)


def first(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, -1, 1).copy()


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("channels_last", [0, 1])
def test_group_norm(activation: int, channels_last: int) -> None:
    def oracle(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        result = grouped(IMAGE, gamma, beta, activation)
        return result if channels_last else first(result)

    attributes = {"activation": activation, "groups": 3, "channels_last": channels_last}
    check("GroupNorm", [IMAGE if channels_last else first(IMAGE), SCALE, SHIFT], attributes, oracle=oracle, symbolic=(2, 5))


@pytest.mark.parametrize("skip", [floats(3, 2, 5, 4, 6), floats(3, 2, 1, 1, 6), floats(3, 2, 6)])
@pytest.mark.parametrize("bias", [floats(4, 6), None])
def test_skip_group_norm(skip: np.ndarray, bias: Any) -> None:
    def oracle(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, skip: np.ndarray, bias: Any) -> list[np.ndarray]:
        wide = skip if skip.ndim == 4 else skip[:, None, None]
        total = x + wide + (0 if bias is None else bias)
        return [grouped(total, gamma, beta, 1), total]

    check("SkipGroupNorm", [IMAGE, SCALE, SHIFT, skip, bias], {"activation": 1, "groups": 3}, outputs=(True, True), oracle=oracle)


def test_skip_group_norm_with_channels_first() -> None:
    def oracle(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, skip: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return first(grouped(IMAGE + SKIP_OF_CHANNELS[:, None, None] + bias, gamma, beta, 0))

    attributes = {"activation": 0, "groups": 3, "channels_last": 0}
    check("SkipGroupNorm", [first(IMAGE), SCALE, SHIFT, SKIP_OF_CHANNELS, floats(4, 6)], attributes, oracle=oracle)


SKIP_OF_CHANNELS = floats(3, 2, 6)


def test_unknown_activation_of_group_norm_is_refused() -> None:
    proto = node_model("GroupNorm", [IMAGE, SCALE, SHIFT], {"activation": 2, "groups": 3})
    with pytest.raises(OpAttributeInvalid, match="'activation': got 2; expected 0"):
        import_model(proto)
