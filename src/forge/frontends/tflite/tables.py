"""Functions of int16, as TFLite's kernels compute them: between elements of a table, in integers.

All 65,536 results are a table here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forge.frontends.tflite.context import Context
from forge.ir.nodes import Value

_SIGMOID = np.append(np.minimum(np.rint(65536 / (1 + np.exp(-np.arange(255) / 24.0))), 65535), 65535).astype(np.int64)
"""Of multiples of 1/24, as numbers of 16 bits below the point."""
_INTEGERS = np.arange(-(1 << 15), 1 << 15)
_SHIFTS = 30
"""Multipliers are doubled at most so often, and once more."""


def looked_up(g: Context, x: Value, table: np.ndarray) -> Value:
    """Elements of a table of all integers of 16 bits."""
    place = g.call("add", g.cast(x, "int32"), g.constant(1 << 15, "int32"))
    return g.call("take", g.constant(table.astype(np.int16)), place, axis=0, mode="fast")


def _scaled(scale: float) -> np.ndarray:
    """Integers with a scale as multiples of 1/12288."""
    exponent = np.log2(float(scale))
    if exponent == np.rint(exponent) and 0 <= exponent + 12 <= 1:
        return _INTEGERS * (3 << int(exponent + 12))
    multiplier, shift = float(scale) * 4096 * 3, 0
    while multiplier <= 32767 / 2 and shift <= _SHIFTS:
        multiplier, shift = multiplier * 2, shift + 1
    return (_INTEGERS * int(multiplier) + (1 << shift >> 1)) >> shift


def _interpolated(distance: np.ndarray, bits: int) -> np.ndarray:
    """Sigmoid of distances from 0, of which the lowest ``bits`` are between two elements of the table."""
    place = np.minimum(distance >> bits, 254)
    inside = (_SIGMOID[place] << bits) + (distance & (1 << bits) - 1) * (_SIGMOID[place + 1] - _SIGMOID[place])
    return inside


def logistic(scale: float) -> np.ndarray:
    x = _scaled(scale)
    found = np.where(np.abs(x) >> 9 >= 255, 0x7FFF << 10, _interpolated(np.abs(x), 9))
    return np.where(x >= 0, found + (1 << 9), (1 << 25) - found + (1 << 9) - 1) >> 10


def tanh(scale: float) -> np.ndarray:
    """``2 * sigmoid(2 * x) - 1``"""
    x = _scaled(scale)
    found = np.where(np.abs(x) >> 8 >= 255, 0xFFFF << 8, _interpolated(np.abs(x), 8))
    return np.where(x >= 0, found - (1 << 23) + (1 << 7), -found + (1 << 23) + (1 << 7) - 1) >> 8


Function = Callable[[np.ndarray], np.ndarray]


def function(given: float, wanted: float, f: Function) -> np.ndarray:
    """A function, by a table of 513 elements between which kernels interpolate; zero points are 0."""
    low, high = (-(1 << 15)) * np.float64(given), ((1 << 15) - 1) * np.float64(given)
    step = (high - low) / 512
    places = low + np.arange(512) * step
    scale = 1 / np.float64(wanted)
    values, middle, after = (np.rint(f(p) * scale) for p in (places, places + step / 2, places + step))
    bias = np.rint((np.rint(f(places + step / 2) * scale) - np.rint((after + values) / 2)) / 2)
    del middle
    table = np.append(np.clip(values - bias, -32768, 32767), np.clip(np.rint(f(high) * scale), -32768, 32767)).astype(np.int64)
    place = (_INTEGERS >> 7) + 256
    slope, offset = table[place + 1] - table[place], _INTEGERS & 0x7F
    return table[place] + ((slope * offset + 64) >> 7)
