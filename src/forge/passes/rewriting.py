"""What the passes share: replacing values while names and types stay right, and visiting nested graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim, DimExpr
from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value
from forge.ir.op import Trait
from forge.ir.retype import substitute_in_graph
from forge.ir.types import TensorType

_UNREPEATABLE = Trait.RANDOM | Trait.STATEFUL


def on_all_graphs(graph: Graph, edit: Callable[[Graph], int]) -> int:
    """``edit`` of ``graph`` and of the regions of its nodes, innermost first; the sum of its results."""
    count = sum(on_all_graphs(region, edit) for node in list(graph.nodes) for region in node.regions)
    return count + edit(graph)


def replace(graph: Graph, node: Node, *values: Value) -> bool:
    """Uses of the results of ``node`` become uses of ``values``; the node goes, and what was there for it only.

    Names and symbols are carried over.

    False, and nothing changes, where an output of the graph would lose its name: its value would be an input or another output.
    """
    pairs = list(zip(node.results, values, strict=True))
    if any(graph.is_output(old) and _is_taken(graph, new) for old, new in pairs):
        return False
    for old, new in pairs:
        if old.name and (graph.is_output(old) or not new.name):
            new.name = old.name
        renamed = _symbol_changes(old, new)
        graph.replace_uses(old, new)
        if renamed:
            substitute_in_graph(graph, renamed)
    remove_unused(graph, node)
    return True


def remove_unused(graph: Graph, node: Node) -> None:
    """Removes ``node`` if nothing uses it, and then what was there for it only."""
    pending = [node]
    while pending:
        node = pending.pop()
        if node.graph is not graph or any(graph.use_count(v) for v in node.results) or node.op_def.traits & Trait.STATEFUL:
            continue
        pending.extend(p for p in node.pred if not new_symbols(p) and not p.regions)
        graph.remove(node)


def live_nodes(graph: Graph) -> Iterator[Node]:
    """The nodes that are in the graph now, in order, without those that are removed before their turn."""
    for node in list(graph.nodes):
        if node.graph is graph:
            yield node


def _is_taken(graph: Graph, value: Value) -> bool:
    return value.producer is None or graph.is_output(value)


def _symbol_changes(old: Value, new: Value) -> dict[str, Dim]:
    """Symbols of the type of ``old`` for which the type of ``new`` has something else."""
    if not isinstance(old.type, TensorType) or not isinstance(new.type, TensorType):
        return {}
    pairs = zip(old.type.shape, new.type.shape)
    return {name: b for a, b in pairs if a != b and (name := dims.symbol_name(a)) is not None}


def new_symbols(node: Node) -> list[str]:
    """Symbols that the results of ``node`` introduce: they occur in the type of no operand and in no attribute."""
    known = {s for v in node.operands if v is not None for s in value_symbols(v)} | set(attribute_symbols(node.attributes))
    return [s for v in node.results for s in value_symbols(v) if s not in known]


def value_symbols(value: Value) -> list[str]:
    return dims.symbols(*value.type.shape) if isinstance(value.type, TensorType) else []


def attribute_symbols(value: Any) -> Iterator[str]:
    """Symbols in an attribute's value, however nested."""
    if isinstance(value, DimExpr):
        yield from dims.symbols(value)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from attribute_symbols(item)
    elif isinstance(value, dict):
        yield from attribute_symbols(list(value.values()))


def is_mergeable(node: Node) -> bool:
    """Whether two evaluations of the node give the same."""
    return not node.regions and not node.op_def.traits & _UNREPEATABLE


def only_use(graph: Graph, value: Value) -> Node | None:
    """The node that alone uses ``value``, once."""
    return next(iter(value.uses))[0] if graph.use_count(value) == 1 and value.uses else None


def before(graph: Graph, node: Node) -> Builder:
    """A builder that inserts before ``node`` and keeps its source location."""
    return Builder(graph, node, node.location)


def channel_vector(value: Value, rank: int, axis: int, channels: Dim) -> np.ndarray | None:
    """The vector that a constant is which broadcasts along ``axis`` of a tensor of ``rank``; a scalar is repeated.

    None: not a constant, or it varies along another axis.
    """
    array = value.constant
    if array is None or not isinstance(channels, int) or array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(extent != 1 for k, extent in enumerate(shape) if k != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,)) if shape[axis] == 1 else array.reshape(-1)
