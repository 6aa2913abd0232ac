"""Gives convolutions and what is around them the inner layout that ``set_channel_layout`` asks for.

"last" means NHWC, "first" NCHW, and likewise with one and three spatial dimensions. Convolutions in the other layout are
converted; pools, element-wise operators, concatenations, padding and reductions follow their operand; everything else
reads a tensor that is transposed back, once. Inputs and outputs keep their shape.

``nn.conv2d(%x, %w)`` --> ``transpose(nn.conv2d(transpose(%x), transpose(%w), data_layout="NHWC", kernel_layout="HWIO"))``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value, clone_node
from forge.ir.types import TensorType
from forge.ops.base import Kind, Op
from forge.passes.base import PassContext
from forge.passes.rewriting import on_all_graphs

SPATIAL = {3: "W", 4: "HW", 5: "DHW"}
"""Letters of the spatial dimensions by rank."""

CONVOLUTIONS = frozenset(f"nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose"))
LAYOUT_OPERATORS = frozenset(
    "nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.global_avg_pool2d "
    "nn.global_max_pool2d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.adaptive_max_pool1d "
    "nn.adaptive_max_pool2d nn.adaptive_max_pool3d".split()
)
REDUCTIONS = frozenset("sum mean max min prod".split())


def run(graph: Graph, context: PassContext) -> int:
    """Returns the number of nodes in the new layout."""
    wanted = context.options.get("channel_layout")
    return on_all_graphs(graph, lambda g: _Converter(g, wanted).run()) if wanted is not None else 0


class _Converter:
    """Builds one graph anew. ``same`` holds the new values by old one; ``other`` those that exist in the wanted layout."""

    def __init__(self, graph: Graph, wanted: str) -> None:
        self.graph = graph
        self.wanted = wanted
        self.fresh = Graph(graph.inputs, graph.name)
        self.builder = Builder(self.fresh)
        self.same: dict[Value, Value] = {v: v for v in graph.inputs}
        self.other: dict[Value, Value] = {}
        self.count = 0

    def run(self) -> int:
        for value in self.graph.inputs:
            value.uses.clear()
        for node in self.graph.nodes:
            self.builder.location = node.location
            if not self._convert(node):
                self._keep(node)
        outputs = [self._output(v) for v in self.graph.outputs]
        self.graph.nodes, self.graph.outputs = self.fresh.nodes, outputs
        for node in self.graph.nodes:
            node.graph = self.graph
        return self.count

    def _keep(self, node: Node) -> None:
        mapping = {v: self._same(v) for v in node.operands if v is not None}
        self.fresh.insert(clone_node(node, mapping))
        self.same.update({v: mapping[v] for v in node.results})

    def _convert(self, node: Node) -> bool:
        """Converts ``node``; False where it stays as it is."""
        if not all(isinstance(v.type, TensorType) for v in [*node.operands, *node.results] if v is not None) or not node.operands:
            return False
        if node.op in CONVOLUTIONS:
            return self._convolution(node)
        if _operand(node).rank not in SPATIAL and not _is_elementwise(node):
            return False
        if not any(v in self.other for v in node.operands if v is not None):
            return False
        if node.op in LAYOUT_OPERATORS:
            return self._layout_attribute(node)
        if node.op in self.RULES:
            return self.RULES[node.op](self, node)
        if node.op in REDUCTIONS:
            return self._reduction(node)
        return self._elementwise(node)

    def _layouts(self, rank: int) -> tuple[str, str]:
        """The layout to convert from, and the wanted one."""
        first, last = "NC" + SPATIAL[rank], "N" + SPATIAL[rank] + "C"
        return (first, last) if self.wanted == "last" else (last, first)

    def _axis(self, axis: int, rank: int) -> int:
        """Where dimension ``axis`` is in the wanted layout."""
        source, target = self._layouts(rank)
        return target.index(source[axis])

    def _convolution(self, node: Node) -> bool:
        data, weight = _operand(node), _operand(node, 1)
        source, target = self._layouts(data.rank)
        attributes = node.attributes
        if attributes["data_layout"] != source or attributes["out_layout"] not in ("", source):
            return False
        old, spatial = attributes["kernel_layout"], SPATIAL[data.rank]
        new = spatial + "IO" if self.wanted == "last" else "OI" + spatial
        image, kernel = self._other(data), self._same(weight)
        if old != new:
            kernel = self.builder.call("transpose", kernel, axes=tuple(map(old.index, new)))
        changes = {"data_layout": target, "kernel_layout": new, "out_layout": ""}
        self._emit(node, [image, kernel, *map(self._same_or_none, node.operands[2:])], changes)
        return True

    def _layout_attribute(self, node: Node) -> bool:
        data = _operand(node)
        source, target = self._layouts(data.rank)
        attributes = node.attributes
        if data not in self.other or attributes["layout"] != source or attributes.get("out_layout", "") not in ("", source):
            return False
        changes = {"layout": target, **({"out_layout": ""} if "out_layout" in attributes else {})}
        self._emit(node, [self._other(data), *map(self._same_or_none, node.operands[1:])], changes)
        return True

    def _with_vector(self, node: Node) -> bool:
        """Operators whose other operands are vectors along ``axis``."""
        data = _operand(node)
        if data not in self.other:
            return False
        axis = self._axis(node.attributes["axis"] % data.rank, data.rank)
        self._emit(node, [self._other(data), *map(self._same_or_none, node.operands[1:])], {"axis": axis})
        return True

    def _concatenate(self, node: Node) -> bool:
        operands = [v for v in node.operands if v is not None]
        rank = operands[0].rank
        self._emit(node, [self._other(v) for v in operands], {"axis": self._axis(node.attributes["axis"] % rank, rank)})
        return True

    def _pad(self, node: Node) -> bool:
        data, widths = _operand(node), node.attributes["pad_width"]
        if widths is None or data not in self.other:
            return False
        changed = tuple(widths[axis] for axis in self._permutation(data.rank))
        self._emit(node, [self._other(data), *map(self._same_or_none, node.operands[1:])], {"pad_width": changed})
        return True

    def _reduction(self, node: Node) -> bool:
        """Over known axes. Without the reduced axes, the others must be in the same order in both layouts."""
        data, attributes = _operand(node), node.attributes
        axes = attributes["axis"]
        if data not in self.other or axes is None or attributes["exclude"] or any(v is not None for v in node.operands[1:]):
            return False
        source, target = self._layouts(data.rank)
        reduced = [source[axis % data.rank] for axis in ((axes,) if isinstance(axes, int) else axes)]
        left = [letter for letter in source if letter not in reduced]
        kept = bool(attributes["keepdims"])
        if not kept and left != [letter for letter in target if letter not in reduced]:
            return False
        positions = tuple(sorted(map(target.index, reduced)))
        self._emit(node, [self._other(data)], {"axis": positions}, self.other if kept else self.same)
        return True

    def _elementwise(self, node: Node) -> bool:
        rank = node.results[0].rank
        if not _is_elementwise(node) or "axis" in node.attributes or rank not in SPATIAL or len(node.results) != 1:
            return False
        self._emit(node, [None if v is None else self._broadcast(v, rank) for v in node.operands], {})
        return True

    def _broadcast(self, value: Value, rank: int) -> Value:
        """``value`` so that it broadcasts with a tensor of ``rank`` in the wanted layout as it did before."""
        if value.rank == rank:
            return self._other(value)
        plain = self._same(value)
        if value.rank == 0:
            return plain
        wide = self.builder.call("expand_dims", plain, axis=0, num_newaxis=rank - value.rank)
        return self.builder.call("transpose", wide, axes=self._permutation(rank))

    def _emit(
        self, node: Node, operands: Sequence[Value | None], changes: dict[str, Any], results: dict[Value, Value] | None = None
    ) -> None:
        names = [v.name for v in node.results]
        new = self.builder.node(node.op_def, operands, {**node.attributes, **changes}, name=node.name, result_names=names)
        (self.other if results is None else results).update(zip(node.results, new.results))
        self.count += 1

    def _permutation(self, rank: int) -> tuple[int, ...]:
        """Axes of a transposition into the wanted layout."""
        source, target = self._layouts(rank)
        return tuple(map(source.index, target))

    def _same(self, value: Value) -> Value:
        if value not in self.same:
            source, target = self._layouts(value.rank)
            self.same[value] = self.builder.call("transpose", self.other[value], axes=tuple(map(target.index, source)))
        return self.same[value]

    def _same_or_none(self, value: Value | None) -> Value | None:
        return None if value is None else self._same(value)

    def _other(self, value: Value) -> Value:
        if value not in self.other:
            self.other[value] = self.builder.call("transpose", self.same[value], axes=self._permutation(value.rank))
        return self.other[value]

    def _output(self, value: Value) -> Value:
        """The output in its old layout, under its old name."""
        new = self._same(value)
        if value in self.other and new is not self.other[value] and new.producer is not None:
            new.name, self.other[value].name = value.name, ""
        return new

    RULES: ClassVar[dict[str, Callable[[_Converter, Node], bool]]] = {
        "nn.bias_add": _with_vector,
        "nn.prelu": _with_vector,
        "nn.batch_norm": _with_vector,
        "concatenate": _concatenate,
        "nn.pad": _pad,
    }


def _operand(node: Node, position: int = 0) -> Value:
    value = node.operands[position]
    assert value is not None
    return value


def _is_elementwise(node: Node) -> bool:
    return isinstance(node.op_def, Op) and node.op_def.kind is Kind.ELEMENTWISE
