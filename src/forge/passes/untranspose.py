"""Transposed convolutions become forward ones, where these do the same work.

Of stride 1: ``nn.conv2d_transpose(%x, w)`` --> ``nn.conv2d(%x, v)`` with the taps reversed. Of few channels, which would leave
most lanes of vectors empty: --> ``strided_slice(nn.depth_to_space(nn.conv2d(%x, v)))``, whose channels are pixels
(``passes.subpixels``).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from forge.ir.edits.rewrite import Declined, Rule, RuleBuilder, rewrite
from forge.ir.nodes import Graph, Node, Value
from forge.ops.core.inference import at_most
from forge.ops.nn.transposed_convolution import Conv2DTranspose, ConvTranspose
from forge.options import CompileOptions
from forge.passes.choose_layouts import plain_weight
from forge.passes.subpixels import Subpixels
from forge.target.blocking import channel_block

MOST_LANES = 1.5
"""Lanes that pixels of few channels may take, each in vectors of its own, over those that they take together."""


def run(graph: Graph, options: CompileOptions) -> int:
    few = partial(_of_few_channels, channel_block(options.target))
    return rewrite(graph, [Rule("of_stride_1", ("nn.conv2d_transpose", "nn.conv3d_transpose"), _of_stride_1),
                           Rule("of_few_channels", ("nn.conv2d_transpose",), few)])


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
    conv = Conv2DTranspose.of(node)
    if conv is None or (weight := plain_weight(conv)) is None or (form := Subpixels.of(conv)) is None:
        return Declined("the kernels of blocked layouts do not take it")
    channels = weight.shape[1]
    phases = math.prod(form.phases)
    together = -(-phases * channels // lanes) * lanes
    if channels >= lanes or phases * lanes < MOST_LANES * together:
        return Declined("its channels fill vectors")
    extents = conv.result.shape[2:]
    if conv.attrs.groups != 1 or min(form.padding) < 0 or not all(at_most(0, extent) for extent in extents):
        return Declined("it has groups, or does not use all data, or may be empty")
    convolved = _convolve(builder, conv, form.kernel(weight, channels), form)
    pixels = builder.call("nn.depth_to_space", convolved, block_size=form.phases)
    if not any(form.crop):
        return pixels
    begin = form.crop[:2]
    end = tuple(first + extent for first, extent in zip(begin, extents))
    return builder.call("strided_slice", pixels, begin=begin, end=end, axes=(2, 3))


def _convolve(builder: RuleBuilder, conv: ConvTranspose, kernel: np.ndarray, form: Subpixels, **attributes: Any) -> Value:
    """The forward convolution with ``kernel[O, I, spatial]``, under the names of ``conv``."""
    weight = builder.constant(kernel, name=conv.weight.name)
    sizes = {"channels": len(kernel), "kernel_size": kernel.shape[2:], "out_dtype": conv.attrs.out_dtype}
    op = conv.node.op.removesuffix("_transpose")
    return builder.call(op, conv.data, weight, name=conv.node.name, padding=form.padding, **sizes, **attributes)
