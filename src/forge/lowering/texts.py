"""What dumps show of groups and memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forge.ir.nodes import Node, Value
from forge.lowering.groups import Group
from forge.lowering.late import Definition
from forge.lowering.memory import MemoryPlan
from forge.lowering.program import GroupedGraph, Item


def groups_text(grouped: GroupedGraph) -> str:
    """Returns what the entry runs, in order: ``3: nn.dense + add(%x, %weight, %bias) -> %7: Tensor[(n, 10), float32]``."""
    names = _names(grouped)
    return "".join(f"{number}: {_item(item, names)}\n" for number, item in enumerate(grouped.items))


def plan_text(grouped: GroupedGraph, plan: MemoryPlan) -> str:
    """Returns where each value is: ``%7: Tensor[(n, 10), float32]: arena 0 + 4096``."""
    names = _names(grouped, plan.locations)
    lines = [f"{names[value]}: {value.type}: {p.base} {p.index} + {p.offset}\n" for value, p in plan.locations.items()]
    return "".join([f"arena: {plan.arena_size} bytes; weights: {plan.weights_size} bytes\n", *lines])


def _names(grouped: GroupedGraph, others: Iterable[Value] = ()) -> dict[Value, str]:
    values = [*grouped.graph.inputs, *(v for node in grouped.graph.nodes for v in node.results), *others]
    return {value: f"%{value.name or number}" for number, value in enumerate(dict.fromkeys(values))}


def parts(item: Item) -> tuple[Sequence[Node], Sequence[Value], Sequence[Value]]:
    """Returns the nodes of an item, and the values that it reads and writes."""
    if isinstance(item, Group):
        return item.nodes, item.external_operands(), item.sink.results
    if isinstance(item, Definition):
        return [item.node], item.values, []
    return [item.node], [v for v in item.node.operands if v is not None], item.node.results


def _item(item: Item, names: dict[Value, str]) -> str:
    nodes, read, written = parts(item)
    results = ", ".join(f"{names[v]}: {v.type}" for v in written) or "sizes"
    place = f" in {names[item.updated]}" if isinstance(item, Group) and item.updated is not None else ""
    return f"{' + '.join(node.op for node in nodes)}({', '.join(names[v] for v in read)}){place} -> {results}"
