"""The converters of ONNX, and what the schemas of the onnx package say of operators."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx

from forge.errors import OpAttributeInvalid
from forge.frontends.converter_class import OpConverter
from forge.frontends.registry import MAX_VERSION, Registry


class OnnxOpConverter(OpConverter):
    """What converters of ONNX operators that are written as classes derive from."""


@cache
def find_schema(domain: str, op: str, opset: int) -> Any:
    """The operator's ``onnx.defs.OpSchema``, None when the onnx package does not know it."""
    try:
        return onnx.defs.get_schema(op, opset, REGISTRY.canonical(domain)) if 0 < opset <= MAX_VERSION else None
    except onnx.defs.SchemaError:
        return None


def schema_version(domain: str, op: str, opset: int) -> int:
    """The version of the operator that ``opset`` stands for, 0 when the onnx package does not know it."""
    schema = find_schema(domain, op, opset)
    return 0 if schema is None else int(schema.since_version)


REGISTRY = Registry(
    "onnx",
    domain_name="ai.onnx",
    newest={"": 28, "ai.onnx.ml": 5, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1},
    version_of=schema_version,
    ignored={"consumed_inputs"},  # a memory hint of opset 1
    converter_class=OnnxOpConverter,
)
converts = REGISTRY.converts
refuse = REGISTRY.refuse
register = REGISTRY.register
unregister = REGISTRY.unregister


def published_versions() -> dict[tuple[str, str], set[int]]:
    """Versions of all operators that the onnx package knows."""
    versions: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        versions.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    return versions


@cache
def _attribute_kinds(domain: str, op: str, opset: int) -> dict[str, str]:
    schema = find_schema(domain, op, opset)
    return {} if schema is None else {name: a.type.name for name, a in schema.attributes.items()}


def check_attribute_kinds(node: onnx.NodeProto, opset: int) -> None:
    """Compares kinds of attributes with the operator's schema, if there is one; a whole number may stand for a float.

    Raises:
        OpAttributeInvalid: one is of another kind, or given twice.
    """
    expected = _attribute_kinds(node.domain, node.op_type, opset)
    names = set()
    for attribute in node.attribute:
        if attribute.name in names:
            raise OpAttributeInvalid(f"attribute {attribute.name!r} is given twice; expected one value; remove the other")
        names.add(attribute.name)
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
        wanted = expected.get(attribute.name, kind)
        if kind != wanted and (kind, wanted) != ("INT", "FLOAT"):
            raise OpAttributeInvalid(f"attribute {attribute.name!r}: got kind {kind}; expected {wanted}; re-export the model")
