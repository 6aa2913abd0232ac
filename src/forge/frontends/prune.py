"""Drops nodes that nothing needs from a graph that was just imported."""

from __future__ import annotations

from forge.ir.edits.rewrite import has_effects
from forge.ir.nodes import Graph


def prune(graph: Graph) -> None:
    """Removes nodes that nothing needs, of regions too; those with effects stay."""
    live: set[int] = {id(v) for v in graph.outputs}
    for node in reversed(graph.nodes):
        if has_effects(node) or any(id(v) in live for v in node.results):
            live.update(id(v) for v in node.operands if v is not None)
            for region in node.regions:
                prune(region)
        else:
            graph.remove(node)
