"""From statistics of a value to the range of real numbers that integers stand for.

| method | range |
|---|---|
| ``average`` | means, over the calls, of the least and of the largest number |
| ``minmax`` | the least and the largest number of all |
| ``percentile`` | without the half percent of the numbers at each end (of numbers of one sign, the percent farthest from 0) |
| ``entropy`` | cut where the quantized distribution is nearest to the real one (least Kullback-Leibler divergence) |
| ``mse`` | cut where the mean squared error is least |

With a guard, which is the default, the whole range is kept where the cut would give a larger squared error.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.saved.statistics import Histogram, Statistics

METHODS = ("average", "entropy", "minmax", "percentile", "mse")
LEVELS = 256
"""The number of codes."""
OUTSIDE = 0.01
"""The share of the numbers that ``percentile`` leaves outside."""
MIN_SCALE = 1e-20
TINY = 1e-300
"""A squared error of 0 counts as this."""
ONE_SIDED = 0.9
"""Where one side of 0 has less than this share of the other's range, the codes of int8 are not symmetric."""
SHARES = tuple(k / 256 for k in range(16, 257))
"""Of a range, that ``mse`` tries."""


@dataclass(frozen=True)
class RealRange:
    """An interval of real numbers, 0 among them."""

    low: float
    high: float


