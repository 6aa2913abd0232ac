"""Convolutions get the blocked layout of the target's kernels, and tensors stay in it as long as they can.

``nn.conv2d(%x, w)`` --> ``nn.contrib_conv2d_NCHWc(layout_transform(%x), p)`` with channels in blocks of the target's vector width
and packed weights; a transposed convolution becomes such a convolution and a shuffle. Element-wise operators, pools,
concatenations, resizing and padding follow their operand into the blocked layout; everything else reads a tensor that is
transformed back, once.
Images of symbolic size, weights that are not constant and other groupings than depthwise keep the plain layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from forge import dtypes
from forge.dims import Dim, is_static
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value
from forge.ir.types import TensorType
from forge.ops.base import Kind, Op
from forge.ops.pairs import paired
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs, remove_unused
from forge.target.blocking import channel_block, dots_of_pairs

POOLS = (
    "nn.max_pool2d", "nn.avg_pool2d", "nn.global_max_pool2d", "nn.global_avg_pool2d", "nn.adaptive_max_pool2d",
    "nn.adaptive_avg_pool2d",
)
FLOATS = ("float32", "float16", "bfloat16")
RESIZES = ("image.resize2d", "nn.upsampling")


def run(graph: Graph, context: PassContext) -> int:
    block = channel_block(context.target)
    dots = dots_of_pairs(context.target)
    return on_all_graphs(graph, lambda g: _Blocking(g, block, dots).run())


class _Blocking:
    """One graph on its way to the blocked layout.

    ``blocked`` holds the values that exist in it, by original value and block; ``plain`` those that were transformed back.
    """

    def __init__(self, graph: Graph, block: int, dots: bool) -> None:
        self.graph = graph
        self.block = block
        self.dots = dots
        self.layout = f"NCHW{block}c"
        self.blocked: dict[tuple[Value, int], Value] = {}
        self.plain: dict[Value, Value] = {}

    def run(self) -> int:
        replaced: list[Node] = []
        for node in live_nodes(self.graph):
            value = self._follow(node)
            if value is None:
                self._read_plain(node)
                continue
            self.blocked[node.result, self.block] = value
            replaced.append(node)
        self._restore_outputs()
        for node in reversed(replaced):
            remove_unused(self.graph, node)
        return len(replaced)

    def _follow(self, node: Node) -> Value | None:
        """The result of ``node`` in the blocked layout; None where the node stays as it is."""
        if node.op == "nn.conv2d":
            return self._convolution(node) if _is_eligible(node) else None
        if node.op == "nn.conv2d_transpose":
            return self._transposed_convolution(node) if _is_eligible_transposed(node) else None
        if not any(self._is_blocked(v) for v in node.operands) or not _is_image(node):
            return None
        if node.op in POOLS or node.op in RESIZES:
            return self._layout_attribute(node)
        if node.op in self.RULES:
            return self.RULES[node.op](self, node)
        return self._elementwise(node) if _is_elementwise(node) else None

    def _is_blocked(self, value: Value | None) -> bool:
        return value is not None and (value, self.block) in self.blocked

    def _read_plain(self, node: Node) -> None:
        for position, value in enumerate(node.operands):
            if value is not None and self._is_blocked(value):
                node.set_operand(position, self._restored(value, before(self.graph, node)))

    def _restore_outputs(self) -> None:
        for value in dict.fromkeys(self.graph.outputs):
            if self._is_blocked(value):
                restored = self._restored(value, Builder(self.graph))
                self.graph.outputs = [restored if out is value else out for out in self.graph.outputs]
                restored.name, value.name = value.name, ""

    def _restored(self, value: Value, builder: Builder) -> Value:
        """``value`` in the plain layout again."""
        if value not in self.plain:
            source = self.blocked[value, self.block]
            if value.shape[2:] == (1, 1) and value.shape[1] % self.block == 0:
                self.plain[value] = builder.call("reshape", source, newshape=value.shape)
            else:
                self.plain[value] = builder.call(
                    "layout_transform", source, src_layout=self.layout, dst_layout="NCHW", channels=value.shape[1])
        return self.plain[value]

    def _in_blocks(self, value: Value, builder: Builder, block: int) -> Value:
        """``value`` with its channels in blocks of ``block``."""
        if (value, block) not in self.blocked:
            self.blocked[value, block] = builder.call(
                "layout_transform", value, src_layout="NCHW", dst_layout=f"NCHW{block}c")
        return self.blocked[value, block]

    def _convolution(self, node: Node) -> Value:
        data, weight = node.operands
        assert data is not None and weight is not None and weight.constant is not None
        attributes, channels = node.attributes, data.shape[1]
        builder = before(self.graph, node)
        depthwise = attributes["groups"] > 1
        whole = channels < self.block and not depthwise and not self._is_blocked(data)
        block = channels if whole else self.block
        if depthwise:
            op, packed = "nn.contrib_depthwise_conv2d_NCHWc", pack_depthwise(weight.constant, block)
        else:
            op, packed = "nn.contrib_conv2d_NCHWc", self._packed(weight.constant, block, channels)
        layouts = {"data_layout": f"NCHW{block}c", "out_layout": self.layout,
                   "kernel_layout": f"OHW{block}o" if depthwise else f"OIHW{block}i{self.block}o"}
        sizes = {"channels": weight.shape[0], "in_channels": channels, "kernel_size": weight.shape[2:]}
        source = self._in_blocks(data, builder, block)
        return builder.call(op, source, builder.constant(packed, name=weight.name), name=node.name,
                            **{**attributes, **layouts, **sizes})

    def _packed(self, weight: np.ndarray, block: int, channels: int) -> np.ndarray:
        """``pack_kernel``, in pairs of channels where the target multiplies such."""
        packed = pack_kernel(weight, block, self.block)
        whole = channels % 2 == 0 and block % 2 == 0
        return paired(packed) if self.dots and whole and dtypes.canonical(weight.dtype) == "bfloat16" else packed

    def _transposed_convolution(self, node: Node) -> Value:
        """A convolution that gives the outputs between two inputs as channels of one position, then a shuffle of these to places.

        With stride s, outputs ``q * s + r`` are ``sum over taps j of data[q - j] * weight[r + j * s]``.
        """
        data, weight = node.operands
        assert data is not None and weight is not None and weight.constant is not None
        attributes, channels = node.attributes, weight.shape[1]
        builder = before(self.graph, node)
        steps = attributes["strides"]
        rounded = -(-channels // self.block) * self.block
        kernel = subpixel_kernel(weight.constant, steps, rounded)
        taps = kernel.shape[2:]
        constant = builder.constant(self._packed(kernel, self.block, data.shape[1]), name=weight.name)
        phases = builder.call(
            "nn.contrib_conv2d_NCHWc", self._in_blocks(data, builder, self.block), constant, name=node.name, kernel_size=taps,
            padding=(*(k - 1 for k in taps), *(k - 1 for k in taps)), channels=kernel.shape[0], in_channels=data.shape[1],
            data_layout=self.layout, kernel_layout=f"OIHW{self.block}i{self.block}o", out_layout=self.layout)
        return self._shuffled(phases, steps, node, builder)

    def _shuffled(self, phases: Value, steps: tuple[int, int], node: Node, builder: Builder) -> Value:
        """``phases[N, (r, s, C), H, W, c]`` as ``[N, C, (H, r), (W, s), c]``, cropped to the result of ``node``."""
        n, blocks, height, width, lanes = phases.shape
        rows, columns = steps
        apart = builder.call("reshape", phases, newshape=(n, rows, columns, blocks // (rows * columns), height, width, lanes))
        places = builder.call("transpose", apart, axes=(0, 3, 4, 1, 5, 2, 6))
        whole = (n, blocks // (rows * columns), height * rows, width * columns, lanes)
        image = builder.call("reshape", places, newshape=whole)
        extents = node.result.shape[2:]
        first = padding_begins(node.attributes["padding"])
        if first == (0, 0) and tuple(extents) == (whole[2], whole[3]):
            return image
        end = tuple(b + e for b, e in zip(first, extents))
        return builder.call("strided_slice", image, begin=first, end=end, axes=(2, 3))

    def _layout_attribute(self, node: Node) -> Value | None:
        attributes = node.attributes
        if attributes["layout"] != "NCHW" or attributes.get("out_layout", "") not in ("", "NCHW"):
            return None
        changed = {"layout": self.layout, **({"out_layout": ""} if "out_layout" in attributes else {})}
        return self._call(node, [self._blocked_data(node), *node.operands[1:]], {**attributes, **changed})

    def _blocked_data(self, node: Node) -> Value:
        data = node.operands[0]
        assert data is not None
        return self.blocked[data, self.block]

    def _call(self, node: Node, operands: Sequence[Value | None], attributes: dict[str, Any]) -> Value:
        return before(self.graph, node).call(node.op, *operands, name=node.name, **attributes)

    def _bias_add(self, node: Node) -> Value | None:
        bias = node.operands[1]
        assert bias is not None
        channels = node.result.shape[1]
        if node.attributes["axis"] % 4 != 1 or (bias.constant is None and channels % self.block):
            return None
        builder = before(self.graph, node)
        shape = (-(-channels // self.block), 1, 1, self.block)
        if bias.constant is None:
            vector = builder.call("reshape", bias, newshape=shape)
        else:
            vector = builder.constant(_padded(bias.constant, self.block).reshape(shape), name=bias.name)
        return builder.call("add", self._blocked_data(node), vector, name=node.name)

    def _concatenate(self, node: Node) -> Value | None:
        operands = [v for v in node.operands if v is not None]
        whole = all(isinstance(v.shape[1], int) and v.shape[1] % self.block == 0 for v in operands)
        if node.attributes["axis"] % 4 != 1 or not whole:
            return None
        builder = before(self.graph, node)
        return self._call(node, [self._in_blocks(v, builder, self.block) for v in operands], {"axis": 1})

    def _pad(self, node: Node) -> Value | None:
        widths = node.attributes["pad_width"]
        if widths is None or not self._is_blocked(node.operands[0]) or tuple(widths[1]) != (0, 0):
            return None
        operands = [self._blocked_data(node), *node.operands[1:]]
        return self._call(node, operands, {**node.attributes, "pad_width": (*widths, (0, 0))})

    def _take(self, node: Node) -> Value | None:
        """Rows or columns by number: how images are resized to their nearest neighbours."""
        indices, attributes = node.operands[1], node.attributes
        axis = attributes["axis"]
        if indices is None or indices.rank != 1 or axis is None or axis % 4 not in (2, 3) or attributes["batch_dims"]:
            return None
        if not self._is_blocked(node.operands[0]):
            return None
        return self._call(node, [self._blocked_data(node), indices], {**attributes, "axis": axis % 4})

    def _repeat(self, node: Node) -> Value | None:
        """Rows or columns several times."""
        axis = node.attributes["axis"] % 4
        if axis not in (2, 3) or not self._is_blocked(node.operands[0]):
            return None
        return self._call(node, [self._blocked_data(node)], {**node.attributes, "axis": axis})

    def _elementwise(self, node: Node) -> Value | None:
        channels = node.result.shape[1]
        operands = [None if v is None else _aligned(v, channels) for v in node.operands]
        if any(v is not None and shape is None for v, shape in zip(node.operands, operands)):
            return None
        if all(shape is None or all(extent == 1 for extent in shape) for shape in operands):
            return None
        builder = before(self.graph, node)
        blocked = [None if v is None else self._operand(v, channels, builder) for v in node.operands]
        return self._call(node, blocked, node.attributes)

    def _operand(self, value: Value, channels: int, builder: Builder) -> Value:
        """``value`` so that it broadcasts with a blocked tensor of ``channels`` as it did with the plain one."""
        shape = _aligned(value, channels)
        assert shape is not None
        if all(extent == 1 for extent in shape):
            scalar = self._restored(value, builder) if self._is_blocked(value) else value
            return _viewed(scalar, (), builder)
        if shape[1] != channels:
            plain = self._restored(value, builder) if self._is_blocked(value) else value
            return _viewed(plain, (*shape, 1), builder)
        if value.constant is not None:
            return builder.constant(_block_channels(value.constant.reshape([d for d in shape if isinstance(d, int)]),
                self.block), name=value.name)
        return self._in_blocks(value if value.rank == 4 else _viewed(value, shape, builder), builder, self.block)

    def _prelu(self, node: Node) -> Value | None:
        """max(x, 0) + alpha * min(x, 0)"""
        alpha = node.operands[1]
        channels = node.result.shape[1]
        if alpha is None or alpha.constant is None or node.attributes["axis"] % 4 != 1:
            return None
        builder, data = before(self.graph, node), self._blocked_data(node)
        slopes = np.broadcast_to(alpha.constant, (channels,)).reshape(1, channels, 1, 1)
        below = builder.call("minimum", data, builder.constant(0, data.dtype))
        scaled = builder.call("multiply", below, builder.constant(_block_channels(slopes, self.block)))
        return builder.call("add", builder.call("nn.relu", data), scaled, name=node.name)

    def _reduction(self, node: Node) -> Value | None:
        """A reduction over rows, columns or both that keeps its axes."""
        attributes = node.attributes
        given = attributes["axis"]
        axes = tuple(a % 4 for a in ((given,) if isinstance(given, int) else given or ()))
        absent = all(v is None for v in node.operands[1:])
        if not absent or not attributes["keepdims"] or attributes["exclude"] or not axes or not set(axes) <= {2, 3}:
            return None
        return self._call(node, [self._blocked_data(node)], {**attributes, "axis": axes})

    def _slice(self, node: Node) -> Value | None:
        """Rows and columns from here to there; whole blocks of channels."""
        attributes = node.attributes
        axes = tuple(a % 4 for a in attributes["axes"] or ())
        if any(v is not None for v in node.operands[1:]) or not axes:
            return None
        if axes == (1,) and self._is_blocked(node.operands[0]):
            (begin,), (end,), (stride,) = attributes["begin"], attributes["end"], attributes["strides"] or (1,)
            if stride != 1 or begin < 0 or end <= begin or begin % self.block or end % self.block:
                return None
            numbers = {"begin": (begin // self.block,), "end": (end // self.block,)}
            return self._call(node, [self._blocked_data(node)], {**attributes, **numbers, "axes": axes})
        if not set(axes) <= {2, 3}:
            return None
        return self._call(node, [self._blocked_data(node)], {**attributes, "axes": axes})

    RULES: ClassVar[dict[str, Callable[[_Blocking, Node], Value | None]]] = {
        "nn.bias_add": _bias_add,
        "concatenate": _concatenate,
        "nn.pad": _pad,
        "take": _take,
        "nn.prelu": _prelu,
        "repeat": _repeat,
        "strided_slice": _slice,
        **dict.fromkeys(("mean", "sum", "max", "min"), _reduction),
    }


def _is_eligible(node: Node) -> bool:
    """Whether the blocked kernels can compute this convolution."""
    if not _is_plain(node, "OIHW"):
        return False
    data, weight = node.operands
    assert data is not None and weight is not None
    groups = node.attributes["groups"]
    return bool(groups == 1 or groups == data.shape[1] == weight.shape[0])


def is_plain_convolution(node: Node) -> bool:
    """Whether an ``nn.conv2d`` could be computed in blocks if it had one group."""
    return _is_plain(node, "OIHW")


def _is_plain(node: Node, kernel_layout: str) -> bool:
    """Whether it is a convolution of float32 or narrower in the default layouts with a constant weight and known sizes."""
    data, weight = node.operands
    attributes = node.attributes
    if data is None or weight is None or weight.constant is None or weight.constant.size == 0 or data.dtype not in FLOATS:
        return False
    layouts = (attributes["data_layout"], attributes["kernel_layout"], attributes["out_layout"] or "NCHW")
    default = layouts == ("NCHW", kernel_layout, "NCHW") and attributes["out_dtype"] in ("", data.dtype)
    return default and is_static(*data.shape[1:], *attributes["padding"])


def _is_eligible_transposed(node: Node) -> bool:
    """Whether the shuffled form can compute this transposed convolution."""
    attributes = node.attributes
    if not _is_plain(node, "IOHW") or attributes["groups"] != 1 or any(d != 1 for d in attributes["dilation"]):
        return False
    data, weight = node.operands
    assert data is not None and weight is not None
    first, steps = padding_begins(attributes["padding"]), attributes["strides"]
    reach = [b + extent for b, extent in zip(first, node.result.shape[2:])]
    limit = [(i - 1) * s + -(-k // s) * s for i, k, s in zip(data.shape[2:], weight.shape[2:], steps)]
    return len(steps) == 2 and all(r <= m for r, m in zip(reach, limit))


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


def _is_image(node: Node) -> bool:
    """Whether the node has one result, of rank 4 and a known number of channels."""
    types = [v.type for v in node.results]
    return len(types) == 1 and isinstance(types[0], TensorType) and types[0].rank == 4 and isinstance(types[0].shape[1], int)


def _is_elementwise(node: Node) -> bool:
    elementwise = isinstance(node.op_def, Op) and node.op_def.kind is Kind.ELEMENTWISE
    return elementwise and "axis" not in node.attributes


def _aligned(value: Value, channels: int) -> tuple[Dim, ...] | None:
    """The shape of an operand as four dimensions; None where its channels are neither ``channels`` nor 1."""
    if not isinstance(value.type, TensorType) or value.rank > 4:
        return None
    shape = (1,) * (4 - value.rank) + tuple(value.shape)
    return shape if shape[1] in (1, channels) else None


def _viewed(value: Value, shape: tuple[Dim, ...], builder: Builder) -> Value:
    """``value`` under another shape of as many elements."""
    if tuple(value.shape) == shape:
        return value
    if value.constant is not None:
        return builder.constant(value.constant.reshape([d for d in shape if isinstance(d, int)]), name=value.name)
    return builder.call("reshape", value, newshape=shape)


def _padded(x: np.ndarray, block: int, axis: int = 0) -> np.ndarray:
    """``x`` with zeros behind, to a multiple of ``block`` along ``axis``."""
    return np.pad(x, [(0, -x.shape[k] % block if k == axis else 0) for k in range(x.ndim)])


def _block_channels(x: np.ndarray, block: int) -> np.ndarray:
    """``x[N, C, H, W]`` as ``[N, C / block, H, W, block]``; without N where that is 1."""
    n, _, h, w = x.shape
    blocked = _padded(x, block, 1).reshape(n, -1, block, h, w).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(blocked[0] if n == 1 else blocked)


def pack_kernel(weight: np.ndarray, inner: int, outer: int) -> np.ndarray:
    """``weight[O, I, kh, kw]`` as ``[O / outer, I / inner, kh, kw, inner, outer]``, zero beyond the true channels."""
    padded = _padded(_padded(weight, outer, 0), inner, 1)
    o, i, kh, kw = padded.shape
    return np.ascontiguousarray(padded.reshape(o // outer, outer, i // inner, inner, kh, kw).transpose(0, 2, 4, 5, 3, 1))


def pack_depthwise(weight: np.ndarray, block: int) -> np.ndarray:
    """``weight[C, 1, kh, kw]`` as ``[C / block, kh, kw, block]``, zero beyond the true channels."""
    kh, kw = weight.shape[2:]
    return np.ascontiguousarray(_padded(weight, block).reshape(-1, block, kh, kw).transpose(0, 2, 3, 1))
