"""What calibration knows of a value: ranges, of all numbers and of each channel, and a histogram.

`Module.calibration` holds them by the digest of what computes the value (`forge.ir.saved.hashing.value_digests`): names do not
count, and after an edit nothing is known of the values that it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BINS = 4096
"""Of a histogram: half of them where numbers have both signs."""


@dataclass
class Histogram:
    """How many numbers, of large values a share, lie in ``BINS`` intervals of one width.

    The width is a power of two, so that doubling it merges pairs of bins exactly. The first interval begins at 0, or so that the
    middle is 0 where ``is_signed``.
    """

    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS, np.int64))
    width: float = 2.0**-100
    is_signed: bool = False

    @property
    def offset(self) -> int:
        """The bin that begins at 0."""
        return BINS // 2 if self.is_signed else 0

    @property
    def edges(self) -> np.ndarray:
        """``[BINS + 1]``, where the intervals begin and end."""
        edges: np.ndarray = (np.arange(BINS + 1) - self.offset) * self.width
        return edges

    @property
    def centres(self) -> np.ndarray:
        centres: np.ndarray = (np.arange(BINS) - self.offset + 0.5) * self.width
        return centres

    def covers(self, low: float, high: float) -> bool:
        edges = -self.offset * self.width, (BINS - self.offset) * self.width
        return edges[0] <= low and high < edges[1]

    def widened(self, low: float, high: float) -> Histogram:
        """The same numbers in fewer bins, whose intervals cover ``low`` and ``high``, which are finite."""
        wide = self
        while not wide.covers(low, high):
            is_signed = wide.is_signed or low < 0
            begin = BINS // 4 if wide.is_signed else BINS // 2 if is_signed else 0
            counts = np.zeros(BINS, np.int64)
            counts[begin : begin + BINS // 2] = wide.counts.reshape(-1, 2).sum(axis=1)
            wide = Histogram(counts, 2 * wide.width, is_signed)
        return wide


@dataclass
class Statistics:
    """Of the numbers that a value had in all calls of a calibration.

    Attributes:
        calls: number of calls.
        low, high: the least and the largest number.
        low_sum, high_sum: of the least and of the largest number of each call.
        channel_axis: the axis of channels.
        channel_low, channel_high: by channel, as float64; empty where their number is symbolic.
    """

    channel_axis: int
    calls: int = 0
    low: float = np.inf
    high: float = -np.inf
    low_sum: float = 0.0
    high_sum: float = 0.0
    histogram: Histogram = field(default_factory=Histogram)
    channel_low: np.ndarray = field(default_factory=lambda: np.zeros(0))
    channel_high: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays, by name."""
        return {"counts": self.histogram.counts, "channel_low": self.channel_low, "channel_high": self.channel_high}

    def numbers(self) -> dict[str, Any]:
        """All else, as JSON has it."""
        names = ("channel_axis", "calls", "low", "high", "low_sum", "high_sum")
        bins = {"width": self.histogram.width, "is_signed": self.histogram.is_signed}
        return {name: getattr(self, name) for name in names} | bins

    @classmethod
    def of(cls, numbers: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Statistics:
        """What has these `numbers` and `arrays`.

        Raises:
            ValueError: they do not fit each other.
        """
        counts, channels = arrays["counts"], [arrays[name] for name in ("channel_low", "channel_high")]
        if counts.shape != (BINS,) or counts.dtype != np.int64 or counts.min() < 0:
            raise ValueError(f"got a histogram of {counts.dtype} and shape {counts.shape}; expected {BINS} counts")
        if any(a.dtype != np.float64 or a.ndim > 1 or a.shape != channels[0].shape for a in channels):
            raise ValueError("statistics of channels differ in type or shape")
        found = cls(int(numbers["channel_axis"]), int(numbers["calls"]))
        for name in ("low", "high", "low_sum", "high_sum"):
            setattr(found, name, float(numbers[name]))
        found.histogram = Histogram(counts, float(numbers["width"]), bool(numbers["is_signed"]))
        found.channel_low, found.channel_high = channels
        return found


@dataclass(frozen=True)
class Calibration:
    """What is known of values of the function ``main`` of a module; it is shared by copies and not changed.

    Attributes:
        statistics: by digest of the value.
        samples: some of the inputs, by name; files do not hold them.
    """

    statistics: Mapping[str, Statistics] = field(default_factory=dict)
    samples: tuple[Mapping[str, np.ndarray], ...] = ()
