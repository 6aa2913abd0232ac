"""The converters of one opset as a dictionary: name of the operator -> callable ``(inputs, attr, params)``.

    convert_map = get_convert_map(13)
    y = convert_map["Relu"]([x], {}, params)           # inside a converter
    convert_map["Selu"] = Selu.get_converter(13)       # registers one
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx

from forge.errors import OpNotImplemented
from forge.frontends.onnx import converters, functions, registry
from forge.frontends.onnx.class_helpers import CUSTOM
from forge.frontends.onnx.context import Context
from forge.frontends.onnx.convert import as_list, convert_nodes
from forge.frontends.onnx.converter_class import OnnxOpConverter, as_function
from forge.ops.compose.expr import Expr, as_value

Convert = Callable[..., Any]

converters.load_all()


class ConvertMap(MutableMapping[str, Convert]):
    """A view of the registry: what models that import version ``opset`` of ``domain`` are converted with.

    Putting a callable in registers it from ``opset`` on, or a class for all of its versions; deleting takes that back, and
    Forge's own converter holds again.
    """

    def __init__(self, opset: int, domain: str = registry.DEFAULT_DOMAIN) -> None:
        self.opset = opset
        self.domain = domain

    def __getitem__(self, name: str) -> Convert:
        if name not in self:
            raise KeyError(name)

        def convert(inputs: Sequence[Any], attr: dict[str, Any], params: Any = None) -> Any:
            return self._apply(name, inputs, attr)

        convert.__qualname__ = convert.__name__ = name
        return convert

    def __setitem__(self, name: str, converter: Convert | type[OnnxOpConverter]) -> None:
        if isinstance(converter, type):
            registry.register(name, converter, domain=self.domain)
            return
        label = getattr(converter, "__qualname__", type(converter).__name__)
        registry.register(name, as_function(converter, label), domain=self.domain, since=self.opset)

    def __delitem__(self, name: str) -> None:
        row = registry.own(self.domain, name, self.opset)
        if row is None:
            raise KeyError(name)
        registry.unregister(name, domain=self.domain, since=row.since)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (
            registry.lookup(self.domain, name, self.opset) is not None or functions.has_schema_body(self._node(name), self.opset)
        )

    def __iter__(self) -> Iterator[str]:
        known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == self.domain}
        yield from (name for name in sorted(known.union(registry.names(self.domain))) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _node(self, name: str) -> onnx.NodeProto:
        return onnx.NodeProto(op_type=name, domain=self.domain)

    def _apply(self, name: str, inputs: Sequence[Any], attr: dict[str, Any]) -> Any:
        """Converts a node made of the arguments, where the node stands whose converter calls."""
        around = next((x.g for x in inputs if isinstance(x, Expr)), None)
        if not isinstance(around, Context):
            raise OpNotImplemented(f"{name}: no input is an expression; expected one; such nodes are made by g.call")
        operands = [as_value(around, x, inputs) for x in inputs]
        attributes = {key: tuple(value) if isinstance(value, list) else value for key, value in attr.items() if key != CUSTOM}
        node = self._node(name)
        node.input.extend("" if v is None else f"input_{k}" for k, v in enumerate(operands))
        node.output.extend(f"output_{k}" for k in range(attr.get(CUSTOM, {}).get("num_outputs", self._outputs(name))))
        g = Context(around.scope, node, self.opset, around.name)
        row = registry.lookup(self.domain, name, self.opset)
        results = NotImplemented if row is None else row.call(g, operands, attributes)
        if results is NotImplemented:
            node.attribute.extend(_proto(key, value) for key, value in attributes.items())
            results = functions.expand(g.scope, node, operands, self.opset, g.name, convert_nodes)
        expressions = [None if v is None else Expr(g, v) for v in as_list(results)]
        return expressions[0] if len(expressions) == 1 else expressions

    def _outputs(self, name: str) -> int:
        """How many outputs the operator has, optional ones left out."""
        schema = registry.find_schema(self.domain, name, self.opset)
        return 1 if schema is None else max(1, int(schema.min_output))


def _proto(name: str, value: Any) -> onnx.AttributeProto:
    return onnx.helper.make_attribute(name, onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value)


def get_convert_map(opset: int, domain: str = registry.DEFAULT_DOMAIN) -> ConvertMap:
    """The converters for models that import version ``opset`` of ``domain``."""
    return ConvertMap(opset, domain)


__all__ = ["ConvertMap", "get_convert_map"]
