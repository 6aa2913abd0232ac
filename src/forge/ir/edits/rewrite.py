"""Rewriting by rules: the one driver, for passes and for users.

A `Rule` has a name and a head: operators (``@rule("multiply", "divide")``) or a `Pattern`. At a node that its head matches it
gives the value that takes the node's place (one per result), `Replace` where it is another node that is replaced, `Declined` with
a reason, or None where it has nothing to say. What it has built and not used goes.

`rewrite` sweeps over the nodes in topological order, and tries at each the rules of its operator until one replaces it. What
that touches (new nodes, and users of what has changed) is tried again, then all nodes, until a sweep changes nothing. New nodes
carry the names of the rules that led to them (``Node.origin``). A `Journal` notes what rules do. With ``FORGE_VERIFY=1`` the
graph is verified after each replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from forge import dims, knobs
from forge.dims import Dim
from forge.errors import InvalidGraphError
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.attributes import frozen
from forge.ir.builder import Builder
from forge.ir.edits import budget, journal
from forge.ir.edits.edit import edit
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.op import OpDef, Trait
from forge.ir.retype import substitute_in_graph
from forge.ir.types import TensorType
from forge.ir.verifier import verify_graph

REPLACEMENTS_PER_NODE = 64
"""Limit on replacements in a graph: this many for each of its nodes, and for as many nodes more as this number."""


class RuleBuilder(Builder):
    """Inserts before the node that a rule looks at, and knows what it has inserted."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.made: list[Node] = []

    def insert(self, node: Node) -> Node:
        self.made.append(node)
        return super().insert(node)

    def move_before(self, node: Node) -> None:
        """Inserts before ``node`` from now on."""
        self.before, self.location = node, node.location


class Replace:
    """``values`` take the place of the results of ``node``."""

    def __init__(self, node: Node, *values: Value) -> None:
        self.node, self.values = node, values


@dataclass(frozen=True)
class Declined:
    """Why a rule leaves a node that it was made for."""

    reason: str


X = TypeVar("X", bound=OpDef[Any])
Head = str | Callable[[OpDef[Any]], bool]
Outcome = Value | Sequence[Value] | Replace | Declined | None


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
        if node.op_def.commutes and len(self.operands) >= 2:
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
    """What to replace by what.

    Attributes:
        pattern: what matches; a tuple of names of operators and predicates of them, empty for all, matches their nodes.
        rewrite: builds the replacement. It gets the named values of a pattern, for operators the node.
        check: why the values that a pattern has matched are left as they are; None: they are not.
        moves_rounding: whether numbers may be rounded to quantized ones at another point than the model says: off by one step.
    """

    name: str
    pattern: Pattern | tuple[Head, ...]
    rewrite: Callable[[RuleBuilder, Any], Outcome]
    check: Callable[[dict[str, Value]], str | None] = lambda values: None
    moves_rounding: bool = False

    def is_for(self, op: OpDef[Any]) -> bool:
        """Whether the rule is tried at nodes of ``op``."""
        if isinstance(self.pattern, Pattern):
            return self.pattern.op in (None, op.name)
        return not self.pattern or any(op.name == head if isinstance(head, str) else head(op) for head in self.pattern)

    def attempt(self, builder: RuleBuilder, node: Node) -> Outcome:
        """What the rule does with ``node``, of an operator that it is for."""
        if not isinstance(self.pattern, Pattern):
            return self.rewrite(builder, node)
        values = self.pattern.match(node.result) if len(node.results) == 1 else None
        reason = None if values is None else self.check(values)
        if values is None or reason is not None:
            return None if reason is None else Declined(reason)
        return self.rewrite(builder, values)


