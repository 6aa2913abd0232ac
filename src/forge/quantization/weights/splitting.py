"""Outlier channels of weights are split, so that a scale for the whole weight has smaller steps.

    y = sum_c w[c] * x[c]    -->    w[c] * x[c] = (w[c] / 2 - d) * x[c] + (w[c] / 2 + d) * x[c]

The channels of a weight along which products are summed, and that have its largest elements, are computed in two halves or more
(R. Zhao et al., Improving Neural Network Quantization without Retraining using Outlier Channel Splitting, ICML 2019). With ``d``
a quarter of the step of int8, the rounded halves add up to the rounded element: a split channel is rounded as finely as others.

What makes the data makes the channels several times, where their way from the layer before goes through per-channel operators
and is read by nothing else. In other places they are copied in each call; that has to gain more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from forge.ir.builder import Builder
from forge.ir.edits.dead_code import remove_dead
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.retype import infer_again
from forge.ops.nn.bias_add import BiasAdd
from forge.passes.matching import operand
from forge.quantization.places.layers import FloatLayer, is_depthwise, layer_of, layers_of
from forge.quantization.weights.channels import along, set_constant
from forge.quantization.weights.codes import quantized_weight

ATTRIBUTE = "split_tensors"
"""Of a graph whose layers were split."""

EXPANSION = 0.05
"""The share of its channels that a weight gets in addition, rounded up."""

MAX_LEFT, MAX_LEFT_COPIED = 0.5, 0.25
"""The share of the squared error of a weight that may be left; and where data are copied in each call."""

CODES = 127
"""The largest of int8."""


def split_outliers(graph: Graph) -> int:
    """Splits channels of the layers of ``graph``, in place; returns how many layers.

    The graph computes the same, but for float rounding.
    """
    count = sum(_split_layer(graph, layer) for layer in layers_of(graph))
    graph.sort()
    remove_dead(graph)
    graph.attributes[ATTRIBUTE] = True
    return count


def _split_layer(graph: Graph, layer: FloatLayer) -> bool:
    axis = layer.summed_axis
    if axis is None:
        return False
    array, (data,) = layer.array, layer.inputs
    found = best_split(array, axis)
    if found is None:
        return False
    made, left = found
    region = region_of(graph, data, layer.channel_axis, layer.node)
    if left > (MAX_LEFT if region is not None else MAX_LEFT_COPIED):
        return False
    if region is not None:
        widen(graph, region, made.sources)
    else:
        builder = Builder(graph, layer.node, layer.node.location)
        index = builder.constant(made.sources.astype(np.int32))
        layer.node.set_operand(0, builder.call("take", data, index, axis=layer.channel_axis % data.rank, mode="fast"))
    set_constant(layer.node, 1, made.weight(array, axis))
    infer_again(layer.node)
    return True


@dataclass(frozen=True)
class ChannelSplit:
    """Channels of a weight as they are split.

    Attributes:
        parts: by channel, of how many it becomes the sum.
        step: of the codes for the split weight.
    """

    parts: np.ndarray
    step: float

    @property
    def sources(self) -> np.ndarray:
        """The channel that each channel of the split weight is a part of: all of them, then the added ones."""
        added = np.repeat(np.arange(len(self.parts)), self.parts - 1)
        return np.concatenate([np.arange(len(self.parts)), added])

    def weight(self, array: np.ndarray, axis: int) -> np.ndarray:
        """Returns the split weight: with k parts, part j of an element ``w`` is ``w / k + step * (2 j + 1 - k) / (2 k)``.

        Rounded to the step, the parts add up to ``w`` rounded (Hermite's identity).
        """
        sources = self.sources
        shape = along(axis, array.ndim)
        number = np.array([np.count_nonzero(sources[:k] == c) for k, c in enumerate(sources)])
        count = self.parts[sources]
        shift = self.step * (2 * number + 1 - count) / (2 * count)
        divided = np.take(array, sources, axis).astype(np.float64) / count.reshape(shape)
        made: np.ndarray = (divided + shift.reshape(shape)).astype(np.float32)
        return made

    def joined(self, array: np.ndarray, axis: int) -> np.ndarray:
        """Returns the sums of the parts."""
        made = np.zeros([len(self.parts) if k == axis else n for k, n in enumerate(array.shape)])
        np.add.at(np.moveaxis(made, axis, 0), self.sources, np.moveaxis(array, axis, 0))
        return made


def splits(array: np.ndarray, axis: int) -> Iterator[ChannelSplit]:
    """Yields splits with one added channel, two, and so on, each time of the channel whose parts are the largest."""
    largest = np.abs(array).max(axis=tuple(k for k in range(array.ndim) if k != axis)).astype(np.float64)
    parts = np.ones(len(largest), np.int64)
    for _ in range(math.ceil(EXPANSION * len(largest))):
        parts[np.argmax(largest / parts)] += 1
        reach = (largest / parts) / (1 - (parts - 1) / (2 * parts * CODES))
        yield ChannelSplit(parts.copy(), float(reach.max()) / CODES)


def best_split(array: np.ndarray, axis: int) -> tuple[ChannelSplit, float] | None:
    """Finds the split that leaves the least share of the squared error of int8 with one scale; None: nothing can be gained.

    Of splits that leave nearly as little, that with the fewest channels.
    """
    if not array.size or not np.isfinite(array).all():
        return None
    before = _error(array, array, axis)
    if before == 0:
        return None
    found = [(split, _error(array, split.weight(array, axis), axis, split) / before) for split in splits(array, axis)]
    least = min(left for _, left in found)
    return next((split, left) for split, left in found if left <= 1.05 * least)


def _error(array: np.ndarray, weight: np.ndarray, axis: int, split: ChannelSplit | None = None) -> float:
    real = quantized_weight(weight, axis, "int8", per_channel=False).real
    return float(np.sum(np.square((real if split is None else split.joined(real, axis)) - array)))


@dataclass
class Widening:
    """Changes of a node that makes some channels several times.

    Attributes:
        constants: operands that get the channels, each with its axis.
        data: operands that have to have them.
        attributes: that count channels.
    """

    constants: dict[int, int] = field(default_factory=dict)
    data: list[int] = field(default_factory=list)
    attributes: tuple[str, ...] = ()


def widen(graph: Graph, region: Mapping[Node, Widening], sources: np.ndarray) -> None:
    """Makes ``sources``, numbers of present channels, the channels of the results of nodes."""
    for node in [n for n in graph.nodes if n in region]:
        widening = region[node]
        for position, axis in widening.constants.items():
            set_constant(node, position, np.take(np.asarray(operand(node, position).constant), sources, axis))
        changed = {name: len(sources) for name in widening.attributes if node.attributes[name] is not None}
        node.attrs = node.op_def.make_attrs({**node.attributes, **changed})
        infer_again(node)


def region_of(graph: Graph, value: Value, axis: int, reader: Node) -> dict[Node, Widening] | None:
    """Finds the nodes that make ``value``, from the layers before it, so that it can have more channels; None: it cannot.

    Nothing but these nodes and ``reader`` reads what they make.
    """
    region: dict[Node, Widening] = {}
    pending, wide = [value], {value}
    while pending:
        node = pending.pop().producer
        widening = None if node is None else _widening(node, axis)
        if node is None or widening is None:
            return None
        region[node] = widening
        operands = [v for k in widening.data if (v := operand(node, k)) not in wide]
        wide.update(operands)
        pending += operands
    inside = region.keys() | {reader}
    is_closed = all(not graph.is_output(v) and all(user in inside for user, _ in v.uses) for v in wide)
    return region if is_closed else None


def _widening(node: Node, axis: int) -> Widening | None:
    if len(node.results) != 1 or node.regions:
        return None
    layer = layer_of(node)
    if layer is not None:
        return _widened_layer(layer, axis)
    bias = BiasAdd.of(node)
    if bias is not None:
        fits = bias.attrs.axis % node.result.rank == axis % node.result.rank and bias.bias.constant is not None
        return Widening({1: 0}, [0]) if fits else None
    if node.op_def.is_map:
        return _widened_map(node, axis % node.result.rank)
    is_pool = node.op_def.is_pool and node.attributes["layout"].startswith("NC")
    return Widening({}, [0]) if is_pool and axis == 1 else None


def _widened_layer(layer: FloatLayer, axis: int) -> Widening | None:
    node, attributes = layer.node, tuple(name for name in ("channels", "units") if name in layer.node.attributes)
    if layer.axis is None or axis % node.result.rank != layer.channel_axis % node.result.rank:
        return None
    if layer.groups == 1:
        return Widening({1: layer.axis}, [], attributes)
    return Widening({1: 0}, [0], (*attributes, "groups")) if is_depthwise(layer) else None


def _widened_map(node: Node, axis: int) -> Widening | None:
    """Operands broadcast: what has one number for all channels stays as it is."""
    widening = Widening()
    for position, value in enumerate(node.operands):
        own = -1 if value is None else axis - (node.result.rank - value.rank)
        if value is None or own < 0 or value.shape[own] == 1:
            continue
        if value.shape[own] != node.result.shape[axis]:
            return None
        if value.constant is not None:
            widening.constants[position] = own
        elif value.rank == node.result.rank:
            widening.data.append(position)
        else:
            return None
    return widening if widening.data else None
