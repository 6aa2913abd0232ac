"""Functions of int16, as TFLite's kernels compute them: between elements of a table, in integers.

All 65,536 results are a table here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forge.frontends.tflite.context import Context
from forge.ir.nodes import Value

_ONE_OFF = (
    "====+===+===+=++++=++++==+=+++++=+++=+=+++=++++==++===+=======+++=+===============+===+======+======+==+========+=="
    "=+==================+=============================================================================================="
    "=========================")
"""Where the kernels' table of sigmoid has one more or less than the nearest number, as results of the interpreter for all integers
show."""
_NEAREST = np.rint(65536 / (1 + np.exp(-np.arange(255) / 24.0))).astype(np.int64)
_SIGMOID = np.append(_NEAREST + np.array(["-=+".index(sign) - 1 for sign in _ONE_OFF]), 65535)
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


def _round(x: np.ndarray) -> np.ndarray:
    """Half away from 0."""
    return np.asarray(np.copysign(np.floor(np.abs(x) + 0.5), x))


Function = Callable[[np.ndarray], np.ndarray]


def function(given: float, wanted: float, f: Function) -> np.ndarray:
    """A function, by a table of 513 elements between which kernels interpolate; zero points are 0."""
    unit, least, most = np.float32(given), _INTEGERS[0], _INTEGERS[-1]
    low, high = unit * np.float32(least), unit * np.float32(most)
    step = (high - low) / np.float32(512)
    places = low + np.arange(512).astype(np.float32) * step
    scale = np.float32(65536) / np.float32(np.float32(wanted) * np.float32(most) - np.float32(wanted) * np.float32(least))
    with np.errstate(all="ignore"):
        before, middle, after = (np.nan_to_num(f(p) * scale) for p in (places, places + step / 2, places + step))
    error = _round((after + _round(before)) / 2) - _round(middle)
    found = np.append(_round(before) - _round(error / 2), _round(f(np.array([high])) * scale))
    table = np.clip(found, least, most).astype(np.int64)
    place = (_INTEGERS >> 7) + 256
    slope, offset = table[place + 1] - table[place], _INTEGERS & 0x7F
    return table[place] + ((slope * offset + 64) >> 7)
