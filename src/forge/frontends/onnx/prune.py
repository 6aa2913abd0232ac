"""Drops nodes that nothing needs from a graph that was just imported."""

from __future__ import annotations

from forge.ir.nodes import Graph, Node
from forge.ir.op import Trait


def prune(graph: Graph) -> None:
    """Removes nodes that nothing needs, of regions too; stateful ones stay."""
    live: set[int] = {id(v) for v in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.op_def.traits & Trait.STATEFUL or any(id(v) in live for v in node.results):
            kept.append(node)
            live.update(id(v) for v in node.operands if v is not None)
            for region in node.regions:
                prune(region)
        else:
            _unlink(node)
    graph.nodes = kept[::-1]


def _unlink(node: Node) -> None:
    for position, operand in enumerate(node.operands):
        if operand is not None:
            operand.uses.remove((node, position))
    node.graph = None
