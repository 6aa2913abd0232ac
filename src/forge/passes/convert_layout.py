"""Gives 2-D convolutions and pools the inner layout that ``set_channel_layout`` asks for.

"last" (NHWC) transposes at the borders of regions of convolutions, pools and element-wise operators; "first" keeps NCHW as
imported. Either turns the compiler's own choice of blocked layouts off. Inputs and outputs keep their shape.
"""

from __future__ import annotations

from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value, clone_node
from forge.ir.types import TensorType
from forge.ops.base import Kind, Op
from forge.passes.base import PassContext

TO_LAST = (0, 2, 3, 1)
TO_FIRST = (0, 3, 1, 2)
_POOLS = frozenset("nn.max_pool2d nn.avg_pool2d nn.global_avg_pool2d nn.global_max_pool2d".split())


def run(graph: Graph, context: PassContext) -> int:
    """Returns the number of nodes in the new layout."""
    if context.options.get("channel_layout") != "last":
        return 0
    return _Converter(graph).run()


class _Converter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.fresh = Graph(graph.inputs, graph.name)
        self.builder = Builder(self.fresh)
        self.first: dict[Value, Value] = {v: v for v in graph.inputs}
        self.last: dict[Value, Value] = {}
        self.count = 0

    def run(self) -> int:
        for value in self.graph.inputs:
            value.uses.clear()
        for node in self.graph.nodes:
            self._convert(node)
        outputs = [self._first(v) for v in self.graph.outputs]
        for value, old in zip(outputs, self.graph.outputs):
            value.name = value.name or old.name
        self.graph.nodes, self.graph.outputs = self.fresh.nodes, outputs
        for node in self.graph.nodes:
            node.graph = self.graph
        return self.count

    def _convert(self, node: Node) -> None:
        if node.op == "nn.conv2d" and node.attributes["data_layout"] == "NCHW":
            self._convolution(node)
        elif node.op in _POOLS and node.attributes["layout"] == "NCHW":
            self._emit(node, [self._last(_present(node.operands[0]))], {"layout": "NHWC"})
        elif self._follows(node):
            self._elementwise(node)
        else:
            mapping = {v: self._first(v) for v in node.operands if v is not None}
            self.fresh.insert(clone_node(node, mapping))
            self.first.update({v: mapping[v] for v in node.results})

    def _convolution(self, node: Node) -> None:
        data, weight = _present(node.operands[0]), _present(node.operands[1])
        kernel = self.builder.call("transpose", self._first(weight), axes=(2, 3, 1, 0))
        self._emit(node, [self._last(data), kernel], {"data_layout": "NHWC", "kernel_layout": "HWIO"})

    def _follows(self, node: Node) -> bool:
        """Element-wise on 4-D tensors, one of which has the new layout already."""
        if not isinstance(node.op_def, Op) or node.op_def.kind is not Kind.ELEMENTWISE or len(node.results) != 1:
            return False
        operands = [v for v in node.operands if v is not None]
        ranks_fit = all(isinstance(v.type, TensorType) and v.rank in (0, 4) for v in operands)
        return node.op not in ("nn.bias_add", "nn.prelu") and ranks_fit and any(v in self.last for v in operands) or self._is_bias(node)

    def _is_bias(self, node: Node) -> bool:
        return node.op == "nn.bias_add" and node.attributes["axis"] in (1, -3) and _present(node.operands[0]) in self.last

    def _elementwise(self, node: Node) -> None:
        operands = [None if v is None else self._last(v) if v.rank == 4 else self._first(v) for v in node.operands]
        self._emit(node, operands, {"axis": 3} if node.op == "nn.bias_add" else {})

    def _emit(self, node: Node, operands: list[Value | None] | list[Value], changes: dict[str, object]) -> None:
        names = [v.name for v in node.results]
        new = self.builder.node(node.op_def, operands, {**node.attributes, **changes}, name=node.name, result_names=names)
        self.last[node.results[0]] = new.results[0]
        self.count += 1

    def _first(self, value: Value) -> Value:
        if value not in self.first:
            self.first[value] = self.builder.call("transpose", self.last[value], axes=TO_FIRST)
        return self.first[value]

    def _last(self, value: Value) -> Value:
        if value not in self.last:
            self.last[value] = self.builder.call("transpose", self.first[value], axes=TO_LAST)
        return self.last[value]


def _present(value: Value | None) -> Value:
    assert value is not None
    return value
