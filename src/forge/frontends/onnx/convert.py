"""Converts the nodes of a graph, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import onnx

from forge.errors import ConverterError, ForgeError, ImportModelError, InvalidGraphError, TypeInferenceError
from forge.frontends.onnx import functions, registry
from forge.frontends.onnx.context import Context
from forge.frontends.onnx.order import topological
from forge.frontends.onnx.prune import prune
from forge.frontends.onnx.ranks import with_rest
from forge.frontends.onnx.scope import Region, Scope
from forge.frontends.onnx.support import node_names
from forge.frontends.onnx.tensors import attribute_value
from forge.ir.nodes import Graph, Value
from forge.ir.types import Type

MAX_NESTING = 64
_MODEL_FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


def convert_nodes(scope: Scope, nodes: Iterable[onnx.NodeProto], results: Iterable[str]) -> None:
    """Converts ``nodes``, in topological order, into the scope's graph; values called ``results`` are used later.

    Raises:
        ForgeError: a node cannot be converted; the message names node, operator and opset.
    """
    listed = list(nodes)
    ordered = list(topological(listed, node_names(listed), scope.knows))
    for position, (node, name) in enumerate(ordered):
        splits = node.op_type == "If" and scope.prefix + name in scope.options.ranks.splits
        with located(_Place(scope, node, name)):
            if not splits:
                convert_node(scope, node, name)
                continue
            convert_node(scope, with_rest(node, [n for n, _ in ordered[position + 1 :]], results), name)
            return


def convert_node(scope: Scope, node: onnx.NodeProto, name: str) -> None:
    scope.options.count_node()
    opset = node_opset(scope, node)
    operands = [scope.lookup(name) if name else None for name in node.input]
    is_loose = scope.options.ranks.check(node.op_type, opset, operands)
    context = Context(scope, node, opset, scope.prefix + name)
    start = len(scope.graph.nodes)
    converter = registry.lookup(node.domain, node.op_type, opset)
    results: Any = NotImplemented
    is_own = registry.own(node.domain, node.op_type, opset) is not None
    if converter is not None and (functions.find(scope, node) is None or is_own):
        registry.check_attribute_kinds(node, opset)
        exact = any(v is not None and getattr(v.type, "dtype", "") == "float64" for v in operands)
        attributes = exact_defaults(converter) if exact else {}
        attributes.update({a.name: attribute_value(a, scope.options.reader, exact) for a in node.attribute})
        with _attributed(converter, node) if is_own else nullcontext():
            results = converter.call(context, operands, attributes)
            if is_own:
                _check_results(node, results)
    if results is NotImplemented:
        results = functions.expand(scope, node, operands, opset, context.name, convert_nodes)
    values = as_list(results)
    scope.options.ranks.loose.update(v for v in values if is_loose and v is not None)
    _bind(scope, node, values, start, context.name)


def exact_defaults(converter: registry.Converter) -> dict[str, Any]:
    """Defaults of float attributes in single precision, as the format defines them; doubles tell the difference."""
    return {name: float(np.float32(d)) for name, d in converter.attributes.items() if isinstance(d, float)}


@contextmanager
def _attributed(converter: registry.Converter, node: onnx.NodeProto) -> Iterator[None]:
    """Turns what a user's converter raises into ConverterError, but for errors about the model that it raises on purpose."""
    try:
        yield
    except Exception as error:  # a user's code may raise anything
        deliberate = isinstance(error, ForgeError) and not isinstance(error, InvalidGraphError)
        if deliberate or isinstance(error, MemoryError):
            raise
        function = converter.function
        domain = f", domain={node.domain!r}" if node.domain else ""
        raise ConverterError(
            f"its converter {function.__module__}.{function.__qualname__} failed with {type(error).__name__}: {error}; the fault "
            "is the converter's, not the model's; correct it, or take it back with "
            f"forge.frontends.onnx.unregister({node.op_type!r}{domain})"
        ) from error


def _check_results(node: onnx.NodeProto, results: Any) -> None:
    """Raises TypeError unless a user's converter gave values, and one for each output that the node names."""
    if results is NotImplemented:
        return
    values = as_list(results)
    wrong = next((v for v in values if v is not None and not isinstance(v, Value)), None)
    if wrong is not None:
        raise TypeError(f"it gave {type(wrong).__name__} {wrong!r}; expected an expression, or a list of them")
    missing = [k for k, name in enumerate(node.output) if name and (k >= len(values) or values[k] is None)]
    if missing:
        raise TypeError(f"it gave no value for output {missing[0]} ({node.output[missing[0]]!r})")


