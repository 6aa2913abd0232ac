"""Drops nodes that nothing needs from a graph that was just imported."""

from __future__ import annotations

from forge.ir.nodes import Graph, Node
from forge.ir.op import Trait


def prune(graph: Graph) -> None:
    """Removes nodes that nothing needs, of regions too; stateful ones stay."""
    live: set[int] = {id(v) for v in graph.outputs}
    kept: list[Node] = []
    dead: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op_def.traits & Trait.STATEFUL or any(id(v) in live for v in node.results):
            kept.append(node)
            live.update(id(v) for v in node.operands if v is not None)
            for region in node.regions:
                prune(region)
        else:
            dead.add(node)
            node.graph = None
    for value in {v for node in dead for v in node.operands if v is not None}:
        value.uses = [use for use in value.uses if use[0] not in dead]
    graph.nodes = kept[::-1]
