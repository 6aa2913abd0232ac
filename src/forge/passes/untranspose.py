"""Transposed convolutions become forward ones, where these do the same work.

Of stride 1: ``nn.conv2d_transpose(%x, w)`` --> ``nn.conv2d(%x, v)`` with the taps reversed. Of few channels, which would leave
most lanes of vectors empty, and of each channel of volumes, for which there is no kernel: -->
``strided_slice(nn.depth_to_space(nn.conv2d(%x, v)))``, whose channels are pixels (``passes.subpixels``). The only one of its
graph, where blocks of channels would be converted on both sides, with windows side by side: --> ``nn.contrib_subpixel_product``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from forge.ir.edits.rewrite import Declined, Rule, RuleBuilder, rewrite
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.core.inference import at_most
from forge.ops.nn.convolution import ConvBase
from forge.ops.nn.transposed_convolution import ConvTranspose
from forge.options import CompileOptions
from forge.passes.choose_layouts import plain_weight
from forge.passes.subpixels import Subpixels
from forge.target import Target

MAX_LANES = 1.5
"""Lanes that pixels of few channels may take, each in vectors of its own, over those that they take together."""
MAX_PHASES = 8
"""Pixels next to each other that are interleaved in registers."""


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of transposed convolutions that became forward ones."""
    few = partial(_of_few_channels, options.layouts.channel_block())
    transposed = ("nn.conv2d_transpose", "nn.conv3d_transpose")
    alone = sum(isinstance(node.op_def, ConvBase) for node in graph.nodes) == 1
    product = [Rule("side_by_side", ("nn.conv2d_transpose",), partial(_side_by_side, options.target))] if alone else []
    return rewrite(graph, [Rule("of_stride_1", transposed, _of_stride_1), *product, Rule("of_few_channels", transposed, few)])


def _side_by_side(target: Target, builder: RuleBuilder, node: Node) -> Value | Declined | None:
    conv = ConvTranspose.of(node)
    if conv is None or (weight := plain_weight(conv)) is None or (form := Subpixels.of(conv)) is None:
        return Declined("the kernels of blocked layouts do not take it")
    if any((axis.size, axis.dilation, axis.before, axis.after) != (axis.stride, 1, 0, 0) for axis in form.axes):
        return Declined("its windows do not lie side by side, or it is padded")
    if weight.dtype != np.float32 or conv.attrs.groups != 1 or form.phases[-1] > MAX_PHASES:
        return Declined("it has groups, another element type or many phases")
    if weight.nbytes > target.l1_cache:
        return Declined("its weight fills the first-level cache")
    columns = builder.constant(weight.reshape(len(weight), -1), name=conv.weight.name)
    return builder.call("nn.contrib_subpixel_product", conv.data, columns, phases=form.phases, name=node.name)


def _of_stride_1(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    conv = ConvTranspose.of(node)
    if conv is None or (weight := plain_weight(conv)) is None or (form := Subpixels.of(conv)) is None:
        return Declined("the kernels of blocked layouts do not take it")
    groups = conv.attrs.groups
    if any(step != 1 for step in form.phases) or any(form.crop) or min(form.padding) < 0:
        return Declined("its stride is not 1, or it is cropped by more than its taps reach")
    split = weight.reshape(groups, -1, *weight.shape[1:]).swapaxes(1, 2)
    kernel = np.flip(split.reshape(-1, *split.shape[2:]), tuple(range(2, weight.ndim)))
    return _convolve(builder, conv, np.ascontiguousarray(kernel), form, groups=groups, dilation=conv.attrs.dilation)


def _of_few_channels(lanes: int, builder: RuleBuilder, node: Node) -> Value | Declined | None:
    conv = ConvTranspose.of(node)
    if conv is None or (weight := plain_weight(conv)) is None or (form := Subpixels.of(conv)) is None:
        return Declined("the kernels of blocked layouts do not take it")
    groups, channels, extents = conv.attrs.groups, conv.result.shape[1], conv.result.shape[2:]
    phases, is_single = math.prod(form.phases), groups == len(weight) == channels
    if groups > 1 and (len(extents) == 2 or not is_single):
        return Declined("it has groups")
    together = -(-phases * channels // lanes) * lanes
    if groups == 1 and (channels >= lanes or phases * lanes < MAX_LANES * together):
        return Declined("its channels fill vectors")
    if min(form.padding) < 0 or not all(at_most(0, extent) for extent in extents):
        return Declined("it does not use all data, or may be empty")
    kernel = form.kernel(weight.swapaxes(0, 1) if groups > 1 else weight, channels)
    by_channel = kernel.reshape(phases, channels, *kernel.shape[1:]).swapaxes(0, 1).reshape(kernel.shape)
    pixels = _moved(builder, _convolve(builder, conv, np.ascontiguousarray(by_channel), form, groups=groups), form.phases)
    if not any(form.crop):
        return pixels
    begin = form.crop[: len(extents)]
    end = tuple(first + extent for first, extent in zip(begin, extents))
    return builder.call("strided_slice", pixels, begin=begin, end=end, axes=tuple(range(2, 2 + len(extents))))


def _moved(builder: RuleBuilder, pixels: Value, phases: tuple[int, ...]) -> Value:
    """Channels ``(channel, phases)`` as pixels of a larger image or volume."""
    if len(phases) == 2:
        return builder.call("nn.depth_to_space", pixels, block_size=phases, mode="CRD")
    n, channels, *sizes = pixels.shape
    apart = builder.call("reshape", pixels, newshape=(n, channels // math.prod(phases), *phases, *sizes))
    moved = builder.call("transpose", apart, axes=(0, 1, 5, 2, 6, 3, 7, 4))
    whole = [size * phase for size, phase in zip(sizes, phases)]
    return builder.call("reshape", moved, newshape=(n, channels // math.prod(phases), *whole))


def _convolve(builder: RuleBuilder, conv: ConvTranspose, kernel: np.ndarray, form: Subpixels, **attributes: Any) -> Value:
    """The forward convolution with ``kernel[O, I, spatial]``, under the names of ``conv``."""
    weight = builder.constant(kernel, name=conv.weight.name)
    sizes = {"channels": len(kernel), "kernel_size": kernel.shape[2:], "out_dtype": conv.attrs.out_dtype}
    op = conv.node.op.removesuffix("_transpose")
    return builder.call(op, conv.data, weight, name=conv.node.name, padding=form.padding, **sizes, **attributes)
