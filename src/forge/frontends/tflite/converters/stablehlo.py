"""Operators of StableHLO inside TFLite models, by the importer of StableHLO."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.scope import MAX_NESTING
from forge.frontends.stablehlo import converters as stablehlo_converters
from forge.frontends.stablehlo import module as stablehlo
from forge.frontends.stablehlo.bytecode.upgrade import attributes_of
from forge.frontends.stablehlo.importer import convert_operations
from forge.frontends.stablehlo.scope import StablehloScope, StablehloState
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.importer import subgraph_of
from forge.frontends.tflite.model import Operator, Subgraph, Tensor
from forge.frontends.tflite.registry import converts
from forge.ir.nodes import Value

PREFIX = "STABLEHLO_"
_UNUSED = ("api_version", "called_computations", "custom_attributes", "has_side_effect", "precision_config")
_BODIES = ("body_subgraph_index", "comparator_subgraph_index", "update_computation_subgraph_index")
_IN_BODIES = {
    "ADD": "add", "DIV": "divide", "LOGICAL_AND": "and", "LOGICAL_OR": "or", "MAXIMUM": "maximum", "MINIMUM": "minimum",
    "MUL": "multiply", "SUB": "subtract",
}
_COMPARISONS = {"EQUAL": "EQ", "GREATER": "GT", "GREATER_EQUAL": "GE", "LESS": "LT", "LESS_EQUAL": "LE", "NOT_EQUAL": "NE"}


@converts(*(PREFIX + name for name in (
    "ABS", "ADD", "AND", "BROADCAST_IN_DIM", "CBRT", "CLAMP", "COMPARE", "CONCATENATE", "CONVERT", "CONVOLUTION", "COSINE",
    "CUSTOM_CALL", "DIVIDE", "DOT_GENERAL", "DYNAMIC_SLICE", "DYNAMIC_UPDATE_SLICE", "EXPONENTIAL", "FLOOR", "GATHER", "IOTA",
    "LOG", "LOGISTIC", "MAXIMUM", "MINIMUM", "MULTIPLY", "NEGATE", "OR", "PAD", "POWER", "REDUCE", "REDUCE_WINDOW", "REMAINDER",
    "RESHAPE", "RNG_BIT_GENERATOR", "RSQRT", "SCATTER", "SELECT", "SHIFT_LEFT", "SLICE", "SORT", "SUBTRACT", "TANH", "TRANSPOSE",
)))
def stablehlo_operator(g: Context, *operands: Value, **options: Any) -> list[Value]:
    operator, graph = g.operator, g.scope.tensors
    arguments = [stablehlo.Value(_type(graph.tensors[number])) for number in operator.inputs if number >= 0]
    operation = _operation(g, operator, graph, arguments, [stablehlo.Value(_type(graph.tensors[n])) for n in operator.outputs])
    block = stablehlo.Block(arguments, [operation])
    source = stablehlo.StablehloModule(functions={"main": stablehlo.Function("main", block)})
    stablehlo_converters.load_all()
    state = StablehloState(
        size=g.scope.state.size, source=source, convert_operations=convert_operations, main=g.scope.graph)
    scope = StablehloScope(g.scope.graph, state, {"": 1}, prefix=f"{g.name}/", taken=g.scope.taken)
    for argument, value in zip(arguments, operands, strict=True):
        scope.put(argument, value)
    convert_operations(scope, [operation])
    found = [scope.get(result) for result in operation.results]
    if not all(isinstance(v, Value) for v in found):
        raise g.invalid("it gives a tuple or a token; expected tensors")
    return [v for v in found if isinstance(v, Value)]


def _type(tensor: Tensor) -> stablehlo.TensorType:
    return stablehlo.TensorType(tensor.shape, tensor.dtype)


def _operation(
    g: Context, operator: Operator, graph: Subgraph, operands: list[stablehlo.Value], results: list[stablehlo.Value],
    depth: int = 0,
) -> stablehlo.Operation:
    """An operator as StableHLO has it."""
    name, attributes = _spelled(operator)
    bodies = [subgraph_of(g, operator.attributes.get(key, 0)) for key in _BODIES if key in operator.attributes]
    regions = [_block(g, body, depth + 1) for body in bodies]
    return stablehlo.Operation(f"stablehlo.{name}", operands, results, attributes, regions)


def _spelled(operator: Operator) -> tuple[str, dict[str, Any]]:
    """Name and attributes of an operator, in StableHLO's words."""
    if operator.name in _IN_BODIES:
        return _IN_BODIES[operator.name], {}
    if operator.name in _COMPARISONS:
        return "compare", {"comparison_direction": _COMPARISONS[operator.name]}
    if not operator.name.startswith(PREFIX):
        raise OpNotImplemented(f"{operator.name} inside the body of a StableHLO operator; expected arithmetic and comparisons")
    name = operator.name.removeprefix(PREFIX).lower()
    given = {key: _plain(value) for key, value in operator.attributes.items() if key not in (*_BODIES, *_UNUSED) and value != ()}
    attributes = attributes_of(f"stablehlo.{name}", given, _fail)
    if name in ("convolution", "reduce_window") and "padding" in attributes:
        widths = attributes["padding"]
        attributes["padding"] = list(zip(widths[::2], widths[1::2]))
    if name == "rng_bit_generator":
        attributes["rng_algorithm"] = attributes.pop("algorithm", "DEFAULT")
    return name, attributes


def _fail(message: str) -> NoReturn:
    raise ImportModelError(f"{message}; the model is invalid")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _block(g: Context, graph: Subgraph, depth: int) -> stablehlo.Block:
    """A body as StableHLO has it."""
    if depth > MAX_NESTING:
        raise ImportModelError(f"subgraph {graph.name!r}: bodies are nested more than {MAX_NESTING} deep; the model is invalid")
    values: dict[int, stablehlo.Value] = {number: stablehlo.Value(_type(graph.tensors[number])) for number in graph.inputs}
    block = stablehlo.Block([values[number] for number in graph.inputs])

    def value(number: int) -> stablehlo.Value:
        if number in values:
            return values[number]
        tensor = graph.tensors[number] if number >= 0 else None
        if tensor is None or tensor.contents is None:
            raise ImportModelError(f"subgraph {graph.name!r}: tensor {number} is read and nothing gives it; the model is invalid")
        values[number] = stablehlo.Value(_type(tensor))
        attributes = {"value": np.asarray(tensor.contents())}
        block.operations.append(stablehlo.Operation("stablehlo.constant", [], [values[number]], attributes))
        return values[number]

    for operator in graph.operators:
        operands = [value(number) for number in operator.inputs if number >= 0]
        results = [values.setdefault(number, stablehlo.Value(_type(graph.tensors[number]))) for number in operator.outputs]
        block.operations.append(_operation(g, operator, graph, operands, results, depth))
    block.operations.append(stablehlo.Operation("stablehlo.return", [value(number) for number in graph.outputs]))
    return block
