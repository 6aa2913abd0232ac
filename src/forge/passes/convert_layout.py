"""Gives convolutions and what is around them the inner layout that ``set_channel_layout`` asks for.

"last" means NHWC, "first" NCHW, and likewise with one and three spatial dimensions. Convolutions in the other layout are
converted; pools, element-wise operators, concatenations, padding and reductions follow their operand (``Op.in_layout``);
everything else reads a tensor that is transposed back, once. Inputs and outputs keep their shape.

``nn.conv2d(%x, %w)`` --> ``transpose(nn.conv2d(transpose(%x), transpose(%w), data_layout="NHWC", kernel_layout="HWIO"))``
"""

from __future__ import annotations

from typing import Any

from forge.ir.edits.rewrite import on_all_graphs
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.nn.convolution import ConvBase
from forge.options import CompileOptions
from forge.passes.conversion import Relayout

SPATIAL = {3: "W", 4: "HW", 5: "DHW"}
"""Letters of the spatial dimensions by rank."""


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of nodes in the new layout."""
    wanted = options.channel_layout
    return on_all_graphs(graph, lambda g: _Permuted(g, wanted == "last").run()) if wanted is not None else 0


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

    def to_new(self, value: Value) -> Value:
        return self.builder.call("transpose", value, axes=self.order(value.rank))

    def to_old(self, value: Value, original: Value) -> Value:
        order = self.order(value.rank)
        return self.builder.call("transpose", value, axes=tuple(map(order.index, range(value.rank))))

    def start(self, node: Node) -> Value | None:
        conv: ConvBase[Any] | None = ConvBase.of(node)
        if conv is None:
            return None
        attrs, target = conv.attrs, self.name(conv.attrs.data_layout)
        if target is None or attrs.out_layout not in ("", attrs.data_layout):
            return None
        old, new = attrs.kernel_layout, conv.spatial + "IO" if self.last else "OI" + conv.spatial
        image, kernel = self.converted(conv.data), self.usual(conv.weight)
        if old != new:
            kernel = self.builder.call("transpose", kernel, axes=tuple(map(old.index, new)))
        return self.call(node, image, kernel, data_layout=target, kernel_layout=new, out_layout="")
