"""Editing graphs: verified edits with undo, extraction of sub-graphs, and rewriting by patterns.

Edits are made inside ``with edit(graph) as e:``. At the end of the block order is restored, types that depend on the edits are
inferred anew, dead nodes stay, and the graph is verified; if that or anything in the block fails, the graph is as it was before
and the error names the place. The regions of a node are graphs of their own: edit them in their own blocks.

A rewrite rule is a ``Pattern``, a ``check`` that returns the reason when it declines, and a ``rewrite``. ``apply`` visits nodes
in topological order and roots a match at each. It visits neither nodes that a rewrite has removed in the meantime nor those that
one has inserted: these come in the next round. Rounds end when nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from forge import dims
from forge.errors import InvalidGraphError
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.arrays import taken_over
from forge.ir.attributes import frozen
from forge.ir.builder import Builder
from forge.ir.call import CALL, bind_parameters, result_types
from forge.ir.nodes import ConstantAttrs, Graph, Module, Node, Value, clone_node
from forge.ir.op import Trait
from forge.ir.retype import infer_again, substitute_in_graph
from forge.ir.undetermined import name_whole_sizes
from forge.ir.verifier import verify_graph

MAX_ROUNDS = 50  # and one more for each node that the graph has at the beginning


class _Snapshot:
    """What an edit can change, to be put back."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs, self.nodes, self.outputs = list(graph.inputs), list(graph.nodes), list(graph.outputs)
        self.attributes = dict(graph.attributes)
        self.node_state = {n: (list(n.operands), n.attrs, n.name, n.location, list(n.regions)) for n in graph.nodes}
        values = [*graph.inputs, *[v for n in graph.nodes for v in n.results]]
        self.value_state = {v: (v.type, v.name, dict(v.uses)) for v in values}

    def restore(self) -> None:
        graph = self.graph
        for node in {*graph.nodes, *self.nodes}:
            self._forget_foreign_uses(node)
        graph.inputs, graph.nodes, graph.outputs = self.inputs, self.nodes, self.outputs
        graph.attributes = self.attributes
        for node, (operands, attrs, name, location, regions) in self.node_state.items():
            node.operands, node.attrs, node.name, node.location, node.regions = operands, attrs, name, location, regions
        for value, (type_, name, uses) in self.value_state.items():
            value.type, value.name, value.uses = type_, name, uses

    def _forget_foreign_uses(self, node: Node) -> None:
        """Values of other graphs, which the edit must not have used, are left as they were."""
        for value in node.operands:
            if value is not None and value not in self.value_state:
                value.uses = {use: None for use in value.uses if use[0] is not node}

    def rename_params(self, module: Module) -> None:
        """Moves values in ``params`` to the new names of their inputs, unless the block itself has bound a value to that name."""
        renamed = {self.value_state[v][1]: v.name for v in self.graph.inputs if v in self.value_state}
        if any(old != new and old in module.params for old, new in renamed.items()):
            given = dict(module.params)
            kept = {new: given[old] for old, new in renamed.items() if old in given}
            module.params = {**kept, **{name: array for name, array in given.items() if name not in renamed}}

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
        """A call tells its own result types: they change when those of its operands do."""
        types = [None if v is None else self.value_state[v][0] for v in operands]
        if types == [None if v is None else v.type for v in node.operands]:
            return
        function = node.attrs.function
        if module is None or function not in module.graphs:
            expected = f"expected edit(graph, module) with the module that has @{function}"
            raise InvalidGraphError(f"edit: node {node.label}: types of its operands changed; {expected}")
        results = result_types(function, module.graphs[function], node.operands)
        node.attrs = replace(node.attrs, results=results)


def _inferred_again(node: Node) -> list[Value]:
    try:
        return infer_again(node)
    except InvalidGraphError as error:
        raise InvalidGraphError(f"edit: node {node.label}: {error}") from error


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
        if module is not None and graph is module.main:
            snapshot.rename_params(module)
    except BaseException:
        snapshot.restore()
        raise


