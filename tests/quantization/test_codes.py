"""Codes for weights, next to the same by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from forge.quantization.weights.codes import QuantizedWeight, quantized_weight

WEIGHT = np.random.default_rng(0).standard_normal((3, 4, 2)).astype(np.float32) * np.array([1, 5, 0.1, 2], np.float32)[:, None]


@pytest.mark.parametrize("per_channel", [False, True])
def test_signed_codes_have_no_zero_point(per_channel: bool) -> None:
    made = quantized_weight(WEIGHT, 1, "int8", per_channel)
    scale = np.abs(WEIGHT).max(axis=(0, 2) if per_channel else None) / 127
    np.testing.assert_allclose(made.scale, scale, rtol=1e-6)
    assert made.zero is None and made.codes.dtype == np.int8 and np.abs(made.codes.astype(int)).max() == 127
    along = scale[:, None] if per_channel else scale
    np.testing.assert_array_less(np.abs(made.real - WEIGHT), np.broadcast_to(0.5001 * along, WEIGHT.shape))


@pytest.mark.parametrize("per_channel", [False, True])
def test_unsigned_codes_reach_from_the_least_to_the_largest_number(per_channel: bool) -> None:
    made = quantized_weight(WEIGHT + 1, 1, "uint8", per_channel)
    axes = (0, 2) if per_channel else None
    low, high = np.minimum((WEIGHT + 1).min(axis=axes), 0), (WEIGHT + 1).max(axis=axes)
    np.testing.assert_allclose(made.scale, (high - low) / 255, rtol=1e-5)
    assert made.zero is not None
    np.testing.assert_array_equal(made.zero, np.rint(-low / made.scale))
    np.testing.assert_array_equal(made.codes.max(axis=axes), np.full(np.shape(high), 255))


def test_zeros_have_a_scale() -> None:
    made = quantized_weight(np.zeros((2, 2), np.float32), 0, "int8", per_channel=True)
    assert (made.scale > 0).all() and not made.real.any()


def test_real_numbers_of_codes() -> None:
    codes = np.array([[1, 2], [3, 4]], np.uint8)
    made = QuantizedWeight(codes, np.array([0.5, 2], np.float32), np.array([1, 4], np.uint8), 1)
    np.testing.assert_array_equal(made.real, [[0, -4], [1, 0]])
    assert QuantizedWeight(codes, np.float32(0.5).reshape(()), None, 0).real.tolist() == [[0.5, 1], [1.5, 2]]
