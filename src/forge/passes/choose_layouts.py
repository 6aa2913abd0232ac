"""Convolutions get the blocked layout of the target's kernels, and tensors stay in it as long as they can.

``nn.conv2d(%x, w)`` --> ``nn.contrib_conv2d_NCHWc(layout_transform(%x), p)`` with channels in blocks of the target's vector width
and packed weights; a transposed convolution becomes such a convolution and a shuffle. Element-wise operators, pools,
concatenations, resizing and padding follow their operand into the blocked layout (``Op.in_layout``); everything else reads a
tensor that is transformed back, once.
Weights that are not constant and other groupings than depthwise keep the plain layout, and so do transposed convolutions of
symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.dims import is_static
from forge.ir.edits.rewrite import on_all_graphs, only_use
from forge.ir.nodes import Graph, Node, Value
from forge.ops.core.layout_change import Shape
from forge.ops.nn.convolution import Conv2D, ConvBase
from forge.ops.nn.transposed_convolution import Conv2DTranspose, ConvTranspose
from forge.ops.packed.pairs import MULTIPLE, paired
from forge.ops.shape.layout_transform import with_layout
from forge.options import CompileOptions
from forge.passes.conversion import Relayout
from forge.target import Target
from forge.target.blocking import channel_block, dots_of_pairs, integer_group

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = (("uint8", "int8", "int32"), ("int16", "int8", "int32"))
"""Data, weight and sums of the products of integers that there are kernels for."""


def run(graph: Graph, options: CompileOptions) -> int:
    return on_all_graphs(graph, lambda g: _Blocked(g, options.target).run())


class _Blocked(Relayout):
    """Images with channels in blocks of ``size``."""

    def __init__(self, graph: Graph, target: Target) -> None:
        super().__init__(graph)
        self.target = target
        self.size = channel_block(target)
        self.layout = f"NCHW{self.size}c"
        self.narrow: dict[Value, Value] = {}  # images of fewer channels than a block, in one block of them
        self.joined: set[Node] = set()  # what is computed before the shuffle of a transposed convolution

    def convert(self, node: Node) -> bool:
        return node in self.joined or super().convert(node)

    def order(self, rank: int) -> tuple[int | None, ...]:
        return (*range(rank), None)

    def block(self, axis: int) -> int:
        return self.size if axis == 1 else 1

    def name(self, layout: str) -> str | None:
        return self.layout if layout == "NCHW" else None

    def can_follow(self, node: Node) -> bool:
        return node.result.rank == 4 and isinstance(node.result.shape[1], int)

    def to_new(self, value: Value) -> Value:
        return self.builder.call("layout_transform", value, src_layout="NCHW", dst_layout=self.layout)

    def to_old(self, value: Value, original: Value) -> Value:
        channels = original.shape[1]
        if original.shape[2:] == (1, 1) and channels % self.size == 0:
            return self.builder.call("reshape", value, newshape=original.shape)
        return self.builder.call("layout_transform", value, src_layout=self.layout, dst_layout="NCHW", channels=channels)

    def can_broadcast(self, shapes: Sequence[Shape], result: Shape) -> bool:
        return all(s[1] in (1, result[1]) for s in shapes) and any(extent != 1 for s in shapes for extent in s)

    def broadcast(self, value: Value, shape: Shape, result: Shape) -> Value:
        if all(extent == 1 for extent in shape):
            return self.view(value, ())
        if shape[1] != result[1]:
            return self.view(value, (*shape, 1))
        if value.constant is not None:
            blocked = with_layout(value.constant.reshape([d for d in shape if isinstance(d, int)]), "NCHW", self.layout)
            return self.builder.constant(blocked[0] if len(blocked) == 1 else blocked, name=value.name)
        if value.rank == 4:
            return self.converted(value)
        if value.size == shape[1] and shape[1] % self.size == 0:
            return self.view(value, (shape[1] // self.size, 1, 1, self.size))
        return self.to_new(self.view(value, shape))

    def start(self, node: Node) -> Value | None:
        if (transposed := Conv2DTranspose.of(node)) is not None:
            return self._transposed_convolution(transposed)
        return None if (conv := Conv2D.of(node)) is None else self._convolution(conv)

    def _convolution(self, conv: Conv2D) -> Value | None:
        data, kernel, node, groups = conv.data, plain_weight(conv), conv.node, conv.attrs.groups
        attributes, channels = node.attributes, data.shape[1]
        if kernel is None or not (groups == 1 or groups == channels == kernel.shape[0]):
            return None
        if groups == 1:
            if channels >= self.size or data in self.new:
                return self._convolve(conv, self.converted(data), kernel, self.size, attributes)
            block = channels + (-channels % MULTIPLE if kernel.dtype == np.int8 else 0)
            if data not in self.narrow:
                self.narrow[data] = self.builder.call(
                    "layout_transform", self.usual(data), src_layout="NCHW", dst_layout=f"NCHW{block}c")
            return self._convolve(conv, self.narrow[data], kernel, block, attributes)
        return self._depthwise(conv, self.converted(data), kernel)

    def _depthwise(self, conv: Conv2D, source: Value, kernel: np.ndarray) -> Value:
        """A convolution of each channel on its own; taps of a row of bytes are in groups, and not apart."""
        layout, dilation = f"OHW{self.size}o", conv.attrs.dilation
        if kernel.dtype == np.int8:
            kernel, dilation = spread(kernel, dilation[-1]), (dilation[0], 1)
        packed = with_layout(kernel[:, 0], "OHW", layout)
        if kernel.dtype == np.int8:
            group = integer_group(self.target, conv.data.dtype)
            packed = paired(np.pad(packed, ((0, 0), (0, 0), (0, -kernel.shape[3] % group), (0, 0))), group)
        changed = {"channels": len(kernel), "in_channels": len(kernel), "kernel_size": kernel.shape[2:], "dilation": dilation,
                   "data_layout": self.layout, "kernel_layout": layout, "out_layout": self.layout}
        return self.builder.call(
            "nn.contrib_depthwise_conv2d_NCHWc", source, self.builder.constant(packed, name=conv.weight.name),
            name=conv.node.name, **{**conv.node.attributes, **changed})

    def _convolve(self, of: ConvBase[Any], source: Value, kernel: np.ndarray, block: int, attributes: dict[str, Any]) -> Value:
        """The convolution of ``source``, in blocks of ``block``, with ``kernel[O, I, kh, kw]``, under the names of ``of``."""
        layout, channels = f"OIHW{block}i{self.size}o", of.data.shape[1]
        packed = with_layout(kernel, "OIHW", layout)
        if kernel.dtype == np.int8:
            packed = paired(packed, integer_group(self.target, of.data.dtype))
        elif dtypes.canonical(kernel.dtype) == "bfloat16" and dots_of_pairs(self.target) and channels % 2 == block % 2 == 0:
            packed = paired(packed)
        sizes = {"channels": kernel.shape[0], "in_channels": channels, "kernel_size": kernel.shape[2:]}
        layouts = {"data_layout": f"NCHW{block}c", "kernel_layout": layout, "out_layout": self.layout}
        return self.builder.call("nn.contrib_conv2d_NCHWc", source, self.builder.constant(packed, name=of.weight.name),
                                 name=of.node.name, **{**attributes, **sizes, **layouts})

    def _transposed_convolution(self, conv: Conv2DTranspose) -> Value | None:
        """A convolution whose output channels are the outputs between two inputs, then a shuffle of these to their places.

        With stride s, outputs ``q * s + r`` are ``sum over taps j of data[q - j] * weight[r + j * s]``.
        """
        weight = plain_weight(conv)
        if weight is None or not can_be_shuffled(conv):
            return None
        rows, columns = conv.attrs.strides
        channels = conv.weight.shape[1]
        kernel = subpixel_kernel(weight, (rows, columns), channels + -channels % self.size)
        height, width = (k - 1 for k in kernel.shape[2:])
        attributes = {"padding": (height, width, height, width), "out_dtype": conv.attrs.out_dtype}
        phases = self._convolve(conv, self.converted(conv.data), kernel, self.size, attributes)
        after = self._narrowing(conv)
        for node in after:
            operands = [phases if v is not None and v.constant is None else self._repeated(v, conv, rows * columns)
                        for v in node.operands]
            phases = self.builder.call(node.op_def, *operands, name=node.name, **node.attributes)
        image = self._shuffled(phases, conv)
        self.joined.update(after)
        self.new |= {node.result: image for node in after[-1:]}
        return image

    def _narrowing(self, conv: Conv2DTranspose) -> list[Node]:
        """What makes fewer bytes of sums, element by element, and alone reads them: then fewer are shuffled."""
        found: list[Node] = []
        value, least, count = conv.result, dtypes.bits(conv.result.dtype), 0
        while (node := only_use(self.graph, value)) is not None and self._is_along_channels(node, conv.result.shape):
            found.append(node)
            value = node.result
            if dtypes.bits(value.dtype) < least:
                least, count = dtypes.bits(value.dtype), len(found)
        return found[:count]

    def _is_along_channels(self, node: Node, shape: Shape) -> bool:
        """Whether a node computes elements of images of ``shape`` with constants, each the same all over a channel."""
        if not node.op_def.is_map or len(node.results) != 1 or node.result.shape != shape:
            return False
        others = [v for v in node.operands if v is not None and v.constant is not None]
        return len(others) == len(node.operands) - 1 and all(
            v.size == 1 or v.size == shape[1] and v.rank >= 3 and v.shape[-3] == shape[1] for v in others)

    def _repeated(self, value: Value | None, conv: Conv2DTranspose, times: int) -> Value | None:
        """A constant along the channels of images, for those of each phase."""
        if value is None or value.constant is None:
            return None
        if value.size == 1:
            return self.builder.constant(value.constant.reshape(()), name=value.name)
        (blocked,) = with_layout(value.constant.reshape(1, -1, 1, 1), "NCHW", self.layout)
        return self.builder.constant(np.tile(blocked, (times, 1, 1, 1)), name=value.name)

    def _shuffled(self, phases: Value, conv: Conv2DTranspose) -> Value:
        """``phases[N, (r, s, C), H, W, c]`` as ``[N, C, (H, r), (W, s), c]``, cropped to the result of ``conv``."""
        builder = self.builder
        n, blocks, height, width, lanes = phases.shape
        rows, columns = conv.attrs.strides
        apart = builder.call("reshape", phases, newshape=(n, rows, columns, blocks // (rows * columns), height, width, lanes))
        moved = builder.call("transpose", apart, axes=(0, 3, 4, 1, 5, 2, 6))
        whole = (n, blocks // (rows * columns), height * rows, width * columns, lanes)
        image = builder.call("reshape", moved, newshape=whole)
        extents = conv.result.shape[2:]
        first = padding_begins(conv.attrs.padding)
        if first == (0, 0) and tuple(extents) == (whole[2], whole[3]):
            return image
        end = tuple(b + e for b, e in zip(first, extents))
        return builder.call("strided_slice", image, begin=first, end=end, axes=(2, 3))


def spread(kernel: np.ndarray, dilation: int) -> np.ndarray:
    """``kernel[..., kw]`` with zeros between its taps, so that they are neighbours with the same sums."""
    wide = np.zeros((*kernel.shape[:-1], (kernel.shape[-1] - 1) * dilation + 1), kernel.dtype)
    wide[..., ::dilation] = kernel
    return wide


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


def has_usual_layout(conv: ConvBase[Any]) -> bool:
    """Whether a convolution has the default layouts and a known number of channels."""
    attrs, layout = conv.attrs, f"NC{conv.spatial}"
    kernel_layout = ("IO" if isinstance(conv, ConvTranspose) else "OI") + conv.spatial
    layouts = (attrs.data_layout, attrs.kernel_layout, attrs.out_layout or layout)
    return layouts == (layout, kernel_layout, layout) and is_static(conv.data.shape[1])


def can_be_shuffled(conv: Conv2DTranspose) -> bool:
    """Whether the shuffled form can compute this transposed convolution."""
    attrs = conv.attrs
    if attrs.groups != 1 or any(d != 1 for d in attrs.dilation) or not is_static(*conv.data.shape[2:], *attrs.padding):
        return False
    reach = [b + extent for b, extent in zip(padding_begins(attrs.padding), conv.result.shape[2:])]
    sizes = zip(conv.data.shape[2:], conv.weight.shape[2:], attrs.strides)
    return len(attrs.strides) == 2 and all(r <= (i - 1) * s + -(-k // s) * s for r, (i, k, s) in zip(reach, sizes))


def padding_begins(padding: tuple[Any, ...]) -> tuple[Any, Any]:
    """(top, left) of a 2-D padding attribute."""
    return (padding[0], padding[0]) if len(padding) == 1 else (padding[0], padding[1])


def subpixel_kernel(weight: np.ndarray, steps: tuple[int, int], channels: int) -> np.ndarray:
    """``weight[I, O, kh, kw]`` of stride ``steps`` as ``[(r, s, channels), I, ceil(kh / sh), ceil(kw / sw)]``, taps reversed."""
    inner, outer, height, width = weight.shape
    rows, columns = steps
    taps = -(-height // rows), -(-width // columns)
    padded = np.zeros((inner, channels, taps[0] * rows, taps[1] * columns), weight.dtype)
    padded[:, :outer, :height, :width] = weight
    phases = padded.reshape(inner, channels, taps[0], rows, taps[1], columns)[:, :, ::-1, :, ::-1]
    return np.ascontiguousarray(phases.transpose(3, 5, 1, 0, 2, 4).reshape(rows * columns * channels, inner, *taps))
