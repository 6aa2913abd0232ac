"""What each layer costs: how near the outputs are if it alone is quantized, and if all others are.

One model answers for any set of layers. It is the quantized one in float32, with a switch before each rounding:
``x + s (x' - x)`` where data are rounded, ``W x + s (W' - W) x`` for weights, and likewise for biases. Nothing is compiled for
another set.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module, clone_node
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.ops.quantized.quantize import Dequantize, Quantize
from forge.options import CompileOptions
from forge.passes.matching import operand
from forge.quantization.observed.calibration import Sample
from forge.quantization.observed.trial import TrialRun, trial_of
from forge.quantization.places.pairing import LayerPair, bias_of, constant_of, pairs_of
from forge.quantization.places.products import given_to, node_again
from forge.quantization.reports.analysis import Analysis, OutputSums, Tick

SWITCHES = "forge_switches"
MAX_EXCLUDED = 16
"""Layers of the longest list of exclusions that is tried."""


@dataclass(frozen=True)
class LayerSensitivity:
    """Signal to noise of the outputs, in dB, with and without a quantized layer.

    Attributes:
        number: of the layer, among the products of the model.
        only: it alone is quantized.
        without: all other layers are.
    """

    number: int
    only: float | None
    without: float | None


@dataclass(frozen=True)
class Exclusion:
    """``sqnr`` and ``agreement`` of the outputs if these layers stay in float; ``numbers`` grow from one to the next."""

    numbers: tuple[int, ...]
    sqnr: float | None
    agreement: float | None


@dataclass(frozen=True)
class Sensitivity:
    """The outputs with sets of layers quantized.

    Attributes:
        layers: in the order of the model.
        exclusions: of no layer, of that which gains most, of the two that do, and so on.
        samples: how many were run.
    """

    layers: tuple[LayerSensitivity, ...]
    exclusions: tuple[Exclusion, ...]
    samples: int


def sensitivity(
    real: Module, quantized: Module, samples: Sequence[Sample], options: CompileOptions, seconds: float,
    tick: Tick = lambda done, total: None,
) -> Sensitivity:
    """Tries each layer of a quantized module on samples, at least on one, until the seconds are over.

    Args:
        options: of the model with switches.

    Raises:
        CompileError: an operator cannot be compiled.
    """
    switched = Switched(real, quantized)
    numbers = [pair.number for pair in switched.pairs]
    sets = [frozenset(), frozenset(numbers)]
    sets += [frozenset({k}) for k in numbers] + [frozenset(numbers) - {k} for k in numbers]
    end = time.perf_counter() + seconds
    run = trial_of(switched.module, options, "sensitivity", len(sets) * len(samples))
    found, count = _measured(switched, run, sets, samples, end, tick)
    layers = [LayerSensitivity(k, found[frozenset({k})].sqnr, found[frozenset(numbers) - {k}].sqnr) for k in numbers]
    steps = [tuple(ranked(layers)[:k]) for k in range(min(MAX_EXCLUDED, len(layers)) + 1)]
    left = {frozenset(numbers) - set(step): step for step in steps}
    further, _ = _measured(switched, run, [frozenset(), *left], samples[:count], np.inf, tick)
    exclusions = [Exclusion(step, further[s].sqnr, further[s].agreement) for s, step in left.items()]
    return Sensitivity(tuple(layers), tuple(exclusions), count)


def ranked(layers: Iterable[LayerSensitivity]) -> list[int]:
    """Returns the numbers of the layers, the one first without whose quantization the outputs are nearest."""
    return [x.number for x in sorted(layers, key=lambda x: -(x.without if x.without is not None else -np.inf))]


def _measured(switched: Switched, run: TrialRun, sets: Sequence[frozenset[int]], samples: Sequence[Sample], end: float,
              tick: Tick) -> tuple[dict[frozenset[int], Analysis], int]:
    """Errors of the outputs by the layers that are quantized, of which the first set has none; and the number of samples."""
    sums = {active: OutputSums.of(switched.module) for active in sets}
    for count, sample in enumerate(samples):
        if count and time.perf_counter() > end:
            break
        expected = run(switched.given(sample, sets[0]))
        for done, active in enumerate(sums):
            sums[active].add(expected, run(switched.given(sample, active)))
            tick(count * len(sums) + done + 1, len(samples) * len(sums))
    else:
        count = len(samples)
    return {active: s.analysis() for active, s in sums.items()}, count


class Switched:
    """The model with switches.

    Attributes:
        readers: numbers of the layers that read each rounded value; its switch has the number of the entry.
    """

    def __init__(self, real: Module, quantized: Module) -> None:
        self.pairs = pairs_of(real, quantized)
        rounded = {n: data for n in quantized.main.nodes if (data := _rounded(n)) is not None}
        numbers = {pair.quantized: pair.number for pair in self.pairs}
        self.readers = [_readers(node.result, numbers) for node in rounded]
        self.module = quantized.with_main(_switched_graph(quantized.main, self.pairs, rounded), dict(real.params))

    def given(self, sample: Sample, active: frozenset[int]) -> Sample:
        """Returns a sample with switches so that these layers are quantized."""
        positions = [bool(readers & active) for readers in self.readers] + [pair.number in active for pair in self.pairs]
        return {**sample, SWITCHES: np.array(positions, np.float32)}


def _rounded(node: Node) -> Value | None:
    """The data that were rounded just before ``node`` makes real numbers of them again; None: it does not."""
    real = Dequantize.of(node)
    whole = None if real is None else Quantize.of(real.data.producer)
    return None if whole is None or whole.data.constant is not None or whole.data.dtype != "float32" else whole.data


def _readers(value: Value, numbers: dict[Node, int]) -> frozenset[int]:
    """The layers that read a rounded value before it is rounded again; if there are none, those after that."""
    near, beyond = set[int](), list[Value]()
    for node in _reached(value, numbers):
        if node in numbers:
            near.add(numbers[node])
        else:
            beyond += node.results
    found = near or {k for v in beyond for k in _readers(v, numbers)}
    return frozenset(found or numbers.values())


def _reached(value: Value, numbers: dict[Node, int]) -> Iterator[Node]:
    """Layers and roundings after ``value``, and none that lie beyond another."""
    seen, stack = set[Value](), [value]
    while stack:
        current = stack.pop()
        for node, _ in current.uses:
            if node in numbers or node.op == "qnn.quantize":
                yield node
            elif node.results[0] not in seen:
                seen.update(node.results)
                stack += node.results


def _switched_graph(quantized: Graph, pairs: Sequence[LayerPair], rounded: Mapping[Node, Value]) -> Graph:
    graph = Graph()
    known = {v: graph.add_input(v.type, v.name) for v in quantized.inputs}
    builder = Builder(graph)
    switches = graph.add_input(TensorType((len(rounded) + len(pairs),), "float32"), SWITCHES)
    places = {node: k for k, node in enumerate(rounded)} | {p.quantized: len(rounded) + k for k, p in enumerate(pairs)}
    layers = {pair.quantized: pair for pair in pairs}
    dense = [pair for pair in pairs if not pair.is_recurrent]
    found = [(pair, bias_of(pair.quantized, pair.quantized_result)) for pair in dense]
    biases = {bias[0]: (pair, bias[1]) for pair, bias in found if bias is not None}

    def switch(node: Node) -> Value:
        return builder.call("take", switches, builder.constant(np.int64(places[node])), axis=0)

    for node in quantized.nodes:
        if node in biases and node not in layers:
            pair, position = biases[node]
            _add_bias(builder, node, position, pair, switch(pair.quantized), known)
            continue
        clone = clone_node(node, known)
        if node in layers and layers[node].is_recurrent:
            graph.insert(clone)
            real = node_again(builder, layers[node].real, given_to(clone))
            off_and_on = zip(node.results, real.results, clone.results)
            known |= {old: _mixed(builder, off, on, switch(node)) for old, off, on in off_and_on}
            continue
        if node in layers and layers[node].weight is not None:
            known[node.result] = _weighed(builder, clone, layers[node], switch(node))
            continue
        graph.insert(clone)
        if node in rounded:
            known[node.result] = _mixed(builder, known[rounded[node]], known[node.result], switch(node))
    graph.outputs = [known[v] for v in quantized.outputs]
    return graph


def _mixed(builder: Builder, off: Value, on: Value, switch: Value) -> Value:
    return builder.call("add", off, builder.call("multiply", builder.call("subtract", on, off), switch))


def _weighed(builder: Builder, clone: Node, pair: LayerPair, switch: Value) -> Value:
    old, new = pair.weight, pair.rounded_weight
    assert old is not None and new is not None

    def by(weight: np.ndarray) -> Value:
        operands = [clone.operands[0], builder.constant(weight), *clone.operands[2:]]
        return builder.node(clone.op_def, operands, clone.attributes).result

    return builder.call("add", by(old), builder.call("multiply", by(new - old), switch))


def _add_bias(
    builder: Builder, node: Node, position: int, pair: LayerPair, switch: Value, known: dict[Value, Value]
) -> None:
    """A bias that is the real one where the switch is off; where that has none, zeros."""
    new, before = constant_of(operand(node, position)), bias_of(pair.real, pair.real.result)
    old = np.zeros_like(new) if before is None else constant_of(operand(*before))
    bias = _mixed(builder, builder.constant(old), builder.constant(new), switch)
    operands = [bias if k == position else known[v] if v is not None else None for k, v in enumerate(node.operands)]
    known[node.result] = builder.node(node.op_def, operands, node.attributes).result