def node_opset(scope: Scope, node: onnx.NodeProto) -> int:
    """The version of the node's domain that is imported; 1 for domains that nothing imports."""
    return scope.opsets.get(registry.canonical_domain(node.domain), 1)


def as_list(results: Any) -> list[Value | None]:
    return list(results) if isinstance(results, list | tuple) else [results]


def _bind(scope: Scope, node: onnx.NodeProto, results: Sequence[Value | None], start: int, name: str) -> None:
    named = [(i, output) for i, output in enumerate(node.output) if output]
    if named and named[-1][0] >= len(results):
        raise ImportModelError(f"got {len(node.output)} outputs; expected at most {len(results)}")
    created = {id(n) for n in scope.graph.nodes[start:]}
    for index, output in named:
        value = results[index]
        if value is None:
            source = f"output {index} of node {name!r}"
            scope.withhold(output, f"value {output!r} is read: {source}, which its conversion does not give")
            continue
        if value.producer is not None and id(value.producer) in created and not value.name:
            value.name = scope.unique(output)
            value.producer.name = value.producer.name or name
        scope.define(output, value)


@contextmanager
def located(where: object) -> Iterator[None]:
    """Puts ``where``, as text, in front of messages of errors that arise inside; faults of the model become ImportModelError."""
    try:
        yield
    except ForgeError as error:
        kind = ImportModelError if isinstance(error, TypeInferenceError) else type(error)
        raise kind(f"{where}: {error}") from error
    except MemoryError as error:
        raise ImportModelError(f"{where}: needs more memory than there is; expected a smaller model; {error}") from error
    except RecursionError as error:
        raise ImportModelError(f"{where}: graphs, functions or expressions are nested too deeply; simplify the model") from error
    except _MODEL_FAULTS as error:
        raise ImportModelError(
            f"{where}: operands or attributes do not fit the operator; got {type(error).__name__}: {error}; expected what its "
            "specification says; check the model with onnx.checker"
        ) from error


class _Place:
    """A node as messages name it; most need no text."""

    def __init__(self, scope: Scope, node: onnx.NodeProto, name: str) -> None:
        self.scope = scope
        self.node = node
        self.name = name

    def __str__(self) -> str:
        node, domain = self.node, f"{self.node.domain}." if self.node.domain else ""
        return f"node {self.scope.prefix + self.name!r} ({domain}{node.op_type}, opset {node_opset(self.scope, node)})"


def build_region(
    scope: Scope, graph: onnx.GraphProto, input_types: Sequence[Type], prefix: str = "", is_branch: bool = False
) -> Region:
    """Converts a sub-graph with inputs of the given types into a closed region; the ranks of results of a branch may be loose.

    Raises:
        ImportModelError: it has another number of inputs, or graphs are nested too deeply.
    """
    if len(graph.input) != len(input_types):
        raise ImportModelError(f"sub-graph {graph.name!r}: got {len(graph.input)} inputs; expected {len(input_types)}")
    if nesting(scope) >= MAX_NESTING:
        raise ImportModelError(f"sub-graph {graph.name!r}: graphs are nested more than {MAX_NESTING} deep")
    inner = Scope(Graph(name=graph.name), scope.options, scope.opsets, scope, prefix, scope.function_depth)
    for declared, type_ in zip(graph.input, input_types):
        inner.define(declared.name, inner.graph.add_input(type_, inner.unique(declared.name)))
    inner.add_initializers(graph)
    convert_nodes(inner, graph.node, [output.name for output in graph.output])
    inner.graph.outputs = [required(inner, output.name) for output in graph.output]
    if not is_branch:
        scope.options.ranks.check_outputs(inner.graph.outputs)
    prune(inner.graph)
    return Region(inner.graph, list(inner.captures))


def required(scope: Scope, name: str) -> Value:
    """The value of a graph output."""
    value = scope.lookup(name)
    if value is None:
        raise ImportModelError(f"output {name!r} is an absent optional value; expected one")
    return value


def nesting(scope: Scope) -> int:
    """Number of graphs around this one."""
    depth, outer = 0, scope.parent
    while outer is not None:
        depth, outer = depth + 1, outer.parent
    return depth
