"""Substitutes and renames symbols, infers types again, and compares arrays with types."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim, DimExpr
from forge.errors import InvalidGraphError
from forge.ir import attributes
from forge.ir import types as T
from forge.ir.builder import check_arity, infer
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value


def check_param(graph: Graph, name: str, array: np.ndarray) -> None:
    """Raises InvalidGraphError unless ``array`` may be the value of the input of the function ``graph`` called ``name``."""
    inputs = {v.name: v for v in graph.inputs}
    if name not in inputs:
        function, names = graph.name or "main", ", ".join(inputs)
        raise InvalidGraphError(f"params: {name!r} names no input of @{function}; expected one of: {names}")
    check_fits(inputs[name], array)


def check_fits(value: Value, array: np.ndarray) -> None:
    """Raises InvalidGraphError unless ``array`` may be bound to the input ``value``."""
    type_ = value.tensor_type
    try:
        dtype = dtypes.canonical(array.dtype)
    except TypeError:
        dtype = str(array.dtype)
    if dtype != type_.dtype or not T.compatible(type_, T.TensorType(array.shape, dtype)):
        raise InvalidGraphError(f"params: {value.name!r}: got {dtype} of shape {array.shape}; expected {type_}")


def sizes_of_params(graph: Graph) -> dict[str, Dim]:
    """What ``params`` says about symbols of the function: the sizes of its arrays.

    Raises:
        InvalidGraphError: two arrays contradict each other, or the size of one is neither a symbol nor a number.
    """
    inputs = {v.name: v for v in graph.inputs}
    sizes: dict[str, Dim] = {}
    given_by: dict[str, str] = {}
    bound = [(name, dim, size) for name, a in graph.params.items() for dim, size in zip(inputs[name].shape, a.shape)]
    for name, dim, size in sorted(bound, key=lambda item: dims.symbol_name(item[1]) is None):
        solution = dims.solve(dims.substitute(dim, sizes), size)
        if solution is not None:
            sizes[solution[0]], given_by[solution[0]] = solution[1], name
        if dims.substitute(dim, sizes) != size:
            others = [f"{s} = {sizes[s]}, as {given_by[s]!r} has it" for s in dims.symbols(dim) if s in sizes]
            raise InvalidGraphError(
                f"params: {name!r}: got size {size} for {dim}; expected {' and '.join(others) or 'a symbol or a number'}")
    return sizes


def substitute_symbols(module: Module, values: Mapping[str, Dim]) -> Module:
    """A copy of ``module`` with symbolic dimensions of ``main`` replaced in all types and attributes.

    Symbols of other functions are their own: calls bind them to dimensions of their operands.
    """
    clone = module.copy()
    substitute_in_graph(clone.main, values)
    return clone


def substitute_in_graph(graph: Graph, values: Mapping[str, Dim]) -> None:
    """Replaces symbols in all types and attributes of a graph and its regions, in place."""
    map_dims(graph, lambda dim: dims.substitute(dim, values))


def map_dims(graph: Graph, change: Callable[[DimExpr], Dim]) -> None:
    """Replaces every symbolic dimension in all types and attributes of a graph and its regions, in place."""
    for value in graph.values():
        value.type = T.map_dims(value.type, change)
    for node in graph.walk():
        node.attrs = attributes.map_dims(node.attrs, change)


def number_symbols(graph: Graph) -> None:
    """Gives the symbols that nodes introduce (``d_17``) numbers in the order of their appearance (``d_0``), in place.

    Their names then no longer depend on what else the process has done.
    """
    taken = {s for v in graph.inputs for s in T.symbols(v.type)}
    introduced = dict.fromkeys(s for v in graph.values() for s in T.symbols(v.type) if s not in taken)
    renamed: dict[str, Dim] = {}
    for name in introduced:
        prefix = re.sub(r"_[0-9]+\Z", "", name) or "d"
        new = next(n for k in itertools.count() if (n := f"{prefix}_{k}") not in taken)
        taken.add(new)
        renamed[name] = dims.symbol(new)
    if any(dims.symbol_name(new) != old for old, new in renamed.items()):
        substitute_in_graph(graph, renamed)


def infer_again(node: Node) -> list[Value]:
    """Gives the results of ``node`` the types that its operands have now; symbols that it introduces keep their names.

    Returns the results whose type has changed.

    Raises:
        InvalidGraphError: the operands do not fit; nothing is changed.
    """
    check_arity(node.op_def, node.operands, node.regions)
    types = infer(node.op_def, node.operands, node.attrs, node.regions)
    if len(types) != len(node.results):
        raise InvalidGraphError(f"node {node.label}: got {len(types)} types for {len(node.results)} results")
    known = {s for v in node.operands if v is not None for s in T.symbols(v.type)} | set(attributes.symbols(node.attrs))
    changed = []
    for value, new in zip(node.results, types):
        renamed = T.substitute(new, _kept_symbols(value.type, new, known))
        if renamed != value.type:
            value.type = renamed
            changed.append(value)
    return changed


def _kept_symbols(old: T.Type, new: T.Type, known: Collection[str]) -> dict[str, Dim]:
    if not isinstance(old, T.TensorType) or not isinstance(new, T.TensorType) or old.rank != new.rank:
        return {}
    pairs = [(a, b, dims.symbol_name(b)) for a, b in zip(old.shape, new.shape)]
    return {name: a for a, b, name in pairs if name is not None and _introduced(a, known) and _introduced(b, known)}


def _introduced(dim: Dim, known: Collection[str]) -> bool:
    name = dims.symbol_name(dim)
    return name is not None and name not in known
