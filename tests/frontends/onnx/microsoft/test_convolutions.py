"""Convolutions and pools of com.microsoft."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import check, floats, ints, node_model
from tests.frontends.onnx.support import onnxruntime_outputs

X, W, BIAS = floats(0, 2, 4, 9, 11), floats(1, 6, 4, 3, 3), floats(2, 6)

FUSED: list[dict[str, Any]] = [
    {},
    {"activation": "Relu", "pads": [1, 1, 1, 1]},
    {"activation": "Tanh", "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"activation": "Sigmoid", "dilations": [2, 2]},
    {"activation": "LeakyRelu", "activation_params": [0.2], "kernel_shape": [3, 3]},
    {"activation": "Clip", "activation_params": [-0.5, 0.75]},
    {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
]


@pytest.mark.parametrize("attributes", FUSED)
@pytest.mark.parametrize("biased", [True, False])
def test_fused_conv(attributes: dict[str, Any], biased: bool) -> None:
    check("FusedConv", [X, W, BIAS if biased else None], attributes, constant=(1, 2) if biased else (1,), symbolic=(2, 9))


def test_fused_conv_with_addend() -> None:
    addend = floats(3, 2, 6, 9, 11)
    check("FusedConv", [X, W, BIAS, addend], {"activation": "Relu", "pads": [1, 1, 1, 1]}, constant=(1, 2))


def test_fused_conv_in_groups() -> None:
    check("FusedConv", [X, floats(1, 6, 2, 3, 3)], {"activation": "Relu", "group": 2}, constant=(1,))


def last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1).copy()


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """onnxruntime's convolution with padding 1."""
    proto = onnx.parser.parse_model(
        "<ir_version: 8, opset_import: ['' : 17]> g (float[N,C,H,W] x, float[O,C,K,L] w, float[O] b) => (float[N,O,P,Q] y)"
        " { y = Conv<pads = [1, 1, 1, 1]>(x, w, b) }".replace("'", '"')
    )
    return np.asarray(onnxruntime_outputs(proto, x, weight, bias)[0])


def test_nhwc_conv() -> None:
    def oracle(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return last(convolved(X, weight, bias))

    check("NhwcConv", [last(X), W, BIAS], {"pads": [1, 1, 1, 1]}, constant=(1, 2), symbolic=(2, 9), oracle=oracle)


def test_nhwc_fused_conv() -> None:
    def oracle(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, addend: np.ndarray) -> np.ndarray:
        return np.maximum(last(convolved(X, weight, bias)) + addend, 0)

    inputs = [last(X), W, BIAS, floats(3, 2, 9, 11, 6)]
    check("NhwcFusedConv", inputs, {"pads": [1, 1, 1, 1], "activation": "Relu"}, constant=(1, 2), oracle=oracle)


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 3]},
    {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 1, 0, 1]},
    {"kernel_shape": [2, 2], "strides": [2, 3], "dilations": [2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
]


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_nhwc_max_pool(attributes: dict[str, Any], dtype: Any) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    check("NhwcMaxPool", [ints(0, low, high, (2, 9, 11, 5), dtype)], attributes, symbolic=(2,))


MASKED: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"kernel_shape": [3]}, (2, 3, 11)),
    ({"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}, (2, 3, 9, 11)),
    ({"kernel_shape": [2, 2, 3], "strides": [1, 2, 2]}, (2, 3, 4, 5, 7)),
]


@pytest.mark.parametrize(("attributes", "shape"), MASKED)
def test_max_pool_with_mask(attributes: dict[str, Any], shape: tuple[int, ...]) -> None:
    mask = ints(1, 0, 3, (1, 1, *shape[2:]), np.int32)
    check("MaxpoolWithMask", [floats(0, *shape), mask], attributes, symbolic=(11,))


def test_mask_of_channels_is_refused() -> None:
    x = floats(0, 2, 3, 11)
    proto = node_model("MaxpoolWithMask", [x, np.ones(x.shape, np.int32)], {"kernel_shape": [3]})
    with pytest.raises(OpAttributeUnimplemented, match=r"mask: got .*; supported: one mask for all images and channels"):
        import_model(proto)


TRANSPOSED: list[dict[str, Any]] = [{}, {"strides": [2, 3]}, {"strides": [2, 2], "output_padding": [1, 0], "dilations": [1, 2]}]


@pytest.mark.parametrize("attributes", TRANSPOSED)
@pytest.mark.parametrize("constant", [(1, 3), (1, 2, 3)])
def test_transposed_convolution_with_pads(attributes: dict[str, Any], constant: tuple[int, ...]) -> None:
    weight, bias, pads = floats(1, 4, 3, 3, 2), floats(2, 3), np.array([1, 0, 1, 1])
    check("ConvTransposeWithDynamicPads", [X, weight, pads, bias], attributes, constant=constant, symbolic=(2, 9))


def test_transposed_convolution_without_pads_is_refused() -> None:
    with pytest.raises(OpAttributeInvalid, match=r"input 2 \(Pads\) is absent"):
        import_model(node_model("ConvTransposeWithDynamicPads", [X, floats(1, 4, 3, 3, 2)]))


def test_automatic_padding_beside_pads_of_run_time_is_refused() -> None:
    inputs = [X, floats(1, 4, 3, 3, 2), np.array([1, 0, 1, 1])]
    with pytest.raises(OpAttributeUnimplemented, match="'auto_pad': got 'SAME_UPPER' with pads that arrive at run time"):
        import_model(node_model("ConvTransposeWithDynamicPads", inputs, {"auto_pad": "SAME_UPPER"}))
