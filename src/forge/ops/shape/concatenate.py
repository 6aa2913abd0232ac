"""Joining and dividing tensors along an axis: concatenate, stack, split."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ir.types import TensorType
from forge.ops.core.inference import (
    MAX_PARTS,
    expect_rank,
    fail,
    given_numbers,
    normalize_axis,
    required,
    same_dtype,
    shape_of_contents,
    unify_dim,
)
from forge.ops.core.layout_change import LayoutChange
from forge.ops.core.lowering import as_dim, element, injective, length, new_symbols, replaced
from forge.ops.core.op import AxisAttrs, Kind, Op, Operand, Precision, register
from forge.ops.core.ranges import joined, kept
from forge.ops.core.signatures import (
    Array,
    Arrays,
    Conditions,
    DimArray,
    Lowered,
    OperandTypes,
    Symbols,
    Tensor,
    TensorTypes,
    Types,
    Value,
)
from forge.te import Expr


@register
class Concatenate(Op[AxisAttrs]):
    """The operands one after the other along ``axis``."""

    name = "concatenate"
    data = Operand(variadic=True)
    kind = Kind.ANCHOR
    element_range = joined
    kernel = "concatenate"
    read_once = ("data",)
    precision = Precision.FOLLOWS

    def infer(self, attrs: AxisAttrs, *data: Value) -> Types:
        if not data:
            raise fail(self.name, "operands", 0, "at least one")
        dtype, rank = same_dtype(self.name, data), data[0].rank
        axis = normalize_axis(self.name, attrs.axis, rank)
        shape: list[Dim] = list(data[0].shape)
        for value in data[1:]:
            expect_rank(self.name, value.tensor_type, "data", rank)
            for k in range(rank):
                fits = shape[k] + value.shape[k] if k == axis else self._same(shape[k], value.shape[k], k)
                shape[k] = fits
        return [TensorType(tuple(shape), dtype)]

    def _same(self, a: Dim, b: Dim, axis: int) -> Dim:
        return unify_dim(self.name, a, b, f"dimension {axis} of the operands")

    def reference(self, attrs: AxisAttrs, *data: Array) -> Arrays:
        return [np.concatenate(data, axis=attrs.axis)]

    def lower(self, attrs: AxisAttrs, results: TensorTypes, *data: Tensor) -> Lowered:
        axis = attrs.axis % results[0].rank
        filled = [t for t in data if not te.is_const(t.shape[axis], 0)] or data[:1]
        return [injective(self.name, results[0], lambda i: _piecewise(filled, axis, i))]

    def is_update(self, attrs: AxisAttrs, rank: int) -> bool:
        return attrs.axis % rank == 0

    def evaluate_dims(self, attrs: AxisAttrs, types: OperandTypes, *data: DimArray) -> DimArray:
        parts = [x for x in data if x is not None]
        return np.concatenate(parts, axis=attrs.axis) if len(parts) == len(data) else None

    def in_layout(self, change: LayoutChange) -> Value | None:
        """Only whole blocks join."""
        axis = self.attrs.axis % self.result.rank
        if (block := change.block(axis)) > 1 and any(v.shape[axis] % block for v in self.data):
            return None
        return change.call(self.node, *map(change.converted, self.data), axis=change.axis(axis, self.result.rank))


def _piecewise(parts: Sequence[Tensor], axis: int, indices: Sequence[Expr]) -> Expr:
    """The element of the concatenation of ``parts``; every part is read in bounds wherever the element lies."""
    offset: Expr = te.const(0)
    pieces: list[tuple[Expr, Expr]] = []  # end of the part, its value
    for part in parts:
        inside = te.clamp(indices[axis] - offset, part.shape[axis]) if len(parts) > 1 else indices[axis]
        offset = offset + part.shape[axis]
        pieces.append((offset, part[replaced(indices, axis, inside)]))
    value = pieces[-1][1]
    for end, earlier in reversed(pieces[:-1]):
        value = te.select(indices[axis] < end, earlier, value)
    return value


@register
class Stack(Op[AxisAttrs]):
    """The operands, of equal shapes, along a new ``axis``."""

    name = "stack"
    data = Operand(variadic=True)
    kind = Kind.INJECTIVE
    element_range = joined

    def infer(self, attrs: AxisAttrs, *data: Value) -> Types:
        if not data:
            raise fail(self.name, "operands", 0, "at least one")
        axis = normalize_axis(self.name, attrs.axis, data[0].rank + 1)
        shape = list(data[0].shape)
        for value in data[1:]:
            expect_rank(self.name, value.tensor_type, "data", data[0].rank)
            for k, (a, b) in enumerate(zip(shape, value.shape, strict=True)):
                unify_dim(self.name, a, b, f"dimension {k} of the operands")
        return [TensorType((*shape[:axis], len(data), *shape[axis:]), same_dtype(self.name, data))]

    def reference(self, attrs: AxisAttrs, *data: Array) -> Arrays:
        return [np.stack(data, axis=attrs.axis)]

    def lower(self, attrs: AxisAttrs, results: TensorTypes, *data: Tensor) -> Lowered:
        axis = attrs.axis % results[0].rank

        def body(i: Sequence[Expr]) -> Expr:
            rest = (*i[:axis], *i[axis + 1 :])
            value = data[-1][rest]
            for k in range(len(data) - 2, -1, -1):
                value = te.select(i[axis].eq(k), data[k][rest], value)
            return value

        return [injective(self.name, results[0], body)]

    def evaluate_dims(self, attrs: AxisAttrs, types: OperandTypes, *data: DimArray) -> DimArray:
        parts = [x for x in data if x is not None]
        return np.stack(parts, axis=attrs.axis) if len(parts) == len(data) else None


@dataclass(frozen=True)
class SplitAttrs:
    indices_or_sections: int | tuple[Dim, ...] | None = None
    axis: int = 0
    num_results: int | None = None


@register
class Split(Op[SplitAttrs]):
    """Parts of data along ``axis``.

    ``indices_or_sections``: a number of equal parts, or the positions where a new part begins. None: operand
    ``sizes``, of known length, has the sizes of the parts.
    """

    name = "split"
    data, sizes = Operand(), Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    element_range = kept

    def bounds(self, extent: Dim, attrs: SplitAttrs) -> list[Dim]:
        """Where the parts begin, and the end of the last one."""
        sections = attrs.indices_or_sections
        assert sections is not None
        if isinstance(sections, tuple):
            return [0, *sections, extent]
        if not 1 <= sections <= MAX_PARTS or dims.different(dims.floormod(extent, sections), 0):
            expected = f"a divisor of the dimension, at most {MAX_PARTS}"
            raise fail(self.name, "number of parts", f"{sections} of {extent}", expected)
        size = dims.floordiv(extent, sections)
        return [size * k for k in range(sections + 1)]

    def infer(self, attrs: SplitAttrs, data: Value, sizes: Value | None) -> Types:
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        if attrs.indices_or_sections is None:
            parts = list(shape_of_contents(self.name, "sizes", None, sizes, "split"))
        else:
            parts = [b - a for a, b in itertools.pairwise(self.bounds(data.shape[axis], attrs))]
            if any(dims.bounds(p)[1] is not None and dims.different(p, dims.maximum(p, 0)) for p in parts):
                wanted = f"growing ones up to {data.shape[axis]}"
                raise fail(self.name, "positions of the parts", attrs.indices_or_sections, wanted)
        return [TensorType((*data.shape[:axis], size, *data.shape[axis + 1 :]), data.dtype) for size in parts]

    def reference(self, attrs: SplitAttrs, data: Array, sizes: Array | None) -> Arrays:
        if attrs.indices_or_sections is None:
            return np.split(data, np.cumsum(given_numbers(None, sizes))[:-1], axis=attrs.axis)
        return np.split(data, self.bounds(data.shape[attrs.axis], attrs)[1:-1], axis=attrs.axis)  # type: ignore[arg-type]

    def lower(self, attrs: SplitAttrs, results: TensorTypes, data: Tensor, sizes: Tensor | None) -> Lowered:
        axis = attrs.axis % results[0].rank
        if attrs.indices_or_sections is not None:
            begins: list[Expr] = [te.dim(b) for b in self.bounds(as_dim(data.shape[axis]), attrs)]
        else:
            begins = _running_sum(_given(sizes))
        clamp = attrs.indices_or_sections is None
        return [_part(self.name, data, axis, b, r, clamp) for b, r in zip(begins, results, strict=False)]

    def requires(self, attrs: SplitAttrs, results: TensorTypes, data: TensorType, *_: object) -> Conditions:
        extent, sizes = data.shape[attrs.axis], [result.shape[attrs.axis] for result in results]
        total = sum(sizes[1:], sizes[0])
        why = f"sizes of parts do not add up to {extent}"
        return required(dims.equal(total, extent), lambda: te.dim(total).eq(te.dim(extent)), why)

    def define_symbols(self, attrs: SplitAttrs, results: TensorTypes, data: Tensor, sizes: Tensor | None) -> Symbols:
        if attrs.indices_or_sections is not None or sizes is None:
            return {}
        axis = attrs.axis % results[0].rank
        defined: dict[str, Expr] = {}
        for k, result in enumerate(results):
            defined |= new_symbols(TensorType((result.shape[axis],), result.dtype), [element(sizes, k)])
        return defined


def _running_sum(sizes: Tensor) -> list[Expr]:
    sums: list[Expr] = [te.const(0)]
    for k in range(length(sizes)):
        sums.append(sums[-1] + element(sizes, k))
    return sums


def _given(operand: Tensor | None) -> Tensor:
    assert operand is not None
    return operand


def _part(name: str, data: Tensor, axis: int, begin: Expr, result: TensorType, clamp: bool) -> Tensor:
    def body(i: Sequence[Expr]) -> Expr:
        index = i[axis] + begin
        return data[replaced(i, axis, te.clamp(index, data.shape[axis]) if clamp else index)]

    return injective(name, result, body)


def equal_sizes(ours: Dim, wanted: Dim) -> Expr:
    return te.dim(ours).eq(te.dim(wanted))
