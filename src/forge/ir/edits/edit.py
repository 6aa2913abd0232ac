"""Verified edits of graphs, with undo.

Edits are made inside ``with edit(graph) as e:``. At the end of the block order is restored, types that depend on the edits are
inferred anew, dead nodes stay, and the graph is verified; if that or anything in the block fails, the graph is as it was before
and the error names the place. The regions of a node are graphs of their own: edit them in their own blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from forge import dims
from forge.dims import Dim
from forge.errors import InvalidGraphError
from forge.ir import types as T
from forge.ir.arrays import taken_over
from forge.ir.attributes import symbols
from forge.ir.builder import Builder
from forge.ir.call import CALL, bind_parameters, result_types
from forge.ir.graph import Graph, Module
from forge.ir.nodes import ConstantAttrs, Node, Value
from forge.ir.retype import infer_again, substitute_in_graph
from forge.ir.verifier import verify_graph

Entry = TypeVar("Entry")


class _Snapshot:
    """What an edit can change, to be put back."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs, self.nodes, self.outputs = list(graph.inputs), list(graph.nodes), list(graph.outputs)
        self.records = dict(graph.attributes), dict(graph.params), dict(graph.states), dict(graph.donated)
        self.node_state = {n: (list(n.operands), n.attrs, n.name, n.location, list(n.regions)) for n in graph.nodes}
        values = [*graph.inputs, *[v for n in graph.nodes for v in n.results]]
        self.value_state = {v: (v.type, v.name, dict(v.uses)) for v in values}

    def restore(self) -> None:
        graph = self.graph
        for node in {*graph.nodes, *self.nodes}:
            self._forget_foreign_uses(node)
        graph.inputs, graph.nodes, graph.outputs = self.inputs, self.nodes, self.outputs
        graph.attributes, graph.params, graph.states, graph.donated = self.records
        for node, (operands, attrs, name, location, regions) in self.node_state.items():
            node.operands, node.attrs, node.name, node.location, node.regions = operands, attrs, name, location, regions
        for value, (type_, name, uses) in self.value_state.items():
            value.type, value.name, value.uses = type_, name, uses

    def _forget_foreign_uses(self, node: Node) -> None:
        """Values of other graphs, which the edit must not have used, are left as they were."""
        for value in node.operands:
            if value is not None and value not in self.value_state:
                value.uses = {use: None for use in value.uses if use[0] is not node}

    def rename_params(self) -> None:
        """Moves values in ``params``, states and donations to the new names of their inputs.

        A value that the block itself has bound to a name stays there.
        """
        renamed = {self.value_state[v][1]: v.name for v in self.graph.inputs if v in self.value_state}
        if all(old == new for old, new in renamed.items()):
            return
        graph = self.graph
        graph.params = _renamed(graph.params, renamed)
        graph.states, graph.donated = _renamed(graph.states, renamed), _renamed(graph.donated, renamed)

    def infer_changed(self, module: Module | None) -> None:
        """Infers the types of what the edit has changed, and of what depends on it."""
        changed = {v for v, (type_, _, _) in self.value_state.items() if v.type != type_}
        for node in self.graph.nodes:
            before = self.node_state.get(node)
            is_edited = before is None or before[:2] != (node.operands, node.attrs) or before[4] != node.regions
            if is_edited or any(v in changed for v in node.operands):
                if node.op_def is CALL and before is not None:
                    self._infer_call(node, before[0], module)
                changed.update(_inferred_again(node))

    def _infer_call(self, node: Node, operands: list[Value | None], module: Module | None) -> None:
        """A call gives its own result types: they change when those of its operands do."""
        types = [None if v is None else self.value_state[v][0] for v in operands]
        if types == [None if v is None else v.type for v in node.operands]:
            return
        function = node.attrs.function
        if module is None or function not in module.graphs:
            expected = f"expected edit(graph, module) with the module that has @{function}"
            raise InvalidGraphError(f"edit: node {node.label}: types of its operands changed; {expected}")
        results = result_types(function, module.graphs[function], node.operands)
        node.attrs = replace(node.attrs, results=results)


