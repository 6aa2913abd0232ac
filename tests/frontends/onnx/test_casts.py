"""Casts to floats of 8 bits, at every exponent, and of floats to integers beyond their range, as onnxruntime makes them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

import forge
from tests.frontends.onnx.support import model, onnxruntime_outputs

ENDS = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(np.float32)
"""Every bfloat16: all exponents of float32, infinities, NaN and subnormal numbers."""

NUMBERS = np.concatenate([ENDS, np.nextafter(ENDS, np.float32(np.inf)), np.nextafter(ENDS, np.float32(-np.inf))])


def bits(values: np.ndarray) -> np.ndarray:
    """What tells numbers apart, all NaN alike."""
    return np.where(np.isnan(values), np.float32(np.nan), values).view(np.uint32)


@pytest.mark.parametrize("saturate", (0, 1))
@pytest.mark.parametrize(
    ("to", "round_mode"),
    [("FLOAT8E4M3FN", ""), ("FLOAT8E5M2", ""), ("FLOAT8E4M3FNUZ", ""), ("FLOAT8E5M2FNUZ", ""),
     ("FLOAT8E8M0", "up"), ("FLOAT8E8M0", "down"), ("FLOAT8E8M0", "nearest")],
)  # fmt: skip
def test_cast(to: str, round_mode: str, saturate: int) -> None:
    """Beyond the range without ``saturate``, onnxruntime differs from the text of the standard for two types, which decides."""
    rounding = f', round_mode = "{round_mode}"' if round_mode else ""
    number = {"FLOAT8E4M3FN": 17, "FLOAT8E4M3FNUZ": 18, "FLOAT8E5M2": 19, "FLOAT8E5M2FNUZ": 20, "FLOAT8E8M0": 24}[to]
    proto = model(
        f"g (float[n] x) => (float[n] y) {{ c = Cast<to = {number}, saturate = {saturate}{rounding}>(x)  y = Cast<to = 1>(c) }}",
        opset=24 if round_mode else 21,
    )
    (expected,) = onnxruntime_outputs(proto, NUMBERS)
    if not saturate and to in ("FLOAT8E4M3FN", "FLOAT8E5M2"):
        with np.errstate(invalid="ignore"):
            narrow = NUMBERS.astype(ml_dtypes.float8_e4m3fn if to == "FLOAT8E4M3FN" else ml_dtypes.float8_e5m2)
        expected = narrow.astype(np.float32)
    got = np.asarray(forge.from_onnx(proto).get_inference_function()(NUMBERS))
    np.testing.assert_array_equal(bits(got), bits(expected))


@pytest.mark.parametrize("source", ["float", "float16", "double"])
@pytest.mark.parametrize("to", ["INT8", "UINT8", "INT16", "UINT16", "UINT32", "UINT64"])
def test_floats_that_an_integer_type_does_not_have_keep_their_low_bits(to: str, source: str) -> None:
    number = getattr(onnx.TensorProto, to)
    dtype = {"float": np.float32, "float16": np.float16, "double": np.float64}[source]
    values = np.array([300, -1, -1.5, -0.5, 255.9, 60000, -40000, 127, -129], dtype)
    proto = model(f"g ({source}[n] x) => ({to.lower()}[n] y) {{ y = Cast<to = {number}>(x) }}")
    np.testing.assert_array_equal(forge.from_onnx(proto).get_inference_function()(values), *onnxruntime_outputs(proto, values))
