"""Loads models: reads them, checks that all operators are known, and converts their functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forge import dtypes, ops  # noqa: F401
from forge.errors import ImportModelError, OptionError, option
from forge.frontends.convert import located
from forge.frontends.inputs import DimensionNames, ShapeDict, add_inputs, canonical_dtype, check_arguments, check_names
from forge.frontends.state.writes import module_of
from forge.frontends.support import check_supported
from forge.frontends.tflite import converters
from forge.frontends.tflite.importer import convert_subgraph
from forge.frontends.tflite.model import Signature, Tensor, TfliteModel
from forge.frontends.tflite.operators import used_operators
from forge.frontends.tflite.registry import REGISTRY
from forge.frontends.tflite.scope import TfliteScope, TfliteState, unique_names
from forge.frontends.tflite.sources import Source
from forge.ir import types
from forge.ir.functions.states import State
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Value

MAX_VARIABLE_BYTES = 1 << 31
"""Of the variables of a subgraph, in all: more than a file can hold, whose offsets of 32 bits are signed."""


def import_model(source: Source, shape_dict: ShapeDict | None = None, dtype_dict: Mapping[str, str] | None = None) -> Module:
    """The module of the graph IR that a model means; see `from_tflite`.

    Raises:
        ImportModelError: it is not valid; OpNotImplemented: it has operators without a converter, all listed.
    """
    check_arguments("from_tflite", shape_dict, dtype_dict or {}, None, {})
    with located(source.where):
        converters.load_all()
        check_supported(used_operators(source.model).values(), REGISTRY)
        first, *others = source.model.signatures or (_plain_signature(source.model),)
        module = _convert(source.model, first, shape_dict or {}, dtype_dict or {})
        for signature in others:
            if signature.key in module.graphs:
                raise ImportModelError(f"signature {signature.key!r}: got it twice; expected names of their own; the model is invalid")
            module.graphs[signature.key] = _convert(source.model, signature, {}, {}).main
            module.graphs[signature.key].attributes["public"] = True
        return module


def _plain_signature(model: TfliteModel) -> Signature:
    """What a model offers that has no signatures: its first subgraph, by the names of tensors."""
    graph = model.subgraphs[0]
    names = unique_names(graph)
    inputs = {names[number]: number for number in graph.inputs}
    return Signature("main", inputs, {names[number]: number for number in graph.outputs}, 0)


def _convert(model: TfliteModel, signature: Signature, shape: ShapeDict, dtype: Mapping[str, str]) -> Module:
    """A module whose main graph is a function of the model."""
    graph = model.subgraphs[signature.subgraph]
    main = Graph(name="main")
    scope = TfliteScope(main, TfliteState(size=model.size, model=model, convert_subgraph=convert_subgraph), {})
    scope.enter(graph)
    _check_signature(signature, graph.inputs, graph.outputs)
    by_number = {number: name for name, number in signature.inputs.items()}
    tensors = [(by_number[number], graph.tensors[number]) for number in graph.inputs]
    shape, dtype = (_by_names(given, graph.inputs, scope.names, by_number) for given in (shape, dtype))
    inputs = _add_inputs(scope, tensors, shape, dtype)
    labels = _add_variables(scope)
    results = scope.state.convert_subgraph(scope, inputs)
    by_output = dict(zip(graph.outputs, results))
    named = [(name, by_output[number]) for name, number in signature.outputs.items()]
    return module_of(scope, named, _written(scope, labels))


def _check_signature(signature: Signature, inputs: Sequence[int], outputs: Sequence[int]) -> None:
    if sorted(signature.inputs.values()) != sorted(inputs) or not set(signature.outputs.values()) <= set(outputs):
        raise ImportModelError(
            f"signature {signature.key!r}: got tensors {list(signature.inputs.values())} and {list(signature.outputs.values())}; "
            f"expected the inputs {list(inputs)} and outputs {list(outputs)} of its subgraph; the model is invalid")


def _by_names(given: Mapping[str, Any], inputs: Sequence[int], names: Sequence[str], by_number: Mapping[int, str]) -> dict[str, Any]:
    """What the user gave by names of the signature, or of tensors, by the former."""
    meaning = {names[number]: by_number[number] for number in inputs}
    return {name if name in by_number.values() else meaning.get(name, name): value for name, value in given.items()}


def _add_inputs(
    scope: TfliteScope, tensors: Sequence[tuple[str, Tensor]], shape: ShapeDict, dtype: Mapping[str, str]
) -> list[Value | None]:
    labels = DimensionNames()
    typed: list[tuple[str, types.Type]] = []
    for name, tensor in tensors:
        if tensor.dtype in ("resource", "variant"):
            raise ImportModelError(f"input {name!r}: got a {tensor.dtype}; expected a tensor")
        sizes = tuple(labels.unknown(f"{name}_dim{axis}") if size is None else size for axis, size in enumerate(tensor.shape))
        typed.append((name, types.TensorType(sizes, tensor.dtype)))
    names = [name for name, _ in typed]
    check_names(names, shape, dtype)
    for name, tensor in tensors:
        wanted = canonical_dtype(dtype[name], option("dtype_dict")) if name in dtype else tensor.dtype
        if wanted != tensor.dtype:
            raise OptionError(f"from_tflite: {option('dtype_dict')}: got {wanted} for {name!r}; the model declares {tensor.dtype}")
    inner = TfliteScope(scope.graph, scope.state, {}, taken=scope.taken)
    add_inputs(inner, typed, labels, shape)
    found: list[Value | None] = [inner.required(name) for name in names]
    for value in found:
        if value is not None:
            scope.note_sizes(value)
    return found


def _add_variables(scope: TfliteScope) -> dict[int, str]:
    """Variables of the subgraph, which are states: their labels."""
    labels, total = {}, 0
    for number, tensor in enumerate(scope.tensors.tensors):
        if not tensor.is_variable or number in scope.tensors.inputs:
            continue
        if None in tensor.shape or tensor.dtype in ("resource", "variant", "string"):
            raise ImportModelError(f"variable {tensor.name!r}: got {tensor.dtype} of sizes {tensor.shape}; expected numbers of known sizes")
        total += math.prod(size or 0 for size in tensor.shape) * dtypes.numpy_dtype(tensor.dtype).itemsize
        if total > MAX_VARIABLE_BYTES:
            raise ImportModelError(
                f"variable {tensor.name[:200]!r}: got sizes {tensor.shape}; expected variables of at most "
                f"{MAX_VARIABLE_BYTES} bytes in all; the model is damaged")
        zero = 0 if tensor.quantization is None or tensor.dtype != "int8" else int(tensor.quantization.zero_points[0])
        initial = tensor.contents() if tensor.contents is not None else np.full(
            [size or 0 for size in tensor.shape], zero, dtypes.numpy_dtype(tensor.dtype))
        labels[number] = label = scope.unique(scope.names[number])
        scope.graph.states[label] = State(None, initial)
        scope.variables[number] = scope.graph.add_input(types.TensorType(initial.shape, tensor.dtype), label)
    return labels


def _written(scope: TfliteScope, labels: Mapping[int, str]) -> list[tuple[str, Value]]:
    """What variables hold after a call, of those that were written; others need no input."""
    inputs = {value.name: value for value in scope.graph.inputs}
    found = []
    for number, label in labels.items():
        if scope.variables[number] is not inputs[label]:
            found.append((label, scope.variables[number]))
    return found
