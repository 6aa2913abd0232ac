"""Narrow floats: every code decodes, and numbers around every rounding boundary encode, as in ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dtypes
from forge.codegen.llvm import NARROW_FLOATS
from forge.tir import expr as tir
from tests.codegen.native import Array, assert_identical, map_function, run_map

TARGETS = ("llvm -mcpu=x86-64", "llvm")


def codes(dtype: str) -> Array:
    count = max(16, 1 << dtypes.bits(dtype))
    unsigned = np.uint16 if dtypes.itemsize(dtype) == 2 else np.uint8
    return (np.arange(count) % (1 << dtypes.bits(dtype))).astype(unsigned).view(dtypes.numpy_dtype(dtype))


def boundaries(dtype: str) -> Array:
    """float32 values at, between and next to those of ``dtype``, and random ones."""
    with np.errstate(all="ignore"):
        values = codes(dtype).astype(np.float32)
        finite = np.unique(values[np.isfinite(values)])
        finite = finite[:: max(1, len(finite) // 4096)]
        middle = finite[1:] / 2 + finite[:-1] / 2
        large = finite[-1] * np.array([1.01, 1.06, 1.125, 1.2, 2.0], np.float32)
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 1 << 32, 4096, dtype=np.uint32).view(np.float32)
    beside = [np.nextafter(middle, np.float32(side)) for side in (np.inf, -np.inf)]
    special = np.array([np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45], np.float32)
    x = np.concatenate([finite, middle, *beside, large, -large, anything, special])
    return np.concatenate([x, np.zeros(-len(x) % 8, np.float32)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", sorted(NARROW_FLOATS))
def test_every_code_decodes(dtype: str, target: str) -> None:
    x = codes(dtype)
    got = run_map(map_function((dtype,), "float32", lambda v: tir.cast(v, "float32")), (x,), target)
    assert_identical(got, x.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("dtype", sorted(NARROW_FLOATS))
def test_numbers_round_to_nearest_even(dtype: str, source: str, target: str) -> None:
    x = boundaries(dtype).astype(source)
    if dtype == "float4_e2m1fn":
        x = x[~np.isnan(x)]
        x = x[: len(x) // 8 * 8]
    got = run_map(map_function((source,), dtype, lambda v: tir.cast(v, dtype)), (x,), target)
    with np.errstate(all="ignore"):
        assert_identical(got, x.astype(dtypes.numpy_dtype(dtype)))


def test_a_cast_rounds_even_where_nothing_is_stored() -> None:
    x = np.array([1.0009765, 1.5, 3.14159, 65519.0, 65520.0, 1e-8, -1e-7, 0.1], np.float32)
    function = map_function(("float32",), "float32", lambda v: tir.cast(tir.cast(v, "float16"), "float32"))
    with np.errstate(over="ignore"):
        assert_identical(run_map(function, (x,)), x.astype(np.float16).astype(np.float32))


def test_reinterpret_sees_the_bits_of_a_narrow_float() -> None:
    x = np.linspace(-2, 2, 16).astype(np.float16)
    function = map_function(("float16",), "uint16", lambda v: tir.call("reinterpret", v, dtype="uint16"))
    assert_identical(run_map(function, (x,)), x.view(np.uint16))
