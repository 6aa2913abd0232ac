"""Statistics of values, over samples.

A copy of the model computes them: its outputs are, of each value that quantization may round, a histogram, and the least and
the largest number of each channel. So memory does not depend on the number of samples. Bins have powers of two as widths; where
numbers leave the range of their histogram, its bins are merged, and the sample runs again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from forge.ir.builder import Builder
from forge.ir.edits.extract import extract
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value
from forge.ir.saved import hashing
from forge.ir.saved.statistics import BINS, Calibration, Statistics
from forge.ir.types import TensorType
from forge.options import CompileOptions
from forge.quantization.observed.trial import trial_of

BINNING = "forge_binning"
"""The input with, for each value, one over the width of a bin, the bin that begins at 0, and what a number counts: 1.

A constant 1 would become an array as large as the value.
"""

LARGE, STEP = 1 << 17, 3
"""Of values of more numbers, one in three is in the histogram: counting takes longer than all else. Ranges are of all."""

Sample = Mapping[str, np.ndarray]


class Observer:
    """A model that computes statistics of some of its values.

    Attributes:
        found: by value.
    """

    def __init__(self, module: Module, channel_axes: Mapping[Value, int], options: CompileOptions) -> None:
        """Compiles the model for the values of ``main`` that are given with their axis of channels."""
        self.found = {value: Statistics(axis) for value, axis in channel_axes.items()}
        self._trial = trial_of(module.with_main(observed_graph(module.main, channel_axes)), options, "calibrate")

    def add(self, sample: Sample) -> None:
        """Runs a sample, and counts what its values are; again if a histogram was too narrow.

        Of a model with random numbers, those of the last run that are beyond a histogram count for its last bin.
        """
        results = self._run(sample)
        if self._widen(results):
            results = self._run(sample)
        for statistics, (counts, low, high) in zip(self.found.values(), results):
            _count(statistics, counts, low, high)

    def _run(self, sample: Sample) -> list[Sequence[np.ndarray]]:
        binning = [(1 / s.histogram.width, s.histogram.offset, 1) for s in self.found.values()]
        flat = self._trial({**sample, BINNING: np.asarray(binning, np.float32).reshape(-1, 3)})
        return [flat[k : k + 3] for k in range(0, len(flat), 3)]

    def _widen(self, results: list[Sequence[np.ndarray]]) -> bool:
        """Whether a histogram had to be made wider."""
        changed = False
        for statistics, (_, lows, highs) in zip(self.found.values(), results):
            low, high = float(lows.min(initial=0)), float(highs.max(initial=0))
            if np.isfinite(low) and np.isfinite(high) and not statistics.histogram.covers(low, high):
                statistics.histogram = statistics.histogram.widened(low, high)
                changed = True
        return changed


def observed_graph(graph: Graph, channel_axes: Mapping[Value, int]) -> Graph:
    """Returns a graph whose outputs are the statistics of values of ``graph``: three for each value."""
    observed = extract(graph, list(channel_axes))
    builder = Builder(observed)
    binning = observed.add_input(TensorType((len(channel_axes), 3), "float32"), BINNING)
    outputs: list[Value] = []
    for number, (value, axis) in enumerate(zip(observed.outputs, channel_axes.values())):
        outputs += _statistics(builder, value, axis, builder.call("take", binning, builder.constant(np.int64(number)), axis=0))
    observed.outputs = outputs
    return observed


def _statistics(builder: Builder, value: Value, axis: int, binning: Value) -> list[Value]:
    """Counts of bins, and the least and the largest number of each channel; of all where their number differs between calls."""
    factor, offset, one = (builder.call("take", binning, builder.constant(np.int64(k)), axis=0) for k in range(3))
    flat = builder.call("reshape", value, newshape=(-1,))
    if isinstance(value.size, int) and value.size >= LARGE:
        flat = builder.call("strided_slice", flat, begin=(0,), end=(value.size,), strides=(STEP,), axes=(0,))
    place = builder.call("add", builder.call("multiply", flat, factor), offset)
    index = builder.call("cast", builder.call("clip", place, a_min=0.0, a_max=float(BINS - 1)), dtype="int32")
    zeros = builder.constant(np.zeros(BINS, np.int32))
    ones = builder.call("broadcast_to", builder.call("cast", one, dtype="int32"), shape=index.shape)
    counts = builder.call("scatter_elements", zeros, index, ones, reduction="add")
    axis %= max(1, value.rank)
    others = tuple(k for k in range(value.rank) if k != axis or not isinstance(value.shape[k], int))
    return [counts, *(builder.call(op, value, axis=others) for op in ("min", "max"))]


def _count(statistics: Statistics, counts: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    if not counts.any():
        return
    first = not statistics.calls
    statistics.calls += 1
    statistics.low = float(np.minimum(statistics.low, low.min()))  # NaN stays
    statistics.high = float(np.maximum(statistics.high, high.max()))
    statistics.low_sum += float(low.min())
    statistics.high_sum += float(high.max())
    statistics.histogram.counts += counts
    if not low.ndim:
        return
    statistics.channel_low = low.astype(np.float64) if first else np.minimum(statistics.channel_low, low)
    statistics.channel_high = high.astype(np.float64) if first else np.maximum(statistics.channel_high, high)


KEPT_SAMPLES, KEPT_BYTES = 32, 64 << 20
"""How many of the first samples are kept, to round weights, correct biases, and compare a quantized model with the float one."""
KEPT_SMALL_SAMPLES, KEPT_SMALL_BYTES = 256, 64 << 10
"""How many are while they are tiny: a layer reads few rows of them then, and needs many."""


def calibrate(
    module: Module, samples: Iterable[Sample], channel_axes: Mapping[Value, int], options: CompileOptions, reset: bool = True
) -> None:
    """Gives ``module`` statistics of some of the values of ``main``; what goes wrong leaves it as it was.

    Args:
        channel_axes: the values, each with its axis of channels.
        options: of the model that computes the statistics.
        reset: forget what earlier calibrations found.
    """
    observer = Observer(module, channel_axes, options)
    digests = hashing.value_digests(module)
    if not reset:
        earlier = {value: module.calibration.statistics.get(digests[value]) for value in channel_axes}
        observer.found.update({value: copy.deepcopy(s) for value, s in earlier.items() if s is not None})
    kept = [] if reset else list(module.calibration.samples)
    for sample in samples:
        observer.add(sample)
        if _is_kept(len(kept), sum(map(_size, kept)) + _size(sample)):
            kept.append({name: np.array(array) for name, array in sample.items()})
    found = {digests[value]: statistics for value, statistics in observer.found.items()}
    known = {} if reset else module.calibration.statistics
    module.calibration = Calibration({**known, **found}, tuple(kept))


def _is_kept(count: int, nbytes: int) -> bool:
    return count < KEPT_SAMPLES and nbytes <= KEPT_BYTES or count < KEPT_SMALL_SAMPLES and nbytes <= KEPT_SMALL_BYTES


def _size(sample: Sample) -> int:
    return sum(array.nbytes for array in sample.values())
