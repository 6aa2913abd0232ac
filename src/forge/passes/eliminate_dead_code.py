"""Removes nodes that no output needs: ``%1 = exp(%x); %2 = abs(%x); %2`` --> ``%2 = abs(%x); %2``.

A node is needed when it has effects, when a needed node or an output uses a result, or when it introduces a symbol (a size that
depends on data) which types or attributes of needed nodes mention.
"""

from __future__ import annotations

from forge.ir import attributes
from forge.ir import types as T
from forge.ir.edits.rewrite import has_effects, new_symbols
from forge.ir.nodes import CONSTANT, Graph, Node
from forge.passes.base import on_each_graph


def _remove_dead(graph: Graph) -> int:
    needed = set(graph.outputs)
    symbols = {s for v in graph.outputs for s in T.symbols(v.type)}
    dead: list[Node] = []
    for node in reversed(graph.nodes):
        used = any(v in needed for v in node.results) or any(s in symbols for s in new_symbols(node))
        if not used and not has_effects(node):
            dead.append(node)
            continue
        needed.update(v for v in node.operands if v is not None)
        values = [*node.results, *(v for v in node.operands if v is not None)]
        symbols.update(s for v in values for s in T.symbols(v.type))
        if node.op_def is not CONSTANT:
            symbols.update(attributes.symbols(node.attrs))
    for node in dead:
        graph.remove(node)
    return len(dead)


run = on_each_graph(_remove_dead)
