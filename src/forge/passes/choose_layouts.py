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
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import is_static
from forge.ir.edits.rewrite import on_all_graphs
from forge.ir.functions.typical import typical_sizes
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.core.layout_change import Shape
from forge.ops.nn.convolution import Conv2D, ConvBase
from forge.ops.nn.transposed_convolution import ConvTranspose
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
    """Returns the number of nodes in blocked layouts, images first, then volumes."""
    return on_all_graphs(graph, lambda g: sum(_Blocked(g, options, plain).run() for plain in ("NCHW", "NCDHW")))


class _Blocked(Relayout):
    """Tensors of layout ``plain`` with channels in blocks of ``size``."""

    def __init__(self, graph: Graph, options: CompileOptions, plain: str) -> None:
        super().__init__(graph)
        self.plain = plain
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
        """The data of a convolution in blocks, and the size of these: all channels where they are fewer, with a few of zeros."""
        data, channels = conv.data, conv.data.shape[1]
        if channels >= self.size or data in self.new:
            return self.converted(data), self.size
        block = channels + -channels % (MULTIPLE if conv.weight.dtype == "int8" else self.layouts.filled_group(data.dtype))
        if data not in self.narrow:
            self.narrow[data] = self._in_blocks(self.usual(data), f"{self.plain}{block}c")
        return self.narrow[data], block

    def _packed(self, conv: ConvBase[Any], kernel: np.ndarray, block: int) -> np.ndarray:
        """``kernel[O, I, spatial]`` as kernels of data in blocks of ``block`` read it."""
        layout, channels = f"OI{conv.spatial}", conv.data.shape[1]
        packed = with_layout(kernel, layout, f"{layout}{block}i{self.size}o")
        group = self.layouts.group_size(conv.data.dtype, dtypes.canonical(kernel.dtype), is_over_images(conv))
        fits = block % group == 0 and (kernel.dtype == np.int8 or channels % group == 0 or block < self.size)
        return paired(packed, group) if group > 1 and fits else packed

    def start(self, node: Node) -> Value | None:
        conv: ConvBase[Any] | None = ConvBase.of(node)
        if conv is None or conv.spatial != self.plain[2:]:
            return None
        return self._subpixels(conv) if isinstance(conv, ConvTranspose) else self._convolution(conv)

    def _convolution(self, conv: ConvBase[Any]) -> Value | None:
        kernel, groups, attributes = plain_weight(conv), conv.attrs.groups, dict(conv.node.attributes)
        if kernel is None:
            return self._with_computed_weight(conv) if is_worth_packing(conv, self.typical) else None
        by_channel = groups > 1 and (groups == conv.data.shape[1] == len(kernel) or has_several_filters(conv, self.size))
        integers = kernel.dtype == np.int8
        if groups > 1 and (not by_channel or integers and kernel.ndim == 5):
            return None
        if by_channel and integers:  # taps of a row of bytes are in groups, and not apart
            down, across = conv.attrs.dilation
            kernel, attributes["dilation"] = spread(kernel, (1, across)), (down, 1)
        return self._call(conv, "", kernel, by_channel, attributes)

    def _subpixels(self, conv: ConvTranspose) -> Value | None:
        """A transposed convolution of one group, or of each channel of images on its own; its output channels are pixels."""
        weight, form, groups, channels = plain_weight(conv), Subpixels.of(conv), conv.attrs.groups, conv.result.shape[1]
        if weight is None or form is None:
            return None
        by_channel = groups == len(weight) > 1 == weight.shape[1] and len(conv.spatial) == 2
        if groups > 1 and not by_channel:
            return None
        kernel = form.kernel(weight.swapaxes(0, 1) if by_channel else weight, channels + -channels % self.size)
        attributes = {"groups": groups, "out_dtype": conv.attrs.out_dtype, **form.attributes}
        return self._call(conv, "subpixel_", kernel, by_channel, attributes)

    def _call(self, conv: ConvBase[Any], kind: str, kernel: np.ndarray, by_channel: bool, attributes: dict[str, Any]) -> Value:
        """The operator on blocks with ``kernel[O, I, spatial]``; ``by_channel``: each channel on its own, and I is 1."""
        if by_channel:
            kind, source, layouts = f"{kind}depthwise_", self.converted(conv.data), self._layouts(f"O{conv.spatial}", self.size)
            packed = self._packed_taps(conv, kernel)
        else:
            source, block = self._source(conv)
            layouts, packed = self._layouts(f"OI{conv.spatial}{block}i", block), self._packed(conv, kernel, block)
        constant = self.builder.constant(packed, name=conv.weight.name)
        return self._on_blocks(conv, kind, source, constant, kernel.shape[2:], attributes | layouts)

    def _packed_taps(self, conv: ConvBase[Any], kernel: np.ndarray) -> np.ndarray:
        """``kernel[O, 1, spatial]`` as kernels of depthwise convolutions read it."""
        packed = with_layout(kernel[:, 0], f"O{conv.spatial}", f"O{conv.spatial}{self.size}o")
        if kernel.dtype != np.int8:
            return packed
        group = min(self.layouts.group_size(conv.data.dtype, "int8"), MULTIPLE)  # rows of taps are short
        return paired(np.pad(packed, ((0, 0), (0, 0), (0, -kernel.shape[3] % group), (0, 0))), group)

    def _with_computed_weight(self, conv: ConvBase[Any]) -> Value:
        (source, block), plain = self._source(conv), f"OI{conv.spatial}"
        layouts, weight = self._layouts(f"{plain}{block}i", block), self.usual(conv.weight)
        packed = self.builder.call("layout_transform", weight, src_layout=plain, dst_layout=layouts["kernel_layout"])
        return self._on_blocks(conv, "", source, packed, conv.weight.shape[2:], conv.node.attributes | layouts)

    def _layouts(self, kernel: str, block: int) -> dict[str, str]:
        return {"data_layout": f"{self.plain}{block}c", "kernel_layout": f"{kernel}{self.size}o", "out_layout": self.layout}

    def _on_blocks(
        self, conv: ConvBase[Any], kind: str, source: Value, packed: Value, taps: Shape, attributes: dict[str, Any]
    ) -> Value:
        sizes = {"channels": conv.result.shape[1], "in_channels": conv.data.shape[1], "kernel_size": taps}
        op = f"nn.contrib_{kind}conv{len(conv.spatial)}d_{self.plain}c"
        return self.builder.call(op, source, packed, name=conv.node.name, **attributes | sizes)


