"""Merges nodes that compute the same: ``%1 = exp(%x); %2 = exp(%x); add(%1, %2)`` --> ``%1 = exp(%x); add(%1, %1)``.

Equal means: operator, attributes and operands are equal (in either order where the operator commutes). Constants are equal when
they hold the same bytes. Nodes that draw random numbers, keep state or have regions are left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.ir.constants.joined import parts_of
from forge.ir.constants.sampling import have_equal_bytes, sample
from forge.ir.edits.rewrite import replace
from forge.ir.graph import Graph
from forge.ir.nodes import CONSTANT, Node
from forge.ir.op import Trait
from forge.passes.base import on_each_graph

UNREPEATABLE = Trait.RANDOM | Trait.STATEFUL


def _merge(graph: Graph) -> int:
    seen: dict[Any, Node] = {}
    count = 0
    for node in graph.nodes:
        if node.regions or node.op_def.traits & UNREPEATABLE:
            continue
        first = seen.setdefault(_key(node), node)
        if first is not node and _has_equal_contents(first, node) and replace(graph, node, *first.results):
            count += 1
    return count


def _has_equal_contents(first: Node, second: Node) -> bool:
    """Large constants are compared in full here: their keys see a sample."""
    if first.op_def is not CONSTANT:
        return True
    parts = zip(parts_of(first.result), parts_of(second.result), strict=True)
    return all(a is b or a.dtype == object or have_equal_bytes(a, b) for a, b in parts)


def _key(node: Node) -> Any:
    if node.op_def is CONSTANT:
        return tuple(map(_frozen, parts_of(node.result)))
    operands = [None if v is None else id(v) for v in node.operands]
    if node.op_def.commutes:
        operands[:2] = sorted(operands[:2], key=str)
    return (node.op, tuple(operands), tuple((k, _frozen(v)) for k, v in node.attributes.items()), len(node.results))


def _frozen(value: Any) -> Any:
    """``value`` as a hashable key that keeps 0, 0.0, -0.0 and False apart."""
    if isinstance(value, np.ndarray):
        return id(value) if value.dtype == object else sample(value)
    if isinstance(value, tuple):
        return tuple(map(_frozen, value))
    return (type(value).__name__, repr(value))


run = on_each_graph(_merge)
