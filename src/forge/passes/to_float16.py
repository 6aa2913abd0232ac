"""Computes in float16 where that is safe; inputs, outputs and sensitive operators stay float32.

Contractions become float16 (ALWAYS). Movement and element-wise operators follow their operands (FOLLOW). Everything else,
exponentials, reductions and normalisations among them, gets float32 operands (``cast`` nodes are put between).
"""

from __future__ import annotations

from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value, clone_node
from forge.ir.types import TensorType
from forge.passes.base import PassContext

ALWAYS = frozenset(
    "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.dense nn.matmul nn.batch_matmul".split()
)
FOLLOW = frozenset(
    "nn.bias_add nn.relu nn.leaky_relu nn.prelu nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d "
    "nn.batch_flatten nn.pad add subtract multiply divide maximum minimum abs negative clip where copy reshape transpose squeeze "
    "expand_dims concatenate stack split strided_slice take broadcast_to tile repeat reverse sigmoid tanh nn.hardswish nn.hard_sigmoid "
    "depth_to_space space_to_depth layout_transform gather gather_nd".split()
)


def run(graph: Graph, context: PassContext) -> int:
    """Returns the number of nodes that compute in float16 now."""
    return _Converter(graph).run()


def run_if_asked(graph: Graph, context: PassContext) -> int:
    """``run`` where option ``float16`` is set."""
    return run(graph, context) if context.options.get("float16") else 0


class _Converter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.fresh = Graph(graph.inputs, graph.name)
        self.builder = Builder(self.fresh)
        self.mapped: dict[Value, Value] = {v: v for v in graph.inputs}
        self.casts: dict[tuple[Value, str], Value] = {}
        self.converted = 0

    def run(self) -> int:
        for value in self.graph.inputs:
            value.uses.clear()
        for node in self.graph.nodes:
            self._convert(node)
        outputs = [self._as(self.mapped[v], v) for v in self.graph.outputs]
        for value, old in zip(outputs, self.graph.outputs):
            value.name = value.name or old.name
        self.graph.nodes, self.graph.outputs = self.fresh.nodes, outputs
        for node in self.graph.nodes:
            node.graph = self.graph
        return self.converted

    def _convert(self, node: Node) -> None:
        if not self._is_half(node):
            operands = {v: self._as(self.mapped[v], v) for v in node.operands if v is not None}
            self.fresh.insert(clone_node(node, operands))
            self.mapped.update({v: operands[v] for v in node.results})
            return
        lowered = [None if v is None else self._half(self.mapped[v]) for v in node.operands]
        new = self.builder.node(node.op_def, lowered, node.attributes, name=node.name, result_names=[v.name for v in node.results])
        self.mapped.update(zip(node.results, new.results))
        self.converted += 1

    def _is_half(self, node: Node) -> bool:
        floats = [v for v in node.operands if v is not None and isinstance(v.type, TensorType) and v.dtype == "float32"]
        if not floats or node.attributes.get("out_dtype") not in (None, "", "float32"):
            return False
        if node.op in ALWAYS:
            return True
        return node.op in FOLLOW and any(self.mapped[v].dtype == "float16" for v in floats)

    def _half(self, value: Value) -> Value:
        is_float = isinstance(value.type, TensorType) and value.dtype == "float32"
        return self._cast(value, "float16") if is_float else value

    def _as(self, value: Value, original: Value) -> Value:
        """``value`` in the dtype that ``original`` had."""
        if not isinstance(original.type, TensorType) or value.dtype == original.dtype:
            return value
        return self._cast(value, original.dtype)

    def _cast(self, value: Value, dtype: str) -> Value:
        key = (value, dtype)
        if key not in self.casts:
            self.casts[key] = self.builder.call("cast", value, dtype=dtype)
        return self.casts[key]
