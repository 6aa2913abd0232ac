"""The interpreter: evaluates a graph with the operators' NumPy meanings. The truth for all differential tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes, external
from forge.dims import DimExpr
from forge.errors import ForgeError, InputError
from forge.ir import attributes
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.op import ReferenceValue
from forge.ir.types import SequenceType, TensorType

Observer = Callable[[Node, Sequence[ReferenceValue]], None]


def run_module(
    module: Module, inputs: Mapping[str, ReferenceValue], observer: Observer | None = None, graph: Graph | None = None
) -> list[ReferenceValue]:
    """Outputs of a function of the module, or else of ``main``, for inputs by name; those in ``params`` may be left out.

    Raises:
        InputError: an input is missing, unknown, or does not fit its type.
        ForgeError: an operator met values that it cannot handle.
    """
    graph = graph or module.main
    names = [v.name for v in graph.inputs]
    values = {**graph.params, **inputs}
    missing, unknown = [n for n in names if n not in values], [n for n in inputs if n not in names]
    if missing or unknown:
        problem = f"{missing[0]!r} has no value" if missing else f"{unknown[0]!r} is unknown"
        raise InputError(f"interpreter: input {problem}; expected: {', '.join(names)}")
    env: dict[str, int] = {}
    try:
        for value in graph.inputs:
            values[value.name] = _as_input(value, values[value.name])
            bind_symbols(value, values[value.name], env)
    except ForgeError as error:
        raise InputError(str(error)) from error
    with external.used(module.external_modules):
        return run_graph(graph, [values[n] for n in names], module=module, observer=observer)


def run_graph(
    graph: Graph,
    inputs: Sequence[ReferenceValue],
    symbols: Mapping[str, int] | None = None,
    module: Module | None = None,
    observer: Observer | None = None,
) -> list[ReferenceValue]:
    """Outputs of ``graph``; ``observer`` sees every node with its results, those in regions and called functions too.

    Args:
        symbols: sizes that are known from outside.
        module: whose functions ``call`` calls.

    Raises:
        ForgeError: an input does not fit its type, or a symbol has no value or two.
    """
    if len(inputs) != len(graph.inputs):
        raise ForgeError(f"interpreter: got {len(inputs)} inputs; expected {len(graph.inputs)}")
    env: dict[str, int] = dict(symbols or {})
    values: dict[Value, ReferenceValue] = {}
    for value, given in zip(graph.inputs, inputs):
        values[value] = _as_input(value, given)
        bind_symbols(value, values[value], env)

    def run_region(region: Graph, operands: Sequence[ReferenceValue]) -> list[ReferenceValue]:
        is_function = module is not None and any(region is g for g in module.graphs.values())
        return run_graph(region, operands, None if is_function else env, module, observer)

    for node in graph.nodes:
        results = evaluate(node, [None if v is None else values[v] for v in node.operands], env, run_region, module)
        for value, array in zip(node.results, results):
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
    """Results of one node, as arrays of exactly the declared dtype.

    Raises:
        ForgeError: an attribute's symbol has no value, or the called function is not there.
    """
    is_call = node.op == "call"  # whose attributes are types of results, with symbols that the function will define
    attrs = node.attrs if is_call else concrete_attrs(node.attrs, symbols)
    regions = [_called(node, attrs.function, module)] if is_call else node.regions
    operands = node.op_def.arguments(operands)
    with np.errstate(all="ignore"):
        if regions:
            results = node.op_def.reference_regions(attrs, regions, run_region, *operands)
            results = [_with_known_sizes(v, r, symbols) for v, r in zip(node.results, results, strict=True)]
        else:
            results = node.op_def.reference(attrs, *operands)
    return [_as_declared(value, result) for value, result in zip(node.results, results, strict=True)]


def _called(node: Node, function: str, module: Module | None) -> Graph:
    if module is None or function not in module.graphs:
        raise ForgeError(f"interpreter: node {node.label}: there is no function @{function} to call")
    return module.graphs[function]


def _as_input(value: Value, given: ReferenceValue) -> ReferenceValue:
    if not isinstance(value.type, TensorType):
        return _as_object(value, given)
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        problem = f"got {type(given).__name__}; expected an array, {value.type} ({error})"
        raise ForgeError(f"interpreter: %{value.name}: {problem}") from error
    try:
        dtype = dtypes.canonical(array.dtype)
    except TypeError:
        dtype = str(array.dtype)
    if dtype != value.type.dtype:
        raise ForgeError(f"interpreter: %{value.name}: got {dtype}; expected {value.type.dtype} ({value.type})")
    return np.asarray(array, dtypes.numpy_dtype(dtype))


def _as_object(value: Value, given: ReferenceValue) -> ReferenceValue:
    if isinstance(value.type, SequenceType) and not isinstance(given, list | tuple):
        raise ForgeError(f"interpreter: %{value.name}: got {type(given).__name__}; expected a list, {value.type}")
    if isinstance(given, list | tuple):
        return [item if item is None or isinstance(item, list) else np.asarray(item) for item in given]
    return given if given is None else np.asarray(given)


def _with_known_sizes(value: Value, result: ReferenceValue, symbols: Mapping[str, int]) -> ReferenceValue:
    """``result``; an empty one, stacked from no iterations, gets the sizes that its type and ``symbols`` give."""
    if not isinstance(value.type, TensorType) or not isinstance(result, np.ndarray) or result.size or result.ndim != value.rank:
        return result
    known = [set(dims.symbols(d)) <= symbols.keys() for d in value.shape]
    shape = [dims.evaluate(d, symbols) if k else n for d, k, n in zip(value.shape, known, result.shape, strict=True)]
    return result.reshape(shape) if 0 in shape else result


def _as_declared(value: Value, result: ReferenceValue) -> ReferenceValue:
    if not isinstance(value.type, TensorType):
        return result
    return np.asarray(result, dtype=dtypes.numpy_dtype(value.type.dtype))


def concrete_attrs(attrs: Any, symbols: Mapping[str, int]) -> Any:
    """``attrs`` with symbolic dimensions replaced by numbers.

    Raises:
        ForgeError: a symbol has no value.
    """
    try:
        return attributes.map_dims(attrs, lambda d: dims.evaluate(d, symbols))
    except KeyError as error:
        raise ForgeError(f"interpreter: {error.args[0]}; expected an input or an earlier result with that dimension") from error


def bind_symbols(value: Value, array: ReferenceValue, env: dict[str, int]) -> None:
    """Records the sizes of symbols in the value's type (those that one dimension determines); checks all dimensions.

    Raises:
        ForgeError: rank or a dimension differs from the type.
    """
    if not isinstance(value.type, TensorType) or not isinstance(array, np.ndarray):
        return
    shape = value.type.shape
    if array.ndim != len(shape):
        raise ForgeError(f"interpreter: %{value.name}: got rank {array.ndim}; expected {len(shape)} ({value.type})")
    for plain in (True, False):
        for expected, size in zip(shape, array.shape):
            if isinstance(expected, DimExpr) and (dims.symbol_name(expected) is not None) is plain:
                _bind(expected, size, env)
    for axis, (expected, size) in enumerate(zip(shape, array.shape)):
        if not set(dims.symbols(expected)) <= env.keys():
            continue
        wanted = dims.evaluate(expected, env)
        if wanted != size:
            meaning = "" if isinstance(expected, int) else f" = {expected} for {_sizes(expected, env)}"
            raise ForgeError(f"interpreter: %{value.name}: axis {axis}: got {size}; expected {wanted}{meaning}")


def _bind(dim: DimExpr, size: int, env: dict[str, int]) -> None:
    """The symbol that ``dim`` is linear in, unless it is known."""
    solution = dims.solve(dims.substitute(dim, env), size)
    if solution is not None:
        env.setdefault(*solution)


def _sizes(dim: DimExpr, env: Mapping[str, int]) -> str:
    return ", ".join(f"{s} = {env[s]}" for s in dims.symbols(dim))
