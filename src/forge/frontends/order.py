"""Topological order of the nodes of a graph of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from forge import errors
from forge.errors import ImportModelError


@dataclass(frozen=True)
class OrderedNode:
    """A node by its name and operator. What its sub-graphs take from the graph around them counts as used by it."""

    name: str
    op: str
    uses: Iterable[str]
    gives: Iterable[str]


def topological(steps: Sequence[OrderedNode], is_known: Callable[[str], bool]) -> Sequence[int]:
    """Indices of ``steps``, sorted; those that are in order stay as they are.

    Formats ask for this order; some exporters do not keep it. A warning names the first node that is out of place.

    Args:
        steps: nodes of one graph.
        is_known: whether a value exists before the first node.

    Raises:
        ImportModelError: nodes need each other's results.
    """
    producers: dict[str, int] = {}
    for index, step in enumerate(steps):
        for output in step.gives:
            producers.setdefault(output, index)
    needed = [[(name, producers[name]) for name in step.uses if name in producers] for step in steps]
    late = ((k, name, p) for k, found in enumerate(needed) for name, p in found if p >= k and not is_known(name))
    first = next(late, None)
    if first is None:
        return range(len(steps))
    order = _sorted([[p for name, p in found if p < k or not is_known(name)] for k, found in enumerate(needed)], steps)
    index, value, producer = first
    errors.warn(
        f"node {steps[index].name!r} ({steps[index].op}) uses value {value!r}, which node {steps[producer].name!r} gives after "
        "it; the nodes are sorted; expected topological order")
    return order


def _sorted(needed: Sequence[Sequence[int]], steps: Sequence[OrderedNode]) -> list[int]:
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
                raise _cycle([steps[k].name for k in cycle[cycle.index(following) :]])
            else:
                states[following] = waiting
                path.append((following, iter(needed[following])))
    return order


def _cycle(names: Sequence[str]) -> ImportModelError:
    shown = " -> ".join(repr(name) for name in [*names[:8], *(["..."] if len(names) > 8 else []), names[0]])
    return ImportModelError(f"nodes need each other's results: {shown}; expected no cycle; the model is invalid")
