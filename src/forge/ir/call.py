"""Calls of a module's functions: ``@f(%x)``.

A function is closed and its symbols are its own: a call binds them to the dimensions of its operands. The call holds its result
types, so that types can be inferred without the module; ``verify`` compares them with the function.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from forge import dims
from forge.dims import Dim
from forge.errors import InvalidGraphError, TypeInferenceError
from forge.ir import op as op_registry
from forge.ir import types as T
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.op import Category, OpDef, Operand, ReferenceValue, RegionRunner, Trait


@dataclass(frozen=True)
class CallAttrs:
    function: str
    results: tuple[T.Type, ...]


class FunctionCall(OpDef[CallAttrs]):
    """The outputs of a function of the module for these operands."""

    name = "call"
    operands = (Operand("operands", variadic=True, any_type=True),)
    Attrs = CallAttrs
    category = Category.CONTROL
    traits = Trait.STATEFUL | Trait.MAY_FAIL  # what the function does is not known here

    def infer(self, attrs: CallAttrs, *operands: Value | None) -> Sequence[T.Type]:
        return attrs.results

    def reference_regions(
        self, attrs: CallAttrs, regions: Sequence[Graph], run: RegionRunner, *operands: ReferenceValue
    ) -> Sequence[ReferenceValue]:
        return run(regions[0], operands)


CALL = op_registry.register(FunctionCall())


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
    given: list[Value] = []
    for parameter, operand in zip(callee.inputs, operands):
        if operand is None:
            raise TypeInferenceError(f"@{function}: operand %{parameter.name} is missing")
        given.append(operand)
    types = [(p.type, v.type) for p, v in zip(callee.inputs, given)]
    bindings = bind_dimensions([pair for types_ in types for pair in T.dimension_pairs(*types_)])
    for parameter, operand in zip(callee.inputs, given):
        unbound = [s for s in T.symbols(parameter.type) if s not in bindings]
        if unbound and T.same_form(parameter.type, operand.type):
            problem = f"got {operand.type} for {parameter.type}, which does not determine {' and '.join(dict.fromkeys(unbound))}"
            expectation = "expected a parameter with that dimension, or one symbol for the whole size"
            raise TypeInferenceError(f"@{function}: operand %{parameter.name}: {problem}; {expectation}")
        expected = T.substitute(parameter.type, bindings)
        if expected != operand.type:
            raise TypeInferenceError(f"@{function}: operand %{parameter.name}: got {operand.type}; expected {expected}")
    return bindings


def bind_dimensions(pairs: Sequence[tuple[Dim, Dim]]) -> dict[str, Dim]:
    """Values of the symbols in the first dimension of each pair that make it equal to the second; the second ones are not bound.

    A dimension determines a symbol if it is that symbol, or linear in it while all its other symbols are determined.
    """
    bindings: dict[str, Dim] = {}
    for formal, actual in pairs:
        name = dims.symbol_name(formal)
        if name is not None:
            bindings.setdefault(name, actual)
    pending = [(formal, actual) for formal, actual in pairs if dims.symbol_name(formal) is None]
    while found := [solved for pair in pending if (solved := _solved(*pair, bindings)) is not None]:
        for name, dim in found:
            bindings.setdefault(name, dim)
    return bindings


def _solved(formal: Dim, actual: Dim, bindings: Mapping[str, Dim]) -> tuple[str, Dim] | None:
    """The only unbound symbol of ``formal`` and its value, where ``formal == actual`` determines it."""
    unbound = [s for s in dims.symbols(formal) if s not in bindings]
    if len(unbound) != 1:
        return None
    name = unbound[0]
    rest = dims.substitute(formal, {name: 0})
    slope = dims.substitute(formal, {name: 1}) - rest
    if not isinstance(slope, int) or formal != slope * dims.symbol(name) + rest:
        return None
    outside = dims.substitute(rest, bindings)
    size = dims.floordiv(actual - outside, slope)
    low = dims.bounds(size)[0]
    return (name, size) if size * slope + outside == actual and low is not None and low >= 0 else None


def verify_calls(module: Module) -> None:
    """Raises InvalidGraphError where a called function does not exist, does not fit, or calls itself."""
    found = {name: list(_calls(graph, ())) for name, graph in module.graphs.items()}
    for name, calls in found.items():
        for node, _ in calls:
            if (function := node.attrs.function) not in module.graphs:
                problem = f"calls @{function}, which does not exist; the module has: {', '.join(module.graphs)}"
                raise InvalidGraphError(f"@{name}: node {node.label}: {problem}")
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


def _verify_call(module: Module, graph: str, node: Node, known: Collection[str]) -> None:
    attrs = node.attrs
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
