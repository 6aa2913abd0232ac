"""Moves what another backend can run into functions of the module: ``add(relu(%x), sort(%y))`` --> ``add(@f(%x), sort(%y))``.

A region is a largest connected set of supported nodes such that no path leaves it and comes back. Regions become functions with
the attribute ``Compiler``, called from ``main``; the pass ``inline_calls`` undoes it, and the compiler runs functions for which
it has no other backend itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from forge.errors import InvalidGraphError
from forge.ir.builder import Builder
from forge.ir.call import call_function
from forge.ir.edits.rewrite import new_symbols, remove_unused
from forge.ir.edits.undetermined import name_whole_sizes
from forge.ir.graph import Graph, Module, clone_node
from forge.ir.nodes import CONSTANT, Node, Value
from forge.ir.verifier import verify, verify_graph

COMPILER = "Compiler"
"""Attribute of a function: the backend it is for."""

Predicate = Callable[[Node], bool]
Choice = Callable[[Sequence[Node], Sequence[Value]], bool]


def run(module: Module, backend: str, supported: Predicate, keep: Choice = lambda nodes, inputs: True) -> int:
    """Partitions ``main``; returns the number of functions that were made.

    Args:
        backend: names the functions, and stands in their attribute ``Compiler``.
        supported: whether the backend can run a node. Constants go with their users; nodes with regions, and nodes that
            introduce symbols, stay.
        keep: whether a region, given by its nodes and the values it reads, becomes a function.

    Raises:
        InvalidGraphError: the result breaks a rule of the IR.
    """
    graph, made = module.main, 0
    for nodes in _regions(graph, supported):
        inputs = _inputs(nodes)
        name = _unused(module, f"{backend}_main_{made}")
        if keep(nodes, inputs) and _outline(module, nodes, inputs, name, backend):
            made += 1
    verify(module)
    return made


def _regions(graph: Graph, supported: Predicate) -> list[list[Node]]:
    """Regions in the order of their first nodes; each in graph order."""
    movable = (n for n in graph.nodes if n.op_def is not CONSTANT and not n.regions and not new_symbols(n))
    inside = dict.fromkeys(filter(supported, movable))
    regions = _Regions(graph, inside)
    regions.merge()
    found: dict[int, list[Node]] = {}
    for node in inside:
        found.setdefault(id(regions.of[node]), []).append(node)
    return list(found.values())


class _Regions:
    """Which nodes are together. Nodes of one stage may always be joined: every path out of a region raises the stage."""

    def __init__(self, graph: Graph, inside: Collection[Node]) -> None:
        self.graph = graph
        self.inside = inside
        self.sources = graph.symbol_sources()
        self.users: dict[Node, list[Node]] = {}  # of symbols that a node introduces
        for node, sources in self.sources.items():
            for source in sources:
                self.users.setdefault(source, []).append(node)
        self.of = {node: [node] for node in graph.nodes}  # the nodes of a region share a list

    def merge(self) -> None:
        """Joins neighbours of one stage; then neighbours between which no path goes through others."""
        stages = self._stages()
        edges = [(p, n) for n in self.inside for p in n.pred if p in self.inside]
        for before, after in edges:
            if stages[before] == stages[after]:
                self._join(before, after)
        while any(self._join_if_free(before, after) for before, after in edges):
            pass

    def _join(self, a: Node, b: Node) -> None:
        if self.of[a] is not self.of[b]:
            small, large = sorted((self.of[a], self.of[b]), key=len)
            large += small
            self.of.update(dict.fromkeys(small, large))

    def _stages(self) -> dict[Node, int]:
        """How often a path to the node has changed sides, at most; constants do not count."""
        stages: dict[Node, int] = {}
        for node in self.graph.nodes:
            before = [*(p for p in node.pred if p.op_def is not CONSTANT), *self.sources.get(node, ())]
            steps = [stages[p] + ((p in self.inside) != (node in self.inside)) for p in before]
            stages[node] = max(steps, default=0)
        return stages

    def _join_if_free(self, before: Node, after: Node) -> bool:
        if self.of[before] is self.of[after] or self._indirect(self.of[before], self.of[after]):
            return False
        self._join(before, after)
        return True

    def _indirect(self, start: list[Node], end: list[Node]) -> bool:
        """Whether a path leads from one region to the other through a third."""
        pending = [region for region in self._after(start) if region is not start and region is not end]
        seen = {id(region) for region in (start, *pending)}
        while pending:
            for region in self._after(pending.pop()):
                if region is end:
                    return True
                if id(region) not in seen:
                    seen.add(id(region))
                    pending.append(region)
        return False

    def _after(self, nodes: Sequence[Node]) -> list[list[Node]]:
        return [self.of[user] for node in nodes for user in (*node.succ, *self.users.get(node, ()))]


def _inputs(nodes: Sequence[Node]) -> list[Value]:
    """What the region reads from outside, but constants, in order of use."""
    own = set(nodes)
    read = [v for n in nodes for v in n.operands if v is not None and v.producer not in own and v.constant is None]
    return list(dict.fromkeys(read))


def _unused(module: Module, name: str) -> str:
    while name in module.graphs:
        name += "_"
    return name


def _outline(module: Module, nodes: Sequence[Node], inputs: Sequence[Value], name: str, backend: str) -> bool:
    """Moves ``nodes`` into a new function and calls it in their place; False where its inputs would not determine all symbols."""
    graph, own = module.main, set(nodes)
    results = [v for n in nodes for v in n.results
               if graph.is_output(v) or any(user not in own for user, _ in v.uses)]
    function = _function(nodes, inputs, results, name)
    if not _is_closed(function):
        return False
    function.attributes = {COMPILER: backend, "Primitive": 1, "Inline": 1, "global_symbol": name}
    module.graphs[name] = function
    called = call_function(Builder(graph), name, function, *inputs, name=name)
    for old, new in zip(results, called, strict=True):
        new.name = old.name
        graph.replace_uses(old, new)
    for node in reversed(nodes):
        graph.remove(node)
        for constant in (p for p in node.pred if p.op_def is CONSTANT):
            remove_unused(graph, constant)
    graph.sort()
    return True


def _function(nodes: Sequence[Node], inputs: Sequence[Value], results: Sequence[Value], name: str) -> Graph:
    function = Graph(name=name)
    mapping = {v: function.add_input(v.type, v.name or f"input_{k}") for k, v in enumerate(inputs)}
    for node in nodes:
        for source in node.pred:
            if source.op_def is CONSTANT and source.result not in mapping:
                function.insert(clone_node(source, mapping))
        function.insert(clone_node(node, mapping))
    function.outputs = [mapping[v] for v in results]
    taken: set[str] = set()
    for value in function.inputs:
        while value.name in taken:
            value.name += "_"
        taken.add(value.name)
    return function


def _is_closed(function: Graph) -> bool:
    """Whether the inputs determine every symbol; sizes with undetermined symbols are replaced by new symbols first."""
    if name_whole_sizes(function):
        return False
    try:
        verify_graph(function)
    except InvalidGraphError:
        return False
    return True