def _renamed(given: Mapping[str, Entry], names: Mapping[str, str]) -> dict[str, Entry]:
    kept = {new: given[old] for old, new in names.items() if old in given}
    return {**kept, **{name: entry for name, entry in given.items() if name not in names}}


def _inferred_again(node: Node) -> list[Value]:
    try:
        return infer_again(node)
    except InvalidGraphError as error:
        raise InvalidGraphError(f"edit: node {node.label}: {error}") from error


def splice(
    graph: Graph, body: Graph, operands: Sequence[Value], bound: Mapping[str, Dim], before: Node | None = None
) -> list[Value]:
    """Moves the nodes of ``body`` to the end of ``graph``, or in front of one; ``operands`` take the place of its inputs.

    ``bound`` says what the symbols of ``body`` are here; those that it lacks get new names. Returns the outputs.
    """
    found = [s for v in body.values() for s in T.symbols(v.type)] + [s for n in body.walk() for s in symbols(n.attrs)]
    own = {s: dims.fresh(s) for s in dict.fromkeys(found) if s not in bound}
    substitute_in_graph(body, {**bound, **own})
    for parameter, operand in zip(body.inputs, operands, strict=True):
        body.replace_uses(parameter, operand)
    for node in body.nodes:
        body.nodes.remove(node)
        graph.nodes.insert(node, before)
        node.graph = graph
    return body.outputs


@contextmanager
def edit(graph: Graph, module: Module | None = None) -> Iterator[Editor]:
    """Edits that all happen or none.

    Args:
        graph: what is edited.
        module: that the graph is of; needed where an edit changes types of operands of calls, or names of inputs in ``params``.

    Raises:
        InvalidGraphError: the edited graph breaks a rule; the graph is unchanged then.
    """
    snapshot = _Snapshot(graph)
    try:
        yield Editor(graph)
        graph.sort()
        snapshot.infer_changed(module)
        verify_graph(graph)
        snapshot.rename_params()
    except BaseException:
        snapshot.restore()
        raise


