"""Converts what results need of a graph, and functions where they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.convert import located
from forge.frontends.converter import Converter
from forge.frontends.registry import as_list
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.model import Body, Constant, FunctionName, Node, Ref, needs, read
from forge.frontends.tensorflow.registry import REGISTRY, is_of_handles
from forge.frontends.tensorflow.resources import Operand
from forge.frontends.tensorflow.scope import TensorFlowScope, name_of
from forge.ir.nodes import Value

FRAMES = ("Merge", "RefMerge", "Exit", "RefExit")
"""Nodes that end branches and loops made of single nodes: their converters ask for what they need."""


def evaluate(scope: TensorFlowScope, refs: Sequence[Ref], effects: Sequence[str] = ()) -> list[Operand]:
    """Outputs of nodes; what they need is converted.

    Args:
        effects: nodes that run though nothing reads them.
    """
    for name in (*effects, *(ref[0] for ref in refs)):
        _run(scope, name)
    return [scope.get(ref) for ref in refs]


def _run(scope: TensorFlowScope, wanted: str) -> None:
    """Converts a node and all that it needs, each after what it reads."""
    stack = [(wanted, False)]
    while stack:
        name, is_ready = stack.pop()
        if name in scope.done:
            continue
        if scope.own is not None and name not in scope.own:
            assert scope.parent is not None
            _run(scope.parent, name)
            continue
        node = scope.nodes.node(name)
        if is_ready:
            scope.active.discard(name)
            with located(f"{REGISTRY.full_name('', node.op)} at {name!r}"):
                _convert(scope, node)
            scope.done.add(name)
            continue
        if name in scope.active:
            raise ImportModelError(f"node {name!r} reads what it gives itself; expected no circles; the model is invalid")
        scope.active.add(name)
        stack.append((name, True))
        if node.op not in FRAMES:
            stack += [(other, False) for other in reversed(needs(scope.nodes, node)) if other not in scope.done]


def _convert(scope: TensorFlowScope, node: Node) -> None:
    scope.state.count_node()
    value = node.attributes.get("value")
    if node.op == "Const" and isinstance(value, Constant):
        scope.weights[name_of((node.name, 0))] = value.array
        return
    g = Context(scope, node, scope.prefix + node.name)
    start = len(scope.graph.nodes)
    row = REGISTRY.lookup("", node.op, 1)
    operands = [] if node.op in FRAMES else [scope.get(ref) for ref in read(scope.nodes, node)]
    results: Sequence[Operand | None]
    if row is None and node.op in scope.state.model.library:
        results = called(g, FunctionName(node.op), operands)
    elif row is None:
        raise OpNotImplemented(f"no converter; {REGISTRY.refusal('', node.op) or 'register one'}")
    else:
        results = as_list(_converted(g, row, operands))
    _bind(scope, node, results, start)


def _converted(g: Context, row: Converter, operands: Sequence[Operand]) -> Any:
    given = list(operands) if is_of_handles(row.function) else [g.tensor(operand) for operand in operands]
    types = {name: kind for name, kind in g.node.types.items() if name in row.attributes or row.takes_all}
    others = {name: value for name, value in g.node.attributes.items() if value != () or name in row.attributes}
    return REGISTRY.convert(row, g, given, {**others, **types})


def _bind(scope: TensorFlowScope, node: Node, results: Sequence[Operand | None], start: int) -> None:
    names = [name_of((node.name, k)) if isinstance(v, Value) else "" for k, v in enumerate(results)]
    values = [v if isinstance(v, Value) else None for v in results]
    scope.bind(names, values, start, scope.prefix + node.name)
    for k, result in enumerate(results):
        if result is not None and not isinstance(result, Value):
            scope.handles[name_of((node.name, k))] = result


def called(g: Context, function: Any, operands: Sequence[Operand]) -> list[Operand]:
    """The results of a function, converted in place."""
    return inlined(g, g.scope.state.model.function(function.name), operands)


def inlined(g: Context, body: Body, operands: Sequence[Operand]) -> list[Operand]:
    """The results of a graph with arguments, converted in place."""
    if len(operands) != len(body.arguments):
        raise g.invalid(f"function {body.name!r}: got {len(operands)} arguments; expected {len(body.arguments)}")
    scope = g.scope.called({}, g.scope.prefix)
    scope.body = body
    for argument, operand in zip(body.arguments, operands):
        scope.put((argument.name, 0), operand)
        scope.done.add(argument.name)
    with located(f"function {body.name!r}"):
        return evaluate(scope, list(body.results.values()), body.effects)
