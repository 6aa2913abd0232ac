"""Which groups are the same code: their kernel is built once.

Layers of a quantized model differ in their scales and zero points. As literals, these would give each layer a kernel of its own:
where they are all that differs between groups, they are read from memory.

Some layers of a residual network add an operand, others do not. Those that do not run the kernel of those that do, if calls of
it share code anyway: the operand is then the number that changes nothing, which is read at one place again and again.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.builder import Builder
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ir.op import Category, Kind
from forge.loops.contract import Variant
from forge.lowering.build import find_variant, is_whole
from forge.lowering.groups import Group, scalar_constant
from forge.lowering.objects import place_of
from forge.lowering.sizes import Sizes
from forge.ops.core.op import Op
from forge.target import Target

Place = tuple[Node, int]
"""An operand of a node."""

LONGEST_VECTOR = 256
"""Elements that kernels read at once, at most."""


@dataclass(frozen=True)
class Template:
    """A group whose kernel is run for another one, which lacks one of its operands.

    Attributes:
        position: of that operand among all.
        neutral: what is read in its place.
    """

    group: Group
    position: int
    neutral: np.ndarray


@dataclass(frozen=True)
class Signature:
    """The facts on which the kernel of a group depends, but for how its operands and results are aligned.

    Attributes:
        text: equal for groups of the same code.
        sizes: symbols of the kernel, and what they stand for: layers that differ in these only share it.
        places: scalar constants in which groups of the same text may differ.
        template: the group that the kernel is built of; None: this one.
    """

    text: str
    sizes: Sizes
    places: tuple[Place, ...]
    template: Template | None = None

    def parameters(self, group: Group) -> list[Value | np.ndarray]:
        """Returns the kernel's operands, with a stand-in for one that ``group`` lacks, then its results."""
        operands: list[Value | np.ndarray] = [*group.external_operands()]
        if self.template is not None:
            operands.insert(self.template.position, self.template.neutral)
        return [*operands, *group.sink.results]

    def key(self, group: Group, alignments: Sequence[int]) -> str:
        """Returns a key that is equal for groups that share a kernel; ``alignments`` are those of its parameters."""
        literals = [(v.type, is_whole(v)) if v in group.numbers else scalar_constant(v) for node, k in self.places
                    if (v := node.operands[k]) is not None]
        return f"{self.text}; {alignments}; {literals!r}"


def sign_groups(
    graph: Graph, groups: Sequence[Group], target: Target, typical: Mapping[str, int]
) -> dict[Group, Signature]:
    """Sets ``Group.numbers``: those in which groups of the same code differ; each place gets a constant of its own."""
    variants = {group: find_variant(group, target, typical) for group in groups}
    signatures = {group: _signature(group, variant) for group, variant in variants.items()}
    _share_templates(signatures, variants)
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
    if op.category is not Category.QUANTIZATION and op.is_costly(node.attrs, *node.operands):
        return False
    return value.dtype not in ("bool", "int64")


def _array(place: Place) -> np.ndarray:
    node, position = place
    value = node.operands[position]
    assert value is not None and value.constant is not None
    return value.constant


def _share_templates(signatures: dict[Group, Signature], variants: Mapping[Group, Variant | None]) -> None:
    """Lets groups without an operand run the kernel of those that have it, where that is all they differ in."""
    alike: dict[str, list[Group]] = defaultdict(list)
    for group, signature in signatures.items():
        if variants[group] is not None:
            alike[signature.text].append(group)
    for text, members in list(alike.items()):
        for step in range(len(members[0].epilogue)):
            operand = _optional_operand(members[0], step)
            shorter = None if operand is None else _signature(members[0], variants[members[0]], step).text
            if shorter in alike and text in alike:
                _share_template(signatures, variants, step, alike.pop(text), alike.pop(shorter))


def _share_template(signatures: dict[Group, Signature], variants: Mapping[Group, Variant | None], step: int,
                    full: Sequence[Group], short: Sequence[Group]) -> None:
    """Makes one code of that of groups ``full`` and of ``short``, which lack step ``step`` of the epilogue."""
    first = full[0]
    operand, text = _optional_operand(first, step), f"{signatures[first].text}; optional {step}"
    assert operand is not None
    number, position = first.epilogue[step].op_def.neutral_operand, first.external_operands().index(operand)
    neutral = np.full(LONGEST_VECTOR, number, dtypes.numpy_dtype(operand.dtype))
    for group in full:
        operand, signature = _optional_operand(group, step), _signature(group, variants[group], step)
        assert operand is not None
        signature.sizes.make_optional(operand)
        signatures[group] = dataclasses.replace(signature, text=text)
    for group in short:
        signatures[group].sizes.leave_out()
        signatures[group] = dataclasses.replace(signatures[group], text=text, template=Template(first, position, neutral))


def _optional_operand(group: Group, step: int) -> Value | None:
    """The tensor that step ``step`` of the epilogue joins with its input, element by element; None where it does another thing.

    Nothing else reads it, and no result lies in its memory.
    """
    node = group.epilogue[step]
    previous = [group.anchor, *group.epilogue][step].result
    others = [v for v in node.operands if v is not None and v is not previous]
    if node.op_def.neutral_operand is None or len(others) != 1 or group.overwritten or group.updated is not None:
        return None
    read = sum(v is others[0] for inner in group.nodes for v in inner.operands)
    is_plain = read == 1 and others[0] in group.external_operands()
    return others[0] if is_plain and others[0].type == previous.type == node.result.type else None


def _signature(group: Group, variant: Variant | None, left_out: int | None = None) -> Signature:
    """``left_out``: a step of the epilogue, whose `_optional_operand` makes no difference."""
    sizes = Sizes()
    if variant is not None:
        sizes.vary(group, variant)

    def type_text(value: Value) -> str:
        return str(sizes.of_type(value))

    optional = None if left_out is None else _optional_operand(group, left_out)
    external = [v for v in group.external_operands() if v is not optional]
    numbers: dict[Value, str] = {v: f"e{k}:{type_text(v)}" for k, v in enumerate(external)}
    numbers |= {v: f"{numbers[v]}:overwritten" for v in group.overwritten}
    if group.updated is not None:
        numbers[group.updated] = f"updated:{type_text(group.updated)}"
    parts, places = list[str](), list[Place]()
    for node in group.nodes:
        if optional is not None and optional in node.operands:
            previous = next(v for v in node.operands if v is not None and v is not optional)
            numbers[node.result] = numbers[previous]
            continue
        differing = [k for k in range(len(node.operands)) if _may_differ(node, k)]
        operands = [_operand_text(v, numbers, k in differing) for k, v in enumerate(node.operands)]
        places += [(node, k) for k in differing]
        role = "anchor" if node is group.anchor else ""
        for value in node.results:
            numbers[value] = f"n{len(parts)}.{value.index}:{type_text(value)}"
        parts.append(f"{node.op}{role}({', '.join(operands)}){sizes.of_attributes(node)!r}")
    parts.extend(f"out:{type_text(v)}" for v in group.sink.results)
    parts += ["" if variant is None else variant.key, place_of(group.anchor) if group.anchor.op_def.says_place else ""]
    return Signature("; ".join(parts), sizes, tuple(places))


def _operand_text(value: Value | None, numbers: dict[Value, str], may_differ: bool) -> str:
    if value is None or may_differ:
        return "-" if value is None else str(value.type)
    literal = None if value in numbers else scalar_constant(value)
    return numbers[value] if literal is None else f"{value.type}={literal!r}"
