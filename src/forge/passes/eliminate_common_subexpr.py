"""Merges nodes that compute the same: ``%1 = exp(%x); %2 = exp(%x); add(%1, %2)`` --> ``%1 = exp(%x); add(%1, %1)``.

Equal means: operator, attributes and operands are equal (in either order where the operator commutes). Constants are equal when
they hold the same bytes. Nodes that draw random numbers, keep state or have regions are left alone.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from forge.ir.edits.rewrite import replace
from forge.ir.nodes import Graph, Node
from forge.ir.op import Trait
from forge.passes.base import on_each_graph

UNREPEATABLE = Trait.RANDOM | Trait.STATEFUL
SAMPLE = 4096
"""Elements of a large constant that its key is made of."""


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
    a, b = first.results[0].constant, second.results[0].constant
    return a is None or b is None or a is b or a.dtype == object or a.tobytes() == b.tobytes()


def _key(node: Node) -> Any:
    operands = [None if v is None else id(v) for v in node.operands]
    if node.op_def.commutes:
        operands[:2] = sorted(operands[:2], key=str)
    return (node.op, tuple(operands), tuple((k, _frozen(v)) for k, v in node.attributes.items()), len(node.results))


def _frozen(value: Any) -> Any:
    """``value`` as a hashable key that keeps 0, 0.0, -0.0 and False apart."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return id(value)
        sample = value if value.size <= SAMPLE else value.reshape(-1)[:: value.size // SAMPLE]
        return (value.dtype, value.shape, hashlib.sha256(sample.tobytes()).digest())
    if isinstance(value, tuple):
        return tuple(map(_frozen, value))
    return (type(value).__name__, repr(value))


run = on_each_graph(_merge)
