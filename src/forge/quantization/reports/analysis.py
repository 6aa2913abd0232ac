"""How far a quantized model is from the float one: of each layer, alone and with all before it, and of the outputs.

One model computes all of it: the float graph and the quantized one on shared inputs, and next to them each layer on float data,
once with what rounding adds to the data and once with what it adds to the weight. Its outputs are sums of squares, so memory
depends neither on the number of layers nor on that of samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.nodes import Value
from forge.options import CompileOptions
from forge.passes.matching import operand
from forge.quantization.observed.calibration import Sample
from forge.quantization.observed.trial import trial_of
from forge.quantization.places.pairing import LayerPair, pairs_of, product, rounded, value_name
from forge.quantization.places.products import given_to, joined_graph, node_again

MAX_DB = 150.0
"""What is nearer is equal: float32 holds no more."""

Tick = Callable[[int, int], None]
"""Called with the number done and the number in all."""


def decibels(signal: float, error: float) -> float:
    """Returns signal to noise from sums of squares, between -`MAX_DB` and `MAX_DB`."""
    if not error > 0:
        return -MAX_DB if math.isnan(error) else MAX_DB
    ratio = signal / error
    return max(-MAX_DB, min(MAX_DB, 10 * math.log10(ratio))) if ratio > 0 else -MAX_DB


@dataclass(frozen=True)
class LayerError:
    """Signal to noise of a quantized layer, in dB; larger is better.

    Attributes:
        number: among the products of the model.
        cumulative: its result in the quantized model.
        alone: its result on float data, if it alone is quantized.
        weight, data: alone, and of these only the weight, or only the data; None where it has no constant weight.
    """

    number: int
    label: str
    operator: str
    cumulative: float
    alone: float
    weight: float | None
    data: float


@dataclass(frozen=True)
class OutputError:
    """Agreement of an output of the model with the float one.

    Attributes:
        sqnr: in dB; None for anything but real numbers.
        agreement: the share of rows in which the largest element is the same one: along the last axis, or along the channels of
            images (rank 4 and more). Of integers and truth values, the share of equal ones. None: rows have one element.
    """

    name: str
    sqnr: float | None
    agreement: float | None


@dataclass(frozen=True)
class Analysis:
    """``layers`` in the order of the model; ``samples`` is the number of those that were run."""

    layers: tuple[LayerError, ...]
    outputs: tuple[OutputError, ...]
    samples: int

    @property
    def sqnr(self) -> float | None:
        """The least of the outputs."""
        return worst(o.sqnr for o in self.outputs)

    @property
    def agreement(self) -> float | None:
        """The least of the outputs."""
        return worst(o.agreement for o in self.outputs)


def worst(numbers: Iterable[float | None]) -> float | None:
    """Returns the least of the numbers that are known."""
    return min((n for n in numbers if n is not None), default=None)


def is_near(sqnr: float | None, agreement: float | None) -> bool:
    """Returns whether outputs are near enough to those in float to say nothing."""
    return (sqnr is None or sqnr >= MIN_SQNR) and (agreement is None or agreement >= MIN_AGREEMENT)


MIN_SQNR, MIN_AGREEMENT = 20.0, 0.95
"""In dB, and the share of rows whose largest element is the same."""


def analyse(
    real: Module, quantized: Module, samples: Iterable[Sample], options: CompileOptions, *, layers: bool = True,
    tick: Tick = lambda done, total: None,
) -> Analysis:
    """Compares a quantized module with the float one on samples.

    Args:
        samples: arrays by name of input.
        options: of the compilations.
        layers: False: outputs only, which compiles both models as they are.
        tick: called after each sample.

    Raises:
        CompileError: an operator cannot be compiled.
    """
    samples = list(samples)
    outputs = OutputSums.of(real)
    pairs = pairs_of(real, quantized) if layers else []
    sums = np.zeros((len(pairs), PARTS))
    if layers:
        run = trial_of(_joined(real, quantized, pairs), options, "analyse", len(samples))
    else:
        runs = [trial_of(m, options, "compare", len(samples)) for m in (real, quantized)]
    for number, sample in enumerate(samples):
        results = run(sample) if layers else [array for one in runs for array in one(sample)]
        count = len(outputs.names)
        outputs.add(results[:count], results[count : 2 * count])
        sums += np.array(results[2 * count :], np.float64).reshape(-1, PARTS)
        tick(number + 1, len(samples))
    errors = tuple(_layer_error(pair, *map(float, row)) for pair, row in zip(pairs, sums))
    return outputs.analysis(errors, len(samples))


class OutputSums:
    """Sums over samples of how outputs differ."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._sums = np.zeros((len(names), 2))
        self._equal = np.zeros((len(names), 2))

    @classmethod
    def of(cls, module: Module) -> OutputSums:
        return cls([value_name(value) for value in module.main.outputs])

    def add(self, real: Sequence[np.ndarray], quantized: Sequence[np.ndarray]) -> None:
        for number, (a, b) in enumerate(zip(real, quantized)):
            if not isinstance(a, np.ndarray) or a.shape != np.shape(b) or a.dtype.kind in "OSU":
                continue
            if dtypes.is_float(str(a.dtype)):
                self._sums[number] += squares(a), squares(np.asarray(b, np.float64) - a)
            self._equal[number] += _agreement(a, b)

    def analysis(self, layers: tuple[LayerError, ...] = (), samples: int = 0) -> Analysis:
        found = zip(self.names, self._sums.tolist(), self._equal.tolist())
        outputs = [OutputError(name, decibels(*sums) if sums[0] or sums[1] else None, equal / of if of else None)
                   for name, sums, (equal, of) in found]
        return Analysis(layers, tuple(outputs), samples)


