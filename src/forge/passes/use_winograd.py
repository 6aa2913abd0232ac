"""Blocked 3x3 convolutions of stride 1, dilated or not, move to the Winograd domain where that is faster.

Those of volumes do slice by slice.

``nn.contrib_conv2d_NCHWc(%x, p)`` --> ``nn.contrib_conv2d_winograd_NCHWc(%x, u)`` with ``u`` holding G g G^T for every filter g
of p. With tiles of 2x2 outputs weights grow by 16 / 9; with tiles of 4x4 by 4, and rounding errors by ten. Weights of bfloat16
become float32, and so do the products: fewer in float32 take less time than all of them in pairs of bfloat16.
Of images whose size is known at run time only, a typical size decides; kernels take smaller tiles of small images, whose filters
are some of those for larger ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from forge import dims
from forge.backend import Convolution3x3, Layouts
from forge.ir.edits.rewrite import Declined, Rule, RuleBuilder, rewrite
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.nn.convolution import Conv
from forge.ops.packed import pairs
from forge.ops.packed.winograd import transform_filters, transform_slices
from forge.options import CompileOptions
from forge.passes.matching import operand

WINOGRAD = {"nn.contrib_conv2d_NCHWc": "nn.contrib_conv2d_winograd_NCHWc",
            "nn.contrib_conv3d_NCDHWc": "nn.contrib_conv3d_winograd_NCDHWc"}
LEVEL = 3
"""The ``opt_level`` from which it runs."""


WIDE_CHANNELS, WIDE_POSITIONS = 16, 400
"""Input channels and results of an image from which 3x3 convolutions of float32 are faster than those of 16-bit integers."""


def is_on(options: CompileOptions) -> bool:
    """Returns whether this stage runs, and layouts are chosen that it takes."""
    is_named = options.opt_level >= LEVEL and "use_winograd" not in options.disabled_pass
    return is_named and options.winograd and not options.exact and options.channel_layout is None


def window_of(conv: Conv | None, sizes: Mapping[str, int]) -> Convolution3x3 | None:
    """Returns what the choice of a convolution's algorithm depends on, or None where there is the direct sum only."""
    if conv is None or conv.spatial != "HW" or conv.weight.constant is None or conv.attrs.groups > 1:
        return None
    shape = conv.shape(conv.data.shape, conv.weight.shape, conv.attrs)
    if any((tap.size, tap.stride) != (3, 1) for tap in shape.taps):
        return None
    images, height, width = (dims.typical(conv.result.shape[shape.out.index(axis)], sizes) for axis in "NHW")
    down, across = (tap.dilation for tap in shape.taps)
    return Convolution3x3(conv.data.dtype, images, shape.in_channels, shape.channels, height, width, dilation=(down, across))


def is_likely(conv: Conv) -> bool:
    """Returns whether a float32 convolution takes fewer products on most targets; integers of 16 bits are weighed against it."""
    attrs, (_, channels, *kernel), positions = conv.attrs, conv.weight.shape, dims.product(conv.result.shape[2:])
    if tuple(kernel) != (3, 3) or any(v != 1 for v in (*attrs.strides, *attrs.dilation, attrs.groups)):
        return False
    return channels >= WIDE_CHANNELS and isinstance(positions, int) and positions >= WIDE_POSITIONS


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of convolutions that moved to the Winograd domain."""
    typical = typical_sizes(graph, dict(options.typical))
    return rewrite(graph, [Rule("use_winograd", tuple(WINOGRAD), partial(_converted, options.layouts, typical))])


def grown_bytes(graph: Graph) -> int:
    """Returns by how many bytes the weights in the Winograd domain are larger than those that they were."""
    weights = [node.operands[1] for node in graph.walk() if node.op in WINOGRAD.values()]
    known = [weight.constant for weight in weights if weight is not None and weight.constant is not None]
    return sum(array.nbytes * (array.shape[1] - 9) // array.shape[1] for array in known)


def _converted(layouts: Layouts, typical: Mapping[str, int], builder: RuleBuilder, node: Node) -> Value | Declined:
    data, weight = operand(node), operand(node, 1)
    attrs = node.attrs
    if weight.constant is None or data.dtype not in ("float32", "bfloat16"):
        return Declined("not a constant weight of float32 or bfloat16")
    batch, _, *depth, height, width, _ = node.result.shape
    *slices, rows, columns = weight.shape[2 : 2 + len(depth) + 2]
    *along, down, across = attrs.dilation
    if (rows, columns) != (3, 3) or any(step != 1 for step in (*attrs.strides[-2:], *along)):
        return Declined("not a 3x3 kernel with strides of 1")
    *depths, height, width = (max(1, dims.typical(size, typical)) for size in (*depth, height, width))
    images, taps = math.prod((batch if isinstance(batch, int) else 1, *depths)), math.prod(slices)
    sizes = (images, attrs.in_channels * taps, attrs.channels, height, width, taps, (down, across))
    tile = layouts.winograd_tile(Convolution3x3(data.dtype, *sizes))
    if not tile:
        return Declined("the direct sum is estimated to be faster")
    transform = transform_slices if depth else transform_filters
    plain = pairs.plain_array(weight.constant, node.result.rank + 1)
    filters = builder.constant(transform(plain, tile), name=weight.name)
    return builder.call(WINOGRAD[node.op], data, filters, name=node.name, **node.attributes)
