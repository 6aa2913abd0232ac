"""Checks every rule of the IR. A verified module can be printed, interpreted and compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from forge.errors import ForgeError, InvalidGraphError
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.builder import check_arity, infer
from forge.ir.call import verify_calls
from forge.ir.functions.states import verify_shared_states, verify_states
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.op import OpDef
from forge.ir.retype import check_param, sizes_of_params
from forge.ir.text import attribute_text


def verify(module: Module) -> None:
    """Raises InvalidGraphError at the first broken rule; the message names graph and node.

    Rules: a function is public; graphs hold nodes, nodes take and give values, values have types and names; values are defined
    once, before they are used, in the same graph (regions are closed); uses are recorded; operands, regions and attributes fit
    the declaration; result types are what the operator infers; symbols are defined before they are used; outputs are defined;
    input names differ; params, states and donations fit their inputs and outputs; called functions exist, fit, and do not recur.

    Nothing about the module is assumed: code that changes nodes directly may leave any object anywhere.
    """
    for name, graph in module.graphs.items():
        if not isinstance(name, str) or not name:
            raise InvalidGraphError(f"module: a function is called {name!r}; expected a text that is not empty")
        _require(graph, Graph, f"@{name}", "the function")
        _verify_function_attributes(graph, f"@{name}")
        verify_graph(graph, f"@{name}")
        for parameter, array in graph.params.items():
            check_param(graph, parameter, array)
        sizes_of_params(graph)
        verify_states(graph, f"@{name}")
    if not module.public:
        listed = ", ".join(map(str, module.graphs)) or "none"
        raise InvalidGraphError(f"module: has no function @main, and none with the attribute public; it has: {listed}")
    verify_calls(module)
    verify_shared_states(module.public)


def verify_graph(graph: Graph, where: str = "graph", symbols: Collection[str] = ()) -> None:
    """The rules of one graph and its regions; ``symbols`` are known from outside.

    Raises:
        InvalidGraphError: a rule is broken.
    """
    _verify_kinds(graph, where)
    _verify_inputs(graph, where)
    defined = dict.fromkeys(graph.inputs)
    known = {*symbols, *(s for v in graph.inputs for s in T.symbols(v.type))}
    for node in graph.nodes:
        at = _At(where, node)
        _verify_structure(graph, node, defined, at)
        _verify_types(node, known, at)
        known.update(s for v in node.results for s in T.symbols(v.type))
        for number, region in enumerate(node.regions):
            verify_graph(region, f"{at}: region {node.op_def.regions[number]}", known)
        defined.update(dict.fromkeys(node.results))
    for value in graph.outputs:
        if value not in defined:
            raise InvalidGraphError(f"{where}: output {value.label} is not defined in the graph")
    _verify_uses(graph, defined, where)


class _At:
    """The place of a node, for messages. Its text is made on demand, because finding the number of a node takes time.

    With ``position``, where the node is in its graph, nothing is asked of its results, which may be anything.
    """

    def __init__(self, where: str, node: Node, position: int | None = None) -> None:
        self.where = where
        self.node = node
        self.position = position

    def __str__(self) -> str:
        shown = self.node.label if self.position is None else f"{self.position} ({self.node.op})"
        return f"{self.where}: node {shown}"


def _require(item: object, kind: type, at: str | _At, what: str) -> None:
    if not isinstance(item, kind):
        raise InvalidGraphError(f"{at}: {what} is {item!r}; expected a {kind.__name__}")


def _verify_kinds(graph: Graph, where: str) -> None:
    """Inputs, nodes, operands, results and outputs are what they are called, with names that are text and types of the IR."""
    for what, values in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        _require(values, list, where, f"the list of {what}")
    for what, values in (("an input", graph.inputs), ("an output", graph.outputs)):
        for value in values:
            _verify_value(value, where, what)
    for position, node in enumerate(graph.nodes):
        _require(node.op_def, OpDef, f"{where}: node {position}", "its definition")
        at = _At(where, node, position)
        for value in node.results:
            _verify_value(value, at, "a result")
        at = _At(where, node)
        for operand in node.operands:
            if operand is not None:
                _require(operand, Value, at, "an operand")
        for region in node.regions:
            _require(region, Graph, at, "a region")
        _require(node.name, str, at, "the name")
        _require(node.location, str, at, "the location")


def _verify_value(value: Value, at: str | _At, what: str) -> None:
    _require(value, Value, at, what)
    _require(value.name, str, at, f"the name of {what}")
    type_: object = value.type
    if not isinstance(type_, T.CLASSES):
        raise InvalidGraphError(f"{at}: {what}, {value.label}, has type {type_!r}; expected a type of the IR")


def _verify_function_attributes(graph: Graph, where: str) -> None:
    for name, value in graph.attributes.items():
        try:
            attribute_text(value)
        except InvalidGraphError as error:
            raise InvalidGraphError(f"{where}: attribute {name}: {error}") from error


def _verify_inputs(graph: Graph, where: str) -> None:
    for name, count in Counter(v.name for v in graph.inputs if v.name).items():
        if count > 1:
            raise InvalidGraphError(f"{where}: {count} inputs are called %{name}; expected different names")
    for value, count in Counter(graph.inputs).items():
        if count > 1 or value.producer is not None:
            problem = "is listed twice" if count > 1 else "has a producer"
            raise InvalidGraphError(f"{where}: input {value.label} {problem}; expected a value of its own")


def _verify_structure(graph: Graph, node: Node, defined: Collection[Value], at: _At) -> None:
    if node.graph is not graph:
        raise InvalidGraphError(f"{at}: belongs to another graph")
    for position, value in enumerate(node.operands):
        if value is not None and value not in defined:
            raise InvalidGraphError(f"{at}: operand {position} ({value.label}) is not defined before it in its graph")
    for index, value in enumerate(node.results):
        if value.producer is not node or value.index != index:
            raise InvalidGraphError(f"{at}: result {index} does not name the node as its producer")
        if value in defined:
            raise InvalidGraphError(f"{at}: result {index} is defined twice")


def _verify_types(node: Node, known: Collection[str], at: _At) -> None:
    problem = attributes.misfit(node.op_def.Attrs, node.attrs)
    if problem:
        raise InvalidGraphError(f"{at}: {problem}")
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
    actual: dict[Value, dict[tuple[Node, int], None]] = {}
    for node in graph.nodes:
        for position, operand in enumerate(node.operands):
            if operand is not None:
                actual.setdefault(operand, {})[node, position] = None
    for value in values:
        uses = actual.get(value, {})
        if value.uses != uses:
            missing = [use for use in uses if use not in value.uses]
            node, position = [*missing, *(use for use in value.uses if use not in uses)][0]
            problem = "is not recorded" if missing else "is recorded, but is none"
            raise InvalidGraphError(f"{where}: node {node.label}: the use of {value.label} as operand {position} {problem}")
