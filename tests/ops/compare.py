"""The comparer of all operator tests. Its tolerance comes from the accuracy class and the element type, never from a test.

- EXACT, and every result that is not floating point: equal bit for bit (NaN equals NaN, -0 equals 0);
- ROUNDING: every element is a few units in the last place of itself, or of the largest element, away;
- of complex numbers the same holds of distances in the plane;
- ACCUMULATING: errors are measured against the largest element, as cancellation may leave few digits of a small one;
- elementwise operators (``alone``): the largest element excuses nothing, only the smallest subnormal numbers do.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from forge import dtypes
from forge.ir.op import Accuracy
from forge.numerics.tolerances import epsilon as epsilon
from forge.numerics.tolerances import tolerance as tolerance

_finfo: Any = ml_dtypes.finfo

SUBNORMALS = 4


def least(dtype: str) -> float:
    """The smallest positive number."""
    return float(_finfo(dtypes.numpy_dtype(dtype)).smallest_subnormal)


def mismatch(
    actual: Any, expected: Any, accuracy: Accuracy, dtype: str | None = None, alone: bool = False
) -> str | None:
    """What is wrong with ``actual``; None if it agrees. ``dtype`` takes the place of the expected one for the tolerance;
    ``alone``: each element has an error of its own.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return f"shape {actual.shape}; expected {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}; expected {expected.dtype}"
    name = dtypes.canonical(expected.dtype)
    relative, to_largest = tolerance(accuracy, dtype or name)
    if dtypes.is_complex(name):
        return _close_complex(actual.astype(np.complex128), expected.astype(np.complex128), relative, to_largest)
    if not dtypes.is_float(name):
        return _first(actual, expected, actual == expected)
    special = ~np.isfinite(expected) | ~np.isfinite(actual)
    floor = SUBNORMALS * least(name) * (relative > 0) if alone else to_largest * _largest(np.abs(expected[~special]))
    return _close(actual.astype(np.float64), expected.astype(np.float64), relative, floor)


def _largest(sizes: np.ndarray) -> float:
    return float(sizes.max()) if sizes.size else 0.0


def _close(actual: np.ndarray, expected: np.ndarray, relative: float, floor: float) -> str | None:
    special = ~np.isfinite(expected) | ~np.isfinite(actual)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        close = np.abs(actual - expected) <= relative * np.abs(expected) + floor
    return _first(actual, expected, np.where(special, same, close))


def _close_complex(actual: np.ndarray, expected: np.ndarray, relative: float, to_largest: float) -> str | None:
    """Errors are distances in the plane, against the modulus; where a part is infinite or NaN both parts must be the same.

    A finite part next to an infinite or NaN one is close by itself.
    """
    special = ~np.isfinite(expected) | ~np.isfinite(actual)
    with np.errstate(all="ignore"):
        parts = [(a == e) | (np.isnan(a) & np.isnan(e)) | (np.isfinite(a) & (np.abs(a - e) <= relative * np.abs(e)))
                 for a, e in ((actual.real, expected.real), (actual.imag, expected.imag))]
        size = np.abs(expected)
        largest = _largest(size[~special & np.isfinite(size)])
        difference = np.hypot(actual.real - expected.real, actual.imag - expected.imag)
        close = (difference <= relative * size + to_largest * largest) | (parts[0] & parts[1])
    return _first(actual, expected, np.where(special, parts[0] & parts[1], close))


def _first(actual: np.ndarray, expected: np.ndarray, good: Any) -> str | None:
    bad = np.argwhere(~np.asarray(good, dtype=bool))
    if not len(bad):
        return None
    place = tuple(int(k) for k in bad[0])
    return f"{len(bad)} of {expected.size} elements differ; at {place}: {actual[place]!r}; expected {expected[place]!r}"


def check(actual: Any, expected: Any, accuracy: Accuracy, where: str = "", alone: bool = False) -> None:
    """Fails the test unless ``actual`` agrees with ``expected``."""
    wrong = mismatch(actual, expected, accuracy, alone=alone)
    assert wrong is None, f"{where}: {wrong}"
