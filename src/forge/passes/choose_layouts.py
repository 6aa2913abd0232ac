"""Convolutions get the blocked layout of the target's kernels, and tensors stay in it as long as they can.

``nn.conv2d(%x, w)`` --> ``nn.contrib_conv2d_NCHWc(layout_transform(%x), p)`` with channels in blocks of the target's vector width
and packed weights, and likewise those of volumes; transposed ones become convolutions whose output channels are pixels
(``passes.subpixels``). Element-wise operators, pools, concatenations, resizing and padding follow their operand into the blocked
layout (``Op.in_layout``); everything else reads a tensor that is transformed back, once.
Other groupings than depthwise keep the plain layout. Weights that are not constant are packed at run time, where enough is
computed with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from forge import dims, dtypes
from forge.dims import is_static
from forge.ir.edits.rewrite import on_all_graphs
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.core.layout_change import Shape
from forge.ops.nn.convolution import Conv2D, Conv3D, ConvBase
from forge.ops.nn.transposed_convolution import Conv2DTranspose, Conv3DTranspose, ConvTranspose
from forge.ops.packed.pairs import MULTIPLE, paired
from forge.ops.shape.layout_transform import with_layout
from forge.ops.shape.transpose import Transpose
from forge.options import CompileOptions
from forge.passes.conversion import Relayout
from forge.passes.subpixels import Subpixels, spread
from forge.passes.view_rules import reshaped, transposed

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = (("uint8", "int8", "int32"), ("int16", "int8", "int32"))
"""Data, weight and sums of the products of integers that there are kernels for."""

OFTEN = 64
"""Uses of each element of a weight, from which on it pays to put it in blocks first."""


def run(graph: Graph, options: CompileOptions) -> int:
    return on_all_graphs(graph, lambda g: _Images(g, options).run() + _Volumes(g, options).run())


class _Blocked(Relayout):
    """Tensors of layout ``plain`` with channels in blocks of ``size``."""

    plain: ClassVar[str]

    def __init__(self, graph: Graph, options: CompileOptions) -> None:
        super().__init__(graph)
        self.layouts = options.layouts
        self.typical = typical_sizes(graph, dict(options.typical))
        self.size = options.layouts.channel_block()
        self.layout = f"{self.plain}{self.size}c"
        self.narrow: dict[Value, Value] = {}  # images of fewer channels than a block, in one block of them

    def order(self, rank: int) -> tuple[int | None, ...]:
        return (*range(rank), None)

    def block(self, axis: int) -> int:
        return self.size if axis == 1 else 1

    def name(self, layout: str) -> str | None:
        return self.layout if layout == self.plain else None

    def can_follow(self, node: Node) -> bool:
        return node.result.rank == len(self.plain) and isinstance(node.result.shape[1], int)

    def convert(self, node: Node) -> bool:
        turn = Transpose.of(node)
        if turn is None or turn.data.rank != len(self.plain) or not self.is_new(turn.data):
            return super().convert(node)
        layout = "".join(self.plain[axis] for axis in turn.permutation(turn.attrs, turn.data.rank))
        self.old[node.result] = self.builder.call(
            "layout_transform", self.new[turn.data], src_layout=self.layout, dst_layout=layout, channels=turn.data.shape[1])
        return True

    def to_new(self, value: Value) -> Value:
        return self._in_blocks(value, self.layout)

    def _in_blocks(self, value: Value, layout: str) -> Value:
        """``value`` in blocks, read in the layout that it had before a transposition."""
        source, axes = transposed(value) or (value, range(value.rank))
        plain = "".join(self.plain[axes.index(k)] for k in range(value.rank))
        if plain[-1] == "C" and layout == f"{self.plain}{value.shape[1]}c":
            return reshaped(self.builder, source, (value.shape[0], 1, *value.shape[2:], value.shape[1]))
        return self.builder.call("layout_transform", source, src_layout=plain, dst_layout=layout)

    def to_old(self, value: Value, original: Value) -> Value:
        channels = original.shape[1]
        if all(extent == 1 for extent in original.shape[2:]) and channels % self.size == 0:
            return self.builder.call("reshape", value, newshape=original.shape)
        return self.builder.call("layout_transform", value, src_layout=self.layout, dst_layout=self.plain, channels=channels)

    def can_broadcast(self, shapes: Sequence[Shape], result: Shape) -> bool:
        return all(s[1] in (1, result[1]) for s in shapes) and any(extent != 1 for s in shapes for extent in s)

    def broadcast(self, value: Value, shape: Shape, result: Shape) -> Value:
        if all(extent == 1 for extent in shape):
            return self.view(value, ())
        if shape[1] != result[1]:
            return self.view(value, (*shape, 1))
        if value.constant is not None:
            blocked = with_layout(value.constant.reshape([d for d in shape if isinstance(d, int)]), self.plain, self.layout)
            repeated = len(blocked) == 1 and tuple(shape) != tuple(result)
            return self.builder.constant(blocked[0] if repeated else blocked, name=value.name)
        if value.rank == len(self.plain):
            return self.converted(value)
        if value.size == shape[1] and shape[1] % self.size == 0:
            return self.view(value, (shape[1] // self.size, *(1,) * len(shape[2:]), self.size))
        return self.to_new(self.view(value, shape))

    def _source(self, conv: ConvBase[Any]) -> tuple[Value, int]:
        """The data of a convolution in blocks, and the size of these: all channels where they are fewer than a block."""
        data, channels = conv.data, conv.data.shape[1]
        if channels >= self.size or data in self.new:
            return self.converted(data), self.size
        block = channels + (-channels % MULTIPLE if conv.weight.dtype == "int8" else 0)
        if data not in self.narrow:
            self.narrow[data] = self._in_blocks(self.usual(data), f"{self.plain}{block}c")
        return self.narrow[data], block

    def _packed(self, conv: ConvBase[Any], kernel: np.ndarray, block: int) -> np.ndarray:
        """``kernel[O, I, spatial]`` as kernels of data in blocks of ``block`` read it."""
        layout, channels = f"OI{conv.spatial}", conv.data.shape[1]
        packed = with_layout(kernel, layout, f"{layout}{block}i{self.size}o")
        group = self.layouts.group_size(conv.data.dtype, dtypes.canonical(kernel.dtype))
        fits = block % group == 0 and (kernel.dtype == np.int8 or channels % group == 0)
        return paired(packed, group) if group > 1 and fits else packed

    def _layouts(self, block: int) -> dict[str, str]:
        kernel_layout = f"OI{self.plain[2:]}{block}i{self.size}o"
        return {"data_layout": f"{self.plain}{block}c", "kernel_layout": kernel_layout, "out_layout": self.layout}

    def _convolution(self, conv: Conv2D | Conv3D) -> Value | None:
        kernel, groups = plain_weight(conv), conv.attrs.groups
        if kernel is None:
            return self._with_computed_weight(conv) if is_worth_packing(conv, self.typical) else None
        if groups == 1:
            return self._convolve(conv, kernel)
        bytes_of_volumes = kernel.dtype == np.int8 and kernel.ndim == 5
        is_depthwise = groups == conv.data.shape[1] == len(kernel) or has_several_filters(conv, self.size)
        if bytes_of_volumes or not is_depthwise:
            return None
        return self._depthwise(conv, self.converted(conv.data), kernel)

    def _depthwise(self, conv: Conv2D | Conv3D, source: Value, kernel: np.ndarray) -> Value:
        """A convolution of each channel on its own; taps of a row of bytes are in groups, and not apart."""
        dilation = conv.attrs.dilation
        if kernel.dtype == np.int8:
            kernel, dilation = spread(kernel, (1, dilation[-1])), (dilation[0], 1)
        changed = {"channels": len(kernel), "in_channels": conv.data.shape[1], "kernel_size": kernel.shape[2:],
                   "dilation": dilation, **self._depthwise_layouts()}
        packed = self.builder.constant(self._packed_taps(conv, kernel), name=conv.weight.name)
        op = f"nn.contrib_depthwise_conv{len(conv.spatial)}d_{self.plain}c"
        return self.builder.call(op, source, packed, name=conv.node.name, **{**conv.node.attributes, **changed})

    def _packed_taps(self, conv: ConvBase[Any], kernel: np.ndarray) -> np.ndarray:
        """``kernel[O, 1, spatial]`` as kernels of depthwise convolutions read it."""
        packed = with_layout(kernel[:, 0], f"O{conv.spatial}", f"O{conv.spatial}{self.size}o")
        if kernel.dtype != np.int8:
            return packed
        group = min(self.layouts.group_size(conv.data.dtype, "int8"), MULTIPLE)  # rows of taps are short
        return paired(np.pad(packed, ((0, 0), (0, 0), (0, -kernel.shape[3] % group), (0, 0))), group)

    def _depthwise_layouts(self) -> dict[str, str]:
        return {"data_layout": self.layout, "kernel_layout": f"O{self.plain[2:]}{self.size}o", "out_layout": self.layout}

    def _with_computed_weight(self, conv: Conv2D | Conv3D) -> Value:
        source, block = self._source(conv)
        layout = f"OI{conv.spatial}"
        packed = self.builder.call("layout_transform", self.usual(conv.weight), src_layout=layout,
                                   dst_layout=f"{layout}{block}i{self.size}o")
        return self._packed_convolution(conv, source, block, packed)

    def _convolve(self, conv: Conv2D | Conv3D, kernel: np.ndarray) -> Value:
        """The convolution with ``kernel[O, I, spatial]``."""
        source, block = self._source(conv)
        packed = self.builder.constant(self._packed(conv, kernel, block), name=conv.weight.name)
        return self._packed_convolution(conv, source, block, packed)

    def _packed_convolution(self, conv: Conv2D | Conv3D, source: Value, block: int, packed: Value) -> Value:
        shape = conv.weight.shape
        sizes = {"channels": shape[0], "in_channels": conv.data.shape[1], "kernel_size": shape[2:]}
        return self.builder.call(f"nn.contrib_conv{len(conv.spatial)}d_{self.plain}c", source, packed, name=conv.node.name,
                                 **{**conv.node.attributes, **sizes, **self._layouts(block)})

    def _subpixels(self, conv: ConvTranspose) -> Value | None:
        """A transposed convolution of one group, as one whose output channels are pixels."""
        weight, form, channels = plain_weight(conv), Subpixels.of(conv), conv.result.shape[1]
        if weight is None or form is None or conv.attrs.groups != 1:
            return None
        return self._to_pixels(conv, form.kernel(weight, channels + -channels % self.size), **form.attributes)

    def _to_pixels(self, conv: ConvBase[Any], kernel: np.ndarray, **attributes: Any) -> Value:
        """A convolution with ``kernel[O, I, spatial]`` whose output channels are pixels."""
        source, block = self._source(conv)
        packed = self.builder.constant(self._packed(conv, kernel, block), name=conv.weight.name)
        sizes = {"channels": conv.result.shape[1], "in_channels": conv.data.shape[1], "kernel_size": kernel.shape[2:]}
        op = f"nn.contrib_subpixel_conv{len(conv.spatial)}d_{self.plain}c"
        return self.builder.call(op, source, packed, name=conv.node.name, out_dtype=conv.attrs.out_dtype, **sizes, **attributes,
                                 **self._layouts(block))


class _Images(_Blocked):
    plain = "NCHW"

    def start(self, node: Node) -> Value | None:
        if (transposed := Conv2DTranspose.of(node)) is not None:
            return self._subpixels(transposed) or self._depthwise_subpixels(transposed)
        return None if (conv := Conv2D.of(node)) is None else self._convolution(conv)

    def _depthwise_subpixels(self, conv: Conv2DTranspose) -> Value | None:
        """A transposed convolution of each channel on its own, as one with a filter for each pixel."""
        weight, form = plain_weight(conv), Subpixels.of(conv)
        if weight is None or form is None or conv.attrs.groups != len(weight) or weight.shape[1] != 1:
            return None
        channels = len(weight)
        kernel = form.kernel(weight.swapaxes(0, 1), channels + -channels % self.size)
        packed = self.builder.constant(self._packed_taps(conv, kernel), name=conv.weight.name)
        return self.builder.call(
            "nn.contrib_subpixel_depthwise_conv2d_NCHWc", self.converted(conv.data), packed, name=conv.node.name,
            channels=channels, in_channels=channels, groups=channels, kernel_size=kernel.shape[2:],
            out_dtype=conv.attrs.out_dtype, **form.attributes, **self._depthwise_layouts())


class _Volumes(_Blocked):
    plain = "NCDHW"

    def start(self, node: Node) -> Value | None:
        if (transposed := Conv3DTranspose.of(node)) is not None:
            return self._subpixels(transposed)
        return None if (conv := Conv3D.of(node)) is None else self._convolution(conv)


def plain_weight(conv: ConvBase[Any] | None) -> np.ndarray | None:
    """The constant weight of a convolution of float32 or narrower, or of integers, in the default layouts with known channels.

    None of others.

    If it has one group, or one for each channel, it can be computed in blocks.
    """
    weight = None if conv is None else conv.weight.constant
    integers = conv is not None and (conv.data.dtype, conv.weight.dtype, conv.result.dtype) in INTEGERS
    if conv is None or weight is None or weight.size == 0 or not (conv.data.dtype in FLOATS or integers):
        return None
    return weight if has_usual_layout(conv) and (integers or conv.attrs.out_dtype in ("", conv.data.dtype)) else None


def has_several_filters(conv: ConvBase[Any], block: int) -> bool:
    """Whether a convolution has several filters of each channel, in float32 over images of unknown size, that divide a block."""
    outer, rest = divmod(conv.result.shape[1], conv.attrs.groups)
    single = isinstance(conv, Conv2D) and conv.data.dtype == "float32" and conv.data.shape[1] == conv.attrs.groups
    return single and outer > 1 and rest == 0 == block % outer and not is_static(*conv.result.shape[2:])


def is_worth_packing(conv: ConvBase[Any], typical: Mapping[str, int]) -> bool:
    """Whether a weight of known sizes that is computed at run time is used often enough by one convolution of one group."""
    batch, _, *places = conv.result.shape
    often = math.prod(dims.typical(d, typical) for d in (batch, *places)) >= OFTEN
    single = conv.data.dtype == conv.weight.dtype == conv.result.dtype == "float32" and conv.attrs.groups == 1
    known = conv.weight.constant is None and is_static(*conv.weight.shape) and 0 not in conv.weight.shape
    return often and single and known and has_usual_layout(conv)


def has_usual_layout(conv: ConvBase[Any]) -> bool:
    """Whether a convolution has the default layouts and a known number of channels."""
    attrs, layout = conv.attrs, f"NC{conv.spatial}"
    kernel_layout = ("IO" if isinstance(conv, ConvTranspose) else "OI") + conv.spatial
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or layout)
    return layouts == (layout, kernel_layout, layout) and is_static(conv.data.shape[1])