@overload
def rule(operator: type[X], /, *, moves_rounding: bool = False) -> Callable[[Callable[[RuleBuilder, X], Outcome]], Rule]: ...
@overload
def rule(*heads: Head, moves_rounding: bool = False) -> Callable[[Callable[[RuleBuilder, Node], Outcome]], Rule]: ...
def rule(*heads: Any, moves_rounding: bool = False) -> Callable[[Callable[[RuleBuilder, Any], Outcome]], Rule]:
    """Makes a function of a node a rule of its name for these operators, given by name or predicate; for all if none is given.

    For a class of operators, the function gets the operator that is bound to the node: ``@rule(Transpose)``.
    """
    if not heads or not isinstance(heads[0], type):
        return lambda function: Rule(function.__name__, heads, function, moves_rounding=moves_rounding)
    is_one = (lambda op: isinstance(op, heads[0]),)
    return lambda f: Rule(f.__name__, is_one, lambda builder, node: f(builder, node.op_def.bind(node)),
                          moves_rounding=moves_rounding)


def rewrite(graph: Graph, rules: Iterable[Rule]) -> int:
    """Applies ``rules`` to ``graph`` and to the regions of its nodes, innermost first; the number of replacements.

    A replacement that would take the name of an output away is declined. Rules that never end are stopped: each replacement
    keeps the meaning.
    """
    given = tuple(rules)
    return on_all_graphs(graph, lambda inner: _Driver(inner, given).run())


def apply(graph: Graph, rules: Sequence[Rule], module: Module | None = None) -> int:
    """Applies ``rules`` to ``graph`` as one verified edit; the number of replacements.

    Raises:
        InvalidGraphError: the rules never end, or a rewrite changed the type of its root; the graph is as before.
    """
    with edit(graph, module):
        driver = _Driver(graph, tuple(rules))
        count = driver.run()
        if count >= driver.limit:
            names = ", ".join(r.name for r in rules)
            raise InvalidGraphError(f"rewrite: rules {names} still match after {count} replacements; expected an end")
    return count


class _Driver:
    """Rewrites one graph."""

    def __init__(self, graph: Graph, rules: tuple[Rule, ...]) -> None:
        self.graph = graph
        self.builder = RuleBuilder(graph)
        self.rules = rules
        self.by_operator: dict[OpDef[Any], tuple[Rule, ...]] = {}
        self.limit = REPLACEMENTS_PER_NODE * (len(graph.nodes) + REPLACEMENTS_PER_NODE)
        self.touched: dict[Node, None] = {}
        self.journal = journal.current()
        self.budget = budget.current()
        self.verifies = knobs.VERIFY.flag

    def run(self) -> int:
        total, before = 0, -1
        while before < total < self.limit:
            before = total
            total += sum(map(self._visit, self.graph.nodes))
            while self.touched and total < self.limit:
                pending, self.touched = self.touched, {}
                total += sum(self._visit(node) for node in pending if node.graph is self.graph)
        return total

    def _visit(self, node: Node) -> bool:
        builder, op = self.builder, node.op_def
        if self.budget is not None and self.budget.is_spent:
            return False
        if op not in self.by_operator:
            self.by_operator[op] = tuple(r for r in self.rules if r.is_for(op))
        for tried in self.by_operator[op]:
            builder.before, builder.location = node, node.location
            outcome = tried.rewrite(builder, node) if isinstance(tried.pattern, tuple) else tried.attempt(builder, node)
            if outcome is not None and self._settle(tried, node, outcome):
                builder.made.clear()
                return True
            while builder.made:
                remove_unused(self.graph, builder.made.pop())
        return False

    def _settle(self, tried: Rule, node: Node, outcome: Outcome) -> bool:
        """Does what a rule wants; whether that is a replacement."""
        label = "" if self.journal is None and self.budget is None else node.label
        if isinstance(outcome, Declined):
            reason = outcome.reason
        else:
            replaced = outcome if isinstance(outcome, Replace) else Replace(
                node, *((outcome,) if isinstance(outcome, Value) else outcome or ()))
            reason = "" if self._replace(tried, replaced) else "an output of the graph would lose its name"
        if self.journal is not None:
            self.journal.note(tried.name, node, label, [] if reason else self.builder.made, reason, tried.moves_rounding)
        if self.budget is not None and not reason:
            self.budget.note(tried.name, label)
        return not reason

    def _replace(self, tried: Rule, wanted: Replace) -> bool:
        node, made = wanted.node, self.builder.made
        where = f"rewrite {tried.name}: node"
        for old, new in zip(node.results, wanted.values, strict=True):
            if old is new:
                expected = "expected another value (decline instead)"
                raise InvalidGraphError(f"{where} {node.label}: the replacement is the root itself; {expected}")
            if old.type != new.type and not T.compatible(new.type, old.type):
                raise InvalidGraphError(f"{where} {node.label}: got {new.type}; expected {old.type}")
        users = [user for value in node.results for user, _ in value.uses]
        sources = [v for v in node.operands if v is not None]
        if not replace(self.graph, node, *wanted.values, unless=made):
            return False
        origin = tuple(dict.fromkeys((*node.origin, tried.name)))
        for new_node in made:
            new_node.origin = origin
        last_users = [next(iter(v.uses))[0] for v in sources if len(v.uses) == 1]
        self.touched.update(dict.fromkeys((*made, *users, *last_users)))
        if self.verifies:
            verify_graph(self.graph, f"{where} {node.op}")
        return True


