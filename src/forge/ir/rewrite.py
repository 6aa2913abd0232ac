"""Editing graphs: verified edits with undo, extraction of sub-graphs, and rewriting by patterns.

Edits are made inside ``with edit(graph) as e:``. At the end of the block types are inferred anew downstream, order is restored,
dead nodes stay, and the graph is verified; if that or anything in the block fails, the graph is as it was before and the
error names the place.

A rewrite rule is a ``Pattern``, a ``check`` that returns the reason when it declines, and a ``rewrite``. ``apply`` visits nodes in
topological order, roots a match at each, and visits what a rewrite inserted in the next round; rounds end when nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from forge.errors import ForgeError, InvalidGraphError
from forge.ir.builder import Builder
from forge.ir.nodes import ConstantAttrs, Graph, Node, Value, clone_node
from forge.ir.verifier import verify_graph

MAX_ROUNDS = 50


class _Snapshot:
    """What an edit can change, to be put back."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lists = (list(graph.inputs), list(graph.nodes), list(graph.outputs))
        self.nodes = [(n, list(n.operands), n.attrs, n.name, list(n.regions)) for n in graph.nodes]
        values = [*graph.inputs, *[v for n in graph.nodes for v in n.results]]
        self.values = [(v, v.type, v.name, list(v.uses)) for v in values]

    def restore(self) -> None:
        kept = set(self.lists[1])
        for node in self.graph.nodes:
            if node not in kept:
                node.graph = None
        self.graph.inputs, self.graph.nodes, self.graph.outputs = (list(x) for x in self.lists)
        for node, operands, attrs, name, regions in self.nodes:
            node.operands, node.attrs, node.name, node.regions = list(operands), attrs, name, list(regions)
            node.graph = self.graph
        for value, type_, name, uses in self.values:
            value.type, value.name, value.uses = type_, name, list(uses)


@contextmanager
def edit(graph: Graph) -> Iterator[Editor]:
    """Edits that all happen or none.

    Raises:
        InvalidGraphError: the edited graph breaks a rule; the graph is unchanged then.
    """
    snapshot = _Snapshot(graph)
    try:
        yield Editor(graph)
        graph.sort()
        infer_types(graph)
        verify_graph(graph)
    except BaseException:
        snapshot.restore()
        raise


def infer_types(graph: Graph) -> None:
    """Infers all result types anew, in order; a type that cannot be told apart from the old one stays."""
    from forge.ir.verifier import compatible

    for node in graph.nodes:
        if node.op == "constant":
            continue
        try:
            types = node.op_def.infer(node.operands, node.attrs, node.regions)
        except ForgeError as error:
            raise InvalidGraphError(f"node {node.name or node.op}: {error}") from error
        for value, type_ in zip(node.results, types, strict=True):
            if not compatible(value.type, type_):
                value.type = type_


class Editor:
    """The edits of one block."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def insert_before(self, node: Node, op: str, *operands: Value | None, name: str = "", **attributes: Any) -> Value:
        """A new node in front of ``node``; returns its result."""
        return Builder(self.graph, before=node).call(op, *operands, name=name, **attributes)

    def insert_after(self, value: Value, op: str, *others: Value | None, name: str = "", **attributes: Any) -> Value:
        """A new node applied to ``value`` (its first operand); every earlier use of ``value`` now uses the result."""
        uses, was_output = list(value.uses), self.graph.is_output(value)
        result = Builder(self.graph).call(op, value, *others, name=name, **attributes)
        for user, position in uses:
            user.set_operand(position, result)
        if was_output:
            self.graph.outputs = [result if v is value else v for v in self.graph.outputs]
        return result

    def replace(self, node: Node, *values: Value) -> None:
        """Uses of the results of ``node`` become uses of ``values``; the node goes."""
        if len(values) != len(node.results):
            raise InvalidGraphError(f"replace: node {node.name or node.op} has {len(node.results)} results; got {len(values)} values")
        for old, new in zip(node.results, values):
            uses = [(user, position) for user, position in old.uses if user is not new.producer]
            for user, position in uses:
                user.set_operand(position, new)
            self.graph.outputs = [new if v is old else v for v in self.graph.outputs]
        if not any(v.uses for v in node.results):
            self.graph.remove(node)

    def remove(self, node: Node) -> None:
        """Takes ``node`` out; users of its only result use its first operand instead."""
        if node.results and node.operands and node.operands[0] is not None:
            self.graph.replace_uses(node.result, node.operands[0])
        self.graph.remove(node)

    def rewire(self, node: Node, position: int, value: Value) -> None:
        """Operand ``position`` of ``node`` becomes ``value``."""
        if not 0 <= position < len(node.operands):
            raise InvalidGraphError(f"rewire: node {node.name or node.op} has {len(node.operands)} operands; got position {position}")
        node.set_operand(position, value)

    def set_attributes(self, node: Node, **attributes: Any) -> None:
        """Changes attributes of ``node``."""
        node.attrs = node.op_def.make_attrs({**node.attributes, **attributes})

    def set_data(self, node: Node, array: Any) -> None:
        """Changes the array of a constant."""
        if not isinstance(node.attrs, ConstantAttrs):
            raise InvalidGraphError(f"set_data: node {node.name or node.op} is no constant")
        node.attrs = ConstantAttrs(array)
        (node.result.type,) = node.op_def.infer([], node.attrs)

    def rename(self, item: Node | Value, name: str) -> None:
        """Changes the name of a node or value; an input's name must stay unique."""
        item.name = name


