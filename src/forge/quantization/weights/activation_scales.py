"""Scales for the inputs of dense layers, so that the columns of their weights that matter most lose least.

``dense(x, w)`` --> ``dense(x / s, w * s)``: equal but for rounding, and codes for ``w * s`` have smaller errors where s is
large. ``s = rms(x)^alpha`` for each channel, with the alpha that gives the results of all layers that read x the least error (Lin
et al., "AWQ: activation-aware weight quantization for LLM compression and acceleration", 2024). What makes x is divided where
that is a normalization, a dense layer or element-wise with constants; else x itself is, where that is worth its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ops.nn.bias_add import BiasAdd
from forge.options import CompileOptions
from forge.passes.matching import operand
from forge.quantization.observed.calibration import Sample
from forge.quantization.observed.gram import batches, gram_matrices
from forge.quantization.places.insertion import after
from forge.quantization.places.layers import FloatLayer, layer_of
from forge.quantization.weights.channels import ChannelOperand, parameters_of, rows_of
from forge.quantization.weights.rounding import Rounded, error

ALPHAS = np.linspace(0, 1, 21)[1:]
SEARCHED_ROWS = 256
"""Of each weight, to compare exponents."""
MIN_SHARE = 1e-4
"""Of the largest channel: smaller ones count as that large."""
WORTH = 0.9
"""A product of the data at run time has to bring the error below this share of what it was."""

ONE = np.ones(1, np.float32)
"""Scales that change nothing."""

Round = Callable[[np.ndarray], Rounded]


@dataclass
class Rescaled:
    """Layers that `rescale` has changed.

    Attributes:
        nodes: layers whose inputs are divided.
        results: divisors ``[N]`` of the results of layers, by layer.
    """

    nodes: set[Node] = field(default_factory=set)
    results: dict[Node, np.ndarray] = field(default_factory=dict)


def rescale(
    module: Module, layers: Iterable[FloatLayer], samples: Iterable[Sample], options: CompileOptions, rounded: Round,
    done: Rescaled,
) -> None:
    """Changes ``module.main``, in place, so that weights of ``layers`` lose less.

    Args:
        layers: dense layers, whose weights nothing else reads.
        options: of the model that computes what they read.
        rounded: gives codes for a weight ``[N, K]``.
        done: gets what was changed.
    """
    for batch in batches(layers):
        matrices = gram_matrices(module, batch, samples, options)
        by_input: dict[Value, list[FloatLayer]] = {}
        for layer in batch:
            by_input.setdefault(layer.inputs[0], []).append(layer)
        for value, same in by_input.items():
            _rescale_inputs(module.main, value, same, matrices[same[0]][0], rounded, done)


def _rescale_inputs(
    graph: Graph, value: Value, layers: Sequence[FloatLayer], gram: np.ndarray, rounded: Round, done: Rescaled
) -> None:
    rows = [rows_of(np.asarray(layer.array, np.float32), layer.axis or 0) for layer in layers]
    scales = best_scales([r[:: max(1, len(r) // SEARCHED_ROWS)] for r in rows], gram, rounded)
    if scales is None:
        return
    places = divided(graph, value, {layer.node for layer in layers})
    share = WORTH if places is None else 1.0
    if _error(rows, scales, gram, rounded) >= share * _error(rows, ONE, gram, rounded):
        return
    if places is None:
        builder = after(graph, value)
        product = builder.call("multiply", value, builder.constant(1 / scales))
        for layer in layers:
            layer.node.set_operand(0, product)
        graph.sort()
    wide = scales.astype(np.float64)
    for place in places or ():
        place.multiply(1 / wide)
        if layer_of(place.node) is not None:
            done.results[place.node] = done.results.get(place.node, np.float32(1)) * scales
    for layer in layers:
        assert layer.axis is not None
        ChannelOperand(layer.node, 1, 1 - layer.axis).multiply(wide)
        done.nodes.add(layer.node)


def best_scales(weights: Sequence[np.ndarray], gram: np.ndarray, rounded: Round) -> np.ndarray | None:
    """Returns scales ``[K]``, float32, for weights ``[N, K]`` of the same inputs; None: nothing is better than 1."""
    size = np.sqrt(np.diagonal(gram))
    if not size.any():
        return None
    size = np.maximum(size, MIN_SHARE * size.max())
    best, least = None, _error(weights, ONE, gram, rounded)
    for alpha in ALPHAS:
        scales = size**alpha
        scales = (scales / np.sqrt(scales.max() * scales.min())).astype(np.float32)
        found = _error(weights, scales, gram, rounded)
        if found < least:
            best, least = scales, found
    return best


def _error(weights: Sequence[np.ndarray], scales: np.ndarray, gram: np.ndarray, rounded: Round) -> float:
    return sum(error(w, rounded(w * scales).real / scales, gram) for w in weights)


def divided(graph: Graph, value: Value, readers: set[Node]) -> list[ChannelOperand] | None:
    """Finds the constants whose division divides ``value`` along its last axis; None: that is not possible, or others read it."""
    node = value.producer
    if node is None or graph.is_output(value) or any(user not in readers for user, _ in value.uses):
        return None
    parameters = parameters_of(node)
    if parameters is not None:
        return parameters
    layer = layer_of(node)
    if layer is not None and layer.channel_axis == -1 and layer.axis is not None:
        return [ChannelOperand(node, 1, layer.axis)] if len(operand(node, 1).uses) == 1 else None
    if node.op == "nn.relu":
        return divided(graph, operand(node), {node})
    if node.op in ("add", "nn.bias_add", "multiply"):
        return _of_terms(graph, node)
    return None


def _of_terms(graph: Graph, node: Node) -> list[ChannelOperand] | None:
    """Divides all terms of a sum, or one factor of a product."""
    bias = BiasAdd.of(node)
    if bias is not None and bias.attrs.axis % node.result.rank != node.result.rank - 1:
        return None
    constants = [k for k, v in enumerate(node.operands) if v is not None and v.constant is not None]
    others = [v for v in node.operands if v is not None and v.constant is None]
    if any(v.rank != node.result.rank or v.shape[-1] != node.result.shape[-1] for v in others) or len(set(others)) < len(others):
        return None
    if node.op == "multiply":
        if constants:
            return [ChannelOperand(node, constants[0], -1)]
        found = (divided(graph, v, {node}) for v in others)
        return next((places for places in found if places is not None), None)
    rest = divided(graph, others[0], {node}) if len(others) == len(constants) == 1 else None
    return None if rest is None else [ChannelOperand(node, constants[0], -1), *rest]
