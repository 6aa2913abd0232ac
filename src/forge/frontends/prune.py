"""Drops nodes that nothing needs from a graph that was just imported."""

from __future__ import annotations

from forge.ir.nodes import Graph
from forge.ir.op import Trait


def prune(graph: Graph) -> None:
    """Removes nodes that nothing needs, of regions too; stateful ones stay."""
    live: set[int] = {id(v) for v in graph.outputs}
    for node in reversed(graph.nodes):
        if node.op_def.traits & Trait.STATEFUL or any(id(v) in live for v in node.results):
            live.update(id(v) for v in node.operands if v is not None)
            for region in node.regions:
                prune(region)
        else:
            graph.remove(node)
