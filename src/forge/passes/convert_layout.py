"""Gives convolutions and what is around them the inner layout that ``set_channel_layout`` asks for, or channels first.

"last" means NHWC, "first" NCHW, and likewise with one and three spatial dimensions. Convolutions in the other layout are
converted; pools, element-wise operators, concatenations, padding and reductions follow their operand (``Op.in_layout``);
everything else reads a tensor that is transposed back, once. Inputs and outputs keep their shape.

``nn.conv2d(%x, %w)`` --> ``transpose(nn.conv2d(transpose(%x), transpose(%w), data_layout="NHWC", kernel_layout="HWIO"))``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forge.ir.edits.rewrite import on_all_graphs, only_use
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.nn.convolution import ConvBase
from forge.ops.nn.transposed_convolution import ConvTranspose
from forge.ops.quantized.quantize import Dequantize
from forge.options import CompileOptions
from forge.passes.conversion import Relayout
from forge.passes.view_rules import reshaped, transposed

SPATIAL = {3: "W", 4: "HW", 5: "DHW"}
"""Letters of the spatial dimensions by rank."""


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of nodes in the new layout."""
    wanted = options.channel_layout
    return on_all_graphs(graph, lambda g: _Permuted(g, wanted == "last").run()) if wanted is not None else 0


def run_to_first(graph: Graph, options: CompileOptions) -> int:
    """Takes convolutions with constant weights to the layout that is put in blocks of channels afterwards."""
    return _to_first(graph, lambda conv: True)


def run_integers_to_first(graph: Graph, options: CompileOptions) -> int:
    """Does what `run_to_first` does to graphs with kernels of integers, which are looked for in this layout."""
    return _to_first(graph, lambda conv: _integers(conv.weight) is not None)


def _to_first(graph: Graph, counts: Callable[[ConvBase[Any]], bool]) -> int:
    """Converts each graph that has a convolution which ``counts``."""
    def visit(inner: Graph) -> int:
        for node in inner.nodes:
            conv: ConvBase[Any] | None = ConvBase.of(node)
            if conv is not None and conv.attrs.data_layout.endswith("C") and counts(conv):
                return _First(inner, last=False).run()
        return 0

    return on_all_graphs(graph, visit)


class _Permuted(Relayout):
    """Images whose channels are the last axis, or, where they were, the second."""

    def __init__(self, graph: Graph, last: bool) -> None:
        super().__init__(graph)
        self.last = last

    def _layouts(self, rank: int) -> tuple[str, str]:
        """The layout to convert from, and the new one."""
        first, last = f"NC{SPATIAL[rank]}", f"N{SPATIAL[rank]}C"
        return (first, last) if self.last else (last, first)

    def order(self, rank: int) -> tuple[int, ...]:
        source, target = self._layouts(rank)
        return tuple(map(source.index, target))

    def name(self, layout: str) -> str | None:
        source, target = self._layouts(len(layout))
        return target if layout == source else None

    def can_follow(self, node: Node) -> bool:
        return max(v.rank for v in node.operands if v is not None) in SPATIAL

    def convert(self, node: Node) -> bool:
        found = transposed(node.result) if len(node.results) == 1 else None
        if found is None or node.result.rank not in SPATIAL:
            return super().convert(node)
        source, axes = found
        order = self.order(len(axes))
        if tuple(axes[k] for k in order) == tuple(range(len(axes))):  # it comes from the new layout
            self.new[node.result], self.old[node.result] = self.usual(source), node.result
            self.copied.add(node.result)
            return False
        if axes != order or not self.is_new(source) or only_use(self.graph, source) is None:
            return super().convert(node)
        self.old[node.result] = self.new[source]  # it goes to the new layout
        return True

    def to_new(self, value: Value) -> Value:
        return self._turned(value, self.order(value.rank))

    def to_old(self, value: Value, original: Value) -> Value:
        order = self.order(value.rank)
        return self._turned(value, tuple(map(order.index, range(value.rank))))

    def _turned(self, value: Value, axes: tuple[int, ...]) -> Value:
        moved = [k for k in axes if value.shape[k] != 1]
        if moved == sorted(moved):
            return reshaped(self.builder, value, tuple(value.shape[k] for k in axes))
        return self.builder.call("transpose", value, axes=axes)

    def start(self, node: Node) -> Value | None:
        conv: ConvBase[Any] | None = ConvBase.of(node)
        if conv is None:
            return None
        attrs, target = conv.attrs, self.name(conv.attrs.data_layout)
        if target is None or attrs.out_layout not in ("", attrs.data_layout):
            return None
        usual = "IO" if isinstance(conv, ConvTranspose) else "OI"
        old, new = attrs.kernel_layout, conv.spatial + "IO" if self.last else usual + conv.spatial
        image, kernel = self.converted(conv.data), self.usual(conv.weight)
        if old != new:
            kernel = self.reordered(kernel, tuple(map(old.index, new)))
        return self.call(node, image, kernel, data_layout=target, kernel_layout=new, out_layout="")

    def reordered(self, kernel: Value, order: tuple[int, ...]) -> Value:
        return self.builder.call("transpose", kernel, axes=order)


class _First(_Permuted):
    """Images of convolutions with constant weights, whose channels become the second axis."""

    def reordered(self, kernel: Value, order: tuple[int, ...]) -> Value:
        integers = _integers(kernel)
        whole = kernel if integers is None else integers.data
        assert whole.constant is not None
        turned = self.builder.constant(whole.constant.transpose(order), name=whole.name)
        if integers is None:
            return turned
        axis = order.index(integers.attrs.axis % kernel.rank)
        return self.call(integers.node, turned, *integers.node.operands[1:], axis=axis)

    def start(self, node: Node) -> Value | None:
        conv: ConvBase[Any] | None = ConvBase.of(node)
        is_known = conv is not None and (conv.weight.constant is not None or _integers(conv.weight) is not None)
        return super().start(node) if is_known else None


def _integers(kernel: Value) -> Dequantize | None:
    """What makes numbers of the integers of a constant kernel, with a scale for the kernel or for each index of an axis."""
    found = Dequantize.of(kernel.producer)
    return found if found is not None and found.data.constant is not None and not found.attrs.block_size else None
