"""The interpreter: evaluates a graph with the operators' NumPy meanings. The truth for all differential tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import DimExpr
from forge.errors import ForgeError
from forge.ir.nodes import Graph, Module, Node, Value
from forge.ir.op import ReferenceValue
from forge.ir.types import TensorType

Observer = Callable[[Node, Sequence[ReferenceValue]], None]


def run_module(module: Module, inputs: Mapping[str, ReferenceValue], observer: Observer | None = None) -> list[ReferenceValue]:
    """Outputs of ``main`` for inputs by name; ``module.params`` supplies what ``inputs`` lacks."""
    values = {**module.params, **inputs}
    missing = [v.name for v in module.main.inputs if v.name not in values]
    if missing:
        raise ForgeError(f"interpreter: input {missing[0]!r} has no value; expected {[v.name for v in module.main.inputs]}")
    return run_graph(module.main, [values[v.name] for v in module.main.inputs], module=module, observer=observer)


def run_graph(
    graph: Graph,
    inputs: Sequence[ReferenceValue],
    symbols: Mapping[str, int] | None = None,
    module: Module | None = None,
    observer: Observer | None = None,
) -> list[ReferenceValue]:
    """Outputs of ``graph``; ``observer`` sees every node with its results."""
    env: dict[str, int] = dict(symbols or {})
    values: dict[Value, ReferenceValue] = {}
    for value, array in zip(graph.inputs, inputs, strict=True):
        values[value] = array
        bind_symbols(value, array, env)

    def run_region(region: Graph, operands: Sequence[ReferenceValue]) -> list[ReferenceValue]:
        return run_graph(region, operands, env, module, observer)

    for node in graph.nodes:
        results = evaluate(node, [None if v is None else values[v] for v in node.operands], env, run_region, module)
        for value, array in zip(node.results, results, strict=True):
            values[value] = array
            bind_symbols(value, array, env)
        if observer is not None:
            observer(node, results)
    return [values[v] for v in graph.outputs]


def evaluate(
    node: Node,
    operands: Sequence[ReferenceValue],
    symbols: Mapping[str, int],
    run_region: Callable[[Graph, Sequence[ReferenceValue]], list[ReferenceValue]],
    module: Module | None = None,
) -> list[ReferenceValue]:
    """Results of one node, as arrays of exactly the declared dtype."""
    attrs = concrete_attrs(node.attrs, symbols)
    regions = node.regions
    if node.op == "call" and module is not None:
        regions = [module.graphs[attrs.function]]
    with np.errstate(all="ignore"):
        if regions:
            results = node.op_def.reference_regions(operands, attrs, regions, run_region)
        else:
            results = node.op_def.reference(operands, attrs)
    return [_as_declared(value, result) for value, result in zip(node.results, results, strict=True)]


def _as_declared(value: Value, result: ReferenceValue) -> ReferenceValue:
    if not isinstance(value.type, TensorType):
        return result
    return np.asarray(result, dtype=dtypes.numpy_dtype(value.type.dtype))


def concrete_attrs(attrs: Any, symbols: Mapping[str, int]) -> Any:
    """``attrs`` with symbolic dimensions replaced by numbers."""
    changes = {}
    for field in dataclasses.fields(attrs):
        old = getattr(attrs, field.name)
        new = _concrete(old, symbols)
        if new is not old:
            changes[field.name] = new
    return dataclasses.replace(attrs, **changes) if changes else attrs


def _concrete(value: Any, symbols: Mapping[str, int]) -> Any:
    if isinstance(value, DimExpr):
        return dims.evaluate(value, symbols)
    if isinstance(value, tuple):
        new = tuple(_concrete(v, symbols) for v in value)
        return new if any(a is not b for a, b in zip(new, value)) else value
    return value


def bind_symbols(value: Value, array: ReferenceValue, env: dict[str, int]) -> None:
    """Records sizes of plain symbols in the value's type; checks the others.

    Raises:
        ForgeError: rank or a dimension differs from the type.
    """
    if not isinstance(value.type, TensorType) or not isinstance(array, np.ndarray):
        return
    shape = value.type.shape
    if array.ndim != len(shape):
        raise ForgeError(f"interpreter: %{value.name}: got rank {array.ndim}; expected {len(shape)} ({value.type})")
    for expected, size in zip(shape, array.shape):
        if isinstance(expected, DimExpr) and str(expected) not in env and dims.symbols(expected) == [str(expected)]:
            env[str(expected)] = size
    for axis, (expected, size) in enumerate(zip(shape, array.shape)):
        if set(dims.symbols(expected)) <= env.keys() and dims.evaluate(expected, env) != size:
            raise ForgeError(f"interpreter: %{value.name}: axis {axis}: got {size}; expected {expected} = {dims.evaluate(expected, env)}")
