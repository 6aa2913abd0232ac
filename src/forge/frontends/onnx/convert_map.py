"""The converters of one opset as a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import onnx

from forge.compose.expr import as_value
from forge.frontends.context import ImportContext
from forge.frontends.convert_map import ConvertMap
from forge.frontends.onnx import converters, functions
from forge.frontends.onnx.context import Context
from forge.frontends.onnx.convert import convert_nodes
from forge.frontends.onnx.importer import CONVERT_CONFIG
from forge.frontends.onnx.nodes import free_names
from forge.frontends.onnx.registry import REGISTRY, find_schema, published_versions
from forge.frontends.onnx.scope import OnnxScope, OnnxState
from forge.frontends.onnx.tensors import TensorReader
from forge.ir.nodes import Value

converters.load_all()


class OnnxConvertMap(ConvertMap):
    """What models that import version ``opset`` of ``domain`` are converted with.

    Attributes:
        names: what sub-graphs capture, for nodes that are converted outside of an import: the expression of a name, or None.
    """

    registry = REGISTRY
    names: ClassVar[Callable[[str], Any]] = staticmethod(lambda name: None)

    def apply(
        self, around: ImportContext, name: str, operands: list[Value | None], attributes: dict[str, Any], num_outputs: int | None
    ) -> Any:
        """Converts a node made of the arguments; a schema's body is expanded where there is no converter."""
        scope = around.scope
        if not isinstance(scope, OnnxScope):  # expressions that belong to no model
            state = OnnxState(reader=TensorReader(), convert_config=dict(CONVERT_CONFIG))
            scope = OnnxScope(scope.graph, state, {self.domain: self.opset}, taken=scope.taken)
            captured = {name for v in attributes.values() if isinstance(v, onnx.GraphProto) for name in free_names(v)}
            known = {name: OnnxConvertMap.names(name) for name in sorted(captured)}
            scope.values.update((name, as_value(around, x, operands)) for name, x in known.items() if x is not None)
        node = self._node(name)
        node.input.extend("" if v is None else f"input_{k}" for k, v in enumerate(operands))
        node.output.extend(f"output_{k}" for k in range(self._outputs(name) if num_outputs is None else num_outputs))
        g = Context(scope, node, self.opset, around.name)
        row = REGISTRY.lookup(self.domain, name, self.opset)
        results = NotImplemented if row is None else row.call(g, operands, attributes)
        if results is NotImplemented:
            node.attribute.extend(_proto(key, value) for key, value in attributes.items())
            results = functions.expand(g.scope, node, operands, self.opset, g.name, convert_nodes)
        return results

    def has_body(self, name: str) -> bool:
        """Whether the operator's schema has one."""
        return functions.has_schema_body(self._node(name), self.opset)

    def standard(self) -> set[str]:
        """Operators of the domain that the onnx package knows."""
        return {op for domain, op in published_versions() if domain == self.domain}

    def _node(self, name: str) -> onnx.NodeProto:
        return onnx.NodeProto(op_type=name, domain=self.domain)

    def _outputs(self, name: str) -> int:
        """How many outputs the operator has, optional ones left out."""
        schema = find_schema(self.domain, name, self.opset)
        return 1 if schema is None else max(1, int(schema.min_output))


def _proto(name: str, value: Any) -> onnx.AttributeProto:
    return onnx.helper.make_attribute(name, onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value)


def get_convert_map(opset: int, domain: str = "") -> OnnxConvertMap:
    """The converters for models that import version ``opset`` of ``domain``."""
    return OnnxConvertMap(opset, domain)