def plain_weight(conv: ConvBase[Any] | None) -> np.ndarray | None:
    """Returns the constant weight of a convolution in the default layouts with known channels, of a type with kernels; else None.

    With one group, or one for each channel, the convolution can be computed in blocks.
    """
    weight = None if conv is None else conv.weight.constant
    integers = conv is not None and (conv.data.dtype, conv.weight.dtype, conv.result.dtype) in INTEGERS
    if conv is None or weight is None or weight.size == 0 or not (conv.data.dtype in FLOATS or integers):
        return None
    results = ("", conv.data.dtype, "float32" if dtypes.bits(conv.data.dtype) < 32 else "")
    return weight if has_usual_layout(conv) and (integers or conv.attrs.out_dtype in results) else None


def is_over_images(conv: ConvBase[Any]) -> bool:
    """Returns whether a convolution is over images, and not transposed."""
    return isinstance(conv, Conv2D)


def has_several_filters(conv: ConvBase[Any], block: int) -> bool:
    """Returns whether a float32 convolution of unknown image size has several filters per channel, which divide a block."""
    outer, rest = divmod(conv.result.shape[1], conv.attrs.groups)
    single = isinstance(conv, Conv2D) and conv.data.dtype == "float32" and conv.data.shape[1] == conv.attrs.groups
    return single and outer > 1 and rest == 0 == block % outer and not is_static(*conv.result.shape[2:])


def is_worth_packing(conv: ConvBase[Any], typical: Mapping[str, int]) -> bool:
    """Returns whether a weight of known sizes, computed at run time, is used often enough by a convolution of one group."""
    batch, _, *places = conv.result.shape
    often = math.prod(dims.typical(d, typical) for d in (batch, *places)) >= OFTEN
    single = conv.data.dtype == conv.weight.dtype == conv.result.dtype == "float32" and conv.attrs.groups == 1
    known = conv.weight.constant is None and is_static(*conv.weight.shape) and 0 not in conv.weight.shape
    return often and single and known and has_usual_layout(conv)


def has_usual_layout(conv: ConvBase[Any]) -> bool:
    """Returns whether a convolution has the default layouts and a known number of channels."""
    attrs, layout = conv.attrs, f"NC{conv.spatial}"
    kernel_layout = ("IO" if isinstance(conv, ConvTranspose) else "OI") + conv.spatial
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or layout)
    return layouts == (layout, kernel_layout, layout) and is_static(conv.data.shape[1])
