"""Replaces composite operators by simpler ones, as ``Op.decompose`` says, until none is left.

``nn.batch_norm(%x, ...)`` --> ``add(multiply(%x, %scale), %shift)``
"""

from __future__ import annotations

from forge.ir.nodes import Graph, Node
from forge.ops.core.op import Op
from forge.ops.elementwise.select import copied
from forge.passes.base import PassContext
from forge.passes.rewriting import before, on_all_graphs, replace


def run(graph: Graph, context: PassContext) -> int:
    return on_all_graphs(graph, _decompose)


def _decompose(graph: Graph) -> int:
    pending = list(graph.nodes)
    count = 0
    while pending:
        node = pending.pop()
        parts = _replaced(graph, node) if node.graph is graph else None
        if parts is not None:
            pending.extend(parts)
            count += 1
    return count


def _replaced(graph: Graph, node: Node) -> list[Node] | None:
    """Replaces one node; the nodes that take its place, or None when it stays."""
    if not isinstance(node.op_def, Op):
        return None
    known = len(graph.nodes)
    builder = before(graph, node)
    values = node.op_def.decompose(builder, node.operands, node.attrs)
    if values is None:
        return None
    parts = graph.nodes.before(node, len(graph.nodes) - known)
    if not replace(graph, node, *values):
        replace(graph, node, *(copied(builder, v) for v in values))
    return parts
