"""Matrix products of com.microsoft."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import check, floats, node_model
from tests.frontends.onnx.microsoft.test_activations import gelu_tanh, softmax

A, B = floats(0, 2, 3, 4, 5), floats(1, 2, 3, 5, 6)

ORIENTED: list[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    ({"alpha": 0.125}, (2, 3, 4, 5), (2, 3, 5, 6)),
    ({"transA": 1}, (2, 3, 5, 4), (5, 6)),
    ({"transB": 1, "alpha": 2.0}, (2, 3, 4, 5), (6, 5)),
    ({"transA": 1, "transB": 1}, (5, 4), (6, 5)),
    ({"transBatchA": 1}, (4, 2, 3, 5), (2, 3, 5, 6)),
    ({"transBatchB": 1}, (2, 3, 4, 5), (5, 2, 3, 6)),
    ({"transBatchA": 1, "transA": 1}, (5, 2, 3, 4), (2, 3, 5, 6)),
    ({"transBatchA": 1, "transBatchB": 1, "transB": 1}, (4, 2, 3, 5), (6, 2, 3, 5)),
    ({"transA": 1}, (5,), (5, 6)),
    ({"transB": 1}, (4, 5), (5,)),
]


@pytest.mark.parametrize(("attributes", "left", "right"), ORIENTED)
@pytest.mark.parametrize("constant", [(), (1,)])
def test_fused_matmul(
    attributes: dict[str, Any], left: tuple[int, ...], right: tuple[int, ...], constant: tuple[int, ...]
) -> None:
    check("FusedMatMul", [floats(0, *left), floats(1, *right)], attributes, constant=constant, symbolic=(2, 4))


def test_transpose_matmul() -> None:
    check("TransposeMatMul", [A, B.swapaxes(2, 3).copy()], {"alpha": 0.5, "transB": 1}, symbolic=(2, 4))


def test_double() -> None:
    check("FusedMatMul", [A.astype(np.float64), B.astype(np.float64)], {"alpha": 0.125})


GEMM: list[dict[str, Any]] = [
    {"activation": "Relu"},
    {"activation": "Tanh", "alpha": 0.5, "beta": 2.0},
    {"activation": "Sigmoid", "transB": 1},
    {"activation": "LeakyRelu", "activation_alpha": 0.25, "transA": 1},
    {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
    {"activation": "Elu", "activation_alpha": 0.7},
    {"activation": "Softplus"},
    {"activation": "Softsign"},
    {"activation": "ThresholdedRelu", "activation_alpha": 0.5},
]


@pytest.mark.parametrize("attributes", GEMM)
@pytest.mark.parametrize("biased", [True, False])
def test_fused_gemm(attributes: dict[str, Any], biased: bool) -> None:
    a = floats(0, *((5, 4) if attributes.get("transA") else (4, 5)))
    b = floats(1, *((6, 5) if attributes.get("transB") else (5, 6)))
    check("FusedGemm", [a, b, floats(2, 6) if biased else None], attributes, symbolic=(4,))


def test_unknown_activation_is_refused() -> None:
    proto = node_model("FusedGemm", [floats(0, 4, 5), floats(1, 5, 6)], {"activation": "Snake"})
    with pytest.raises(OpAttributeUnimplemented, match=r"'the_FusedGemm'.*'activation': got 'Snake'; supported: Relu, Tanh"):
        import_model(proto)


def test_activation_without_its_parameter_is_refused() -> None:
    proto = node_model("FusedGemm", [floats(0, 4, 5), floats(1, 5, 6)], {"activation": "LeakyRelu"})
    with pytest.raises(OpAttributeInvalid, match="activation LeakyRelu: got 0 parameters; expected 1"):
        import_model(proto)


def test_gemm_fast_gelu() -> None:
    def oracle(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
        return gelu_tanh(x @ w + b).astype(np.float32)

    check("GemmFastGelu", [floats(0, 2, 4, 5), floats(1, 5, 6), floats(2, 6)], oracle=oracle, symbolic=(2, 4))


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_matmul_before_softmax(name: str, axis: int | None) -> None:
    def oracle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = softmax(0.5 * a @ b, (-1 if axis is None else axis,))
        return found if name == "Softmax" else np.log(found)

    attributes = {"activation": name, "alpha": 0.5, **({} if axis is None else {"activation_axis": axis})}
    check("FusedMatMulActivation", [A, B], attributes, oracle=oracle)


def test_matmul_before_relu() -> None:
    check("FusedMatMulActivation", [A, B], {"activation": "Relu"}, oracle=lambda a, b: np.maximum(a @ b, 0))
