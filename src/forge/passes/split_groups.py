"""Grouped convolutions become one convolution a group, which have kernels of their own.

``nn.conv2d(%x, w, groups=2)`` --> ``concatenate(nn.conv2d(%x[:, :c], w[:o]), nn.conv2d(%x[:, c:], w[o:]), axis=1)``; in blocked
layouts slices and the concatenation move whole blocks. Depthwise convolutions, and groups so narrow that vectors would be mostly
padding, keep the plain form.
"""

from __future__ import annotations

import numpy as np

from forge.ir.nodes import Graph, Node
from forge.passes.base import PassContext
from forge.passes.choose_layouts import is_plain_convolution
from forge.passes.rewriting import before, live_nodes, on_all_graphs, replace
from forge.target.blocking import channel_block

LEAST_CHANNELS = 8
"""Input channels of a group."""
MOST_WASTE = 4.0
"""Multiply-adds with padding over those without it."""


def run(graph: Graph, context: PassContext) -> int:
    def split(graph: Graph) -> int:
        return sum(_split_node(graph, node, context) for node in live_nodes(graph) if node.op == "nn.conv2d")

    return on_all_graphs(graph, split)


def _split_node(graph: Graph, node: Node, context: PassContext) -> int:
    groups = node.attributes["groups"]
    if groups == 1 or not is_plain_convolution(node):
        return 0
    data, weight = node.operands
    assert data is not None and weight is not None and weight.constant is not None
    inner, outer, lanes = data.shape[1] // groups, weight.shape[0] // groups, channel_block(context.target)
    if inner < LEAST_CHANNELS or -(-outer // lanes) * lanes > MOST_WASTE * outer:
        return 0
    builder = before(graph, node)
    attributes = {**node.attributes, "groups": 1, "channels": outer}
    parts = []
    for g in range(groups):
        own = builder.call("strided_slice", data, begin=(g * inner,), end=((g + 1) * inner,), strides=(1,), axes=(1,))
        kernel = builder.constant(np.ascontiguousarray(weight.constant[g * outer : (g + 1) * outer]))
        parts.append(builder.call("nn.conv2d", own, kernel, **attributes))
    return int(replace(graph, node, builder.call("concatenate", *parts, axis=1, name=node.name)))
