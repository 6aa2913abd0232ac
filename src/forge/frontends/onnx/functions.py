"""Operators given as functions: those of the model, and those whose schema has a body. They are expanded in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx

from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.onnx.registry import REGISTRY, find_schema
from forge.frontends.onnx.scope import FunctionKey, OnnxScope
from forge.frontends.onnx.tensors import element_code
from forge.frontends.registry import MAX_VERSION
from forge.frontends.scope import MAX_CALLS
from forge.ir.nodes import Value
from forge.ir.types import OptionalType, SequenceType, TensorType, Type, UnrankedType

ConvertNodes = Callable[[OnnxScope, Iterable[onnx.NodeProto], Iterable[str]], None]


def key(node: onnx.NodeProto) -> FunctionKey:
    return (REGISTRY.canonical(node.domain), node.op_type, node.overload)


def find(scope: OnnxScope, node: onnx.NodeProto) -> onnx.FunctionProto | None:
    """The model's own function that ``node`` calls."""
    return scope.state.functions.get(key(node))


def expand(
    scope: OnnxScope, node: onnx.NodeProto, operands: Sequence[Value | None], opset: int, name: str, convert_nodes: ConvertNodes
) -> list[Value | None]:
    """Converts the body of the function that ``node`` stands for and returns its outputs.

    Raises:
        OpNotImplemented: there is none.
        ImportModelError: functions call each other without end, or the call does not fit.
    """
    own = find(scope, node)
    function = own or schema_body(node, opset, operands)
    if function is None:
        raise OpNotImplemented(
            f"no converter; register one: forge.frontends.onnx.register({node.op_type!r}, ..., domain={node.domain!r})"
        )
    if len(operands) > len(function.input):
        raise ImportModelError(f"got {len(operands)} inputs; expected at most {len(function.input)}")
    inner = scope.called(_opsets(function, scope), f"{name}/")
    padded = [*operands, *[None] * (len(function.input) - len(operands))]
    for formal, value in zip(function.input, padded):
        inner.define(formal, value)
    defaults = {} if own else schema_defaults(node, opset)
    convert_nodes(inner, bind_attributes(function, node, defaults), function.output)
    return [
        inner.lookup(output) if index < len(node.output) and node.output[index] else None
        for index, output in enumerate(function.output)
    ]


def expanded_size(nodes: Iterable[onnx.NodeProto], own: Mapping[FunctionKey, onnx.FunctionProto]) -> int:
    """How many nodes at least are converted for ``nodes``: they, and again those of the model's functions that they call.

    Sub-graphs count for nothing, as not all of them need be converted; nor do functions that call themselves.
    """
    sizes: dict[FunctionKey, int] = {}

    def size(nodes: Iterable[onnx.NodeProto], depth: int) -> int:
        total = 0
        for node in nodes:
            called = key(node)
            total += 1
            if called in own and depth < MAX_CALLS and REGISTRY.own(node.domain, node.op_type, MAX_VERSION) is None:
                if called not in sizes:
                    sizes[called] = 0
                    sizes[called] = size(own[called].node, depth + 1)
                total += sizes[called]
        return total

    return size(nodes, 0)


def schema_body(node: onnx.NodeProto, opset: int, operands: Sequence[Value | None] = ()) -> onnx.FunctionProto | None:
    """The body in the operator's schema; types of operands matter for some."""
    schema = find_schema(node.domain, node.op_type, opset)
    if schema is None:
        return None
    if schema.has_function:
        return _parsed(schema.get_function_with_opset_version(_body_version(schema.function_opset_versions, opset)))
    if schema.has_context_dependent_function:
        version = _body_version(schema.context_dependent_function_opset_versions, opset)
        types = [_type_proto(None if v is None else v.type).SerializeToString() for v in operands]
        try:
            return _parsed(schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types))
        except RuntimeError as error:
            raise ImportModelError(f"its function cannot be built: {error}; check the model with onnx.checker") from error
    return None


def schema_defaults(node: onnx.NodeProto, opset: int) -> dict[str, onnx.AttributeProto]:
    """Default values of the operator's attributes."""
    schema = find_schema(node.domain, node.op_type, opset)
    return {} if schema is None else {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}


def has_schema_body(node: onnx.NodeProto, opset: int) -> bool:
    """Whether the operator's schema has a body, of any kind."""
    schema = find_schema(node.domain, node.op_type, opset)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def bind_attributes(
    function: onnx.FunctionProto, node: onnx.NodeProto, defaults: dict[str, onnx.AttributeProto]
) -> list[onnx.NodeProto]:
    """The function's nodes with references to its attributes replaced by the call's values, or their defaults."""
    values = {a.name: a for a in function.attribute_proto}
    values.update(defaults)
    values.update({a.name: a for a in node.attribute})
    return [_bound(inner, values) for inner in function.node]


def _bound(node: onnx.NodeProto, values: dict[str, onnx.AttributeProto]) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.append(_bound_graphs(attribute, values))
        elif attribute.ref_attr_name in values:
            actual = onnx.AttributeProto()
            actual.CopyFrom(values[attribute.ref_attr_name])
            actual.name = attribute.name
            copy.attribute.append(actual)
    return copy


def _bound_graphs(attribute: onnx.AttributeProto, values: dict[str, onnx.AttributeProto]) -> onnx.AttributeProto:
    if attribute.type != onnx.AttributeProto.GRAPH:
        return attribute
    copy = onnx.AttributeProto()
    copy.CopyFrom(attribute)
    nodes = [_bound(node, values) for node in attribute.g.node]
    del copy.g.node[:]
    copy.g.node.extend(nodes)
    return copy


def _body_version(versions: Sequence[int], opset: int) -> int:
    fitting = [v for v in versions if v <= opset]
    return max(fitting) if fitting else min(versions)


def _parsed(data: bytes) -> onnx.FunctionProto | None:
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    return function if function.node else None


def _type_proto(type_: Type | None) -> onnx.TypeProto:
    match type_:
        case TensorType(shape=shape, dtype=dtype):
            sizes = [d if isinstance(d, int) else str(d) for d in shape]
            return onnx.helper.make_tensor_type_proto(element_code(dtype), sizes)
        case UnrankedType(dtype=dtype):
            return onnx.helper.make_tensor_type_proto(element_code(dtype), None)
        case SequenceType(element=element):
            return onnx.helper.make_sequence_type_proto(_type_proto(element))
        case OptionalType(element=element):
            return onnx.helper.make_optional_type_proto(_type_proto(element))
    return onnx.TypeProto()


def _opsets(function: onnx.FunctionProto, scope: OnnxScope) -> dict[str, int]:
    imported = {REGISTRY.canonical(o.domain): o.version for o in function.opset_import}
    return {**scope.versions, **imported}
