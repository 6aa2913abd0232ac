"""Sequences of tensors, and optional values. They live on the host: Python lists; an empty optional is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims
from forge.ir.nodes import Node
from forge.ir.op import RegionRunner
from forge.ir.text.cursor import Cursor
from forge.ir.types import OptionalType, SequenceType, Type, UnrankedType
from forge.ops.control.control import join
from forge.ops.core.inference import fail, fresh_dims, normalize_axis
from forge.ops.core.op import NoAttrs, Op, Operand, Trait, register
from forge.ops.core.signatures import Arrays, Dim, ReferenceValue, Regions, TensorType, Types, Value


class HostOp(Op[Any]):
    """An operator on sequences, optionals or strings."""

    traits = Trait.HOST


def element_of(op: str, sequence: Value) -> Type:
    """The type of the elements of an operand that must be a sequence."""
    if not isinstance(sequence.type, SequenceType):
        raise fail(op, "operand 'sequence'", sequence.type, "a sequence")
    return sequence.type.element


def _joined(op: str, types: Sequence[Type]) -> Type:
    result = types[0]
    for type_ in types[1:]:
        result = join(op, result, type_, set(_symbols(result)))
    return result


def _symbols(type_: Type) -> list[str]:
    return dims.symbols(*type_.shape) if isinstance(type_, TensorType) else []


def taken(element: Type) -> Type:
    """The type of one element: sizes that may differ between elements are new symbols."""
    if not isinstance(element, TensorType):
        return UnrankedType(element.dtype) if isinstance(element, UnrankedType) else element
    return TensorType(tuple(d if isinstance(d, int) else dims.fresh("element") for d in element.shape), element.dtype)


def position_of(op: str, value: Any, length: int, last: int, default: int) -> int:
    """The position from the start that operand ``value``, or without it ``default``, gives.

    Raises:
        ValueError: it is not within 0 and ``last``.
    """
    given = default if value is None else int(np.asarray(value).reshape(-1)[0])
    position = given + length if given < 0 else given
    if not 0 <= position <= last:
        raise ValueError(f"{op}: got position {given}; expected one of {-length} to {last} in a sequence of {length}")
    return position


@register
class SequenceConstruct(HostOp):
    """The sequence of the operands."""

    name = "sequence_construct"
    host_routine = "sequence_construct"
    values = Operand(variadic=True, any_type=True)

    def infer(self, attrs: Any, *values: Value) -> Types:
        if not values:
            raise fail(self.name, "operands", 0, "at least one", "use sequence_empty")
        return [SequenceType(_joined(self.name, [v.type for v in values]))]

    def reference(self, attrs: Any, *values: ReferenceValue) -> Arrays:
        return [list(values)]


@dataclass(frozen=True)
class SequenceEmptyAttrs:
    dtype: str = "float32"


@register
class SequenceEmpty(HostOp):
    """A sequence without elements, of tensors of ``dtype``."""

    name = "sequence_empty"
    host_routine = "sequence_construct"
    Attrs = SequenceEmptyAttrs

    def infer(self, attrs: SequenceEmptyAttrs, *_: object) -> Types:
        return [SequenceType(UnrankedType(attrs.dtype, is_absent=True))]

    def reference(self, attrs: SequenceEmptyAttrs, *_: object) -> Arrays:
        return [[]]


@register
class SequenceInsert(HostOp):
    """The sequence with tensor inserted before position (negative: from the end), or at its end."""

    name = "sequence_insert"
    host_routine = "sequence_insert"
    sequence, tensor = Operand(any_type=True), Operand(any_type=True)
    position = Operand(optional=True)

    def infer(self, attrs: Any, sequence: Value, tensor: Value, position: Value | None) -> Types:
        return [SequenceType(_joined(self.name, [element_of(self.name, sequence), tensor.type]))]

    def reference(self, attrs: Any, sequence: ReferenceValue, tensor: ReferenceValue, position: ReferenceValue) -> Arrays:
        result = list(sequence)
        length = len(result)
        result.insert(position_of(self.name, position, length, length, length), tensor)
        return [result]


@register
class SequenceErase(HostOp):
    """The sequence without the element at position (negative: from the end), or without the last."""

    name = "sequence_erase"
    host_routine = "sequence_erase"
    sequence, position = Operand(any_type=True), Operand(optional=True)

    def infer(self, attrs: Any, sequence: Value, position: Value | None) -> Types:
        element_of(self.name, sequence)
        return [sequence.type]

    def reference(self, attrs: Any, sequence: ReferenceValue, position: ReferenceValue) -> Arrays:
        result = list(sequence)
        del result[position_of(self.name, position, len(result), len(result) - 1, -1)]
        return [result]


@register
class SequenceAt(HostOp):
    """The element at position (negative: from the end)."""

    name = "sequence_at"
    host_routine = "sequence_at"
    sequence, position = Operand(any_type=True), Operand()

    def infer(self, attrs: Any, sequence: Value, position: Value) -> Types:
        return [taken(element_of(self.name, sequence))]

    def reference(self, attrs: Any, sequence: ReferenceValue, position: ReferenceValue) -> Arrays:
        length = len(sequence)
        return [sequence[position_of(self.name, position, length, length - 1, 0)]]


@register
class SequenceLength(HostOp):
    """The number of elements."""

    name = "sequence_length"
    host_routine = "sequence_length"
    sequence = Operand(any_type=True)

    def infer(self, attrs: Any, sequence: Value) -> Types:
        element_of(self.name, sequence)
        return [TensorType((), "int64")]

    def reference(self, attrs: Any, sequence: ReferenceValue) -> Arrays:
        return [np.array(len(sequence))]


@dataclass(frozen=True)
class SplitToSequenceAttrs:
    axis: int = 0
    keepdims: bool = True


@register
class SplitToSequence(HostOp):
    """The parts of data along ``axis``: of sizes split (a vector), of size split (a scalar, the last one smaller), or
    of size 1.

    ``keepdims`` False drops the dimension where split is absent.
    """

    name = "split_to_sequence"
    host_routine = "sequence_split"
    data, split = Operand(), Operand(optional=True)
    Attrs = SplitToSequenceAttrs

    def infer(self, attrs: SplitToSequenceAttrs, data: Value, split: Value | None) -> Types:
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        size: list[Dim] = [1] if split is None else list(fresh_dims("part", 1))
        if split is None and not attrs.keepdims:
            size = []
        return [SequenceType(TensorType((*data.shape[:axis], *size, *data.shape[axis + 1 :]), data.dtype))]

    def host_options(self, node: Node) -> Mapping[str, Any]:
        return {"axis": node.attrs.axis, "drops_axis": not node.attrs.keepdims}

    def reference(self, attrs: SplitToSequenceAttrs, data: ReferenceValue, split: ReferenceValue) -> Arrays:
        extent = data.shape[attrs.axis]
        if split is None:
            parts = np.split(data, extent, attrs.axis) if extent else []
            return [parts if attrs.keepdims else [np.squeeze(p, attrs.axis) for p in parts]]
        if split.ndim == 0:
            if split < 1:
                raise ValueError(f"{self.name}: got parts of size {split}; expected at least 1")
            return [np.split(data, range(int(split), extent, int(split)), attrs.axis)]
        if split.sum() != extent or (split < 0).any():
            raise ValueError(f"{self.name}: got parts of sizes {split.tolist()}; expected sizes that add up to {extent}")
        return [np.split(data, np.cumsum(split)[:-1], attrs.axis) if split.size else []]


@dataclass(frozen=True)
class ConcatFromSequenceAttrs:
    axis: int = 0
    new_axis: bool = False


@register
class ConcatFromSequence(HostOp):
    """The elements one after the other along ``axis``, or along a new dimension there."""

    name = "concat_from_sequence"
    host_routine = "sequence_concat"
    sequence = Operand(any_type=True)
    Attrs = ConcatFromSequenceAttrs

    def infer(self, attrs: ConcatFromSequenceAttrs, sequence: Value) -> Types:
        element = taken(element_of(self.name, sequence))
        if not isinstance(element, TensorType):
            return [element]
        rank = element.rank + attrs.new_axis
        axis = normalize_axis(self.name, attrs.axis, rank)
        rest = element.shape[axis + (not attrs.new_axis) :]
        return [TensorType((*element.shape[:axis], dims.fresh("joined"), *rest), element.dtype)]

    def host_options(self, node: Node) -> Mapping[str, Any]:
        return {"axis": node.attrs.axis, "adds_axis": node.attrs.new_axis}

    def reference(self, attrs: ConcatFromSequenceAttrs, sequence: ReferenceValue) -> Arrays:
        return [(np.stack if attrs.new_axis else np.concatenate)(sequence, axis=attrs.axis)]


@dataclass(frozen=True)
class SequenceMapAttrs:
    num_sequences: int = 1


@register
class SequenceMap(HostOp):
    """body of the elements of the sequences at each position; one sequence for each result of body.

    body takes an element of each of the ``num_sequences`` first operands (an operand that is a tensor goes in whole),
    then the captured operands.
    """

    name = "sequence_map"
    host_routine = "sequence_map"
    values = Operand(variadic=True, any_type=True)
    Attrs = SequenceMapAttrs
    regions = ("body",)

    def infer(self, attrs: SequenceMapAttrs, regions: Regions, *values: Value) -> Types:
        if len(regions) != 1 or not values:
            raise fail(self.name, "regions and operands", f"{len(regions)} and {len(values)}", "one region, a sequence")
        element_of(self.name, values[0])
        return [SequenceType(taken(v.type)) for v in regions[0].outputs]

    def host_options(self, node: Node) -> Mapping[str, Any]:
        return {"carried": node.attrs.num_sequences}

    def reference_regions(self, attrs: SequenceMapAttrs, regions: Regions, run: RegionRunner, *values: ReferenceValue) -> Arrays:
        rows = []
        lengths = {len(x) for x in values[: attrs.num_sequences] if isinstance(x, list)}
        if len(lengths) != 1:
            raise ValueError(f"{self.name}: got sequences of lengths {sorted(lengths)}; expected equal ones")
        for position in range(len(values[0])):
            mapped = [x[position] if isinstance(x, list) else x for x in values[: attrs.num_sequences]]
            rows.append(run(regions[0], [*mapped, *values[attrs.num_sequences :]]))
        return [[row[k] for row in rows] for k in range(len(regions[0].outputs))]


@dataclass(frozen=True)
class OptionalAttrs:
    type: str = ""


@register
class MakeOptional(HostOp):
    """An optional that holds value; without value an empty one for values of ``type`` (as text)."""

    name = "optional"
    host_routine = "sequence_construct"
    value = Operand(optional=True, any_type=True)
    Attrs = OptionalAttrs

    def infer(self, attrs: OptionalAttrs, value: Value | None) -> Types:
        if value is None and not attrs.type:
            raise fail(self.name, "attribute type", "none", "the type of the value that is absent")
        return [OptionalType(Cursor(attrs.type).type() if value is None else value.type)]

    def reference(self, attrs: OptionalAttrs, value: ReferenceValue) -> Arrays:
        return [value]


@register
class OptionalHasElement(HostOp):
    """Whether the optional holds a value; a value that is not an optional does."""

    name = "optional_has_element"
    host_routine = "optional_has"
    optional = Operand(optional=True, any_type=True)

    def infer(self, attrs: NoAttrs, *_: object) -> Types:
        return [TensorType((), "bool")]

    def reference(self, attrs: NoAttrs, optional: ReferenceValue) -> Arrays:
        return [np.array(optional is not None)]


@register
class OptionalGetElement(HostOp):
    """The value that the optional holds; a value that is not an optional is itself.

    Raises (reference): ValueError for an empty optional.
    """

    name = "optional_get_element"
    host_routine = "optional_get"
    optional = Operand(any_type=True)
    traits = Trait.HOST | Trait.MAY_FAIL

    def infer(self, attrs: NoAttrs, optional: Value) -> Types:
        type_ = optional.type
        return [taken(type_.element) if isinstance(type_, OptionalType) else type_]

    def reference(self, attrs: NoAttrs, optional: ReferenceValue) -> Arrays:
        if optional is None:
            raise ValueError("optional_get_element: the optional is empty; expected a value; ask optional_has_element first")
        return [optional]
