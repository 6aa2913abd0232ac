"""Changes the types of a module's inputs and carries the change through."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim, DimExpr
from forge.errors import ForgeError, InvalidGraphError
from forge.ir import types as T
from forge.ir.nodes import Graph, Module, Node, Value


def check_fits(value: Value, array: np.ndarray) -> None:
    """Raises InvalidGraphError unless ``array`` may be bound to the input ``value``."""
    type_ = value.tensor_type
    same = len(type_.shape) == array.ndim and not any(map(dims.different, type_.shape, array.shape))
    if not same or dtypes.canonical(array.dtype) != type_.dtype:
        raise InvalidGraphError(f"params: {value.name!r}: got {dtypes.canonical(array.dtype)} of shape {array.shape}; expected {type_}")


def substitute_symbols(module: Module, values: Mapping[str, Dim]) -> Module:
    """A copy of ``module`` with symbolic dimensions replaced in all types and attributes."""
    clone = module.copy()
    for graph in clone.graphs.values():
        substitute_in_graph(graph, values)
    return clone


def substitute_in_graph(graph: Graph, values: Mapping[str, Dim]) -> None:
    """Replaces symbols in all types and attributes of a graph and its regions, in place."""
    for value in graph.inputs:
        value.type = T.substitute(value.type, values)
    for node in graph.nodes:
        node.attrs = _substitute_attrs(node.attrs, values)
        for value in node.results:
            value.type = T.substitute(value.type, values)
        for region in node.regions:
            substitute_in_graph(region, values)


def _substitute_attrs(attrs: Any, values: Mapping[str, Dim]) -> Any:
    changes = {}
    for field in dataclasses.fields(attrs):
        old = getattr(attrs, field.name)
        new = _substitute_value(old, values)
        if new is not old:
            changes[field.name] = new
    return dataclasses.replace(attrs, **changes) if changes else attrs


def _substitute_value(value: Any, values: Mapping[str, Dim]) -> Any:
    if isinstance(value, DimExpr):
        return dims.substitute(value, values)
    if isinstance(value, tuple):
        new = tuple(_substitute_value(v, values) for v in value)
        return new if any(a is not b for a, b in zip(new, value)) else value
    return value


def replace_batch(module: Module, inputs: Sequence[Value], old: int, new: int) -> Module:
    """A copy whose inputs with first dimension ``old`` have ``new`` instead; types of all values follow.

    An operator with a target shape (``reshape``, ``broadcast_to``) that starts with the old batch gets the new one.

    Raises:
        ValueError: an operator does not allow the new batch; the message names the node.
    """
    clone = module.copy()
    names = {v.name for v in inputs}
    for value in clone.main.inputs:
        if value.name in names and value.shape[:1] == (old,):
            value.type = T.TensorType((new, *value.shape[1:]), value.dtype)
    for node in clone.main.nodes:
        if node.op != "constant":
            _reinfer(node, old, new)
    return clone


def _reinfer(node: Node, old: int, new: int) -> None:
    before = node.attrs
    try:
        node.attrs = _rebatched(node.attrs, old, new)
        types = node.op_def.infer(node.operands, node.attrs, node.regions)
    except ForgeError as error:
        node.attrs = before
        raise ValueError(
            f"set_batch_size: node {node.name or node.op} ({node.op}) fixes the batch size {old} (attributes {before}); "
            f"export the model with a symbolic batch dimension ({error})"
        ) from error
    for value, type_ in zip(node.results, types):
        value.type = type_


def _rebatched(attrs: Any, old: int, new: int) -> Any:
    changes = {}
    for name in ("newshape", "shape"):
        shape = getattr(attrs, name, None)
        if isinstance(shape, tuple) and shape[:1] == (old,):
            changes[name] = (new, *shape[1:])
    return dataclasses.replace(attrs, **changes) if changes else attrs


__all__ = ["check_fits", "replace_batch", "substitute_symbols"]
