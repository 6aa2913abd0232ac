"""Blocked 3x3 convolutions of stride 1 move to the Winograd domain where that is faster.

``nn.contrib_conv2d_NCHWc(%x, p)`` --> ``nn.contrib_conv2d_winograd_NCHWc(%x, u)`` with ``u`` holding G g G^T for every filter g
of p. With tiles of 2x2 outputs weights grow by 16 / 9; with tiles of 4x4 by 4, and rounding errors by ten. Weights of bfloat16
become float32, and so do the products: fewer in float32 take less time than all of them in pairs of bfloat16.
"""

from __future__ import annotations

from forge.ir.nodes import Graph, Node
from forge.kernels.choose import Convolution3x3, winograd_tile
from forge.ops.packed import pairs
from forge.ops.packed.winograd import transform_filters
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs, replace


def run(graph: Graph, context: PassContext) -> int:
    def convert(graph: Graph) -> int:
        nodes = (node for node in live_nodes(graph) if node.op == "nn.contrib_conv2d_NCHWc")
        return sum(_convert_node(graph, node, context) for node in nodes)

    return on_all_graphs(graph, convert)


def _convert_node(graph: Graph, node: Node, context: PassContext) -> int:
    data, weight = node.operands
    assert data is not None and weight is not None
    tile = _tile(node, context)
    if not tile:
        return 0
    assert weight.constant is not None
    builder = before(graph, node)
    filters = builder.constant(transform_filters(pairs.plain_array(weight.constant, 6), tile), name=weight.name)
    value = builder.call("nn.contrib_conv2d_winograd_NCHWc", data, filters, name=node.name, **node.attributes)
    return int(replace(graph, node, value))


def _tile(node: Node, context: PassContext) -> int:
    """Rows and columns of the tiles to use; 0: the direct sum stays."""
    data, weight = node.operands
    attributes = node.attributes
    if data is None or weight is None or weight.constant is None or data.dtype not in ("float32", "bfloat16"):
        return 0
    height, width = node.result.shape[2:4]
    if not (isinstance(height, int) and isinstance(width, int) and weight.shape[2:4] == (3, 3)):
        return 0
    if tuple(attributes["strides"]) != (1, 1) or tuple(attributes["dilation"]) != (1, 1):
        return 0
    images = node.result.shape[0]
    sizes = (images if isinstance(images, int) else 1, attributes["in_channels"], attributes["channels"], height, width)
    return winograd_tile(context.target, Convolution3x3(data.dtype, *sizes))