class Editor:
    """The edits of one block."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._old = frozenset(graph.nodes)

    def insert_before(self, node: Node | Value, op: str, *operands: Value | None, name: str = "", **attributes: Any) -> Value:
        """A new node in front of ``node``, or of the node that computes a value; returns its result."""
        place = node.producer if isinstance(node, Value) else node
        if not isinstance(place, Node):
            raise InvalidGraphError(f"insert_before: got {node!r}; expected a node, or a value that a node computes")
        self._check_here(place, "insert_before")
        return Builder(self.graph, place, place.location).call(op, *operands, name=name, **attributes)

    def insert_after(self, value: Value | Node, op: str, *others: Value | None, name: str = "", **attributes: Any) -> Value:
        """A new node applied to ``value`` (its first operand), or to the only result of a node.

        Every earlier use of ``value`` now uses the result.
        """
        value = value.result if isinstance(value, Node) else value
        if not isinstance(value, Value):
            raise InvalidGraphError(f"insert_after: got {value!r}; expected a value, or a node with one result")
        uses = list(value.uses)
        location = value.producer.location if value.producer is not None else ""
        result = Builder(self.graph, location=location).call(op, value, *others, name=name, **attributes)
        for user, position in uses:
            user.set_operand(position, result)
        self._replace_output(value, result)
        return result

    def replace(self, node: Node, *values: Value) -> None:
        """Uses of the results of ``node`` become uses of ``values``, but those from which this block computes ``values``.

        The node goes, unless such uses remain. A value without name takes over the name of the result.
        """
        self._check_here(node, "replace")
        if len(values) != len(node.results):
            count = len(node.results)
            raise InvalidGraphError(f"replace: node {node.label}: got {len(values)} values; expected {count}")
        kept = self._new_ancestors(values)
        for old, new in zip(node.results, values):
            for user, position in list(old.uses):
                if user not in kept:
                    user.set_operand(position, new)
            self._replace_output(old, new)
        if not any(v.uses for v in node.results):
            self.graph.remove(node)

    def remove(self, node: Node) -> None:
        """Takes ``node`` out; users of its result use its first operand instead.

        Raises:
            InvalidGraphError: there is no first operand to use, or several results are used.
        """
        self._check_here(node, "remove")
        used = [v for v in node.results if self.graph.use_count(v)]
        first = node.operands[0] if node.operands else None
        if len(used) > 1 or (used and first is None):
            problem = f"{len(used)} results are used; nothing can stand for them"
            raise InvalidGraphError(f"remove: node {node.label}: {problem}")
        if used and first is not None:
            self.graph.replace_uses(used[0], first)
        self.graph.remove(node)

    def rewire(self, node: Node, position: int, value: Value | None) -> None:
        """Operand ``position`` of ``node`` becomes ``value``."""
        self._check_here(node, "rewire")
        if not 0 <= position < len(node.operands):
            problem = f"got position {position}; it has {len(node.operands)} operands"
            raise InvalidGraphError(f"rewire: node {node.label}: {problem}")
        node.set_operand(position, value)

    def set_attributes(self, node: Node, **attributes: Any) -> None:
        """Changes attributes of ``node``."""
        self._check_here(node, "set_attributes")
        node.attrs = node.op_def.make_attrs({**node.attributes, **attributes})

    def set_data(self, node: Node, array: Any) -> None:
        """Gives a constant another array, which is copied where its memory is writable."""
        if not isinstance(node.attrs, ConstantAttrs):
            raise InvalidGraphError(f"set_data: node {node.label} is not a constant")
        node.attrs = ConstantAttrs(taken_over(array, f"set_data: node {node.label}"))

    def set_outputs(self, *values: Value) -> None:
        """Makes ``values`` the graph's outputs."""
        self.graph.outputs = list(values)

    def rename(self, item: Node | Value, name: str) -> None:
        """Changes the name of a node or value; an input's name must stay unique, and its value in ``params`` moves with it.

        Raises:
            InvalidGraphError: ``item`` is not a node or value; ``name`` is not a string, or empty.
        """
        if not isinstance(item, Node | Value):
            raise InvalidGraphError(f"rename: got {item!r}; expected a node or value; Graph.find gives a node by its name")
        if not isinstance(name, str) or not name:
            what = f"node {item.label}" if isinstance(item, Node) else f"value %{item.name or item.index}"
            raise InvalidGraphError(f"rename: {what}: got {name!r}; expected a name, text that is not empty")
        item.name = name

    def graft(self, other: Graph, *operands: Value) -> list[Value]:
        """Puts a copy of the nodes of ``other``, of which this is not a part, after those of this graph; returns its outputs.

        Args:
            operands: values of this graph that take the place of the inputs of ``other``, in order; they bind its symbols.

        Raises:
            TypeInferenceError: the operands do not fit the inputs.
        """
        return splice(self.graph, other.copy(), operands, bind_parameters(other.name or "graft", other, operands))

    def _check_here(self, node: Node, what: str) -> None:
        if node.graph is not self.graph:
            raise InvalidGraphError(f"{what}: node {node.label}: is not in the graph that is edited")

    def _replace_output(self, old: Value, new: Value) -> None:
        if self.graph.is_output(old) and not new.name:
            new.name = old.name
        self.graph.outputs = [new if v is old else v for v in self.graph.outputs]

    def _new_ancestors(self, values: Iterable[Value]) -> set[Node]:
        """Nodes of this block from which ``values`` are computed, and the producers of ``values``."""
        found: set[Node] = set()
        stack = [v.producer for v in values if v.producer is not None]
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack.extend(p for p in node.pred if p not in self._old)
        return found
