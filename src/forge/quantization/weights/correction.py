"""Biases that give the results of quantized layers the means that they have in the float model.

Layers are corrected in their order, each on data that the layers before it, corrected, have made. One model computes all of it:
the real and the quantized one on a batch of samples, with, after each quantized layer, the difference of the means of each
channel added. These differences are its outputs. Where a model fixes its batch, they are means over samples that run one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge.ir.builder import Builder
from forge.ir.edits.rebatch import replace_batch
from forge.ir.graph import Graph, Module, clone_node
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.ops.core.product import Product
from forge.quantization.observed.calibration import Sample
from forge.quantization.observed.trial import trial_runtime
from forge.quantization.places.insertion import after, bias_of
from forge.quantization.places.layers import Layer
from forge.quantization.places.products import products

BATCH = 16
"""Samples that run together."""
BATCH_BYTES = 256 << 20
"""Most bytes of the largest value of a batch."""


def corrections(real: Module, quantized: Module, numbers: Sequence[int], samples: Sequence[Sample]) -> dict[int, np.ndarray]:
    """What to add to the bias of layers, by the number of the layer among `products`.

    Args:
        real, quantized: modules with the same products in the same order.
        numbers: which of these are corrected.
    """
    batch = _batch(real, samples)
    pair, runs = (real, quantized), list(samples)
    if batch > 1:
        try:
            pair, runs = _batched(pair, samples, batch)
        except ValueError:
            batch = 1
    module = pair[0].with_main(_joined(pair[0].main, pair[1].main, numbers))
    runtime = trial_runtime(module, "correct_biases", len(runs))
    found = [runtime.run([run[name] for name in runtime.input_names]) for run in runs]
    return {number: np.mean([deltas[k] for deltas in found], axis=0) for k, number in enumerate(numbers)}


def _batch(module: Module, samples: Sequence[Sample]) -> int:
    """How many samples can be one."""
    inputs = [v for v in module.main.inputs if v.name not in module.params]
    shapes = [{name: a.shape for name, a in sample.items()} for sample in samples]
    if any(s != shapes[0] for s in shapes) or not all(isinstance(v.type, TensorType) and v.rank for v in inputs):
        return 1
    largest = max((v.size for n in module.main.nodes for v in n.results if isinstance(v.type, TensorType)
                   and isinstance(v.size, int)), default=1)
    return max(1, min(BATCH, len(samples), BATCH_BYTES // (4 * largest)))


def _batched(pair: tuple[Module, Module], samples: Sequence[Sample], batch: int) -> tuple[tuple[Module, Module], list[Sample]]:
    """Modules of that batch, and what they take.

    Raises:
        ValueError: a module mixes samples.
    """
    inputs = [v for v in pair[0].main.inputs if v.name not in pair[0].params]
    runs: list[Sample] = []
    for first in range(0, len(samples) - batch + 1, batch):
        part = samples[first : first + batch]
        runs.append({name: np.concatenate([s[name] for s in part]) for name in part[0]})
    old = inputs[0].shape[0]
    if not isinstance(old, int):
        return pair, runs
    if any(v.shape[0] != old for v in inputs):
        raise ValueError("an input has no batch")
    changed = [replace_batch(m, [v for v in m.main.inputs if v.name not in m.params], old, old * batch) for m in pair]
    return (changed[0], changed[1]), runs


def _joined(real: Graph, quantized: Graph, numbers: Sequence[int]) -> Graph:
    """A graph of both, whose outputs are the differences that it adds to results of quantized layers."""
    joined = Graph()
    inputs = {v.name: joined.add_input(v.type, v.name) for v in real.inputs}
    known: dict[Value, Value] = {v: inputs[v.name] for v in real.inputs} | {v: inputs[v.name] for v in quantized.inputs}
    for node in real.nodes:
        joined.insert(clone_node(node, known))
    partners = dict(zip(products(quantized), products(real), strict=True))
    wanted = [products(quantized)[k] for k in numbers]
    outputs: dict[Node, Value] = {}
    builder = Builder(joined)
    for node in quantized.nodes:
        joined.insert(clone_node(node, known))
        if node in wanted:
            result, aim = known[node.result], known[partners[node].result]
            product: Product[Any] | None = Product.of(node)
            assert product is not None
            means = [_means(builder, v, product.channels_of(v)) for v in (result, aim)]
            outputs[node] = builder.call("subtract", means[1], means[0])
            known[node.result] = builder.call(
                "add", result, _spread(builder, outputs[node], product.channels_of(result), result.rank))
    joined.outputs = [outputs[node] for node in wanted]
    return joined


def _means(builder: Builder, value: Value, axis: int) -> Value:
    return builder.call("mean", value, axis=tuple(k for k in range(value.rank) if k != axis))


def _spread(builder: Builder, vector: Value, axis: int, rank: int) -> Value:
    return vector if axis == rank - 1 else builder.call("reshape", vector, newshape=(-1, *(1,) * (rank - 1 - axis)))


def add_to_bias(layer: Layer, delta: np.ndarray) -> Value:
    """Adds a number for each channel to the results of a layer; returns the value that readers of its result read then."""
    graph = layer.node.graph
    assert graph is not None
    found = bias_of(layer)
    if found is not None:
        user, position = found
        bias = user.operands[position]
        assert bias is not None and bias.constant is not None
        changed = (bias.constant + delta).astype(np.float32)
        user.set_operand(position, Builder(graph, user, user.location).constant(changed, name=bias.name))
        return layer.result
    result = layer.result
    readers = list(result.uses)
    builder = after(graph, result)
    constant = builder.constant(delta.astype(np.float32))
    if layer.channel_axis == -1:
        biased = builder.call("add", result, constant)
    else:
        biased = builder.call("nn.bias_add", result, constant, axis=1)
    for user, position in readers:
        user.set_operand(position, biased)
    graph.outputs = [biased if v is result else v for v in graph.outputs]
    biased.name, result.name = result.name, ""
    return biased
