"""Graphs and modules: nodes in order between inputs and outputs, and named graphs.

Editing keeps uses up to date through the methods here; ``ir.edit`` builds the user-facing, verified edits on them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from forge.errors import InvalidGraphError
from forge.ir.attributes import frozen
from forge.ir.attributes import symbols as attribute_symbols
from forge.ir.functions.states import State
from forge.ir.node_list import Nodes
from forge.ir.nodes import ConstantAttrs, Node, Value
from forge.ir.params import Params
from forge.ir.saved.statistics import Calibration
from forge.ir.types import Type, symbols


class Graph:
    """Inputs, nodes in topological order, outputs."""

    def __init__(self, inputs: Iterable[Value] = (), name: str = "") -> None:
        self.name = name
        self.inputs: list[Value] = list(inputs)
        self._nodes = Nodes()
        self.outputs: list[Value] = []
        self.attributes: dict[str, Any] = {}  # of a function: its backend, say
        self.states: dict[str, State] = {}  # of a function, by name: see `ir.functions.states`
        self.donated: dict[str, int] = {}  # of a function: names of inputs whose memory an output takes, and its number
        self.params = {}

    @property
    def params(self) -> Params:
        """Of a function: values of inputs, by name."""
        return self._params

    @params.setter
    def params(self, values: Mapping[str, np.ndarray]) -> None:
        self._params = Params(values, self._check_param)

    def _check_param(self, name: str, array: np.ndarray) -> None:
        from forge.ir.retype import check_param

        check_param(self, name, array)

    @property
    def attrs(self) -> dict[str, Any]:
        """As a function: its attributes, and ``params``, the values of inputs that have one, in their order."""
        bound = [self.params[v.name] for v in self.inputs if v.name in self.params]
        return {**self.attributes, **({"params": bound} if bound else {})}

    @property
    def nodes(self) -> Nodes:
        """The nodes in order. To assign others makes these the nodes of the graph; uses stay as they are recorded."""
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: Iterable[Node]) -> None:
        added = list(nodes)
        for node in self._nodes:
            node.graph = None
        self._nodes = Nodes()
        for node in added:
            self._nodes.insert(node)
            node.graph = self

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs; ``output_0``, ... where a value has none or an output is listed twice."""
        own = [v.name for v in self.outputs]
        names: list[str] = []
        for k, name in enumerate(own):
            if not name or name in names:
                name = f"output_{k}"
                while name in own or name in names:
                    name += "_"
            names.append(name)
        return names

    def add_input(self, type_: Type, name: str = "") -> Value:
        value = Value(type_, name)
        self.inputs.append(value)
        return value

    def insert(self, node: Node, before: Node | None = None) -> Node:
        """Adds ``node`` at the end, or before another; its operands' uses are recorded."""
        if node.graph is not None:
            raise InvalidGraphError(f"node {node.label}: is in a graph already")
        if before is not None and before.graph is not self:
            raise InvalidGraphError(f"node {before.label}: is not in the graph that {node.label} goes into")
        self._nodes.insert(node, before)
        node.graph = self
        for position, value in enumerate(node.operands):
            if value is not None:
                value.uses[node, position] = None
        return node

    def remove(self, node: Node) -> None:
        """Removes a node whose results nothing uses.

        Raises:
            InvalidGraphError: a result is used by a node or is an output, or the node is in another graph.
        """
        if node.graph is not self:
            raise InvalidGraphError(f"node {node.label}: is not among the nodes of this graph")
        for value in node.results:
            if value.uses or self.is_output(value):
                raise InvalidGraphError(f"node {node.label}: result %{value.name or value.index} is still used")
        for position, operand in enumerate(node.operands):
            if operand is not None:
                del operand.uses[node, position]
        self._nodes.remove(node)
        node.graph = None

    def replace_uses(self, old: Value, new: Value) -> None:
        """Every use of ``old``, as operand or as output, becomes a use of ``new``, those by the producer of ``new`` too."""
        for node, position in list(old.uses):
            node.set_operand(position, new)
        self.outputs = [new if out is old else out for out in self.outputs]

    def is_output(self, value: Value) -> bool:
        return value in self.outputs

    def use_count(self, value: Value) -> int:
        """Uses as operand and as output."""
        return len(value.uses) + self.outputs.count(value)

    def sort(self) -> None:
        """Restores topological order, keeping the present order where it is free: operands and symbols before their use.

        Raises:
            InvalidGraphError: there is a cycle.
        """
        sources = self.symbol_sources()
        order: list[Node] = []
        finished: dict[Node, bool] = {}
        for root in self.nodes:
            stack = [] if root in finished else [(root, iter([*root.pred, *sources.get(root, ())]))]
            while stack:
                node, predecessors = stack[-1]
                finished[node] = False
                following = next((p for p in predecessors if p.graph is self and not finished.get(p)), None)
                if following is None:
                    finished[node] = True
                    order.append(node)
                    stack.pop()
                elif following in finished:
                    raise InvalidGraphError(f"node {node.label}: is part of a cycle")
                else:
                    stack.append((following, iter([*following.pred, *sources.get(following, ())])))
        self.nodes = order

    def symbol_sources(self) -> dict[Node, list[Node]]:
        """For each node that uses symbols which its operands do not have: the nodes that introduce them."""
        told = {s for v in self.inputs for s in symbols(v.type)}
        uses: dict[Node, set[str]] = {}
        introduced: dict[str, Node] = {}
        for node in self.nodes:
            known = told.union(s for v in node.operands if v is not None for s in symbols(v.type))
            uses[node] = {s for n in node.walk() for s in attribute_symbols(n.attrs)}
            for name in {s for v in node.results for s in symbols(v.type)} - uses[node] - known:
                introduced.setdefault(name, node)
            uses[node] -= known
        found = {n: [introduced[s] for s in sorted(names) if introduced.get(s, n) is not n] for n, names in uses.items()}
        return {node: sources for node, sources in found.items() if sources}

    def walk(self) -> Iterator[Node]:
        """All nodes, those of regions after their node."""
        for node in self.nodes:
            yield from node.walk()

    def values(self) -> Iterator[Value]:
        """All inputs and results, those of regions after those of their node."""
        yield from self.inputs
        for node in self.nodes:
            yield from node.results
            for region in node.regions:
                yield from region.values()

    def find(self, *criteria: Any, **attributes: Any) -> Node:
        """The first node that ``select`` would give.

        Raises:
            InvalidGraphError: there is none.
        """
        for node in self._matching(criteria, attributes):
            return node
        wanted = [*map(repr, criteria), *(f"{k}={v!r}" for k, v in attributes.items())]
        present = ", ".join(sorted({n.op for n in self.nodes}))
        raise InvalidGraphError(f"find: no node matches {', '.join(wanted)}; the graph has: {present}")

    def select(self, *criteria: Any, **attributes: Any) -> list[Node]:
        """Nodes that fulfil all criteria: the name of an operator, node or result (``*`` matches any text), or a predicate."""
        return list(self._matching(criteria, attributes))

    def _matching(self, criteria: Sequence[Any], attributes: Mapping[str, Any]) -> Iterator[Node]:
        tests: list[Callable[[Node], bool]] = [_criterion(c) for c in criteria]
        wanted = {k: frozen(v) for k, v in attributes.items()}
        for node in self.nodes:
            values = node.attributes
            if all(t(node) for t in tests) and all(k in values and values[k] == v for k, v in wanted.items()):
                yield node

    def __iter__(self) -> Iterator[Node]:
        """The nodes as they are now; a loop over ``nodes`` follows changes."""
        return iter(list(self.nodes))

    def __len__(self) -> int:
        """Number of nodes, constants included, as in an iteration."""
        return len(self.nodes)

    def __bool__(self) -> bool:
        """True, also without nodes."""
        return True

    def __str__(self) -> str:
        from forge.ir.text.printer import print_graph

        return print_graph(self)

    def __repr__(self) -> str:
        name = f" @{self.name}" if self.name else ""
        return f"<graph{name}: {len(self.inputs)} inputs, {len(self)} nodes, {len(self.outputs)} outputs>"

    def dfs_iter(self, root: Node | None = None) -> Iterator[Node]:
        """Depth first from ``root``, or from the producers of the outputs, towards the inputs: a node before what it reads."""
        pending = [v.producer for v in reversed(self.outputs) if v.producer is not None] if root is None else [root]
        seen: set[Node] = set()
        while pending:
            node = pending.pop()
            if node not in seen:
                seen.add(node)
                yield node
                pending.extend(reversed(node.pred))

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """The arrays in the graph by the name of their value; ``constant_3`` for the one that is node 3 and has no name."""
        found: dict[str, np.ndarray] = {}
        for number, node in enumerate(self.nodes):
            if isinstance(node.attrs, ConstantAttrs):
                found[node.result.name or node.name or f"constant_{number}"] = node.attrs.value
        return found

    def copy(self) -> Graph:
        """A deep copy; constants' arrays are shared."""
        clone = Graph(name=self.name)
        clone.attributes, clone.states, clone.donated = dict(self.attributes), dict(self.states), dict(self.donated)
        clone.params = self.params
        mapping = {v: clone.add_input(v.type, v.name) for v in self.inputs}
        for node in self.nodes:
            clone.insert(clone_node(node, mapping))
        clone.outputs = [mapping[v] for v in self.outputs]
        return clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self.copy()


