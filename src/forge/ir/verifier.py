"""Checks every rule of the IR. A verified module can be printed, interpreted and compiled."""

from __future__ import annotations

from forge import dims
from forge.errors import ForgeError, InvalidGraphError
from forge.ir import types as T
from forge.ir.builder import check_arity
from forge.ir.nodes import Graph, Module, Node, Value


def verify(module: Module) -> None:
    """Raises InvalidGraphError at the first broken rule; the message names graph and node.

    Rules: values are defined before they are used, in the same graph; uses are recorded; operands fit the declaration; result
    types are what the operator infers; outputs are defined; input names differ; params fit their inputs; called functions exist.
    """
    for name, graph in module.graphs.items():
        verify_graph(graph, f"@{name}")
        for node in graph.walk():
            if node.op == "call" and node.attributes["function"] not in module.graphs:
                raise InvalidGraphError(f"@{name}: node {_label(node)}: calls @{node.attributes['function']}, which does not exist")
    inputs = {v.name: v for v in module.main.inputs}
    for name, array in module.params.items():
        if name not in inputs:
            raise InvalidGraphError(f"params: {name!r} names no input of @main")
        if inputs[name].rank != array.ndim:
            raise InvalidGraphError(f"params: {name!r}: got rank {array.ndim}; expected {inputs[name].type}")


def verify_graph(graph: Graph, where: str = "graph") -> None:
    """The rules of one graph and its regions."""
    names = [v.name for v in graph.inputs if v.name]
    for name in names:
        if names.count(name) > 1:
            raise InvalidGraphError(f"{where}: two inputs are called %{name}")
    defined: set[Value] = set(graph.inputs)
    for node in graph.nodes:
        _verify_node(graph, node, defined, where)
        defined.update(node.results)
    for value in graph.outputs:
        if value not in defined:
            raise InvalidGraphError(f"{where}: output %{value.name or value.index} is not defined in the graph")


def _verify_node(graph: Graph, node: Node, defined: set[Value], where: str) -> None:
    at = f"{where}: node {_label(node)}"
    if node.graph is not graph:
        raise InvalidGraphError(f"{at}: belongs to another graph")
    for position, value in enumerate(node.operands):
        if value is None:
            continue
        if value not in defined:
            raise InvalidGraphError(f"{at}: operand {position} (%{value.name or value.index}) is not defined before it")
        if (node, position) not in value.uses:
            raise InvalidGraphError(f"{at}: operand {position}: the use is not recorded")
    if node.op == "constant":
        return
    try:
        check_arity(node.op_def, node.operands)
        inferred = node.op_def.infer(node.operands, node.attrs, node.regions)
    except ForgeError as error:
        raise InvalidGraphError(f"{at}: {error}") from error
    _compare(at, node, inferred)
    for region in node.regions:
        verify_graph(region, f"{at}: region")


def _compare(at: str, node: Node, inferred: object) -> None:
    types = list(inferred)  # type: ignore[call-overload]
    if len(types) != len(node.results):
        raise InvalidGraphError(f"{at}: has {len(node.results)} results; the operator gives {len(types)}")
    for value, expected in zip(node.results, types):
        if not compatible(value.type, expected):
            raise InvalidGraphError(f"{at}: result {value.index} has type {value.type}; the operator gives {expected}")


def compatible(a: T.Type, b: T.Type) -> bool:
    """Equal, but for dimensions whose equality cannot be decided (fresh symbols)."""
    match a, b:
        case T.TensorType(), T.TensorType():
            return a.dtype == b.dtype and a.rank == b.rank and not any(map(dims.different, a.shape, b.shape))
        case (T.SequenceType(), T.SequenceType()) | (T.OptionalType(), T.OptionalType()):
            return compatible(a.element, b.element)
    return a == b


def _label(node: Node) -> str:
    return f"{node.name or '%' + (node.results[0].name or str(node.results[0].index)) if node.results else '?'} ({node.op})"
