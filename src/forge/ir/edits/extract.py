"""Extraction of sub-graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forge import dims
from forge.errors import InvalidGraphError
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.edits.undetermined import name_whole_sizes
from forge.ir.graph import Graph, clone_node
from forge.ir.nodes import Value
from forge.ir.verifier import verify_graph


def extract(graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value] = ()) -> Graph:
    """A new graph that computes ``outputs`` from ``inputs``.

    Inputs of ``graph`` that are still needed, also those needed only for a symbol that they define, follow ``inputs``. Sizes such
    as ``b*s`` whose symbols no input determines become a new symbol.

    Raises:
        InvalidGraphError: an output or input is not of ``graph``, or the extracted graph breaks a rule.
    """
    result = _extracted(graph, outputs, inputs, set())
    left = name_whole_sizes(result, only_plain=True)
    telling = set()
    for value in graph.inputs:
        told = {dims.symbol_name(d) for d, _ in T.dimension_pairs(value.type, value.type)}
        if not left.isdisjoint(told):
            telling.add(value)
            left -= told
    if telling:
        result = _extracted(graph, outputs, inputs, telling)
        name_whole_sizes(result, only_plain=True)
    verify_graph(result, "extract")
    return result


def _extracted(graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value], added: set[Value]) -> Graph:
    """As `extract`, but not verified; ``added`` are inputs of ``graph`` to keep even if nothing uses them."""
    mapping: dict[Value, Value] = {}
    result = Graph()
    needed = _needed(outputs, set(inputs)) | added
    nodes = [n for n in graph.nodes if any(v in needed and v not in inputs for v in n.results)]
    missing_symbols = {s for n in nodes for inner in n.walk() for s in attributes.symbols(inner.attrs)}
    for value in [*inputs, *(v for v in graph.inputs if v not in inputs)]:
        defined = missing_symbols.intersection(T.symbols(value.type))
        if value in inputs or value in needed or defined:
            mapping[value] = result.add_input(value.type, _unused_name(result, value.name))
            missing_symbols -= defined
    cut = dict(mapping)
    for node in nodes:
        result.insert(clone_node(node, mapping))
        mapping.update(cut)
    missing = [v for v in outputs if v not in mapping]
    if missing:
        raise InvalidGraphError(f"extract: {missing[0].label} is not a value of the graph")
    result.outputs = [mapping[v] for v in outputs]
    return result


def _unused_name(graph: Graph, name: str) -> str:
    taken = {v.name for v in graph.inputs}
    base = unused = name or f"input_{len(graph.inputs)}"
    number = 0
    while unused in taken:
        number += 1
        unused = f"{base}_{number}"
    return unused


def _needed(outputs: Iterable[Value], stop: set[Value]) -> set[Value]:
    found: set[Value] = set()
    stack = list(outputs)
    while stack:
        value = stack.pop()
        if value in found:
            continue
        found.add(value)
        if value not in stop and value.producer is not None:
            stack.extend(v for v in value.producer.operands if v is not None)
    return found
