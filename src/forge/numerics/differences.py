"""How far values are apart, summed over samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Difference:
    """The difference of values that should be equal, over all that was added. NaN equals NaN, and an infinity itself.

    Attributes:
        signal, noise: sums of the squares of the expected elements, and of the differences.
        error: the largest difference; infinite where only one of the two is finite, or they have no common shape.
        largest: the largest expected element, by magnitude.
        rows, agreeing: vectors along the last axis, and those of them whose largest element is at the same place.
    """

    elements: int = 0
    signal: float = 0.0
    noise: float = 0.0
    error: float = 0.0
    largest: float = 0.0
    rows: int = 0
    agreeing: int = 0

    def add(self, expected: Any, found: Any) -> None:
        """Counts a value: an array, a list of such, or None."""
        pairs = _pairs(expected, found)
        if pairs is None:
            self._add_misfit()
            return
        for one, other in pairs:
            self._add(one, other)

    def _add(self, expected: np.ndarray, found: np.ndarray) -> None:
        if expected.shape != found.shape:
            self._add_misfit()
            return
        self.elements += expected.size
        if expected.size == 0:
            return
        if expected.dtype.kind in "OUST":
            self._add_errors(np.zeros(expected.shape), np.where(expected == found, 0.0, np.inf))
            return
        wide, other = _wide(expected), _wide(found)
        with np.errstate(all="ignore"):
            same = (wide == other) | (np.isnan(wide) & np.isnan(other))
            errors = np.where(same, 0.0, np.abs(other - wide))
        self._add_errors(wide, np.where(np.isnan(errors), np.inf, errors))
        self._add_places(wide, other)

    def _add_errors(self, expected: np.ndarray, errors: np.ndarray) -> None:
        usual = np.abs(np.where(np.isfinite(expected), expected, 0.0))
        with np.errstate(over="ignore"):
            self.signal += float(np.square(usual).sum())
            self.noise += float(np.square(errors).sum())
        self.error = max(self.error, float(errors.max()))
        self.largest = max(self.largest, float(usual.max()))

    def _add_places(self, expected: np.ndarray, found: np.ndarray) -> None:
        if expected.ndim and expected.shape[-1] > 1 and not np.iscomplexobj(expected):
            places = np.asarray(np.argmax(expected, -1) == np.argmax(found, -1))
            self.rows += places.size
            self.agreeing += int(np.count_nonzero(places))

    def _add_misfit(self) -> None:
        self.error = self.noise = math.inf

    @property
    def sqnr(self) -> float:
        """Ratio of signal to noise, in dB: ``10 log10(signal / noise)``; infinite where nothing differs."""
        if not self.noise:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal and math.isfinite(self.noise) else -math.inf

    @property
    def relative(self) -> float:
        """The largest difference, relative to the largest element."""
        return self.error / self.largest if self.largest else self.error and math.inf


def difference(expected: Any, found: Any) -> Difference:
    """Returns the difference of one value: an array, a list of such, or None."""
    result = Difference()
    result.add(expected, found)
    return result


def _pairs(expected: Any, found: Any) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Arrays at the same places; None where the structures differ."""
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return _listed(expected, found)
    if expected is None or found is None or isinstance(expected, list | tuple) or isinstance(found, list | tuple):
        return [] if expected is found else None
    return [(np.asarray(expected), np.asarray(found))]


def _listed(expected: Sequence[Any], found: Sequence[Any]) -> list[tuple[np.ndarray, np.ndarray]] | None:
    inner = [_pairs(one, other) for one, other in zip(expected, found)]
    if len(expected) != len(found) or any(pairs is None for pairs in inner):
        return None
    return [pair for pairs in inner for pair in pairs or ()]


def _wide(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.complex128 if np.iscomplexobj(array) else np.float64)
