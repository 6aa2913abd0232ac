"""Blocked 3x3 convolutions of stride 1 move to the Winograd domain where that is faster.

``nn.contrib_conv2d_NCHWc(%x, p)`` --> ``nn.contrib_conv2d_winograd_NCHWc(%x, u)`` with ``u`` holding G g G^T for every filter g
of p. With tiles of 2x2 outputs weights grow by 16 / 9; with tiles of 4x4 by 4, and rounding errors by ten. Weights of bfloat16
become float32, and so do the products: fewer in float32 take less time than all of them in pairs of bfloat16.
Of images whose size is known at run time only, a typical size decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from forge import dims
from forge.ir.edits.rewrite import Declined, Rule, RuleBuilder, rewrite
from forge.ir.nodes import Graph, Node, Value
from forge.ir.typical import typical_sizes
from forge.kernels.choose import Convolution3x3, winograd_tile
from forge.ops.packed import pairs
from forge.ops.packed.winograd import transform_filters
from forge.options import CompileOptions
from forge.passes.matching import operand
from forge.target import Target

LEVEL = 3
"""The ``opt_level`` from which it runs."""


def run(graph: Graph, options: CompileOptions) -> int:
    typical = typical_sizes(graph, dict(options.typical))
    return rewrite(graph, [Rule("use_winograd", ("nn.contrib_conv2d_NCHWc",), partial(_converted, options.target, typical))])


def _converted(target: Target, typical: Mapping[str, int], builder: RuleBuilder, node: Node) -> Value | Declined:
    data, weight = operand(node), operand(node, 1)
    attrs, images = node.attrs, node.result.shape[0]
    if weight.constant is None or data.dtype not in ("float32", "bfloat16"):
        return Declined("not a constant weight of float32 or bfloat16")
    height, width = node.result.shape[2:4]
    if weight.shape[2:4] != (3, 3) or attrs.strides != (1, 1) or attrs.dilation != (1, 1):
        return Declined("not a 3x3 kernel with strides and dilation of 1")
    images = images if isinstance(images, int) else 1
    height, width = (max(1, dims.typical(size, typical)) for size in (height, width))
    tile = winograd_tile(target, Convolution3x3(data.dtype, images, attrs.in_channels, attrs.channels, height, width))
    if not tile:
        return Declined("the direct sum is estimated to be faster")
    filters = builder.constant(transform_filters(pairs.plain_array(weight.constant, 6), tile), name=weight.name)
    return builder.call("nn.contrib_conv2d_winograd_NCHWc", data, filters, name=node.name, **node.attributes)
