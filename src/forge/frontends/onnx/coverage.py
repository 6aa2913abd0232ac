"""Which operators of ONNX can be loaded: all that the installed onnx package knows, and those of domains that it does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

import onnx

from forge.frontends.onnx import converters, functions
from forge.frontends.onnx.nodes import subgraphs
from forge.frontends.onnx.registry import REGISTRY, published_versions
from forge.frontends.support import CONVERTER, FUNCTION, MISSING, Coverage


def coverage() -> list[Coverage]:
    """By domain and operator; versions that are loaded in different ways are rows of their own."""
    converters.load_all()
    versions: dict[tuple[str, str, str], list[int]] = {}
    for domain, op, version in sorted({*_standard(), *_beyond_the_standard()}):
        versions.setdefault((domain, op, _how(domain, op, version)), []).append(version)
    return [Coverage(domain, op, tuple(found), how) for (domain, op, how), found in versions.items()]


def _standard() -> Iterator[tuple[str, str, int]]:
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated:
            yield schema.domain, schema.name, schema.since_version


def _beyond_the_standard() -> Iterator[tuple[str, str, int]]:
    """Operators of the table that no schema has, and those that are refused by name."""
    known = published_versions()
    for row in REGISTRY.rows():
        if row.is_extension or (row.domain, row.op) not in known:
            yield row.domain, row.op, row.since
    for domain, op in REGISTRY.refused():
        yield domain, op, 1


def _how(domain: str, op: str, opset: int) -> str:
    if REGISTRY.lookup(domain, op, opset) is not None:
        return CONVERTER
    node = onnx.helper.make_node(op, [], [], domain=domain)
    if not functions.has_schema_body(node, opset):
        return MISSING
    return FUNCTION if _is_body_covered(domain, op, opset) else MISSING


@cache
def _is_body_covered(domain: str, op: str, opset: int) -> bool:
    """Whether all operators of the body are; a body that depends on the types of a call is taken to be."""
    if not onnx.defs.get_schema(op, opset, domain).has_function:  # type: ignore[attr-defined]
        return True
    body = functions.schema_body(onnx.helper.make_node(op, [], [], domain=domain), opset)
    if body is None:
        return False
    opsets = {REGISTRY.canonical(o.domain): o.version for o in body.opset_import}
    inner = {(REGISTRY.canonical(n.domain), n.op_type) for n in _nodes(body.node)}
    return all(_how(d, name, opsets.get(d, opset)) != MISSING for d, name in inner)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of their sub-graphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _nodes(graph.node)