def squares(array: np.ndarray) -> float:
    """Sums the squares of an array in float64."""
    return float(np.sum(np.square(array, dtype=np.float64)))


def _agreement(a: np.ndarray, b: np.ndarray) -> tuple[int, int]:
    """Rows that agree, and rows."""
    if not dtypes.is_float(str(a.dtype)):
        return int(np.sum(a == b)), a.size
    axis = 1 if a.ndim > 3 else -1
    if not a.ndim or a.shape[axis] < 2 or not a.size:
        return 0, 0
    equal = np.argmax(a, axis) == np.argmax(b, axis)
    return int(np.sum(equal)), int(np.size(equal))


PARTS = 5
"""Sums of squares for each layer: of its result, and of the errors in the model, alone, by its weight and by its data."""


def _joined(real: Module, quantized: Module, pairs: Iterable[LayerPair]) -> Module:
    """A module whose outputs are those of the real one, those of the quantized one, and `PARTS` for each layer."""
    graph, known = joined_graph(real.main, quantized.main)
    outputs = [known[v] for m in (real, quantized) for v in m.main.outputs]
    builder = Builder(graph)
    for pair in pairs:
        outputs += _recurrent_errors(builder, pair, known) if pair.is_recurrent else _errors(builder, pair, known)
    graph.outputs = outputs
    return real.with_main(graph, dict(real.params))


def _layer_error(pair: LayerPair, signal: float, cumulative: float, alone: float, weight: float, data: float) -> LayerError:
    by_weight = None if pair.weight is None else decibels(signal, weight)
    numbers = decibels(signal, cumulative), decibels(signal, alone), by_weight, decibels(signal, data)
    return LayerError(pair.number, pair.label, pair.real.op, *numbers)


def _errors(builder: Builder, pair: LayerPair, known: Mapping[Value, Value]) -> list[Value]:
    """The sums of squares of a layer: on float data, ``W' x' - W x`` is ``W' (x' - x) + (W' - W) x``."""
    real, own = (known[v] for v in pair.results)
    data = [known[operand(pair.real, k)] for k in pair.data]
    whole = [rounded(builder, pair, k, value) for k, value in zip(pair.data, data)]
    delta = builder.call("subtract", whole[0], data[0])
    old, new = pair.weight, pair.rounded_weight
    if old is None or new is None:
        by_data = product(builder, pair, delta, whole[1])
        by_weight = product(builder, pair, data[0], builder.call("subtract", whole[1], data[1]))
    else:
        by_data = product(builder, pair, delta, builder.constant(new))
        by_weight = product(builder, pair, data[0], builder.constant(new - old))
    both = builder.call("add", by_data, by_weight)
    parts = [by_weight, by_data] if old is not None else [builder.constant(np.float32(0)), both]
    return [power(builder, value) for value in (real, builder.call("subtract", own, real), both, *parts)]


def _recurrent_errors(builder: Builder, pair: LayerPair, known: Mapping[Value, Value]) -> list[Value]:
    """The sums of squares of a recurrent layer: the same layer runs on float data, and does not round them."""
    real, own = known[pair.real.results[0]], known[pair.quantized.results[0]]
    given = {k: known[v] for k, v in given_to(pair.real).items()}
    whole = node_again(builder, pair.quantized, given).results[0]
    unrounded = whole
    if pair.quantized.op_def.rounds_data(pair.quantized.attrs):
        unrounded = node_again(builder, pair.quantized, given, dynamic_quantization=False).results[0]
    errors = [builder.call("subtract", a, b) for a, b in ((own, real), (whole, real), (unrounded, real), (whole, unrounded))]
    return [power(builder, value) for value in (real, *errors)]


def power(builder: Builder, value: Value) -> Value:
    """Inserts the sum of the squares of ``value``."""
    return builder.call("sum", builder.call("multiply", value, value))