def on_all_graphs(graph: Graph, run: Callable[[Graph], int]) -> int:
    """``run`` of ``graph`` and of the regions of its nodes, innermost first; the sum of its results."""
    count = sum(on_all_graphs(region, run) for node in graph.nodes for region in node.regions)
    return count + run(graph)


def before(graph: Graph, node: Node) -> Builder:
    """A builder that inserts before ``node`` and keeps its source location."""
    return Builder(graph, node, node.location)


def only_use(graph: Graph, value: Value) -> Node | None:
    """The node that alone uses ``value``, once."""
    return next(iter(value.uses))[0] if graph.use_count(value) == 1 and value.uses else None


def replace(graph: Graph, node: Node, *values: Value, unless: Sequence[Node] = ()) -> bool:
    """Uses of the results of ``node`` become uses of ``values``; the node goes, and what was there for it only.

    Names and symbols are carried over. The nodes ``unless`` keep what they use.

    False, and nothing changes, where an output of the graph would lose its name: its value would be an input or another output.
    """
    pairs = list(zip(node.results, values, strict=True))
    if any(graph.is_output(old) and is_taken(graph, new) for old, new in pairs):
        return False
    for old, new in pairs:
        if old.name and (graph.is_output(old) or not new.name):
            new.name = old.name
        renamed = _symbol_changes(old, new)
        kept = [use for use in old.uses if use[0] in unless]
        graph.replace_uses(old, new)
        for user, position in kept:
            user.set_operand(position, old)
        if renamed:
            substitute_in_graph(graph, renamed)
    remove_unused(graph, node)
    return True


def is_taken(graph: Graph, value: Value) -> bool:
    """Whether ``value`` has a name that an output cannot have: that of an input or another output."""
    return value.producer is None or graph.is_output(value)


def _symbol_changes(old: Value, new: Value) -> dict[str, Dim]:
    """Symbols of the type of ``old`` for which the type of ``new`` has something else."""
    if old.type == new.type or not isinstance(old.type, TensorType) or not isinstance(new.type, TensorType):
        return {}
    pairs = zip(old.type.shape, new.type.shape)
    return {name: b for a, b in pairs if a != b and (name := dims.symbol_name(a)) is not None}


def remove_unused(graph: Graph, node: Node) -> None:
    """Removes ``node`` if nothing uses it, and then what was there for it only."""
    pending = [node]
    while pending:
        node = pending.pop()
        if node.graph is not graph or any(graph.use_count(v) for v in node.results) or has_effects(node):
            continue
        pending.extend(p for p in node.pred if not new_symbols(p) and not p.regions)
        graph.remove(node)


def has_effects(node: Node) -> bool:
    """Whether the node, or one in its regions, keeps state or acts on the world outside: it stays, used or not."""
    return any(n.op_def.traits & Trait.STATEFUL for n in node.walk())


def new_symbols(node: Node) -> list[str]:
    """Symbols that the results of ``node`` introduce: they occur in the type of no operand and in no attribute."""
    found = [s for v in node.results for s in T.symbols(v.type)]
    if not found:
        return found
    known = {s for v in node.operands if v is not None for s in T.symbols(v.type)}.union(attributes.symbols(node.attrs))
    return [s for s in found if s not in known]
