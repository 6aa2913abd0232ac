"""Recurrent layers: weights become codes of int8 with a scale for each row, and states are rounded where the loss allows it.

Weights of 8 bits are multiplied by real states exactly (``forge.ops.nn.recurrent_codes``). Where the operator can round its
input and its state at each step, by their ranges (``dynamic_quantization``), that takes half the time again; but the range of a
state is that of all rows, so rows would depend on each other: by default it is done only where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forge.ir.builder import Builder
from forge.ir.edits import rewrite
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.options import CompileOptions
from forge.passes.matching import operand
from forge.quantization.chosen.scheme import QuantizationScheme
from forge.quantization.observed.calibration import Sample
from forge.quantization.observed.trial import trial_of
from forge.quantization.places.products import is_recurrent, joined_graph, node_again, products
from forge.quantization.reports.analysis import MIN_SQNR, decibels, power
from forge.quantization.weights.codes import QuantizedWeight, quantized_weight

MIN_ROUNDED_SQNR = 30.0
"""In dB, of the results of a layer alone: what rounding states may lose."""
SAMPLES = 8
"""Of the calibration, on which losses are measured."""
WEIGHTS = ("w", "r")
"""Operands of layers."""


@dataclass(frozen=True)
class RecurrentChoices:
    """Choices for recurrent layers, by their number among `products`.

    Attributes:
        rounds_data: whether they round input and states.
        left: reasons why they stay in float.
    """

    rounds_data: Mapping[int, bool]
    left: Mapping[int, str]


def choices(
    module: Module, scheme: QuantizationScheme, kept: Mapping[int, str], samples: Sequence[Sample], options: CompileOptions
) -> RecurrentChoices:
    """Chooses how the recurrent layers of ``main`` are quantized.

    Args:
        kept: reasons why layers stay in float, by number.
        samples: without any, data are rounded only if the scheme asks for that.
        options: of the model that measures losses.
    """
    numbered = {k: node for k, node in enumerate(products(module.main)) if is_recurrent(node)}
    wanted = {k: node for k, node in numbered.items() if k not in kept}
    left = {k: kept[k] for k in numbered if k in kept}
    can_round = {k: scheme.quant_type == "dynamic" or scheme.quant_type == "any" and _has_one_row(node)
                 for k, node in wanted.items() if "dynamic_quantization" in node.attributes}
    if not samples:
        return RecurrentChoices({k: scheme.quant_type == "dynamic" and can_round.get(k, False) for k in wanted}, left)
    rounded = [k for k, can in can_round.items() if can]
    losses = _losses(module, [*((k, False) for k in wanted), *((k, True) for k in rounded)], samples[:SAMPLES], options)
    for k in list(wanted):
        if losses[k, False] < MIN_SQNR:
            left[k] = f"with weights of 8 bits its results are {losses[k, False]:.1f} dB from those in float"
            del wanted[k]
    return RecurrentChoices({k: losses.get((k, True), -np.inf) >= MIN_ROUNDED_SQNR for k in wanted}, dict(sorted(left.items())))


def _has_one_row(node: Node) -> bool:
    return bool(operand(node).shape[0 if node.attributes["layout"] else 1] == 1)


def _losses(
    module: Module, ways: Sequence[tuple[int, bool]], samples: Sequence[Sample], options: CompileOptions
) -> dict[tuple[int, bool], float]:
    """Measures losses in dB, of layers alone, by number and whether data are rounded."""
    if not ways:
        return {}
    graph, _ = joined_graph(module.main)
    builder, layers = Builder(graph), products(graph)
    outputs: list[Value] = []
    for number, rounds in ways:
        real = layers[number].results[0]
        error = builder.call("subtract", with_codes(builder, layers[number], rounds).results[0], real)
        outputs += [power(builder, real), power(builder, error)]
    graph.outputs = outputs
    run = trial_of(module.with_main(graph), options, "recurrent", len(samples))
    sums = sum(np.array(run(sample), np.float64) for sample in samples)
    pairs = np.reshape(sums, (-1, 2)).tolist()
    return {way: decibels(signal, error) for way, (signal, error) in zip(ways, pairs)}


def with_codes(builder: Builder, node: Node, rounds_data: bool) -> Node:
    """Inserts ``node`` again, with codes for its weights."""
    values: dict[str, Value | None] = {}
    for name, weight in weights_of(node).items():
        old = operand_of(node, name)
        values[name] = builder.constant(weight.codes.reshape(old.shape), name=old.name)
        values[f"{name}_scale"] = builder.constant(weight.scale.reshape(old.shape[:2]))
    return node_again(builder, node, values, **({"dynamic_quantization": True} if rounds_data else {}))


def weights_of(node: Node) -> dict[str, QuantizedWeight]:
    """Returns codes for the weights of a layer, as rows ``[D * G * H, K]``, by operand."""
    arrays = {name: np.asarray(operand_of(node, name).constant) for name in WEIGHTS}
    return {name: quantized_weight(a.reshape(-1, a.shape[2]), 0, "int8", per_channel=True) for name, a in arrays.items()}


def operand_of(node: Node, name: str) -> Value:
    """Returns the operand of this name, which a recurrent layer of real numbers has."""
    return operand(node, [o.name for o in node.op_def.operands].index(name))


def replace(graph: Graph, layers: Iterable[tuple[Node, bool]]) -> None:
    """Puts codes into layers, each with whether it rounds its data."""
    for node, rounds_data in layers:
        made = with_codes(Builder(graph, node, node.location), node, rounds_data)
        made.name, made.origin = node.name, node.origin
        rewrite.replace(graph, node, *made.results)
