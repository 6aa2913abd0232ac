"""Nodes that nothing needs.

A node is needed when it has effects, when a needed node or an output uses a result, or when it introduces a symbol (a size that
depends on data) which types or attributes of needed nodes mention.
"""

from __future__ import annotations

from collections.abc import Iterator

from forge.ir import attributes
from forge.ir import types as T
from forge.ir.edits.rewrite import has_effects, new_symbols
from forge.ir.graph import Graph
from forge.ir.nodes import CONSTANT, Node


def remove_dead(graph: Graph) -> int:
    """Removes the nodes of ``graph`` that no output needs, and returns their number; regions stay as they are."""
    needed = set(graph.outputs)
    symbols = {s for v in graph.outputs for s in T.symbols(v.type)}
    dead: list[Node] = []
    for node in reversed(graph.nodes):
        used = any(v in needed for v in node.results) or any(s in symbols for s in new_symbols(node))
        if not used and not has_effects(node):
            dead.append(node)
            continue
        needed.update(v for v in node.operands if v is not None)
        symbols.update(_mentioned(node))
    for node in dead:
        graph.remove(node)
    return len(dead)


def _mentioned(node: Node) -> Iterator[str]:
    """The symbols in the types and attributes of a node and of its regions."""
    for value in (*node.results, *(v for v in node.operands if v is not None)):
        yield from T.symbols(value.type)
    if node.op_def is not CONSTANT:
        yield from attributes.symbols(node.attrs)
    for region in node.regions:
        for inner in region.nodes:
            yield from _mentioned(inner)
