"""Replaces calls of the module's functions by their bodies: ``@f(%x)`` --> the nodes of ``f`` on ``%x``.

Needs ``context.options["module"]``; without it, a graph with calls is left alone.
"""

from __future__ import annotations

from forge.errors import InvalidGraphError
from forge.ir.nodes import Graph, Module, Node, Value, clone_node
from forge.passes.base import PassContext

MAX_DEPTH = 64


def run(graph: Graph, context: PassContext) -> int:
    module = context.options.get("module")
    if not isinstance(module, Module):
        return 0
    count = 0
    for _ in range(MAX_DEPTH):
        calls = [n for n in graph.nodes if n.op == "call"]
        if not calls:
            return count
        for node in calls:
            _inline(graph, node, module.graphs[node.attributes["function"]])
        count += len(calls)
    raise InvalidGraphError(f"inline_calls: functions call each other deeper than {MAX_DEPTH}; recursion has no native code")


def _inline(graph: Graph, call: Node, body: Graph) -> None:
    mapping: dict[Value, Value] = {}
    for parameter, operand in zip(body.inputs, call.operands, strict=True):
        assert operand is not None
        mapping[parameter] = operand
    for node in body.nodes:
        graph.insert(clone_node(node, mapping), before=call)
    for old, new in zip(call.results, body.outputs, strict=True):
        graph.replace_uses(old, mapping[new])
    graph.remove(call)
