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
"""Where the kernels' table of sigmoid has one more or less than the nearest number, as the interpreter's results show."""
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
    slope = _SIGMOID[place + 1] - _SIGMOID[place]
    return np.asarray((_SIGMOID[place] << bits) + (distance & (1 << bits) - 1) * slope)


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


def function(given: float, wanted: float, f: Function, zero_point: int = 0, real: type[np.floating] = np.float32) -> np.ndarray:
    """A function, by a table of 513 elements, computed in ``real``, between which kernels interpolate.

    Args:
        zero_point: of the data; results have none.
    """
    unit, least, most = real(given), _INTEGERS[0], _INTEGERS[-1]
    low, high = unit * real(least - zero_point), unit * real(most - zero_point)
    step = (high - low) / real(512)
    places = low + np.arange(512).astype(real) * step
    scale = real(65536) / real(real(wanted) * real(most) - real(wanted) * real(least))
    with np.errstate(all="ignore"):
        before, middle, after = (np.nan_to_num(f(p) * scale) for p in (places, places + step / 2, places + step))
    error = _round((after + _round(before)) / 2) - _round(middle)
    found = np.append(_round(before) - _round(error / 2), _round(f(np.array([high])) * scale))
    table = np.clip(found, least, most).astype(np.int64)
    place = (_INTEGERS >> 7) + 256
    slope, offset = table[place + 1] - table[place], _INTEGERS & 0x7F
    return np.asarray(table[place] + ((slope * offset + 64) >> 7))


_SPAN = 65535
"""Between the least and the largest integer of 16 bits."""
_DEEPEST = 10.0
"""``exp(-10)`` is the smallest number that softmax looks up."""


def softmax(g: Context, x: Value, scale: float, beta: float) -> Value:
    """Of int16, along the last axis: sums of elements of a table of exp, and a table of ``1 / (1 + x)``."""
    exp = function(_DEEPEST / _SPAN, 2 / _SPAN, np.exp, _INTEGERS[-1], np.float64)
    inverse = function(1 / _SPAN, 2 / _SPAN, lambda v: 1 / (1 + v), _INTEGERS[0], np.float64)

    def whole(number: int) -> Value:
        return g.constant(number, "int64")

    def call(op: str, *operands: Value) -> Value:
        return g.call(op, *operands)

    wide = g.cast(x, "int64")
    below = call("subtract", g.call("max", wide, axis=(-1,), keepdims=True), wide)
    places = call("subtract", whole(_INTEGERS[-1]), _multiplied(g, below, float(scale) * beta * _SPAN / _DEEPEST))
    terms = g.cast(looked_up(g, g.call("clip", places, a_min=-(1 << 15), a_max=(1 << 15) - 1), exp), "int64")
    total = g.call("sum", terms, axis=(-1,), keepdims=True)
    zeros = g.cast(call("count_leading_zeros", g.cast(total, "int32")), "int64")
    first = call("left_shift", total, call("subtract", zeros, whole(1)))
    shifted = call("right_shift", call("add", first, whole(1 << 13)), whole(14))
    place = g.call("clip", call("subtract", shifted, whole(3 << 15)), a_min=-(1 << 15), a_max=(1 << 15) - 1)
    product = call("multiply", terms, g.cast(looked_up(g, place, inverse), "int64"))
    half = call("left_shift", whole(1), call("subtract", whole(30), zeros))
    found = call("right_shift", call("add", product, half), call("subtract", whole(31), zeros))
    return g.cast(g.call("clip", found, a_min=0, a_max=(1 << 15) - 1), "int16")


def _multiplied(g: Context, x: Value, ratio: float) -> Value:
    """Integers that are not negative times ``ratio``, in fixed point that rounds twice."""
    fraction, exponent = np.frexp(ratio)
    multiplier, left, right = round(fraction * 2**31), max(int(exponent), 0), max(-int(exponent), 0)
    product = g.call("multiply", x, g.constant(multiplier << left, "int64"))
    rounded = g.call("right_shift", g.call("add", product, g.constant((1 << 30) - 1, "int64")), g.constant(31, "int64"))
    if not right:
        return rounded
    return g.call("right_shift", g.call("add", rounded, g.constant(1 << (right - 1), "int64")), g.constant(right, "int64"))
