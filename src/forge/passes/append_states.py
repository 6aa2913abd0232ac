"""States that calls lengthen are stored with the axis first along which they grow, so that what is new goes to the end.

``state %k: (b, h, n, d); %k = concatenate(%k, %new, axis=2)`` -->
``state %k: (n, b, h, d); %k = concatenate(%k, transpose(%new, axes=[2, 0, 1, 3]), axis=0)``

What else reads the state or its new value does so through a transposition. All functions store a state alike; the order is
noted in ``State.axes``, so that users see the axes in theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ir.types import TensorType
from forge.ops.shape.concatenate import Concatenate


def run(graphs: Sequence[Graph]) -> int:
    """Returns the number of states of the functions ``graphs`` that are stored otherwise now."""
    orders = _orders(graphs)
    for graph in graphs:
        for name in graph.states:
            if name in orders:
                _store(graph, name, orders[name])
    return len(orders)


def _orders(graphs: Sequence[Graph]) -> Mapping[str, tuple[int, ...]]:
    """How to store the states that functions lengthen along one axis, which is not the first."""
    orders: dict[str, set[tuple[int, ...]]] = {}
    for graph in graphs:
        for name, state in graph.states.items():
            joined = _appended(graph, name)
            if joined is not None and not state.axes:
                axis, rank = joined.attrs.axis % joined.result.rank, joined.result.rank
                orders.setdefault(name, set()).add((axis, *(k for k in range(rank) if k != axis)))
    known = {name: found.pop() for name, found in orders.items() if len(found) == 1}
    return {name: order for name, order in known.items() if order[0]}


def _appended(graph: Graph, name: str) -> Concatenate | None:
    """The concatenation of the state and what is new that replaces it."""
    number = graph.states[name].output
    joined = None if number is None else Concatenate.of(graph.outputs[number].producer)
    return joined if joined is not None and any(v is joined.node.operands[0] and v.name == name for v in graph.inputs) else None


def _store(graph: Graph, name: str, axes: tuple[int, ...]) -> None:
    """Makes axis k of a state what its axis ``axes[k]`` was."""
    state, appended = graph.states[name], _appended(graph, name)
    back = tuple(map(axes.index, range(len(axes))))
    stored = next((v for v in graph.inputs if v.name == name), None)
    logical = None if stored is None else _store_input(graph, stored, axes, back)
    if state.output is not None and appended is not None and stored is not None:
        builder = Builder(graph, before=appended.node)
        new = [builder.call("transpose", v, axes=axes) for v in appended.node.operands[1:] if v is not None]
        longer = builder.call("concatenate", stored, *new, axis=0, name=appended.node.name)
        graph.outputs[state.output] = longer
        graph.replace_uses(appended.result, builder.call("transpose", longer, axes=back))
        graph.remove(appended.node)
    elif state.output is not None:
        graph.outputs[state.output] = Builder(graph).call("transpose", graph.outputs[state.output], axes=axes)
    if logical is not None and not graph.use_count(logical) and logical.producer is not None:
        graph.remove(logical.producer)
    graph.states[name] = dataclasses.replace(state, axes=axes)


def _store_input(graph: Graph, value: Value, axes: tuple[int, ...], back: tuple[int, ...]) -> Value:
    """Stores an input; readers get the axes in their order: what is returned."""
    uses = list(value.uses)
    value.type = TensorType(tuple(value.shape[a] for a in axes), value.dtype)
    first = graph.nodes[0] if graph.nodes else None
    logical = Builder(graph, before=first).call("transpose", value, axes=back)
    for node, position in uses:
        node.set_operand(position, logical)
    graph.outputs = [logical if v is value else v for v in graph.outputs]
    return logical
