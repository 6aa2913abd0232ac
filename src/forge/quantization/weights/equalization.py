"""Channels of a value get ranges and weights that quantize well, without a change of what the model computes.

What a layer or a normalization gives is divided by a number for each channel, and the weights that read it are multiplied by
it: between layers (Nagel et al., arXiv:1906.04721) and after normalizations (SmoothQuant, arXiv:2211.10438). Only what keeps
ratios may lie between: biases, ``relu``, pools. Numbers are powers of two, so that nothing is rounded. A candidate is taken if it
makes the expected squared error of the layers that read the value clearly less, as their statistics and weights say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.saved.statistics import Histogram, Statistics
from forge.ops.reduce.reduction import Mean
from forge.quantization.places.layers import FloatLayer, is_depthwise, layer_of
from forge.quantization.weights.channels import ChannelOperand, along, parameters_of, rows_of

STEPS = 254
"""From the least to the largest code of a weight."""
EXPONENTS = (0.25, 0.5, 0.75, 1.0)
"""How much of the differences between ranges of channels the weights take over."""
GAIN = 0.8
"""A candidate must leave no more of the error than this."""
LARGEST = 2.0**20


@dataclass
class Chain:
    """A value, what makes it, and all that reads it.

    Attributes:
        made: what is divided: weights and biases, or the parameters of a normalization.
        read: weights that are multiplied, with the values that they are multiplied by.
        values: those between.
    """

    producer: Node
    made: list[ChannelOperand]
    read: list[tuple[FloatLayer, ChannelOperand, Value]] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)


def equalize(graph: Graph, statistics: MutableMapping[Value, Statistics], per_channel: bool) -> int:
    """Changes constants of ``graph`` and statistics of its values; returns how many values were changed."""
    changed = 0
    for node in list(graph.nodes):
        chain = chain_of(node)
        factors = None if chain is None else _best(chain, statistics, per_channel)
        if chain is not None and factors is not None:
            _apply(chain, factors, statistics)
            changed += 1
    return changed


def chain_of(node: Node) -> Chain | None:
    """Returns what can be scaled after ``node``; None: nothing."""
    layer, parameters = layer_of(node), parameters_of(node)
    if layer is not None and layer.axis is not None:
        parameters = [ChannelOperand(node, 1, layer.axis)]
    if parameters is None:
        return None
    chain = Chain(node, parameters)
    return chain if _follow(chain, node.results[0], -1 if layer is None else layer.channel_axis) and chain.read else None


def _follow(chain: Chain, value: Value, axis: int) -> bool:
    """Whether all that reads ``value`` keeps ratios, or is a layer."""
    graph = chain.producer.graph
    if graph is None or graph.is_output(value) or not value.uses:
        return False
    chain.values.append(value)
    return all(_follow_user(chain, value, axis, user, position) for user, position in value.uses)


def _follow_user(chain: Chain, value: Value, axis: int, user: Node, position: int) -> bool:
    layer = layer_of(user)
    if layer is not None:
        summed = 0 if is_depthwise(layer) else layer.summed_axis
        if summed is None or position != 0 or axis % value.rank != layer.channel_axis % value.rank:
            return False
        chain.read.append((layer, ChannelOperand(user, 1, summed), value))
        return True
    if user.op in ("nn.bias_add", "add"):
        bias = user.operands[1 - position]
        fits = bias is not None and bias.constant is not None and bias.rank == 1 and bias.size == value.shape[axis]
        is_along = user.op == "nn.bias_add" or axis % value.rank == value.rank - 1
        if not fits or not is_along or len(value.uses) != 1 or value is not chain.producer.results[0]:
            return False
        chain.made.append(ChannelOperand(user, 1 - position, -1))
        return _follow(chain, user.result, axis)
    if user.op_def.keeps_ratios or user.op_def.is_pool and (user.op_def.is_selection or user.op_def.is_average):
        return _follow(chain, user.results[0], axis)
    if Mean.of(user) is not None or user.op == "reshape":
        return _keeps_channels(user, value, axis) and _follow(chain, user.result, axis)
    return False


def _keeps_channels(user: Node, value: Value, axis: int) -> bool:
    """Whether a mean or a view of ``value`` has its channels at the same axis."""
    result = user.result
    if user.op == "reshape":
        flat = value.rank == 4 and result.rank == 2 and axis == 1 and tuple(value.shape[2:]) == (1, 1)
        return flat and result.shape[1] == value.shape[1]
    axes = user.attributes["axis"]
    reduced = {a % value.rank for a in ([axes] if isinstance(axes, int) else axes or range(value.rank))}
    return axis == 1 and not reduced & {0, 1} and not user.attributes.get("exclude", False)


def _best(chain: Chain, statistics: Mapping[Value, Statistics], per_channel: bool) -> np.ndarray | None:
    """The numbers that leave the least error, where that is clearly less than without."""
    known = [statistics.get(value) for _, _, value in chain.read]
    own = [s for s in known if s is not None and s.calls and s.is_finite]
    channels = chain.made[0].rows.shape[0]
    if len(own) < len(known) or any(len(s.channel_low) != channels for s in own):
        return None
    found = [(_error(chain, factors, statistics, per_channel), k, factors) for k, factors in enumerate(_candidates(chain, own))]
    whole = _error(chain, np.ones(channels), statistics, per_channel)
    least, _, factors = min(found, key=lambda item: item[:2])
    return factors if least < GAIN * whole else None


def _candidates(chain: Chain, own: Sequence[Statistics]) -> Iterator[np.ndarray]:
    data = np.max([np.maximum(-s.channel_low, s.channel_high) for s in own], axis=0)
    weights = np.max([np.abs(part.rows).max(axis=1) for _, part, _ in chain.read], axis=0)
    for exponent in EXPONENTS:
        yield _powers_of_two(data**exponent, weights ** (1 - exponent))
    if layer_of(chain.producer) is not None:
        yield _powers_of_two(np.sqrt(np.abs(chain.made[0].rows).max(axis=1)), np.sqrt(weights))


def _powers_of_two(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    present = (above > 0) & (below > 0)
    logarithms = np.log2(np.where(present, above, 1)) - np.log2(np.where(present, below, 1))
    middle = np.median(logarithms[present]) if present.any() else 0.0
    bound = np.log2(LARGEST)
    factors: np.ndarray = np.exp2(np.where(present, np.clip(np.rint(logarithms - middle), -bound, bound), 0))
    return factors


def _error(chain: Chain, factors: np.ndarray, statistics: Mapping[Value, Statistics], per_channel: bool) -> float:
    """The expected squared error of the layers that read the value, for one position of their results."""
    total = 0.0
    for layer, part, value in chain.read:
        found, weights = statistics[value], part.rows * factors[:, None]
        low, high = min(0.0, float((found.channel_low / factors).min())), max(0.0, float((found.channel_high / factors).max()))
        weight_of = (weights**2).sum(axis=1)
        step = (high - low) / (STEPS + 1)
        noise = np.full(len(factors), step**2 / 12)
        noise += _noise_of_weights(chain, factors, statistics, per_channel)
        total += float((noise * weight_of).sum())
        squares = _squares(found) / factors**2
        total += float((squares * _squared_steps(layer, part, factors, per_channel)).sum()) / 12
    return total


def _squares(found: Statistics) -> np.ndarray:
    """Mean square per channel, assuming a uniform distribution over its range, scaled to the observed mean over all channels."""
    low, high = found.channel_low, found.channel_high
    if not low.size:
        low, high = np.array([found.low]), np.array([found.high])
    spread: np.ndarray = (low**2 + low * high + high**2) / 3
    counts = found.histogram.counts
    if counts.any() and spread.mean() > 0:
        spread = spread * (np.sum(counts * found.histogram.centres**2) / counts.sum() / spread.mean())
    return spread


def _squared_steps(layer: FloatLayer, part: ChannelOperand, factors: np.ndarray, per_channel: bool) -> np.ndarray:
    """Sums, for each channel of the data, of the squared steps of its weights."""
    assert layer.axis is not None
    rows = rows_of(part.array * factors.reshape(along(part.axis, part.array.ndim)), layer.axis)
    squares = (2 * np.abs(rows).max(axis=1) / STEPS) ** 2
    if part.axis == layer.axis:  # depthwise: a scale for each channel in any case
        return np.asarray(squares * rows.shape[1])
    total = squares.sum() if per_channel else len(rows) * squares.max()
    return np.full(len(factors), total * rows.shape[1] / len(factors))


def _noise_of_weights(chain: Chain, factors: np.ndarray, statistics: Mapping[Value, Statistics], per_channel: bool) -> np.ndarray:
    """Expected squared error of each channel by rounding the weights that make it; 0 where factors do not change it."""
    layer = layer_of(chain.producer)
    if per_channel or layer is None or is_depthwise(layer):
        return np.zeros(len(factors))
    rows = chain.made[0].rows
    source = statistics.get(layer.inputs[0])
    mean = 1.0 if source is None else float(_squares(source).mean())
    step = 2 * float((np.abs(rows).max(axis=1) / factors).max()) / STEPS
    return np.full(len(factors), step**2 / 12 * mean * rows.shape[1])


def _apply(chain: Chain, factors: np.ndarray, statistics: MutableMapping[Value, Statistics]) -> None:
    for part in chain.made:
        part.multiply(1 / factors)
    for _, part, _ in chain.read:
        part.multiply(factors)
    for value in chain.values:
        found = statistics.get(value)
        if found is not None and len(found.channel_low) == len(factors):
            low, high = found.channel_low / factors, found.channel_high / factors
            least, most = float(low.min()), float(high.max())
            statistics[value] = replace(  # the distribution over all channels is not known any more
                found, low=least, high=most, low_sum=least * found.calls, high_sum=most * found.calls, histogram=Histogram(),
                channel_low=low, channel_high=high)
