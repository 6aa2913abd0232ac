"""Which groups are the same code: their kernel is built once.

Layers of a quantised model differ in their scales and zero points. As literals, these would give each layer a kernel of its own:
where they are all that differs between groups, they are read from memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forge.ir.builder import Builder
from forge.ir.nodes import Graph, Node, Value
from forge.ir.op import Category, Kind
from forge.loops.contract import Variant
from forge.lowering.build import find_variant, is_whole
from forge.lowering.groups import Group, scalar_constant
from forge.lowering.sizes import Sizes
from forge.ops.core.op import Op
from forge.target import Target

Place = tuple[Node, int]
"""An operand of a node."""


@dataclass(frozen=True)
class Signature:
    """What the kernel of a group depends on, but for how its operands and results are aligned.

    Attributes:
        text: equal for groups of the same code.
        sizes: symbols of the kernel, and what they stand for: layers that differ in these only share it.
        places: scalar constants in which groups of the same text may differ.
    """

    text: str
    sizes: Sizes
    places: tuple[Place, ...]

    def key(self, group: Group, alignment: Callable[[Value], int]) -> str:
        """Equal for groups that share a kernel."""
        aligned = [alignment(v) for v in (*group.external_operands(), *group.sink.results)]
        literals = [(v.type, is_whole(v)) if v in group.numbers else scalar_constant(v) for node, k in self.places
                    if (v := node.operands[k]) is not None]
        return f"{self.text}; {aligned}; {literals!r}"


def sign_groups(
    graph: Graph, groups: Sequence[Group], target: Target, typical: Mapping[str, int]
) -> dict[Group, Signature]:
    """Sets ``Group.numbers``: those in which groups of the same code differ; each place gets a constant of its own."""
    signatures = {group: _signature(group, find_variant(group, target, typical)) for group in groups}
    alike: dict[str, list[Group]] = defaultdict(list)
    for group, signature in signatures.items():
        if signature.places:
            alike[signature.text].append(group)
    for members in alike.values():
        for same in zip(*(signatures[group].places for group in members), strict=True):
            arrays = [_array(place) for place in same]
            if len({array.tobytes() for array in arrays}) == 1:
                continue
            for group, (node, position), array in zip(members, same, arrays, strict=True):
                number = Builder(graph, before=node).constant(array)
                node.set_operand(position, number)
                group.numbers |= {number}
    return signatures


def _may_differ(node: Node, position: int) -> bool:
    """Whether a constant of one element is an operand of element-wise code that is no better for knowing it.

    Divisions and powers are, and int64 is mostly that of indices.
    """
    value, op = node.operands[position], node.op_def
    if op.kind is not Kind.ELEMENTWISE or value is None or scalar_constant(value) is None or not isinstance(op, Op):
        return False
    if op.category is not Category.QUANTISATION and op.is_costly(node.attrs, *node.operands):
        return False
    return value.dtype not in ("bool", "int64")


def _array(place: Place) -> np.ndarray:
    node, position = place
    value = node.operands[position]
    assert value is not None and value.constant is not None
    return value.constant


def _signature(group: Group, variant: Variant | None) -> Signature:
    sizes = Sizes()
    if variant is not None:
        sizes.vary(group, variant)

    def type_text(value: Value) -> str:
        return str(sizes.of_type(value))

    numbers: dict[Value, str] = {v: f"e{k}:{type_text(v)}" for k, v in enumerate(group.external_operands())}
    numbers |= {v: f"{numbers[v]}:overwritten" for v in group.overwritten}
    if group.updated is not None:
        numbers[group.updated] = f"updated:{type_text(group.updated)}"
    parts, places = [], list[Place]()
    for number, node in enumerate(group.nodes):
        differing = [k for k in range(len(node.operands)) if _may_differ(node, k)]
        operands = [_operand_text(v, numbers, k in differing) for k, v in enumerate(node.operands)]
        places += [(node, k) for k in differing]
        role = "anchor" if node is group.anchor else ""
        parts.append(f"{node.op}{role}({', '.join(operands)}){sizes.of_attributes(node)!r}")
        for value in node.results:
            numbers[value] = f"n{number}.{value.index}:{type_text(value)}"
    parts.extend(f"out:{type_text(v)}" for v in group.sink.results)
    parts.append("" if variant is None else variant.key)
    return Signature("; ".join(parts), sizes, tuple(places))


def _operand_text(value: Value | None, numbers: dict[Value, str], may_differ: bool) -> str:
    if value is None or may_differ:
        return "-" if value is None else str(value.type)
    literal = None if value in numbers else scalar_constant(value)
    return numbers[value] if literal is None else f"{value.type}={literal!r}"
