"""Topological order of the nodes of an ONNX graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence

import onnx

from forge.errors import ImportModelError
from forge.frontends.onnx.support import subgraphs


def topological(
    nodes: Sequence[onnx.NodeProto], names: Sequence[str], is_known: Callable[[str], bool]
) -> list[tuple[onnx.NodeProto, str]]:
    """``nodes`` with their ``names``, sorted; nodes that are in order stay as they are.

    The format asks for this order; some converters do not keep it. A warning names the first node that is out of place.

    Args:
        nodes: of one graph. What their sub-graphs take from it counts as used by them.
        names: what to call each of them.
        is_known: whether a value exists before the first node.

    Raises:
        ImportModelError: nodes need each other's results.
    """
    producers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for output in node.output:
            producers.setdefault(output, index)
    needed = [[(name, producers[name]) for name in _used(node) if name in producers] for node in nodes]
    late = ((k, name, p) for k, found in enumerate(needed) for name, p in found if p >= k and not is_known(name))
    first = next(late, None)
    if first is None:
        return list(zip(nodes, names))
    order = _sorted([[p for name, p in found if p < k or not is_known(name)] for k, found in enumerate(needed)], names)
    index, value, producer = first
    warnings.warn(
        f"node {names[index]!r} ({nodes[index].op_type}) uses value {value!r}, which node {names[producer]!r} gives after it; "
        "the nodes are sorted; expected topological order",
        stacklevel=2,
    )
    return [(nodes[k], names[k]) for k in order]


def _sorted(needed: Sequence[Sequence[int]], names: Sequence[str]) -> list[int]:
    """Indices of nodes in topological order, which keeps the given order where it can."""
    order: list[int] = []
    waiting, placed = 1, 2
    states = [0] * len(needed)
    for start in range(len(needed)):
        path = [] if states[start] == placed else [(start, iter(needed[start]))]
        states[start] = max(states[start], waiting)
        while path:
            node, rest = path[-1]
            following = next((p for p in rest if states[p] != placed), None)
            if following is None:
                path.pop()
                states[node] = placed
                order.append(node)
            elif states[following] == waiting:
                cycle = [k for k, _ in path]
                raise _cycle([names[k] for k in cycle[cycle.index(following) :]])
            else:
                states[following] = waiting
                path.append((following, iter(needed[following])))
    return order


def _cycle(names: Sequence[str]) -> ImportModelError:
    shown = " -> ".join(repr(name) for name in [*names[:8], *(["..."] if len(names) > 8 else []), names[0]])
    return ImportModelError(f"nodes need each other's results: {shown}; expected no cycle; the model is invalid")


def _used(node: onnx.NodeProto) -> Iterator[str]:
    """Names of values of its graph that a node uses."""
    yield from (name for name in node.input if name)
    for graph in subgraphs(node):
        yield from _free(graph)


def _free(graph: onnx.GraphProto) -> Iterator[str]:
    """Names that a sub-graph takes from the graphs around it."""
    own = {i.name for i in graph.input} | {i.name for i in graph.initializer}
    own.update(s.values.name for s in graph.sparse_initializer)
    own.update(output for node in graph.node for output in node.output)
    used = [name for node in graph.node for name in _used(node)]
    yield from (name for name in [*used, *(o.name for o in graph.output)] if name not in own)


__all__ = ["topological"]
