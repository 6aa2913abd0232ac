"""Drops nodes that nothing needs from a graph that was just imported."""

from __future__ import annotations

from forge.ir.edits.dead_code import remove_dead
from forge.ir.graph import Graph


def prune(graph: Graph) -> None:
    """Removes nodes that nothing needs, of regions too; those with effects stay."""
    remove_dead(graph)
    for node in graph.nodes:
        for region in node.regions:
            prune(region)
