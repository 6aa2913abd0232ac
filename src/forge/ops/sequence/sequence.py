"""Sequences of tensors. They live on the host: their values are Python lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.ir.nodes import Node
from forge.ir.op import Kind, Operand, RegionRunner, Trait
from forge.ir.shapes import fresh_symbol
from forge.ir.types import SequenceType, TensorType, Type, UnrankedType
from forge.ops.control.control import join
from forge.ops.core.inference import fail, fresh_dims, normalize_axis, tensor
from forge.ops.core.lowering import optional_operand
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Arrays, Regions, Types, Values


class HostOp(Op[Any]):
    """An operator on sequences, optionals or strings."""

    kind = Kind.OPAQUE
    traits = Trait.HOST


def sequence(op: str, value: Any, name: str) -> SequenceType:
    """The type of an operand that must be a sequence."""
    if value is None or not isinstance(value.type, SequenceType):
        raise fail(op, f"operand {name!r}", None if value is None else value.type, "a sequence")
    return value.type


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
    return TensorType(tuple(d if isinstance(d, int) else fresh_symbol("element") for d in element.shape), element.dtype)


def position_of(op: str, value: Any, length: int, last: int, default: int) -> int:
    """The position from the start that operand ``value``, or without it ``default``, tells.

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
    values = Operand(variadic=True)

    def infer(self, operands: Values, attrs: Any, regions: Regions = ()) -> Types:
        if not operands:
            raise fail(self.name, "operands", 0, "at least one", "use sequence_empty")
        return [SequenceType(_joined(self.name, [v.type for v in operands if v is not None]))]

    def reference(self, operands: Arrays, attrs: Any) -> Arrays:
        return [list(operands)]


@dataclass(frozen=True)
class SequenceEmptyAttrs:
    dtype: str = "float32"


@register
class SequenceEmpty(HostOp):
    """A sequence without elements, of tensors of ``dtype``."""

    name = "sequence_empty"
    host_routine = "sequence_construct"
    Attrs = SequenceEmptyAttrs

    def infer(self, operands: Values, attrs: SequenceEmptyAttrs, regions: Regions = ()) -> Types:
        return [SequenceType(UnrankedType(attrs.dtype, is_absent=True))]

    def reference(self, operands: Arrays, attrs: SequenceEmptyAttrs) -> Arrays:
        return [[]]


@register
class SequenceInsert(HostOp):
    """The sequence with tensor inserted before position (negative: from the end), or at its end."""

    name = "sequence_insert"
    host_routine = "sequence_insert"
    sequence, tensor, position = Operand(), Operand(), Operand(optional=True)

    def infer(self, operands: Values, attrs: Any, regions: Regions = ()) -> Types:
        given = sequence(self.name, operands[0], "sequence")
        assert operands[1] is not None
        return [SequenceType(_joined(self.name, [given.element, operands[1].type]))]

    def reference(self, operands: Arrays, attrs: Any) -> Arrays:
        result = list(operands[0])
        length = len(result)
        result.insert(position_of(self.name, optional_operand(operands, 2), length, length, length), operands[1])
        return [result]


@register
class SequenceErase(HostOp):
    """The sequence without the element at position (negative: from the end), or without the last."""

    name = "sequence_erase"
    host_routine = "sequence_erase"
    sequence, position = Operand(), Operand(optional=True)

    def infer(self, operands: Values, attrs: Any, regions: Regions = ()) -> Types:
        return [sequence(self.name, operands[0], "sequence")]

    def reference(self, operands: Arrays, attrs: Any) -> Arrays:
        result = list(operands[0])
        del result[position_of(self.name, optional_operand(operands, 1), len(result), len(result) - 1, -1)]
        return [result]


@register
class SequenceAt(HostOp):
    """The element at position (negative: from the end)."""

    name = "sequence_at"
    host_routine = "sequence_at"
    sequence, position = Operand(), Operand()

    def infer(self, operands: Values, attrs: Any, regions: Regions = ()) -> Types:
        return [taken(sequence(self.name, operands[0], "sequence").element)]

    def reference(self, operands: Arrays, attrs: Any) -> Arrays:
        length = len(operands[0])
        return [operands[0][position_of(self.name, operands[1], length, length - 1, 0)]]


@register
class SequenceLength(HostOp):
    """The number of elements."""

    name = "sequence_length"
    host_routine = "sequence_length"
    sequence = Operand()

    def infer(self, operands: Values, attrs: Any, regions: Regions = ()) -> Types:
        sequence(self.name, operands[0], "sequence")
        return [TensorType((), "int64")]

    def reference(self, operands: Arrays, attrs: Any) -> Arrays:
        return [np.array(len(operands[0]))]


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

    def infer(self, operands: Values, attrs: SplitToSequenceAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        size: list[Dim] = [1] if optional_operand(operands, 1) is None else list(fresh_dims("part", 1))
        if optional_operand(operands, 1) is None and not attrs.keepdims:
            size = []
        return [SequenceType(TensorType((*data.shape[:axis], *size, *data.shape[axis + 1 :]), data.dtype))]

    def host_options(self, node: Node) -> Mapping[str, Any]:
        return {"axis": node.attrs.axis, "drops_axis": not node.attrs.keepdims}

    def reference(self, operands: Arrays, attrs: SplitToSequenceAttrs) -> Arrays:
        data, split = [*operands, None][:2]
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
    sequence = Operand()
    Attrs = ConcatFromSequenceAttrs

    def infer(self, operands: Values, attrs: ConcatFromSequenceAttrs, regions: Regions = ()) -> Types:
        element = taken(sequence(self.name, operands[0], "sequence").element)
        if not isinstance(element, TensorType):
            return [element]
        rank = element.rank + attrs.new_axis
        axis = normalize_axis(self.name, attrs.axis, rank)
        rest = element.shape[axis + (not attrs.new_axis) :]
        return [TensorType((*element.shape[:axis], fresh_symbol("joined"), *rest), element.dtype)]

    def host_options(self, node: Node) -> Mapping[str, Any]:
        return {"axis": node.attrs.axis, "adds_axis": node.attrs.new_axis}

    def reference(self, operands: Arrays, attrs: ConcatFromSequenceAttrs) -> Arrays:
        return [(np.stack if attrs.new_axis else np.concatenate)(operands[0], axis=attrs.axis)]


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
    values = Operand(variadic=True)
    Attrs = SequenceMapAttrs
    regions = ("body",)

    def infer(self, operands: Values, attrs: SequenceMapAttrs, regions: Regions = ()) -> Types:
        if len(regions) != 1 or not operands:
            raise fail(self.name, "regions and operands", f"{len(regions)} and {len(operands)}", "one region, a sequence")
        sequence(self.name, operands[0], "values")
        return [SequenceType(taken(v.type)) for v in regions[0].outputs]

    def host_options(self, node: Node) -> Mapping[str, Any]:
        return {"carried": node.attrs.num_sequences}

    def reference_regions(self, operands: Arrays, attrs: SequenceMapAttrs, regions: Regions, run: RegionRunner) -> Arrays:
        rows = []
        lengths = {len(x) for x in operands[: attrs.num_sequences] if isinstance(x, list)}
        if len(lengths) != 1:
            raise ValueError(f"{self.name}: got sequences of lengths {sorted(lengths)}; expected equal ones")
        for position in range(len(operands[0])):
            mapped = [x[position] if isinstance(x, list) else x for x in operands[: attrs.num_sequences]]
            rows.append(run(regions[0], [*mapped, *operands[attrs.num_sequences :]]))
        return [[row[k] for row in rows] for k in range(len(regions[0].outputs))]
