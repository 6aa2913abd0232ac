"""Replaces calls of the module's functions by their bodies: ``@f(%x)`` --> the nodes of ``f`` on ``%x``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

from forge import dims
from forge.dims import Dim
from forge.errors import InvalidGraphError
from forge.ir import attributes
from forge.ir.arrays import identity
from forge.ir.call import CALL, bind_parameters, verify_calls
from forge.ir.edits.rewrite import before, on_all_graphs, replace
from forge.ir.nodes import CONSTANT, ConstantAttrs, Graph, Module, Node, Value
from forge.ir.retype import substitute_in_graph
from forge.ir.shapes import fresh_symbol
from forge.ir.types import dimension_pairs, symbols
from forge.passes.matching import distinct

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
    return _Inliner(module).inline(graph)


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.bodies: dict[str, Graph] = {}  # without calls

    def inline(self, graph: Graph) -> int:
        return on_all_graphs(graph, self._inline_calls)

    def _inline_calls(self, graph: Graph) -> int:
        calls = [n for n in graph.nodes if n.op_def is CALL]
        bodies = [self._body(call.attributes["function"]) for call in calls]
        names = Counter(n.name for g in (graph, *bodies) for n in g.nodes if n.op_def is not CONSTANT)
        for call in calls:
            self._inline_call(graph, call, names)
        if calls:
            _merge_constants(graph)
        return len(calls)

    def _body(self, name: str) -> Graph:
        if name not in self.bodies:
            self.bodies[name] = self.module.graphs[name].copy()
            self.inline(self.bodies[name])
        return self.bodies[name]

    def _inline_call(self, graph: Graph, call: Node, names: Mapping[str, int]) -> None:
        name = call.attributes["function"]
        body = self._body(name).copy()
        if len(graph.nodes) + len(body.nodes) > MAX_NODES:
            raise InvalidGraphError(f"inline_calls: @{name}: more than {MAX_NODES} nodes result; call functions less often")
        substitute_in_graph(body, _symbols(name, body, call))
        for parameter, operand in zip(body.inputs, call.operands, strict=True):
            assert operand is not None
            body.replace_uses(parameter, operand)
        _splice(graph, call, body, names)
        replace(graph, call, *distinct(before(graph, call), call, body.outputs))
        if call.graph is graph:
            graph.remove(call)


def _symbols(name: str, body: Graph, call: Node) -> dict[str, Dim]:
    """What each symbol of the function is here: a size of an operand or of a result of the call, or a symbol of its own."""
    bound = bind_parameters(name, body, call.operands)
    for inside, outside in zip(body.outputs, call.results, strict=True):
        for formal, actual in dimension_pairs(inside.type, outside.type):
            name_inside = dims.symbol_name(formal)
            if name_inside is not None:
                bound.setdefault(name_inside, actual)
    for node in body.walk():
        used = [s for v in node.results for s in symbols(v.type)]
        for symbol in [*used, *attributes.symbols(node.attrs)]:
            if symbol not in bound:
                bound[symbol] = fresh_symbol(symbol)
    return bound


def _splice(graph: Graph, call: Node, body: Graph, names: Mapping[str, int]) -> None:
    """Moves the nodes of ``body`` in front of ``call``; a name that others have too gets that of the call in front."""
    for node in body.nodes:
        body.nodes.remove(node)
        graph.nodes.insert(node, call)
        node.graph = graph
        if call.name and node.name and names[node.name] > 1:
            node.name = f"{call.name}/{node.name}"


def _merge_constants(graph: Graph) -> None:
    """A constant that several functions had a copy of is one again."""
    first: dict[tuple[Hashable, str], Value] = {}
    for node in list(graph.nodes):
        if isinstance(node.attrs, ConstantAttrs) and not graph.is_output(node.result):
            kept = first.setdefault((identity(node.attrs.value), node.name), node.result)
            if kept is not node.result:
                graph.replace_uses(node.result, kept)
                graph.remove(node)
