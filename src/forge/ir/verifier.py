"""Checks every rule of the IR. A verified module can be printed, interpreted and compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from forge.errors import ForgeError, InvalidGraphError
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.builder import check_arity, infer
from forge.ir.call import verify_calls
from forge.ir.nodes import Graph, Module, Node, Value
from forge.ir.retype import check_param, sizes_of_params


def verify(module: Module) -> None:
    """Raises InvalidGraphError at the first broken rule; the message names graph and node.

    Rules: there is a ``main``; values are defined once, before they are used, in the same graph (regions are closed); uses are
    recorded; operands and regions fit the declaration; result types are what the operator infers; symbols are defined before they
    are used; outputs are defined; input names differ; params fit their inputs; called functions exist, fit, and do not recur.
    """
    if "main" not in module.graphs:
        raise InvalidGraphError(f"module: has no function @main; it has: {', '.join(module.graphs) or 'none'}")
    for name, graph in module.graphs.items():
        verify_graph(graph, f"@{name}")
    verify_calls(module)
    for name, array in module.params.items():
        check_param(module, name, array)
    sizes_of_params(module)


def verify_graph(graph: Graph, where: str = "graph", symbols: Collection[str] = ()) -> None:
    """The rules of one graph and its regions; ``symbols`` are known from outside.

    Raises:
        InvalidGraphError: a rule is broken.
    """
    _verify_inputs(graph, where)
    defined = dict.fromkeys(graph.inputs)
    known = {*symbols, *(s for v in graph.inputs for s in T.symbols(v.type))}
    for node in graph.nodes:
        at = f"{where}: node {node.label}"
        _verify_structure(graph, node, defined, at)
        _verify_types(node, known, at)
        known.update(s for v in node.results for s in T.symbols(v.type))
        for number, region in enumerate(node.regions):
            verify_graph(region, f"{at}: region {node.op_def.regions[number]}", known)
        defined.update(dict.fromkeys(node.results))
    for value in graph.outputs:
        if value not in defined:
            raise InvalidGraphError(f"{where}: output {_name(value)} is not defined in the graph")
    _verify_uses(graph, defined, where)


def _verify_inputs(graph: Graph, where: str) -> None:
    for name, count in Counter(v.name for v in graph.inputs if v.name).items():
        if count > 1:
            raise InvalidGraphError(f"{where}: {count} inputs are called %{name}; expected different names")
    for value, count in Counter(graph.inputs).items():
        if count > 1 or value.producer is not None:
            problem = "is listed twice" if count > 1 else "has a producer"
            raise InvalidGraphError(f"{where}: input {_name(value)} {problem}; expected a value of its own")


def _verify_structure(graph: Graph, node: Node, defined: Collection[Value], at: str) -> None:
    if node.graph is not graph:
        raise InvalidGraphError(f"{at}: belongs to another graph")
    for position, value in enumerate(node.operands):
        if value is not None and value not in defined:
            raise InvalidGraphError(f"{at}: operand {position} ({_name(value)}) is not defined before it in its graph")
    for index, value in enumerate(node.results):
        if value.producer is not node or value.index != index:
            raise InvalidGraphError(f"{at}: result {index} does not name the node as its producer")
        if value in defined:
            raise InvalidGraphError(f"{at}: result {index} is defined twice")


def _verify_types(node: Node, known: Collection[str], at: str) -> None:
    for symbol in attributes.symbols(node.attrs):
        if symbol not in known and node.op != "call":
            raise InvalidGraphError(f"{at}: an attribute uses the symbol {symbol}, which no earlier value defines")
    try:
        check_arity(node.op_def, node.operands, node.regions)
        inferred = infer(node.op_def, node.operands, node.attrs, node.regions)
    except ForgeError as error:
        raise InvalidGraphError(f"{at}: {error}") from error
    if len(inferred) != len(node.results):
        raise InvalidGraphError(f"{at}: has {len(node.results)} results; the operator gives {len(inferred)}")
    types = [v.type for v in node.results]
    wrong = T.mismatch(types, inferred, known)
    if wrong:
        raise InvalidGraphError(f"{at}: result {types.index(wrong[0])} has type {wrong[0]}; the operator gives {wrong[1]}")


def _verify_uses(graph: Graph, values: Collection[Value], where: str) -> None:
    actual: dict[Value, Counter[tuple[Node, int]]] = {}
    for node in graph.nodes:
        for position, operand in enumerate(node.operands):
            if operand is not None:
                actual.setdefault(operand, Counter())[node, position] += 1
    for value in values:
        recorded = Counter(value.uses)
        expected = actual.get(value, Counter())
        if recorded != expected:
            node, position = next(iter([*(expected - recorded), *(recorded - expected)]))
            problem = "is not recorded" if (expected - recorded) else "is recorded, but is none"
            raise InvalidGraphError(f"{where}: node {node.label}: the use of {_name(value)} as operand {position} {problem}")


def _name(value: Value) -> str:
    if value.name:
        return f"%{value.name}"
    return f"result {value.index} of {value.producer.op}" if value.producer else "an unnamed input"


__all__ = ["verify", "verify_graph"]