@dataclass(frozen=True)
class AffineCodes:
    """The real numbers that integers of ``dtype`` stand for: ``(code - zero) * scale``."""

    dtype: str
    scale: float
    zero: int

    def rounded(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the numbers that the codes of ``numbers`` stand for."""
        low, high = dtypes.integer_range(self.dtype)
        whole = np.clip(np.rint(numbers / self.scale) + self.zero, low, high)
        rounded: np.ndarray = (whole - self.zero) * self.scale
        return rounded


def codes_of(found: RealRange, dtype: str, symmetric: bool | None = None) -> AffineCodes:
    """Returns codes for a range.

    Args:
        dtype: int8 or uint8.
        symmetric: the zero point is 0 (of uint8: 128, or 0 where no number is negative). None: it is for int8, unless numbers
            have one sign or nearly so.
    """
    low, high = min(found.low, 0.0), max(found.high, 0.0)
    least, most = dtypes.integer_range(dtype)
    if symmetric is None:
        symmetric = least < 0 and min(-low, high) >= ONE_SIDED * max(-low, high)
    if symmetric:
        zero = (most + 1) // 2 if least == 0 and low < 0 else 0
        return AffineCodes(dtype, max(max(-low, high) / (most - zero), MIN_SCALE), zero)
    scale = float(np.float32(max((high - low) / (most - least), MIN_SCALE)))
    return AffineCodes(dtype, scale, int(np.clip(np.rint(least - low / scale), least, most)))


@dataclass(frozen=True)
class RangeChoice:
    """The range of a value.

    Attributes:
        cut: what the method gives.
        range: what codes stand for: the cut, or the whole range.
        outside: the share of the numbers that the cut leaves outside.
        gain: of the squared error, by the cut, in dB: less than 0 where it loses.
        reason: why the whole range was not cut; empty: it was.
    """

    cut: RealRange
    range: RealRange
    outside: float = 0.0
    gain: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        ends = f"[{self.cut.low:.4g}, {self.cut.high:.4g}], without {100 * self.outside:.3g} % of the numbers"
        if not self.reason:
            return f"cut to {ends}: {self.gain:+.1f} dB"
        return f"whole range: {self.reason}" + (f" (a cut to {ends}: {self.gain:+.1f} dB)" if self.gain < 0 else "")


def choice_of(statistics: Statistics, method: str, guard: bool = True) -> RangeChoice:
    """Chooses a range by ``method``.

    Args:
        guard: keep the whole range where the cut gives a larger squared error.
    """
    whole, histogram = RealRange(statistics.low, statistics.high), statistics.histogram
    if method == "minmax":
        return RangeChoice(whole, whole, reason="minmax")
    if not histogram.counts.any():
        reason = "its channels were equalized, and there are no samples to count its numbers again"
        return RangeChoice(whole, whole, reason=reason)
    if method == "average":
        cut = RealRange(statistics.low_sum / statistics.calls, statistics.high_sum / statistics.calls)
    else:
        cut = {"percentile": _percentile, "entropy": _entropy, "mse": _least_error}[method](statistics)
    if cut == whole:
        return RangeChoice(whole, whole, reason=f"{method} cuts nothing")
    before, after = (max(error(histogram, found), TINY) for found in (whole, cut))
    inside = histogram.counts[(histogram.centres >= cut.low) & (histogram.centres <= cut.high)].sum()
    outside = 1 - inside / histogram.counts.sum()
    lost = guard and after > before
    reason = "the cut would lose more than it gains" if lost else ""
    return RangeChoice(cut, whole if lost else cut, outside, 10 * math.log10(before / after), reason)


def joined(several: list[Statistics]) -> Statistics:
    """Returns the statistics of values that are rounded alike, of the same number of calls each."""
    if len(several) == 1:
        return several[0]
    low, high = min(s.low for s in several), max(s.high for s in several)
    histogram = functools.reduce(_added, (s.histogram for s in several), Histogram())
    return Statistics(
        several[0].channel_axis, max(s.calls for s in several), low, high, min(s.low_sum for s in several),
        max(s.high_sum for s in several), histogram)


def _added(a: Histogram, b: Histogram) -> Histogram:
    wide = max(a, b, key=lambda h: (h.is_signed, h.width))
    low, high = wide.edges[0], np.nextafter(wide.edges[-1], 0)
    least, most = min(low, a.edges[0], b.edges[0]), max(high, np.nextafter(a.edges[-1], 0), np.nextafter(b.edges[-1], 0))
    a, b = a.widened(least, most), b.widened(least, most)
    return Histogram(a.counts + b.counts, a.width, a.is_signed)


def error(histogram: Histogram, found: RealRange) -> float:
    """Sums the squared errors of the numbers, each at the centre of its bin, with `LEVELS` codes for the range."""
    low, high = min(found.low, 0.0), max(found.high, 0.0)
    scale = max((high - low) / (LEVELS - 1), MIN_SCALE)
    centres = histogram.centres
    rounded = np.rint(np.clip(centres, low, high) / scale) * scale
    return float(np.sum(histogram.counts * np.square(centres - rounded)))


def _percentile(statistics: Statistics) -> RealRange:
    histogram, edges = statistics.histogram, statistics.histogram.edges
    share = np.cumsum(histogram.counts) / histogram.counts.sum()
    both = statistics.low < 0 < statistics.high
    outside = OUTSIDE / 2 if both else OUTSIDE
    low = edges[np.searchsorted(share, outside, side="right")] if statistics.low < 0 else 0.0
    high = edges[np.searchsorted(share, 1 - outside) + 1] if statistics.high > 0 else 0.0
    return RealRange(max(low, statistics.low), min(high, statistics.high))


def _least_error(statistics: Statistics) -> RealRange:
    """Each end beyond 0 in turn, twice."""
    found = RealRange(statistics.low, statistics.high)
    for _ in range(2):
        for is_low in (False, True):
            if (-found.low if is_low else found.high) > 0:
                cuts = [RealRange(found.low * s, found.high) if is_low else RealRange(found.low, found.high * s) for s in SHARES]
                found = min(cuts, key=lambda cut: error(statistics.histogram, cut))
    return found


def _magnitudes(histogram: Histogram) -> np.ndarray:
    """Counts by the distance from 0, in bins of the histogram's width."""
    if not histogram.is_signed:
        return histogram.counts
    half = len(histogram.counts) // 2
    folded: np.ndarray = histogram.counts[half:] + histogram.counts[:half][::-1]
    return folded


def _entropy(statistics: Statistics) -> RealRange:
    """Every threshold of at least as many bins as there are codes for magnitudes."""
    counts = _magnitudes(statistics.histogram).astype(np.float64)
    codes = LEVELS // 2 if statistics.low < 0 < statistics.high else LEVELS
    last = int(np.flatnonzero(counts)[-1]) + 1
    if last <= codes:
        return RealRange(statistics.low, statistics.high)
    found = [(divergence(counts[:last], bins, codes), bins) for bins in range(codes, last + 1)]
    threshold = min(found)[1] * statistics.histogram.width
    return RealRange(max(statistics.low, -threshold), min(statistics.high, threshold))


def divergence(counts: np.ndarray, bins: int, codes: int) -> float:
    """Returns the Kullback-Leibler divergence of ``counts`` from what ``codes`` codes for the first ``bins`` bins leave of them.

    Numbers beyond count for the last of these bins, in the real distribution only. The count of a code is spread evenly over
    its bins that have numbers.
    """
    inside = counts[:bins]
    real = inside.copy()
    real[-1] += counts[bins:].sum()
    code = np.arange(bins) * codes // bins
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    occupied = inside > 0
    sums, places = np.add.reduceat(inside, starts), np.add.reduceat(occupied.astype(np.float64), starts)
    mean = np.divide(sums, places, out=np.zeros_like(sums), where=places > 0)
    spread = np.where(occupied, mean[code], 0.0)
    present = real > 0
    if np.any(spread[present] == 0):
        spread = np.where(present & (spread == 0), 1e-4, spread)
    p, q = real[present] / real.sum(), spread[present] / spread[present].sum()
    return float(np.sum(p * np.log(p / q)))
