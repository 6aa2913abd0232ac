"""From a module of the graph IR to an ONNX model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import onnx
from onnx import helper

from forge._version import __version__
from forge.errors import OpNotImplemented, OptionError
from forge.exporters.onnx import operators
from forge.exporters.onnx.emitter import Document, Emitter, Ref, element_of
from forge.exporters.onnx.operators.core.expressions import export as export_expressions
from forge.exporters.onnx.registry import TABLE
from forge.exporters.onnx.tensors import type_proto
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import CONSTANT, Node, Value
from forge.ops.core.op import Op
from forge.ops.quantized.quantize import Dequantize, Quantize

OLDEST_OPSET, DEFAULT_OPSET, NEWEST_OPSET = 18, 21, 26
"""onnxruntime 1.31 reads up to 26; of those from 22 on it lacks kernels for operators that it has in 21."""

INT8_OPSET = 20
"""Of models that round to int8: from 21 on onnxruntime 1.31 fails where it moves a reshape before a conversion from int8."""

MAX_LISTED = 20

operators.load_all()


def export_model(module: Module, opset: int | None = None) -> tuple[onnx.ModelProto, Document]:
    """The model without its weights, and the document that holds them (``tensors``). The module has no calls of functions.

    Args:
        opset: None: ``DEFAULT_OPSET``, or ``INT8_OPSET``; where that lacks something, the next one that has all.

    Raises:
        OptionError: the opset is out of range, or the module has several public functions.
        OpNotImplemented: nodes cannot be written as ONNX; the message lists all of them.
    """
    if len(module.public) > 1:
        listed = ", ".join(module.public)
        raise OptionError(f"to_onnx: got the functions {listed}; expected one, as ONNX has; IRModule.function selects it")
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int)
                              or not OLDEST_OPSET <= opset <= NEWEST_OPSET):
        raise OptionError(f"opset: got {opset!r}; expected {OLDEST_OPSET} to {NEWEST_OPSET}")
    for version in range(_usual_opset(module), NEWEST_OPSET + 1) if opset is None else (opset,):
        document = Document(version)
        proto = Walker(document).main(module.main.copy(), module)
        if not document.problems:
            break
    _refuse(document)
    imports = [helper.make_opsetid("", document.opset), *(helper.make_opsetid(d, 1) for d in sorted(document.domains))]
    model = helper.make_model(proto, producer_name="forge", producer_version=__version__, opset_imports=imports,
                              ir_version=helper.find_min_ir_version_for(imports[:1]))
    return model, document


def _usual_opset(module: Module) -> int:
    """Codes of 16 or 4 bits, and blocks, need the default one."""
    conversions = [c for node in module.main.walk() if (c := Quantize.of(node) or Dequantize.of(node)) is not None]
    codes = {(c.result if isinstance(c, Quantize) else c.data).dtype for c in conversions}
    is_plain = codes <= {"int8", "uint8", "int32"} and not any(c.attrs.block_size for c in conversions)
    rounds = any(isinstance(c, Quantize) and c.result.dtype == "int8" for c in conversions)
    return INT8_OPSET if is_plain and rounds else DEFAULT_OPSET


def unsupported_nodes(module: Module, opset: int = DEFAULT_OPSET) -> list[tuple[str, str]]:
    """Nodes that cannot be written as ONNX, as (label, reason)."""
    document = Document(opset)
    Walker(document).main(module.main.copy(), module)
    return [(node.label, reason) for node, reason in document.problems]


def _refuse(document: Document) -> None:
    if not document.problems:
        return
    names = ", ".join(sorted({node.op for node, _ in document.problems}))
    shown = [f"{node.label}: {reason}" for node, reason in document.problems[:MAX_LISTED]]
    more = len(document.problems) - len(shown)
    listed = "; ".join([*shown, *([f"and {more} more"] if more else [])])
    raise OpNotImplemented(
        f"to_onnx: {len(document.problems)} nodes cannot be written as ONNX of opset {document.opset} ({names}): {listed}; "
        "replace them, or save the module with IRModule.save"
    )


class Walker:
    """Writes graphs node by node."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.kept: set[str] = set()  # names of results in the graph IR that nothing else gets

    def main(self, graph: Graph, module: Module) -> onnx.GraphProto:
        """The graph of the model."""
        g = Emitter(self.document)
        names = self._output_names(graph)
        inputs = []
        for number, value in enumerate(graph.inputs):
            name = self._input(g, number, value)
            if value.name in module.params:
                self.document.tensors[name] = module.params[value.name]
            else:
                inputs.append(_value_info(name, value))
        wanted: dict[Value, str] = {}
        for value, name in zip(graph.outputs, names):
            wanted.setdefault(value, name)
        results = {v.name for node in graph if node.op_def is not CONSTANT for v in node.results if v not in wanted}
        self.kept = results - {""} - self.document.names
        self.document.names |= self.kept
        self.nodes(g, graph, wanted)
        outputs = [g.ref(v) for v in graph.outputs]
        return g.finish(graph.name or "main", inputs, outputs, [v.type for v in graph.outputs], names)

    def _input(self, g: Emitter, number: int, value: Value) -> str:
        """The name of an input."""
        name = self.document.unique(value.name or f"input_{number}")
        g.define(value, Ref(name, element_of(value.type)))
        return name

    def _output_names(self, graph: Graph) -> list[str]:
        """Names of the outputs, which nothing else gets; one that another value has as an input is changed."""
        inputs = {v.name: v for v in graph.inputs}
        names = []
        for value, name in zip(graph.outputs, graph.output_names):
            if name in inputs and inputs[name] is not value:
                name = next(n for k in itertools.count(1) if (n := f"{name}_{k}") not in inputs and n not in graph.output_names)
            names.append(name)
        self.document.names.update(n for n in names if n not in inputs)
        return names

    def nodes(self, g: Emitter, graph: Graph, wanted: dict[Value, str]) -> None:
        """Writes the nodes of a graph; what cannot be written is noted in the document."""
        for node in graph:
            try:
                self.node(g, graph, node, wanted)
            except OpNotImplemented as problem:
                self.document.problems.append((node, str(problem)))
                for value in node.results:
                    g.define(value, Ref(self.document.unique("missing"), element_of(value.type)))

    def node(self, g: Emitter, graph: Graph, node: Node, wanted: dict[Value, str]) -> None:
        """Writes one node.

        Raises:
            OpNotImplemented: it cannot be written.
        """
        g.starts.append(len(g.nodes))
        try:
            for value, ref in zip(node.results, self._results(g, graph, node), strict=True):
                self._define(g, value, ref, g.starts[-1], wanted)
        finally:
            first = g.starts.pop()
        g.name_nodes(first, node)

    def _results(self, g: Emitter, graph: Graph, node: Node) -> Sequence[Ref]:
        if node.op_def is CONSTANT:
            return [g.add_tensor(node.attrs.value, node.result.name or node.name or "constant")]
        operands = [None if v is None else g.ref(v) for v in node.operands]
        regions = [self.region] if node.regions else []
        made = TABLE[node.op](g, node, *regions, *operands) if node.op in TABLE else NotImplemented
        if made is NotImplemented:
            return self._by_parts(g, graph, node)
        return [made] if isinstance(made, Ref) else list(made)

    def _define(self, g: Emitter, value: Value, ref: Ref, first: int, wanted: dict[Value, str]) -> None:
        """Records a result, cast to its type, under its name in the graph IR where a new node makes it."""
        dtype = element_of(value.type)
        ref = g.cast(ref, dtype) if dtype and ref.dtype and ref.dtype != dtype else ref
        name = wanted.get(value, "")
        if (name or value.name) and ref.name in g.made_since(first) and ref.name not in self.document.claimed:
            ref = g.rename(first, ref, name or self._kept_name(value))
            self.document.claimed.add(ref.name)
        g.define(value, ref)

    def _kept_name(self, value: Value) -> str:
        if value.name not in self.kept:
            return self.document.unique(value.name)
        self.kept.remove(value.name)
        return value.name

    def _by_parts(self, g: Emitter, graph: Graph, node: Node) -> list[Ref]:
        """Writes a node as its decomposition into other operators, else as its tensor expressions."""
        if not isinstance(node.op_def, Op):
            raise g.unsupported("ONNX has no such operator")
        known = len(graph.nodes)
        builder = Builder(graph, node, node.location)
        values = node.op_def.decompose(builder, node.attrs, *node.op_def.arguments(node.operands))
        if values is None:
            return export_expressions(g, node)
        for part in graph.nodes.before(node, len(graph.nodes) - known):
            self.node(g, graph, part, {})
        return [g.ref(v) for v in values]

    def region(self, g: Emitter, region: Graph, own: int, captured: Sequence[Ref]) -> onnx.GraphProto:
        """A region as a graph inside of a node: its ``own`` first inputs are inputs, the others are values of ``g``."""
        inner = g.child()
        inputs = []
        for number, value in enumerate(region.inputs):
            if number < own:
                inputs.append(_value_info(self._input(inner, number, value), value))
            else:
                inner.define(value, captured[number - own])
        self.nodes(inner, region, {})
        outputs = [inner.ref(v) for v in region.outputs]
        return inner.finish(region.name or "body", inputs, outputs, [v.type for v in region.outputs])


def _value_info(name: str, value: Value) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, type_proto(value.type))
