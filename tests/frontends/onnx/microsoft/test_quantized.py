"""Quantized operators of com.microsoft: results are equal to onnxruntime's to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.microsoft.support import HAS_VNNI, check, floats, ints, node_model, onnxruntime_outputs

TYPES = [np.uint8, np.int8]


def codes(seed: int, dtype: Any, *shape: int) -> np.ndarray:
    """Numbers of the whole range; of half of it for int8 where the CPU has no exact product of uint8 and int8.

    There onnxruntime adds pairs of products in 16 bits, which saturate: 2 * 255 * 127 is more than they hold.
    """
    limits = np.iinfo(dtype)
    part = 1 if HAS_VNNI or dtype != np.int8 else 2
    return ints(seed, limits.min // part, limits.max // part, shape, dtype)


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def zero(dtype: Any, shift: int = 0) -> np.ndarray:
    """A zero point near the middle of the range."""
    return np.array((128 if dtype == np.uint8 else 0) + shift, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("right", [(4, 33), (1, 33), (33,), (1,)])
def test_binary(op: str, dtype: Any, right: tuple[int, ...]) -> None:
    inputs = [codes(0, dtype, 4, 33), number(0.02), zero(dtype), codes(1, dtype, *right), number(0.03), zero(dtype, 2)]
    check(op, [*inputs, number(0.05), zero(dtype, -1)], symbolic=(4,), opt_level=0 if len(right) == 1 else 3)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_binary_without_zero_points(op: str) -> None:
    """onnxruntime calls them optional and refuses their absence."""
    a, b, z = codes(0, np.uint8, 4, 33), codes(1, np.uint8, 4, 33), np.array(0, np.uint8)
    proto = node_model(op, [a, number(0.02), z, b, number(0.03), z, number(0.05), z])
    (expected,) = onnxruntime_outputs(proto, a, number(0.02), z, b, number(0.03), z, number(0.05), z)
    check(op, [a, number(0.02), None, b, number(0.03), None, number(0.05)], oracle=lambda *inputs: expected)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["QLinearLeakyRelu", "QLinearSigmoid"])
def test_unary(op: str, dtype: Any) -> None:
    attributes = {"alpha": 0.1} if op == "QLinearLeakyRelu" else None
    target = [number(0.05), zero(dtype, -1)] if attributes else [number(1 / 256), np.array(np.iinfo(dtype).min, dtype)]
    check(op, [codes(0, dtype, 4, 33), number(0.02), zero(dtype), *target], attributes, symbolic=(4,))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (11, 1), (11, 2)])
def test_softmax(dtype: Any, opset: int, axis: int) -> None:
    inputs = [codes(0, dtype, 3, 4, 5), number(0.02), zero(dtype), number(1 / 256), np.array(np.iinfo(dtype).min, dtype)]
    check("QLinearSoftmax", inputs, {"opset": opset, "axis": axis}, symbolic=(3,), opt_level=0)


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 3]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("channels_last", [0, 1])
def test_average_pool(dtype: Any, attributes: dict[str, Any], channels_last: int) -> None:
    """The scales are in no simple ratio: which way a tie is rounded depends on how sums of real numbers were rounded."""
    x = codes(2, dtype, 2, 5, 9, 7)
    inputs = [x, number(0.02), zero(dtype), number(0.0137), zero(dtype, -1)]
    check("QLinearAveragePool", inputs, {**attributes, "channels_last": channels_last}, symbolic=(2,), opt_level=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels_last", [0, 1])
def test_global_average_pool(dtype: Any, channels_last: int) -> None:
    inputs = [codes(2, dtype, 2, 5, 9, 7), number(0.02), zero(dtype), number(0.01), zero(dtype, -1)]
    check("QLinearGlobalAveragePool", inputs, {"channels_last": channels_last}, symbolic=(2,))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(dtype: Any, axis: int) -> None:
    parts = [codes(0, dtype, 4, 33), number(0.02), zero(dtype), codes(1, dtype, 4, 33), number(0.03), zero(dtype, 2)]
    check("QLinearConcat", [number(0.05), zero(dtype, -1), *parts], {"axis": axis}, symbolic=(4,))


def test_concat_of_incomplete_parts_is_refused() -> None:
    inputs = [number(0.05), zero(np.int8), codes(0, np.int8, 4, 3), number(0.02)]
    with pytest.raises(OpAttributeInvalid, match=r"'the_QLinearConcat' .*got 2 inputs after Y_zero_point"):
        import_model(node_model("QLinearConcat", inputs, {"axis": 1}))


@pytest.mark.parametrize("dtype", TYPES)
def test_where(dtype: Any) -> None:
    condition = ints(9, 0, 1, (4, 1), bool)
    x, y = codes(0, dtype, 4, 33), codes(1, dtype, 33)
    inputs = [condition, x, number(0.02), zero(dtype), y, number(0.03), zero(dtype, 2), number(0.05), zero(dtype, -1)]
    check("QLinearWhere", inputs, symbolic=(4,))


GEMMS: list[dict[str, Any]] = [{}, {"alpha": 0.5}, {"transA": 1}, {"transB": 1, "alpha": 2.0}]


@pytest.mark.parametrize("types", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("attributes", GEMMS)
@pytest.mark.parametrize("bias", [None, ints(4, -9999, 9999, (6,), np.int32)])
@pytest.mark.parametrize("is_real", [True, False])
def test_gemm(types: Any, attributes: dict[str, Any], bias: Any, is_real: bool) -> None:
    first, second = types
    a = codes(0, first, *((33, 4) if attributes.get("transA") else (4, 33)))
    b = codes(1, second, *((6, 33) if attributes.get("transB") else (33, 6)))
    inputs = [a, number(0.02), zero(first, 3), b, number(0.03), zero(second, 2), bias]
    if not is_real:
        inputs += [number(5.0), zero(first, -1)]
    check("QGemm", inputs, attributes, constant=(3,), opt_level=0)


def test_gemm_with_a_scale_for_each_column() -> None:
    scales = np.abs(floats(5, 6)) + np.float32(0.01)
    points = codes(6, np.int8, 6)
    check("QGemm", [codes(0, np.int8, 4, 33), number(0.02), zero(np.int8, 3), codes(1, np.int8, 33, 6), scales, points])


@pytest.mark.parametrize("types", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("by_column", [True, False])
@pytest.mark.parametrize("bias", [None, floats(5, 6)])
def test_matmul_integer_to_float(types: Any, by_column: bool, bias: Any) -> None:
    first, second = types
    scale = np.abs(floats(5, 6)) if by_column else number(0.03)
    point = codes(6, second, 6) if by_column else zero(second, 2)
    inputs = [codes(0, first, 2, 4, 33), codes(1, second, 33, 6), number(0.02), scale, zero(first, 3), point, bias]
    check("MatMulIntegerToFloat", inputs, constant=(1,), symbolic=(2,))
    check("MatMulIntegerToFloat", [*inputs[:4], None, None, bias], constant=(1,), opt_level=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("by_column", [True, False])
@pytest.mark.parametrize("bias", [None, floats(5, 6)])
@pytest.mark.parametrize("x", [floats(0, 2, 4, 33), np.abs(floats(0, 2, 4, 33)), np.zeros((2, 4, 33), np.float32)])
def test_dynamic_quantize_matmul(dtype: Any, by_column: bool, bias: Any, x: np.ndarray) -> None:
    scale = np.abs(floats(5, 6)) if by_column else number(0.03)
    point = codes(6, dtype, 6) if by_column else zero(dtype, 2)
    check("DynamicQuantizeMatMul", [x, codes(1, dtype, 33, 6), scale, point, bias], constant=(1,), symbolic=(2,), opt_level=0)


def test_matmul_of_16_bits() -> None:
    check("MatMulInteger16", [ints(0, -300, 300, (2, 4, 5), np.int16), ints(1, -300, 300, (5, 6), np.int16)], symbolic=(2,))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("channels_last", [0, 1])
def test_conv(dtype: Any, channels_last: int) -> None:
    x = codes(0, dtype, 2, 9, 7, 5) if channels_last else codes(0, dtype, 2, 5, 9, 7)
    scales, points = np.abs(floats(3, 4)) * np.float32(0.01) + np.float32(0.001), np.zeros(4, np.int8)
    inputs = [x, number(0.02), zero(dtype, 3), codes(1, np.int8, 4, 5, 3, 3), scales, points, number(0.5), zero(dtype, -1)]
    inputs.append(ints(4, -999, 999, (4,), np.int32))
    check("QLinearConv", inputs, {"channels_last": channels_last, "pads": [1, 1, 1, 1]}, constant=(3, 8), symbolic=(2,))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantize_and_dequantize(dtype: Any, axis: int | None) -> None:
    x = floats(0, 4, 6)
    scale = number(0.02) if axis is None else np.abs(floats(1, x.shape[axis])) * np.float32(0.02)
    point = zero(dtype, 3) if axis is None else codes(2, dtype, x.shape[axis])
    attributes = None if axis is None else {"axis": axis}
    check("QuantizeLinear", [x, scale, point], attributes)
    check("DequantizeLinear", [codes(3, dtype, 4, 6), scale, point], attributes)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_16_bits(dtype: Any) -> None:
    check("QuantizeLinear", [floats(0, 4, 6), number(0.001), np.array(7, dtype)])
    check("DequantizeLinear", [codes(3, dtype, 4, 6), number(0.001), np.array(7, dtype)])


def test_reduce_mean() -> None:
    def oracle(x: np.ndarray, scale: np.ndarray, point: np.ndarray, y_scale: np.ndarray, y_point: np.ndarray) -> np.ndarray:
        mean = ((x.astype(np.float64) - point) * scale).mean(axis=(1,), keepdims=True)
        return np.clip(np.rint(mean / y_scale) + y_point, 0, 255).astype(np.uint8)

    inputs = [codes(0, np.uint8, 4, 33), number(0.02), zero(np.uint8), number(0.013), zero(np.uint8, 3)]
    check("QLinearReduceMean", inputs, {"axes": [1], "keepdims": 1}, oracle=oracle, symbolic=(4,))


@pytest.mark.parametrize(("dtype", "wide"), [(np.uint8, np.uint32), (np.int8, np.int32)])
def test_reduce_sum(dtype: Any, wide: Any) -> None:
    x = codes(0, dtype, 4, 33, 5)
    check("ReduceSumInteger", [x], {"axes": [0, 2], "keepdims": 0}, oracle=lambda x: x.astype(wide).sum((0, 2), dtype=wide))


@pytest.mark.parametrize("dtype", TYPES)
def test_product_of_integers(dtype: Any) -> None:
    def oracle(a: np.ndarray, a_point: np.ndarray, b: np.ndarray, b_point: np.ndarray) -> np.ndarray:
        return (a.astype(np.int32) - a_point.astype(np.int32)) * (b.astype(np.int32) - b_point.astype(np.int32))

    check("MulInteger", [codes(0, dtype, 4, 33), zero(dtype, 3), codes(1, dtype, 33), zero(dtype, -2)], oracle=oracle)


BATCH, LENGTH, HEADS = 2, 5, 3
PAST = floats(9, 2, BATCH, HEADS, 6, 4)
MASK = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 0]], np.int32)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mask", [None, MASK, np.array([3, 5], np.int32)])
@pytest.mark.parametrize(("past", "unidirectional"), [(None, 0), (None, 1), (PAST, 1)])
def test_attention(dtype: Any, mask: Any, past: Any, unidirectional: int) -> None:
    if past is not None and mask is not None and mask.ndim == 2:
        mask = np.concatenate([np.ones((BATCH, 6), np.int32), mask], axis=1)
    inputs = [
        codes(0, np.uint8, BATCH, LENGTH, 12), codes(1, dtype, 12, 36), floats(2, 36), number(0.01), number(0.02), mask,
        zero(np.uint8, 3), zero(dtype, 2), past,
    ]
    outputs = (True, True) if past is not None else (True,)
    attributes = {"num_heads": HEADS, "unidirectional": unidirectional}
    check("QAttention", inputs, attributes, constant=(1, 2), outputs=outputs, opt_level=0)


def test_attention_is_refused() -> None:
    inputs = [codes(0, np.uint8, 2, 5, 12), codes(1, np.int8, 12, 36), floats(2, 36), number(0.01), number(0.02)]
    with pytest.raises(OpAttributeUnimplemented, match=r"'the_QAttention' .*'do_rotary': got 1; supported: 0"):
        import_model(node_model("QAttention", inputs, {"num_heads": 3, "do_rotary": 1}))
    inputs[2] = floats(2, 12)
    with pytest.raises(OpAttributeInvalid, match=r"'the_QAttention' .*bias: got .*; expected 36 elements"):
        import_model(node_model("QAttention", inputs, {"num_heads": 3}))
