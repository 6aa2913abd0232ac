"""Operators of com.microsoft that move, select, measure, transform and hash."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import check, floats, node_model

X = floats(0, 3, 4)
FLOAT, INT32, UINT32 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.UINT32

MOVES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("SampleOp", [X], {}),
    ("ExpandDims", [X, np.array(-1, np.int32)], {}),
    ("ExpandDims", [X, np.array([1], np.int32)], {}),
    ("Trilu", [X], {"upper": 0}),
    ("Trilu", [X, np.array([1])], {}),
    ("Pad", [X, np.array([1, 0, 0, 2]), np.array([9], np.float32)], {}),
    ("Pad", [X, np.array([[1, 0, 0, 2]])], {"mode": "edge"}),
    ("Pad", [X, np.array([1, 0, 0, 2])], {"mode": "reflect"}),
    ("Pad", [X, np.array([-1, 0, 0, 2])], {}),
    ("GatherND", [X, np.array([[0, 1], [2, 3]])], {}),
    ("GatherND", [X, np.array([[-1], [0]], np.int32)], {}),
    ("Range", [np.array(1), np.array(9)], {}),
    ("Range", [np.array([1], np.float32), np.array([9], np.float32), np.array([2.5], np.float32)], {}),
    ("GridSample", [floats(0, 1, 2, 4, 5), floats(1, 1, 3, 3, 2)], {}),
    ("GridSample", [floats(0, 1, 2, 4, 5), floats(1, 1, 3, 3, 2)], {"mode": "nearest", "align_corners": 1}),
    ("GridSample", [floats(0, 1, 2, 4, 5), floats(1, 1, 3, 3, 2)], {"padding_mode": "border"}),
    ("UnfoldTensor", [floats(0, 3, 8)], {"size": 3, "step": 2}),
    ("UnfoldTensor", [floats(0, 3, 8)], {"size": 2, "dim": 0}),
    ("CDist", [floats(0, 3, 7), floats(1, 5, 7)], {"metric": "sqeuclidean"}),
    ("CDist", [floats(0, 3, 7).astype(np.float64), floats(1, 5, 7).astype(np.float64)], {"metric": "euclidean"}),
    ("ScaledSiLU", [X], {"alpha": 2.0}),
    ("GatedAdd", [floats(0, 3, 4), floats(1, 3, 4), floats(2, 3, 1)], {}),
    ("GatedRMSNorm", [floats(0, 3, 4), floats(1, 4), floats(2, 3, 4)], {}),
]


@pytest.mark.parametrize(("op", "inputs", "attributes"), MOVES)
@pytest.mark.parametrize("is_constant", [False, True])
def test_as_onnxruntime(op: str, inputs: list[Any], attributes: dict[str, Any], is_constant: bool) -> None:
    constant = tuple(range(1, len(inputs))) if is_constant else ()
    symbolic = () if op == "Range" else (3,)
    check(op, inputs, attributes, constant=constant, symbolic=symbolic, opt_level=0)


def test_unique() -> None:
    check("Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], outputs=(True, True, True), symbolic=(6,))


def test_inverse() -> None:
    x = floats(0, 2, 4, 4) + 3 * np.eye(4, dtype=np.float32)
    check("Inverse", [x], symbolic=(2,))


BOXES = np.array([[0, 0, 1, 1], [0.2, 0.3, 0.8, 0.9], [-0.5, 0, 1.5, 1]], np.float32)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_crop_and_resize(mode: str) -> None:
    inputs = [floats(0, 2, 2, 5, 6), BOXES, np.array([0, 1, 1], np.int32), np.array([3, 4], np.int32)]
    check("CropAndResize", inputs, {"mode": mode, "extrapolation_value": 7.0}, constant=(3,), symbolic=(3,))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64])
@pytest.mark.parametrize(("attributes", "declared"), [({}, UINT32), ({"positive": 0, "seed": 5}, INT32)])
def test_hash(dtype: Any, attributes: dict[str, Any], declared: int) -> None:
    x = (floats(0, 3, 4) * 1000).astype(np.int64).astype(dtype)
    check("MurmurHash3", [x], attributes, declared={0: declared}, symbolic=(3,), opt_level=0)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_repeated_ngrams(size: int) -> None:
    ids = np.array([[3, 2, 2, 1, 1, 0, 3, 2], [0, 3, 2, 3, 2, 0, 3, 2]])
    check("NGramRepeatBlock", [ids, floats(1, 2, 6)], {"ngram_size": size}, symbolic=(2,), opt_level=0)


def test_embedding_of_words() -> None:
    rows = [[1, 2, 3, 0, 0], [2, 3, 1, 4, 1], [4, 3, 0, 0, 0], [3, 0, 0, 0, 0], [5, 0, 2, 1, 1], [5, 2, 2, 0, 1]]
    weights = [floats(1, 7, 1, 3, 4), floats(2, 7), floats(3, 10, 4)]
    inputs = [np.array(rows, np.int32), *weights]
    check("WordConvEmbedding", inputs, constant=(1, 2, 3), symbolic=(6,))
    empty = [np.zeros((2, 5), np.int32), *weights]
    check("WordConvEmbedding", empty, constant=(1, 2, 3), oracle=lambda *_: np.zeros((2, 7), np.float32))
    with pytest.raises(OpAttributeInvalid, match="'conv_window_size': got 2; the weight has 3"):
        import_model(node_model("WordConvEmbedding", inputs, {"conv_window_size": 2}))


@pytest.mark.parametrize("count", [1, 2])
def test_transforms(count: int) -> None:
    def forward(x: np.ndarray) -> np.ndarray:
        found = np.fft.rfftn(x, axes=tuple(range(-count, 0)))
        return np.stack([found.real, found.imag], -1).astype(np.float32)

    def backward(x: np.ndarray) -> np.ndarray:
        return np.fft.irfftn(x[..., 0] + 1j * x[..., 1], axes=tuple(range(-count, 0))).astype(np.float32)

    x = floats(0, 3, 6, 8)
    check("Rfft", [x], {"signal_ndim": count}, oracle=forward, symbolic=(3,))
    check("Irfft", [forward(x)], {"signal_ndim": count}, oracle=backward, symbolic=(3,))


@pytest.mark.parametrize("op", ["ComplexMul", "ComplexMulConj"])
def test_products_of_complex_numbers(op: str) -> None:
    def oracle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left, right = (v[..., 0] + 1j * v[..., 1] for v in (a, b))
        found = left * (right if op == "ComplexMul" else right.conj())
        return np.stack([found.real, found.imag], -1).astype(np.float32)

    check(op, [floats(0, 3, 4, 2), floats(1, 4, 2)], oracle=oracle, symbolic=(3,))


def test_gemma_rotary() -> None:
    def oracle(angles: np.ndarray, q: np.ndarray, q_rot: np.ndarray, k: np.ndarray, k_rot: np.ndarray) -> list[np.ndarray]:
        cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
        return [q * cosine + q_rot * sine, k * cosine + k_rot * sine]

    heads = [floats(seed, 2, 3, 5, 4) for seed in range(1, 5)]
    check("GemmaRotaryEmbedding", [floats(0, 2, 5, 4), *heads], outputs=(True, True), oracle=oracle, symbolic=(2, 5))


@pytest.mark.parametrize("both", [0, 1])
@pytest.mark.parametrize("constant", [(), (1, 2)])
def test_relative_position_bias(both: int, constant: tuple[int, ...]) -> None:
    """Against a scalar statement of T5's buckets."""
    table = floats(0, 32, 3)

    def bucket(relative: int) -> int:
        count, first, distance = 32, 0, max(-relative, 0)
        if both:
            count, first, distance = 16, 16 if relative > 0 else 0, abs(relative)
        exact = count // 2
        if distance < exact:
            return first + distance
        return first + min(exact + int(np.log(distance / exact) / np.log(20 / exact) * (count - exact)), count - 1)

    def oracle(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        places = [[bucket(j - i) for j in range(int(columns.item()))] for i in range(int(rows.item()))]
        return np.ascontiguousarray(table[np.array(places)].transpose(2, 0, 1)[None])

    inputs = [table, np.array([37]), np.array([41])]
    attributes = {"max_distance": 20, "is_bidirectional": both}
    check("RelativePositionBias", inputs, attributes, oracle=oracle, constant=constant, opt_level=0)


def test_embedding_of_torch() -> None:
    inputs = [X, np.array([[1, 0], [2, 2]]), np.array(0), np.array(False)]
    check("TorchEmbedding", inputs, oracle=lambda table, indices, *rest: table[indices], constant=(0,))


@pytest.mark.parametrize("special", [1.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("attribute", [None, "isnan_only", "isinf_only"])
def test_is_all_finite(special: float, attribute: str | None) -> None:
    def oracle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        tests = {None: np.isfinite, "isnan_only": lambda v: ~np.isnan(v), "isinf_only": lambda v: ~np.isinf(v)}
        return np.array(all(tests[attribute](v).all() for v in (x, y)))

    y = np.array([1, special, 2], np.float32)
    check("IsAllFinite", [X, y], {attribute: 1} if attribute else None, oracle=oracle, opt_level=0)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("CDist", [X, X], {"metric": "cityblock"}, OpAttributeUnimplemented, "'metric': got 'cityblock'; supported"),
    ("CropAndResize", [floats(0, 1, 2, 5, 6), BOXES, np.zeros(3, np.int32), np.array([3, 4])], {"mode": "cubic"},
     OpAttributeInvalid, "'mode': got 'cubic'; expected 'bilinear'"),
    ("UnfoldTensor", [X], {"size": 5}, OpAttributeInvalid, "got size 5 and step 1; expected 1 to 4"),
    ("NGramRepeatBlock", [np.zeros((2, 3), np.int64), X], {"ngram_size": 0}, OpAttributeInvalid, "'ngram_size': got 0"),
    ("ComplexMul", [X, X], {}, OpAttributeInvalid, "expected a last axis of 2"),
    ("GatedAdd", [X, X, X], {}, OpAttributeInvalid, "gate: got .*; expected rank 2 and a last axis of 1"),
    ("GatedRMSNorm", [X, X[0], X], {"activation": "gelu"}, OpAttributeUnimplemented, "'activation': got 'gelu'; supported"),
    ("ScaledSiLU", [X, np.array(2, np.float32)], {}, OpAttributeUnimplemented, r"input 1 \(scale\): got one"),
    ("Rfft", [X], {"normalized": 1}, OpAttributeUnimplemented, "got normalized 1 and onesided 1; supported: 0 and 1"),
    ("Rfft", [X], {"signal_ndim": 3}, OpAttributeInvalid, "'signal_ndim': got 3; expected 1 to 2"),
    ("MurmurHash3", [X.astype(np.float16)], {}, OpAttributeUnimplemented, "input of float16; supported: numbers of 32 and 64"),
    ("IsAllFinite", [X], {"isnan_only": 1, "isinf_only": 1}, OpAttributeInvalid, "got isinf_only and isnan_only"),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "kind", "message"), REFUSED)
def test_is_refused(op: str, inputs: list[Any], attributes: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"'the_{op}' .*{message}"):
        import_model(node_model(op, inputs, attributes))
