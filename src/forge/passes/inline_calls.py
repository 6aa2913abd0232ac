"""Replaces calls of the module's functions by their bodies: ``@f(%x)`` --> the nodes of ``f`` on ``%x``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from forge import dims
from forge.dims import Dim
from forge.errors import InvalidGraphError
from forge.ir.arrays import identity
from forge.ir.call import CALL, bind_parameters, verify_calls
from forge.ir.edits.edit import splice
from forge.ir.edits.rewrite import before, on_all_graphs, replace
from forge.ir.graph import Graph, Module
from forge.ir.nodes import CONSTANT, ConstantAttrs, Node, Value
from forge.ir.types import dimension_pairs
from forge.passes.matching import distinct, operand

MAX_NODES = 1_000_000
"""Of a graph after inlining: functions that call others twice, and those again, grow without measure."""


def run(graph: Graph, module: Module) -> int:
    """Returns the number of calls in ``graph`` that were replaced by functions of ``module``.

    Raises:
        InvalidGraphError: a function does not exist, does not fit its call, or calls itself; or too many nodes result.
    """
    if not any(n.op_def is CALL for n in graph.walk()):
        return 0
    verify_calls(module)
    return on_all_graphs(graph, _Inliner(module).inline_calls)


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.bodies: dict[str, Graph] = {}  # without calls

    def inline_calls(self, graph: Graph) -> int:
        calls = [n for n in graph.nodes if n.op_def is CALL]
        bodies = [self._body(call.attrs.function) for call in calls]
        names = Counter(n.name for g in (graph, *bodies) for n in g.nodes if n.op_def is not CONSTANT)
        for call in calls:
            self._inline_call(graph, call, names)
        if calls:
            _merge_constants(graph)
        return len(calls)

    def _body(self, name: str) -> Graph:
        if name not in self.bodies:
            self.bodies[name] = self.module.graphs[name].copy()
            on_all_graphs(self.bodies[name], self.inline_calls)
        return self.bodies[name]

    def _inline_call(self, graph: Graph, call: Node, names: Mapping[str, int]) -> None:
        name = call.attrs.function
        body = self._body(name).copy()
        if len(graph.nodes) + len(body.nodes) > MAX_NODES:
            raise InvalidGraphError(f"inline_calls: @{name}: more than {MAX_NODES} nodes result; call functions less often")
        for node in body.nodes:  # a name that others have too gets that of the call in front
            if call.name and node.name and names[node.name] > 1:
                node.name = f"{call.name}/{node.name}"
        outputs = splice(graph, body, [operand(call, k) for k in range(len(body.inputs))], _symbols(name, body, call), call)
        replace(graph, call, *distinct(before(graph, call), call, outputs))
        if call.graph is graph:
            graph.remove(call)


def _symbols(name: str, body: Graph, call: Node) -> dict[str, Dim]:
    """Which symbols of the function are a size of an operand or of a result of the call."""
    bound = bind_parameters(name, body, call.operands)
    for inside, outside in zip(body.outputs, call.results, strict=True):
        for formal, actual in dimension_pairs(inside.type, outside.type):
            name_inside = dims.symbol_name(formal)
            if name_inside is not None:
                bound.setdefault(name_inside, actual)
    return bound


def _merge_constants(graph: Graph) -> None:
    """A constant that several functions had a copy of is one again."""
    first: dict[tuple[Hashable, str], Value] = {}
    for node in list(graph.nodes):
        if isinstance(node.attrs, ConstantAttrs) and not graph.is_output(node.result):
            kept = first.setdefault((identity(node.attrs.value), node.name), node.result)
            if kept is not node.result:
                graph.replace_uses(node.result, kept)
                graph.remove(node)
