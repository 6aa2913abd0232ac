"""qnn.quantize and qnn.dequantize."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from forge import dtypes
from forge.driver import check_options, compile_module
from forge.errors import TypeInferenceError
from forge.ir.text.parser import parse_module
from forge.tir.printer import print_function
from tests.ops.nn_check import check, random, single


def scalar(value: float, dtype: str = "float32") -> np.ndarray:
    return np.asarray(value, dtypes.numpy_dtype(dtype))


def test_rounds_half_to_even_and_saturates() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1000, -1000, np.nan, np.inf, -np.inf], np.float32)
    got = check("qnn.quantize", [x, scalar(1.0), scalar(10, "int8")], out_dtype="int8")
    np.testing.assert_array_equal(got, [10, 12, 12, 10, 8, 127, -128, 10, 127, -128])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int4", "uint4"])
def test_round_trip(dtype: str) -> None:
    low, high = dtypes.integer_range(dtype)
    q = np.arange(max(low, -120), min(high, 120) + 1).astype(dtypes.numpy_dtype(dtype))
    zero_point = scalar(3, dtype)
    real = check("qnn.dequantize", [q, scalar(0.1), zero_point])
    np.testing.assert_array_equal(check("qnn.quantize", [real, scalar(0.1), zero_point], out_dtype=dtype), q)


def test_per_channel() -> None:
    x, scale = random(2, 3, 4), np.array([0.1, 0.2, 0.5], np.float32)
    got = check("qnn.quantize", [x, scale], [("n", 3, "w"), None], axis=1)
    np.testing.assert_array_equal(got, np.rint(x / scale[:, None]))
    zero_point = np.array([1, 2, 3], np.int8)
    back = check("qnn.dequantize", [got, scale, zero_point], axis=1)
    np.testing.assert_allclose(back, (got.astype(np.float32) - zero_point[:, None]) * scale[:, None], rtol=1e-6)


@pytest.mark.parametrize(("axis", "size"), [(1, 8), (-1, 8), (0, 2), (1, 5)])
def test_blocks_of_an_axis(axis: int, size: int) -> None:
    x = random(4, 8)
    blocks = -(-x.shape[axis] // size)
    scale = np.random.default_rng(0).uniform(0.01, 0.5, [blocks if k == axis % 2 else d for k, d in enumerate(x.shape)])
    scale = scale.astype(np.float32)
    zero_point = np.arange(scale.size, dtype=np.int8).reshape(scale.shape)
    spread: list[np.ndarray] = [np.repeat(v, size, axis).take(range(x.shape[axis]), axis) for v in (scale, zero_point)]
    got = check("qnn.quantize", [x, scale, zero_point], axis=axis, block_size=size)
    np.testing.assert_array_equal(got, np.clip(np.rint(x / spread[0]) + spread[1], -128, 127))
    back = check("qnn.dequantize", [got, scale, zero_point], axis=axis, block_size=size)
    np.testing.assert_array_equal(back, (got.astype(np.float32) - spread[1]) * spread[0])


def test_blocks_of_symbolic_sizes() -> None:
    x, scale = random(3, 8), np.full((3, 2), 0.1, np.float32)
    got = check("qnn.quantize", [x, scale], [("n", 8), ("n", 2)], axis=1, block_size=4)
    np.testing.assert_array_equal(got, np.rint(x / np.float32(0.1)))


def test_wide_integers_and_other_reals() -> None:
    big = np.array([2**31 - 1, -(2**31)], np.int32)
    got = check("qnn.dequantize", [big, scalar(1.0, "float64"), scalar(-5, "int32")], out_dtype="float64")
    np.testing.assert_array_equal(got, [2.0**31 + 4, -(2.0**31) + 5])
    assert check("qnn.quantize", [random(4, dtype="float16"), scalar(0.5, "float16")]).dtype == np.int8
    np.testing.assert_array_equal(check("qnn.quantize", [np.array([3e9], np.float32), scalar(1.0)], out_dtype="int32"),
        [2**31 - 1])


def test_zero_points_leave_vectors_whole() -> None:
    """They are converted to what the sum is in, not by way of a wider integer, of which a vector holds half as many."""
    module = parse_module("""
def @main(%x: Tensor[(12, 128), float32]) { qnn.quantize(nn.softmax(%x), 0.004f, 3u8, out_dtype="uint8") }
""")
    lowered = compile_module(module, check_options("llvm -mcpu=x86-64-v3")).lowered
    assert lowered is not None
    stores = re.findall(r"out0\[ramp\(.*, 1, (\d+)\)\] =", print_function(lowered.library.functions[0]))
    assert set(stores) == {"8"}


@pytest.mark.parametrize(
    ("op", "arrays", "attrs", "message"),
    [
        ("qnn.quantize", [random(2, 3), random(2)], {}, "scale against axis 1"),
        ("qnn.quantize", [random(2, 3), random(2, 3)], {}, "expected rank 0 or 1"),
        ("qnn.quantize", [random(2, 8), random(2, 3)], {"block_size": 4}, "scale against axis 1.*of 4; got 3; expected 2"),
        ("qnn.quantize", [random(2, 8), random(2)], {"block_size": 4}, "expected rank 2"),
        ("qnn.quantize", [random(2, 8), scalar(1.0)], {"block_size": -1}, "block_size"),
        ("qnn.quantize", [random(2), scalar(1.0)], {"out_dtype": "float32"}, "out_dtype"),
        ("qnn.quantize", [random(2), scalar(1.0), scalar(1, "uint8")], {}, "zero_point"),
        ("qnn.dequantize", [random(2), scalar(1.0)], {}, "data"),
        ("qnn.dequantize", [random(2, dtype="int8"), scalar(1.0, "float16")], {}, "scale"),
    ],
)
def test_mistakes_are_named(op: str, arrays: list[np.ndarray], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        single(op, arrays, **attrs)
