"""What rounding loses at each place, from statistics and weights alone: nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from forge import dtypes
from forge.ir.graph import Module
from forge.ir.nodes import Value
from forge.ir.saved.statistics import Histogram, Statistics
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.observed.ranges import AffineCodes, choice_of, codes_of, joined
from forge.quantization.places.layers import layer_of, sites_of
from forge.quantization.places.pairing import LayerPair, value_name
from forge.quantization.places.recurrent import operand_of, weights_of
from forge.quantization.quantize import codes_by_value, statistics_of, weight_of
from forge.quantization.reports.analysis import decibels, squares

SHOWN_BINS = 128
COMPARED = ("average", "minmax", "percentile", "mse")
"""Methods whose ranges are compared: all that take no search over thousands of thresholds."""


@dataclass(frozen=True)
class RoundedValue:
    """A value that is rounded, and the numbers that calibration saw there.

    Attributes:
        readers: numbers of the layers that read it.
        low, high: the least and the largest number.
        first, width, counts: a histogram: where its first bin begins, the width of its bins, and how many numbers each has.
        scale, zero, dtype: codes stand for ``(code - zero) * scale``.
        least, most: of the numbers that codes stand for.
        saturated: the share of the numbers that are cut off, in percent.
        choice: what the method would cut, what was kept, and why.
        sqnr: of rounding, in dB.
        methods: the same with the ranges of other methods.
    """

    label: str
    readers: tuple[int, ...]
    low: float
    high: float
    first: float
    width: float
    counts: tuple[int, ...]
    scale: float
    zero: int
    dtype: str
    least: float
    most: float
    saturated: float
    choice: str
    sqnr: float
    methods: Mapping[str, float]


def rounded_values(real: Module, pairs: list[LayerPair], scheme: QuantizationScheme) -> list[RoundedValue]:
    """Returns the values of the float module that these layers round, in order, if they have statistics."""
    statistics = statistics_of(real)
    layers = {layer: pair.number for pair in pairs if (layer := layer_of(pair.real)) is not None}
    sites = sites_of(layers if scheme.quant_type != "dynamic" else ())
    codes = codes_by_value(scheme, statistics, sites)
    readers: dict[Value, tuple[int, ...]] = dict.fromkeys(sites.groups, ())
    for layer, operands in sites.of.items():
        for value in {v for values in operands for v in values}:
            readers[value] += (layers[layer],)
    return [_rounded_value(value, [statistics[v] for v in group], codes[value], readers[value], scheme)
            for value, group in sites.groups.items() if value in codes]


def _rounded_value(
    value: Value, group: list[Statistics], codes: AffineCodes, readers: tuple[int, ...], scheme: QuantizationScheme
) -> RoundedValue:
    own = joined(group)
    first, width, counts = _shown(own.histogram)
    low, high = dtypes.integer_range(codes.dtype)
    least, most = (low - codes.zero) * codes.scale, (high - codes.zero) * codes.scale
    centres, total = own.histogram.centres, max(1, int(own.histogram.counts.sum()))
    outside = (centres < least - codes.scale / 2) | (centres > most + codes.scale / 2)
    return RoundedValue(
        value_name(value), readers, own.low, own.high, first, width, counts, codes.scale, codes.zero, codes.dtype, least,
        most, 100 * float(own.histogram.counts[outside].sum()) / total,
        str(choice_of(own, scheme.calib_method, scheme.calib_guard)), rounding_error(own.histogram, codes),
        {m: rounding_error(own.histogram, codes_of(choice_of(own, m, scheme.calib_guard).range, codes.dtype, scheme.symmetric))
         for m in COMPARED})


def rounding_error(histogram: Histogram, codes: AffineCodes) -> float:
    """Returns what rounding the numbers at the centres of the bins loses, in dB."""
    centres, counts = histogram.centres, histogram.counts
    return decibels(float(counts @ np.square(centres)), float(counts @ np.square(centres - codes.rounded(centres))))


def _shown(histogram: Histogram) -> tuple[float, float, tuple[int, ...]]:
    """The part of a histogram that has numbers, in at most `SHOWN_BINS` bins: its begin, their width, their counts."""
    places = np.flatnonzero(histogram.counts)
    if not places.size:
        return 0.0, histogram.width, ()
    begin, end = int(places[0]), int(places[-1]) + 1
    merged = -(-(end - begin) // SHOWN_BINS)
    counts = np.zeros(-(-(end - begin) // merged) * merged, np.int64)
    counts[: end - begin] = histogram.counts[begin:end]
    return float(histogram.edges[begin]), merged * histogram.width, tuple(counts.reshape(-1, merged).sum(axis=1).tolist())


@dataclass(frozen=True)
class WeightErrors:
    """Losses by rounding a weight in dB, as it is done and with a scale for each channel; its bytes in float32 and as codes."""

    sqnr: float
    per_channel: float
    bytes: int
    code_bytes: int


def weight_errors(pair: LayerPair, scheme: QuantizationScheme) -> WeightErrors | None:
    """Measures what rounding the weight of a layer loses; None: both operands are data."""
    layer = layer_of(pair.real)
    if pair.is_recurrent:
        made = weights_of(pair.real)
        arrays = [np.asarray(operand_of(pair.real, name).constant).reshape(w.codes.shape) for name, w in made.items()]
        ways = [list(made.values())] * 2
    elif layer is None or layer.axis is None:
        return None
    else:
        arrays, ways = [layer.array], [[weight_of(layer, s)] for s in (scheme, replace(scheme, per_channel=True))]
    signal = sum(map(squares, arrays))
    sqnr, per_channel = (decibels(signal, sum(squares(a - w.real) for a, w in zip(arrays, weights))) for weights in ways)
    code_bytes = sum(w.codes.nbytes + w.scale.nbytes for w in ways[0])
    return WeightErrors(sqnr, per_channel, sum(a.nbytes for a in arrays), code_bytes)
