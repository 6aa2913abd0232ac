"""Sigmoid and tanh as kernels of integer LSTMs compute them: in fixed point of 16 bits, by exponentials and Newton's method.

All 65,536 results are a table here. Numbers have ``15 - bits`` bits below the point; results have 15.
"""

from __future__ import annotations

from functools import cache

import numpy as np

_INTEGERS = np.arange(-(1 << 15), 1 << 15)
_MOST = (1 << 15) - 1
_POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2^k) for k from -2, as multiples of 2^-31."""


def _saturated(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(x, -_MOST - 1, _MOST))


def _halved(x: np.ndarray, times: int) -> np.ndarray:
    """Divided by a power of 2, rounded half away from 0."""
    rest = x & (1 << times) - 1
    return (x >> times) + (rest > ((1 << times) - 1 >> 1) + (x < 0))


def _constant(number: int) -> np.ndarray:
    """A number of 32 bits in 16."""
    return _halved(np.array(number, np.int64), 16)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    both = a * b + np.where(a * b >= 0, 1 << 14, 1 - (1 << 14))
    return _saturated(np.sign(both) * (np.abs(both) >> 15))


def _exp(x: np.ndarray, bits: int) -> np.ndarray:
    """Of numbers up to 0: the rest of a quarter by Taylor's series, and each bit above it by a factor."""
    quarter = 1 << 13 - bits
    rest = (x & quarter - 1) - quarter
    y = _saturated(rest << bits) + (1 << 12)
    y2 = _product(y, y)
    series = y + _halved(_product(_halved(_product(y2, y2), 2) + _product(y2, y), _constant(715827883)) + y2, 1)
    middle = _constant(1895147668)
    found = _saturated(middle + _product(middle, series))
    for place, power in enumerate(_POWERS[: bits + 2]):
        found = np.where((rest - x) & quarter << place, _product(found, _constant(power)), found)
    return np.where(x == 0, _MOST, found)


def _quotient(x: np.ndarray) -> np.ndarray:
    """2 / (1 + x), with 13 bits below the point."""
    half = x + _MOST + 1 >> 1
    found = _constant(1515870810) + _product(half, _constant(-1010580540))
    for _ in range(3):
        found = found + _saturated(_product(found, (1 << 13) - _product(half, found)) << 2)
    return np.asarray(found)


@cache
def sigmoid(bits: int) -> np.ndarray:
    found = _saturated(_quotient(_exp(-np.abs(_INTEGERS), bits)) << 1)
    return np.select([_INTEGERS > 0, _INTEGERS == 0], [found, np.array(1 << 14)], _MOST - found)


@cache
def tanh(bits: int) -> np.ndarray:
    found = _saturated(_quotient(_exp(-np.abs(_INTEGERS), bits + 1)) - (1 << 13) << 2)
    return np.asarray(np.sign(_INTEGERS) * found)