def clone_node(node: Node, mapping: dict[Value, Value]) -> Node:
    """A copy of ``node`` on mapped operands, not inserted yet; its results are added to ``mapping``."""
    operands = [None if v is None else mapping[v] for v in node.operands]
    clone = Node(
        node.op_def, operands, node.attrs, [v.type for v in node.results], [r.copy() for r in node.regions],
        node.name, node.location, [v.name for v in node.results])
    clone.origin = node.origin
    mapping.update(zip(node.results, clone.results))
    return clone


def _criterion(criterion: Any) -> Callable[[Node], bool]:
    if callable(criterion):
        return criterion  # type: ignore[no-any-return]
    if not isinstance(criterion, str):
        raise InvalidGraphError(f"find, select: got {criterion!r}; expected a name, or a predicate of the node")
    return lambda node: any(fnmatch.fnmatchcase(n, criterion) for n in (node.op, node.name, *[v.name for v in node.results]))


class Module:
    """Named graphs, the functions: public ones, which users call, and others, which these call.

    ``main`` is public, and every function with the attribute ``public``. Arrays are shared between functions and copies of a
    module, and are read-only: to change a weight, assign another array.
    """

    def __init__(self, main: Graph | None = None, params: Mapping[str, np.ndarray] | None = None) -> None:
        self.graphs: dict[str, Graph] = {"main": main if main is not None else Graph()}
        self.calibration = Calibration()
        self.external_modules: tuple[Any, ...] = ()  # `forge.external`: code that ``call_extern`` calls; never saved
        if params:
            self.params = params
        self.show_types = False

    @property
    def public(self) -> dict[str, Graph]:
        """The functions that users call, by name, ``main`` first."""
        found = {name: graph for name, graph in self.graphs.items() if name == "main" or graph.attributes.get("public") is True}
        return dict(sorted(found.items(), key=lambda item: item[0] != "main"))

    @property
    def main(self) -> Graph:
        """The public function of that name or, where there is none, the first one."""
        return next(iter(self.public.values()))

    @property
    def params(self) -> Params:
        """Values of inputs of ``main``, by name."""
        return self.main.params

    @params.setter
    def params(self, values: Mapping[str, np.ndarray]) -> None:
        self.main.params = values

    def attributes(self, graph: str = "main") -> dict[str, Any]:
        """`Graph.attrs` of a graph."""
        return self.graphs[graph].attrs

    def copy(self) -> Module:
        clone = Module()
        clone.graphs, clone.calibration = {name: graph.copy() for name, graph in self.graphs.items()}, self.calibration
        clone.external_modules = self.external_modules
        return clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        return self.copy()

    def with_main(self, main: Graph, params: Mapping[str, np.ndarray] | None = None) -> Module:
        """A module with this only public function, and with what functions of this one may call."""
        made = Module(main, params)
        made.graphs.update({name: graph for name, graph in self.graphs.items() if name not in self.public})
        made.external_modules = self.external_modules
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the bytes of a saved module."""
        from forge.ir.saved import serialize

        return serialize.loads, (serialize.dumps(self),)

    def with_types(self) -> Module:
        """The same graphs, not copied; prints with types."""
        view = Module()
        view.graphs, view.show_types = self.graphs, True
        return view

    def __str__(self) -> str:
        from forge.ir.text.printer import print_module

        return print_module(self, types=self.show_types)

    __repr__ = __str__
