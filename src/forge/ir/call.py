"""Calls of a module's functions: ``@f(%x)``.

A function is closed and its symbols are its own: a call binds them to the dimensions of its operands. The call holds its result
types, so that types can be inferred without the module; ``verify`` compares them with the function.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from forge import dims
from forge.dims import Dim, DimExpr
from forge.errors import InvalidGraphError, TypeInferenceError
from forge.ir import op as op_registry
from forge.ir import types as T
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Module, Node, Value
from forge.ir.op import OpDef, Operand, ReferenceValue, RegionRunner, Trait


@dataclass(frozen=True)
class CallAttrs:
    function: str
    results: tuple[T.Type, ...]


class Call(OpDef[CallAttrs]):
    """The outputs of a function of the module for these operands."""

    name = "call"
    operands = (Operand("operands", variadic=True),)
    Attrs = CallAttrs
    traits = Trait.STATEFUL | Trait.MAY_FAIL  # what the function does is not known here

    def infer(self, operands: Sequence[Value | None], attrs: CallAttrs, regions: Sequence[Graph] = ()) -> Sequence[T.Type]:
        return attrs.results

    def reference_regions(
        self, operands: Sequence[ReferenceValue], attrs: CallAttrs, regions: Sequence[Graph], run: RegionRunner
    ) -> Sequence[ReferenceValue]:
        return run(regions[0], operands)


CALL = op_registry.register(Call())


def call_function(builder: Builder, function: str, callee: Graph, *operands: Value, name: str = "") -> list[Value]:
    """Adds a call of ``callee``, which the module has under the name ``function``, and returns its results.

    Raises:
        TypeInferenceError: the operands do not fit the function's parameters.
    """
    results = result_types(function, callee, operands)
    return builder.node(CALL, operands, {"function": function, "results": results}, name=name).results


def result_types(function: str, callee: Graph, operands: Sequence[Value | None]) -> tuple[T.Type, ...]:
    """Types of the results of ``callee`` for these operands; symbols that only its body defines become fresh ones.

    Raises:
        TypeInferenceError: the operands do not fit the function's parameters.
    """
    bindings = bind_parameters(function, callee, operands)
    for output in callee.outputs:
        for symbol in T.symbols(output.type):
            if symbol not in bindings:
                bindings[symbol] = dims.fresh("d")
    return tuple(T.substitute(v.type, bindings) for v in callee.outputs)


def bind_parameters(function: str, callee: Graph, operands: Sequence[Value | None]) -> dict[str, Dim]:
    """What the symbols of the parameters are for these operands.

    Raises:
        TypeInferenceError: the operands do not fit the function's parameters.
    """
    if len(operands) != len(callee.inputs):
        raise TypeInferenceError(f"@{function}: got {len(operands)} operands; expected {len(callee.inputs)}")
    bindings: dict[str, Dim] = {}
    for parameter, operand in zip(callee.inputs, operands):
        if operand is None:
            raise TypeInferenceError(f"@{function}: operand %{parameter.name} is missing")
        for formal, actual in _dimension_pairs(parameter.type, operand.type):
            if isinstance(formal, DimExpr) and dims.symbols(formal) == [str(formal)]:
                bindings.setdefault(str(formal), actual)
        expected = T.substitute(parameter.type, bindings)
        if expected != operand.type:
            raise TypeInferenceError(f"@{function}: operand %{parameter.name}: got {operand.type}; expected {expected}")
    return bindings


def verify_calls(module: Module) -> None:
    """Raises InvalidGraphError where a called function does not exist, does not fit, or calls itself."""
    found = {name: list(_calls(graph, ())) for name, graph in module.graphs.items()}
    for name, calls in found.items():
        for node, _ in calls:
            _verify_callee(module, name, node)
    _verify_acyclic({name: [node.attrs.function for node, _ in calls] for name, calls in found.items()})
    for name, calls in found.items():
        for node, known in calls:
            _verify_call(module, name, node, known)


def _calls(graph: Graph, outside: Collection[str]) -> Iterator[tuple[Node, set[str]]]:
    """The calls in a graph and its regions, each with the symbols that are defined before it."""
    known = {*outside, *(s for v in graph.inputs for s in T.symbols(v.type))}
    for node in graph.nodes:
        if node.op_def is CALL:
            yield node, set(known)
        known.update(s for v in node.results for s in T.symbols(v.type))
        for region in node.regions:
            yield from _calls(region, known)


def _verify_callee(module: Module, graph: str, node: Node) -> None:
    attrs: Any = node.attrs
    if attrs.function not in module.graphs:
        known = ", ".join(module.graphs)
        raise InvalidGraphError(
            f"@{graph}: node {node.label}: calls @{attrs.function}, which does not exist; the module has: {known}")


def _verify_call(module: Module, graph: str, node: Node, known: Collection[str]) -> None:
    attrs: Any = node.attrs
    at = f"@{graph}: node {node.label}"
    try:
        expected = result_types(attrs.function, module.graphs[attrs.function], node.operands)
    except TypeInferenceError as error:
        raise InvalidGraphError(f"{at}: {error}") from error
    if len(expected) != len(attrs.results) or T.mismatch(attrs.results, expected, known):
        listed = [f"({', '.join(map(str, types))})" for types in (attrs.results, expected)]
        raise InvalidGraphError(f"{at}: has results {listed[0]}; @{attrs.function} gives {listed[1]}")


def _verify_acyclic(calls: dict[str, list[str]]) -> None:
    finished: set[str] = set()
    for root in calls:
        path: list[tuple[str, Iterator[str]]] = [(root, iter(calls[root]))]
        while path:
            name, remaining = path[-1]
            following = next((c for c in remaining if c not in finished), None)
            if following is None:
                finished.add(name)
                path.pop()
            elif following in (n for n, _ in path):
                chain = " -> ".join(f"@{n}" for n, _ in path)
                raise InvalidGraphError(f"@{following}: calls itself through {chain}; expected no recursion")
            else:
                path.append((following, iter(calls[following])))


def _dimension_pairs(formal: T.Type, actual: T.Type) -> Iterator[tuple[Dim, Dim]]:
    match formal, actual:
        case T.TensorType(shape=a), T.TensorType(shape=b):
            yield from zip(a, b)
        case (T.SequenceType(element=a), T.SequenceType(element=b)) | (T.OptionalType(element=a), T.OptionalType(element=b)):
            yield from _dimension_pairs(a, b)


__all__ = ["CALL", "Call", "CallAttrs", "bind_parameters", "call_function", "result_types", "verify_calls"]