class Editor:
    """The edits of one block."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._old = frozenset(graph.nodes)

    def insert_before(self, node: Node, op: str, *operands: Value | None, name: str = "", **attributes: Any) -> Value:
        """A new node in front of ``node``; returns its result."""
        self._check_here(node, "insert_before")
        return Builder(self.graph, node, node.location).call(op, *operands, name=name, **attributes)

    def insert_after(self, value: Value, op: str, *others: Value | None, name: str = "", **attributes: Any) -> Value:
        """A new node applied to ``value`` (its first operand); every earlier use of ``value`` now uses the result."""
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
            raise InvalidGraphError(f"set_data: node {node.label} is no constant")
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
        """Puts a copy of the nodes of ``other``, of which this is no part, behind those of this graph; returns its outputs.

        Args:
            operands: values of this graph that take the place of the inputs of ``other``, in order; they bind its symbols.

        Raises:
            TypeInferenceError: the operands do not fit the inputs.
        """
        body = other.copy()
        bound = bind_parameters(other.name or "graft", body, operands)
        for symbol in {s for n in body.walk() for v in n.results for s in T.symbols(v.type)} - bound.keys():
            bound[symbol] = dims.fresh("d")
        substitute_in_graph(body, bound)
        for parameter, operand in zip(body.inputs, operands, strict=True):
            body.replace_uses(parameter, operand)
        for node in body.nodes:
            body.nodes.remove(node)
            self.graph.nodes.insert(node)
            node.graph = self.graph
        return body.outputs

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


def extract(graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value] = ()) -> Graph:
    """A new graph that computes ``outputs`` from ``inputs``.

    Inputs of ``graph`` that are still needed, also those needed only for a symbol that they define, follow ``inputs``. Sizes such
    as ``b*s`` whose symbols no input determines become a new symbol.

    Raises:
        InvalidGraphError: an output or input is not of ``graph``, or the extracted graph breaks a rule.
    """
    result = _extracted(graph, outputs, inputs, set())
    left = name_whole_sizes(result, only_plain=True)
    telling = set()
    for value in graph.inputs:
        told = {dims.symbol_name(d) for d, _ in T.dimension_pairs(value.type, value.type)}
        if not left.isdisjoint(told):
            telling.add(value)
            left -= told
    if telling:
        result = _extracted(graph, outputs, inputs, telling)
        name_whole_sizes(result, only_plain=True)
    verify_graph(result, "extract")
    return result


def _extracted(graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value], added: set[Value]) -> Graph:
    """As `extract`, but not verified; ``added`` are inputs of ``graph`` to keep even if nothing uses them."""
    mapping: dict[Value, Value] = {}
    result = Graph()
    needed = _needed(outputs, set(inputs)) | added
    nodes = [n for n in graph.nodes if any(v in needed and v not in inputs for v in n.results)]
    walked = [*nodes, *(inner for n in nodes for region in n.regions for inner in region.walk())]
    missing_symbols = {s for n in walked for s in attributes.symbols(n.attrs)}
    for value in [*inputs, *(v for v in graph.inputs if v not in inputs)]:
        defined = missing_symbols.intersection(T.symbols(value.type))
        if value in inputs or value in needed or defined:
            mapping[value] = result.add_input(value.type, _unused_name(result, value.name))
            missing_symbols -= defined
    cut = dict(mapping)
    for node in nodes:
        result.insert(clone_node(node, mapping))
        mapping.update(cut)
    missing = [v for v in outputs if v not in mapping]
    if missing:
        raise InvalidGraphError(f"extract: {missing[0].label} is not a value of the graph")
    result.outputs = [mapping[v] for v in outputs]
    return result


def _unused_name(graph: Graph, name: str) -> str:
    taken = {v.name for v in graph.inputs}
    base = unused = name or f"input_{len(graph.inputs)}"
    number = 0
    while unused in taken:
        number += 1
        unused = f"{base}_{number}"
    return unused


def _needed(outputs: Iterable[Value], stop: set[Value]) -> set[Value]:
    found: set[Value] = set()
    stack = list(outputs)
    while stack:
        value = stack.pop()
        if value in found:
            continue
        found.add(value)
        if value not in stop and value.producer is not None:
            stack.extend(v for v in value.producer.operands if v is not None)
    return found


@dataclass(frozen=True)
class Pattern:
    """A tree of operators. ``op`` None matches any value; ``name`` makes the value (and its node) known to check and rewrite.

    One name matches one value wherever it occurs. ``attributes`` must be equal where given. Without ``operands`` the node may
    have any; else those without pattern must be absent. The first two operands of commutative operators match in either order.
    """

    op: str | None = None
    operands: tuple[Pattern, ...] = ()
    name: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constant: bool = False

    def match(self, value: Value) -> dict[str, Value] | None:
        """Named values, when the tree rooted at ``value`` matches."""
        return next(self._matches(value, {}), None)

    def _matches(self, value: Value | None, bound: dict[str, Value]) -> Iterator[dict[str, Value]]:
        """All ways to match, each with the names bound so far and its own."""
        if value is None or (self.constant and value.constant is None) or bound.get(self.name, value) is not value:
            return
        if self.name:
            bound = {**bound, self.name: value}
        if self.op is None:
            yield bound
        elif value.producer is not None and self._fits(value.producer):
            for operands in self._orders(value.producer):
                yield from _match_all(self.operands, operands, bound)

    def _fits(self, node: Node) -> bool:
        if node.op != self.op or (self.operands and any(v is not None for v in node.operands[len(self.operands) :])):
            return False
        actual = node.attributes if self.attributes else {}
        return all(k in actual and actual[k] == frozen(v) for k, v in self.attributes.items())

    def _orders(self, node: Node) -> Iterator[list[Value | None]]:
        operands = [*node.operands, *[None] * (len(self.operands) - len(node.operands))]
        yield operands
        if node.op_def.traits & Trait.COMMUTATIVE and len(self.operands) >= 2:
            yield [operands[1], operands[0], *operands[2:]]


def _match_all(
    patterns: Sequence[Pattern], values: Sequence[Value | None], bound: dict[str, Value]
) -> Iterator[dict[str, Value]]:
    if not patterns:
        yield bound
        return
    for matched in patterns[0]._matches(values[0], bound):
        yield from _match_all(patterns[1:], values[1:], matched)


def anything(name: str = "") -> Pattern:
    """Matches every value."""
    return Pattern(None, (), name)


def constant(name: str = "") -> Pattern:
    """Matches constants."""
    return Pattern(None, (), name, constant=True)


def call(op: str, *operands: Pattern, name: str = "", **attributes: Any) -> Pattern:
    """Matches a result of ``op`` on operands that match."""
    return Pattern(op, operands, name, attributes)


@dataclass(frozen=True)
class Rule:
    """``check`` gets the named values and returns why not, or None; ``rewrite`` builds the replacement of the root.

    The replacement has the root's type, and it is not the root.
    """

    name: str
    pattern: Pattern
    rewrite: Callable[[Builder, dict[str, Value]], Value]
    check: Callable[[dict[str, Value]], str | None] = lambda values: None


def apply(graph: Graph, rules: Sequence[Rule], module: Module | None = None) -> int:
    """Applies ``rules`` until none matches; returns how often one did. The first rule that matches at a node wins.

    Raises:
        InvalidGraphError: the rules never end, or a rewrite changed the type of its root; the graph is as before.
    """
    count = 0
    with edit(graph, module) as editor:
        for _ in range(MAX_ROUNDS + len(graph.nodes)):
            changed = sum(_apply_at(editor, node, rules) for node in list(graph.nodes) if node.graph is graph)
            count += changed
            if not changed:
                return count
            graph.sort()
        names = ", ".join(r.name for r in rules)
        raise InvalidGraphError(f"rewrite: rules {names} still match after many rounds; expected an end")


def _apply_at(editor: Editor, node: Node, rules: Sequence[Rule]) -> int:
    if len(node.results) != 1:
        return 0
    for rule in rules:
        values = rule.pattern.match(node.result)
        if values is None or rule.check(values) is not None:
            continue
        _replace_root(editor, node, rule, values)
        return 1
    return 0


def _replace_root(editor: Editor, node: Node, rule: Rule, values: dict[str, Value]) -> None:
    new = rule.rewrite(Builder(editor.graph, node, node.location), values)
    if new is node.result:
        at = f"rewrite {rule.name}: node {node.label}"
        raise InvalidGraphError(f"{at}: the replacement is the root itself; expected another value (let check decline instead)")
    if not T.compatible(new.type, node.result.type):
        raise InvalidGraphError(f"rewrite {rule.name}: node {node.label}: got {new.type}; expected {node.result.type}")
    matched = node.pred
    editor.replace(node, new)
    _sweep(editor.graph, matched)


def _sweep(graph: Graph, candidates: Iterable[Node]) -> None:
    """Removes what a rewrite left without users, from the matched nodes upwards."""
    stack = list(candidates)
    while stack:
        node = stack.pop()
        if node.graph is not graph or any(graph.use_count(v) for v in node.results) or node.op_def.traits & Trait.STATEFUL:
            continue
        stack.extend(node.pred)
        graph.remove(node)


__all__ = ["Editor", "Pattern", "Rule", "anything", "apply", "call", "constant", "edit", "extract"]