def extract(graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value] = ()) -> Graph:
    """A new graph that computes ``outputs`` from ``inputs``; graph inputs that are still needed are added behind them."""
    mapping: dict[Value, Value] = {}
    result = Graph()
    for value in inputs:
        mapping[value] = result.add_input(value.type, value.name or f"input_{len(result.inputs)}")
    needed = _needed(outputs, set(inputs))
    for value in graph.inputs:
        if value in needed and value not in mapping:
            mapping[value] = result.add_input(value.type, value.name)
    for node in graph.nodes:
        if any(v in needed for v in node.results) and not all(v in mapping for v in node.results):
            result.insert(clone_node(node, mapping))
    result.outputs = [mapping[v] for v in outputs]
    return result


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

    ``attributes`` must be equal where given. Operands of commutative operators match in either order.
    """

    op: str | None = None
    operands: tuple[Pattern, ...] = ()
    name: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constant: bool = False

    def match(self, value: Value, found: dict[str, Value] | None = None) -> dict[str, Value] | None:
        """Named values, when the tree rooted at ``value`` matches."""
        bound = dict(found or {})
        if self.name:
            if self.name in bound and bound[self.name] is not value:
                return None
            bound[self.name] = value
        if self.constant and value.constant is None:
            return None
        if self.op is None:
            return bound
        node = value.producer
        if node is None or node.op != self.op or len(node.operands) < len(self.operands):
            return None
        if any(node.attributes.get(k) != v for k, v in self.attributes.items()):
            return None
        return self._match_operands(node, bound)

    def _match_operands(self, node: Node, bound: dict[str, Value]) -> dict[str, Value] | None:
        from forge.ir.op import Trait

        orders = [list(node.operands)]
        if node.op_def.traits & Trait.COMMUTATIVE and len(node.operands) >= 2:
            orders.append([node.operands[1], node.operands[0], *node.operands[2:]])
        for operands in orders:
            result: dict[str, Value] | None = bound
            for pattern, operand in zip(self.operands, operands):
                result = None if result is None or operand is None else pattern.match(operand, result)
            if result is not None:
                return result
        return None


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
    """``check`` gets the named values and returns why not, or None; ``rewrite`` builds the replacement of the root."""

    name: str
    pattern: Pattern
    rewrite: Callable[[Builder, dict[str, Value]], Value]
    check: Callable[[dict[str, Value]], str | None] = lambda values: None


def apply(graph: Graph, rules: Sequence[Rule]) -> int:
    """Applies ``rules`` until none matches; returns how often one did.

    Raises:
        InvalidGraphError: the rules never end, or a rewrite changed the type of its root; the graph is as before.
    """
    count = 0
    with edit(graph) as editor:
        for _ in range(MAX_ROUNDS):
            changed = sum(_apply_at(editor, node, rules) for node in list(graph.nodes) if node.graph is graph)
            count += changed
            if not changed:
                return count
    raise InvalidGraphError(f"rewrite: rules {[r.name for r in rules]} still match after {MAX_ROUNDS} rounds")


def _apply_at(editor: Editor, node: Node, rules: Sequence[Rule]) -> int:
    if len(node.results) != 1:
        return 0
    for rule in rules:
        values = rule.pattern.match(node.result)
        if values is None or rule.check(values) is not None:
            continue
        new = rule.rewrite(Builder(editor.graph, before=node), values)
        if str(new.type) != str(node.result.type):
            raise InvalidGraphError(f"rewrite {rule.name}: node {node.name or node.op}: got {new.type}; expected {node.result.type}")
        matched = node.pred
        editor.replace(node, new)
        _sweep(editor.graph, matched)
        return 1
    return 0


def _sweep(graph: Graph, candidates: Iterable[Node]) -> None:
    """Removes what a rewrite left without users, from the matched nodes upwards."""
    stack = list(candidates)
    while stack:
        node = stack.pop()
        if node.graph is not graph or any(graph.use_count(v) for v in node.results) or not node.op_def.is_pure:
            continue
        stack.extend(node.pred)
        graph.remove(node)
