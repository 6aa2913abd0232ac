"""Grouped convolutions become plain ones, which have kernels of their own.

``nn.conv2d(%x, w, groups=2)`` --> ``concatenate(nn.conv2d(%x[:, :c], w[:o]), nn.conv2d(%x[:, c:], w[o:]), axis=1)``; in blocked
layouts slices and the concatenation move whole blocks. Narrow groups share a convolution, whose weights are zero between channels
of different groups: they would leave the lanes of vectors empty otherwise. Depthwise convolutions, and groups that are mostly
padding either way, keep the plain form. Several filters of each channel are depthwise ones of repeated channels where they are
transposed, or the image's size is known at run time only.

A convolution to very few channels, which would use as few lanes, is a depthwise one whose results are summed over channels:
``nn.conv2d(%x, w)`` --> ``sum(nn.conv2d(%x, w[0, :, None], groups=c), axis=[1])`` with one output channel.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from forge.ir.edits.rewrite import Declined, Rule, RuleBuilder, rewrite
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.nn.convolution import Conv2D, ConvBase
from forge.options import CompileOptions
from forge.passes.choose_layouts import has_several_filters, plain_weight
from forge.passes.matching import again, operand

CONVOLUTIONS = ("nn.conv2d", "nn.conv2d_transpose", "nn.conv3d", "nn.conv3d_transpose")
REPEATED = "nn.conv2d_transpose"
"""Whose plain form is slow with one input channel in a group, whatever is known of sizes."""
MIN_CHANNELS = 4
"""Input channels of a convolution."""
MIN_TAPS = {1: 3, 2: 3, 3: 9}
"""By the number of output channels: from how many taps on sums over channels are computed apart."""
MAX_WASTE = 4.0
"""Multiply-adds with padding over those without it."""


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of convolutions that were split."""
    rule = partial(_split, options.layouts.channel_block())
    return rewrite(graph, [Rule("split_groups", CONVOLUTIONS, rule)])


def _split(lanes: int, builder: RuleBuilder, node: Node) -> Value | Declined | None:
    groups = node.attrs.groups
    if groups == 1:
        return _to_few_channels(lanes, builder, node)
    data, weight = operand(node), plain_weight(ConvBase.of(node))
    if weight is None:
        return Declined("the kernels of blocked layouts do not take it")
    inner, outer = data.shape[1] // groups, node.result.shape[1] // groups
    conv = Conv2D.of(node)
    if conv is not None and has_several_filters(conv, lanes):
        return Declined("a kernel of blocked layouts takes several filters of each channel")
    unknown = node.op == "nn.conv2d" and not all(isinstance(size, int) for size in node.result.shape[2:])
    if (node.op == REPEATED or unknown) and inner == 1 < outer:
        equal = builder.call("repeat", data, repeats=outer, axis=1)  # a channel for each of its filters
        filters = builder.constant(weight.reshape(-1, 1, *weight.shape[2:]), name=operand(node, 1).name)
        return again(builder, node, equal, filters, groups=node.result.shape[1])
    together = groups_together(groups, inner, outer, lanes)
    if not together:
        return Declined("depthwise, or mostly padding when split")
    attributes = {**node.attributes, "groups": 1, "channels": together * outer}
    parts = []
    for g in range(0, groups, together):
        own = data if together == groups else builder.call(
            "strided_slice", data, begin=(g * inner,), end=((g + together) * inner,), strides=(1,), axes=(1,))
        first = len(weight) // groups
        kernel = builder.constant(_diagonal(weight[g * first : (g + together) * first], together))
        parts.append(builder.call(node.op, own, kernel, name=node.name if together == groups else "", **attributes))
    return parts[0] if together == groups else builder.call("concatenate", *parts, axis=1, name=node.name)


def _to_few_channels(lanes: int, builder: RuleBuilder, node: Node) -> Value | None:
    weight = plain_weight(Conv2D.of(node))
    if weight is None or weight.dtype != np.float32 or node.result.dtype != "float32":
        return None
    outer, channels, *taps = weight.shape
    if math.prod(taps) < MIN_TAPS.get(outer, 1 << 30) or channels < 2 * lanes or channels % lanes:
        return None
    attributes = {**node.attributes, "groups": channels, "channels": channels}
    sums = []
    for filters in weight:
        products = builder.call("nn.conv2d", operand(node), builder.constant(filters[:, None]), **attributes)
        sums.append(builder.call("sum", products, axis=(1,), keepdims=True, name=node.name if outer == 1 else ""))
    return sums[0] if outer == 1 else builder.call("concatenate", *sums, axis=1, name=node.name)


def groups_together(groups: int, inner: int, outer: int, lanes: int) -> int:
    """Returns how many groups of ``inner`` to ``outer`` channels share a convolution: the most with the fewest multiply-adds.

    0: all are mostly padding, or have too few channels.
    """
    def cost(count: int) -> int:
        return groups * inner * -(-count * outer // lanes) * lanes

    counts = [n for n in range(1, groups + 1) if groups % n == 0 and n * inner >= MIN_CHANNELS]
    best = min(counts, key=lambda n: (cost(n), -n), default=0)
    return best if best and cost(best) <= MAX_WASTE * groups * inner * outer else 0


def _diagonal(weight: np.ndarray, count: int) -> np.ndarray:
    """Weights ``[count * a, b, h, w]`` of groups as those of all their channels, ``[count * a, count * b, h, w]``."""
    first, second = weight.shape[0] // count, weight.shape[1]
    result = np.zeros((count, first, count, second, *weight.shape[2:]), weight.dtype)
    result[range(count), :, range(count)] = weight.reshape(count, first, *weight.shape[1:])
    return result.reshape(count * first, count * second, *weight.shape[2:])
