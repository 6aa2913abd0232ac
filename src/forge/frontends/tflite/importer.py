"""Converts the operators of a subgraph, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dtypes
from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.convert import located
from forge.frontends.registry import as_list
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.model import Operator, Subgraph, Tensor
from forge.frontends.tflite.registry import REGISTRY
from forge.frontends.tflite.resources import RESOURCE_DTYPES, Resource
from forge.frontends.tflite.scope import TfliteScope
from forge.ir.nodes import Value


def convert_subgraph(scope: TfliteScope, inputs: Sequence[Value | Resource | None]) -> list[Value | Resource]:
    """The outputs of the subgraph that ``scope`` has entered; it takes ``inputs``.

    Raises:
        ForgeError: an operator cannot be converted; the message names it.
    """
    graph = scope.tensors
    if len(inputs) != len(graph.inputs):
        raise ImportModelError(
            f"subgraph {graph.name!r}: got {len(inputs)} inputs; expected {len(graph.inputs)}; the model is invalid")
    for number, value in zip(graph.inputs, inputs):
        if isinstance(value, Resource):
            scope.handles[number] = value
        elif number >= 0 and value is not None:
            scope.weights.pop(scope.names[number], None)
            scope.define(scope.names[number], value)
    for operator in graph.operators:
        name = next((scope.names[number] for number in operator.outputs if number >= 0), operator.name)
        with located(f"{REGISTRY.full_name(operator.domain, operator.name)} at {name!r}"):
            _convert(scope, operator, name)
    return [_required(scope, number) for number in graph.outputs]


def _required(scope: TfliteScope, number: int) -> Value | Resource:
    value = scope.handles.get(number) or _read(scope, number)
    if value is None:
        raise ImportModelError("got an absent output; expected a tensor; the model is invalid")
    return value


def _read(scope: TfliteScope, number: int) -> Value | None:
    """A tensor; what nothing gives and has no elements is that."""
    if number >= 0 and number not in scope.handles and not scope.knows(scope.names[number]):
        tensor = scope.tensors.tensors[number]
        if 0 in tensor.shape and tensor.dtype not in RESOURCE_DTYPES:
            empty = np.zeros([size or 0 for size in tensor.shape], dtypes.numpy_dtype(tensor.dtype))
            scope.weights[scope.names[number]] = lambda: empty
    return scope.get(number)


def _convert(scope: TfliteScope, operator: Operator, name: str) -> None:
    scope.state.count_node()
    context = Context(scope, operator, scope.prefix + name)
    start = len(scope.graph.nodes)
    row = REGISTRY.lookup(operator.domain, operator.name, operator.version)
    if row is None:
        raise OpNotImplemented(f"no converter; {REGISTRY.refusal(operator.domain, operator.name) or 'register one'}")
    operands = [_read(scope, number) for number in operator.inputs]
    found = quantized.converted(
        context, row, operands, lambda values: REGISTRY.convert(row, context, values, operator.attributes))
    results = [None] * len(operator.outputs) if found is None else as_list(found)
    for position, value in enumerate(results):
        if isinstance(value, Value) and context.wants(position):
            _check(context.result(position), value)
    scope.bind(context.outputs, results, start, context.name)


def _check(declared: Tensor, value: Value) -> None:
    if declared.dtype in RESOURCE_DTYPES:
        return
    if value.dtype != declared.dtype:
        raise ImportModelError(
            f"its result {declared.name!r} is {value.type}; the model declares {declared.dtype}; expected the same type; check "
            "the model, or convert it again")


def inlined(g: Context, subgraph: int, inputs: Sequence[Value | Resource | None]) -> list[Value | Resource]:
    """The outputs of another subgraph, converted in place."""
    scope = g.scope.called({}, f"{g.name}/")
    scope.enter(subgraph_of(g, subgraph))
    return scope.state.convert_subgraph(scope, inputs)


def subgraph_of(g: Context, number: int) -> Subgraph:
    """A subgraph of the model.

    Raises:
        OpAttributeInvalid: there is none of this number.
    """
    graphs = g.scope.state.model.subgraphs
    if not 0 <= number < len(graphs):
        raise g.invalid(f"got subgraph {number}; expected one below {len(graphs)}")
    return graphs[number]
