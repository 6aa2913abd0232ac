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
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.core.product import Product
from forge.options import CompileOptions
from forge.passes.matching import operand
from forge.quantization.observed.calibration import Sample
from forge.quantization.observed.trial import trial_of
from forge.quantization.places.insertion import put_after
from forge.quantization.places.layers import FloatLayer
from forge.quantization.places.products import joined_graph, products
from forge.quantization.weights.channels import along, set_constant

BATCH = 16
"""Samples that run together."""
BATCH_BYTES = 256 << 20
"""Most bytes of the largest value of a batch."""


def corrections(
    real: Module, quantized: Module, numbers: Sequence[int], samples: Sequence[Sample], options: CompileOptions
) -> dict[int, np.ndarray]:
    """Returns what is added to the bias of layers ``[C]``, by the number of the layer among `products`.

    Args:
        real, quantized: modules with the same products in the same order.
        numbers: which of these are corrected.
        options: of the model that measures means.
    """
    batch = _batch(real, samples)
    pair, runs = [real, quantized], list(samples)
    if batch > 1:
        try:
            pair, runs = _batched(pair, samples, batch)
        except ValueError:
            batch = 1
    module = pair[0].with_main(_joined(pair[0].main, pair[1].main, numbers))
    found = list(map(trial_of(module, options, "correct_biases", len(runs)), runs))
    return {number: np.mean([deltas[k] for deltas in found], axis=0) for k, number in enumerate(numbers)}


def _batch(module: Module, samples: Sequence[Sample]) -> int:
    """Returns the number of samples that can run as one."""
    inputs = [v for v in module.main.inputs if v.name not in module.params]
    shapes = [{name: a.shape for name, a in sample.items()} for sample in samples]
    if any(s != shapes[0] for s in shapes) or not all(isinstance(v.type, TensorType) and v.rank for v in inputs):
        return 1
    largest = max((v.size for n in module.main.nodes for v in n.results if isinstance(v.type, TensorType)
                   and isinstance(v.size, int)), default=1)
    return max(1, min(BATCH, len(samples), BATCH_BYTES // (4 * largest)))


def _batched(pair: list[Module], samples: Sequence[Sample], batch: int) -> tuple[list[Module], list[Sample]]:
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
    return [replace_batch(m, [v for v in m.main.inputs if v.name not in m.params], old, old * batch) for m in pair], runs


def _joined(real: Graph, quantized: Graph, numbers: Sequence[int]) -> Graph:
    """A graph of both, whose outputs are the differences that it adds to results of quantized layers."""
    joined, known = joined_graph(real, Graph(quantized.inputs))
    wanted = {products(quantized)[k]: known[products(real)[k].result] for k in numbers}
    deltas: dict[Value, Value] = {}
    builder = Builder(joined)
    for node in quantized.nodes:
        joined.insert(clone_node(node, known))
        if node in wanted:
            result, product = known[node.result], Product[Any].of(node)
            assert product is not None
            axis = product.channels_of(result)
            means = [_means(builder, v, product.channels_of(v)) for v in (wanted[node], result)]
            deltas[node.result] = builder.call("subtract", *means)
            spread = builder.call("reshape", deltas[node.result], newshape=tuple(along(axis, result.rank)[axis:]))
            known[node.result] = builder.call("add", result, spread)
    joined.outputs = [deltas[node.result] for node in wanted]
    return joined


def _means(builder: Builder, value: Value, axis: int) -> Value:
    return builder.call("mean", value, axis=tuple(k for k in range(value.rank) if k != axis))


def add_to_bias(layer: FloatLayer, delta: np.ndarray) -> Value:
    """Adds ``delta [C]`` to the results of a layer; returns the value that readers of its result read then."""
    graph, found = layer.node.graph, layer.product.bias()
    assert graph is not None
    if found is not None:
        set_constant(*found, (np.asarray(operand(*found).constant) + delta).astype(np.float32))
        return layer.result

    def biased(builder: Builder, result: Value) -> Value:
        constant = builder.constant(delta.astype(np.float32))
        is_last = layer.channel_axis == -1
        return builder.call("add", result, constant) if is_last else builder.call("nn.bias_add", result, constant, axis=1)

    return put_after(graph, layer.result, biased)
