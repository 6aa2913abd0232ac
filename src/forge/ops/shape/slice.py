"""strided_slice: ONNX's Slice, with bounds known when compiling or at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core.inference import fail, fresh_dims, normalize_axes, static_length
from forge.ops.core.layout_change import LayoutChange
from forge.ops.core.lowering import element, injective, length, new_symbols
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, DimArray, Lowered, OperandTypes, Symbols, Tensor, TensorTypes, Types, Value
from forge.te import Expr

T = TypeVar("T")
UNBOUNDED = 2**31 - 1
"""A bound of at least this size, of either sign, lies beyond every dimension."""


@dataclass(frozen=True)
class StridedSliceAttrs:
    begin: tuple[Dim, ...] | None = None
    end: tuple[Dim, ...] | None = None
    strides: tuple[int, ...] | None = None
    slice_mode: str = "end"
    axes: tuple[int, ...] | None = None


def from_end(bound: Dim, extent: Dim) -> Dim:
    """``bound`` with a negative value counted from the end of the dimension; not clamped."""
    if isinstance(bound, int):
        return bound if bound >= 0 else extent + bound
    low, high = dims.bounds(bound)
    if (low is not None and low >= 0) or dims.equal(bound, extent - 1):
        return bound
    if high is not None and high < 0:
        return bound + extent
    return bound + extent * dims.maximum(0, dims.minimum(1, -1 * bound))


def slice_range(extent: Dim, begin: Dim, end: Dim, stride: int) -> tuple[Dim, Dim]:
    """First index and number of elements of ``begin:end:stride`` in a dimension.

    The first index is exact only where there is an element.
    """
    if stride > 0:
        start = dims.maximum(from_end(begin, extent), 0)
        beyond = isinstance(end, int) and end >= UNBOUNDED
        stop = extent if beyond else dims.minimum(from_end(end, extent), extent)
        return start, dims.maximum(dims.ceildiv(stop - start, stride), 0)
    from_last = isinstance(begin, int) and (begin >= UNBOUNDED or begin == -1)
    start = extent - 1 if from_last else dims.minimum(dims.maximum(from_end(begin, extent), 0), extent - 1)
    before = isinstance(end, int) and end <= -UNBOUNDED
    stop = -1 if before else dims.maximum(from_end(end, extent), -1)
    return start, dims.maximum(dims.ceildiv(start - stop, -stride), 0)


@register
class StridedSlice(Op[StridedSliceAttrs]):
    """data[begin:end:strides] along ``axes`` (all the first ones if None), bounds clamped, negative ones counted from the end.

    ``slice_mode`` "end", or "size": then ``end`` has numbers of elements, -1 for all the rest. Operands begin, end,
    strides and axes take the place of missing attributes.
    """

    name = "strided_slice"
    is_selection = True
    data, begin = Operand(), Operand(optional=True, holds="integers")
    end, strides = Operand(optional=True, holds="integers"), Operand(optional=True, holds="integers")
    axes = Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    is_strided = True

    def infer(self, attrs: StridedSliceAttrs, data: Value, *bounds: Value | None) -> Types:
        if attrs.slice_mode not in ("end", "size"):
            raise fail(self.name, "attribute slice_mode", repr(attrs.slice_mode), "end or size")
        known = _Bounds.static(attrs, [_known(v) for v in bounds])
        if known is None:
            return [TensorType(self._unknown(attrs, data, *bounds), data.dtype)]
        shape = list(data.shape)
        for axis, begin, end, stride in self._ranges(known, data.rank):
            shape[axis] = slice_range(data.shape[axis], begin, end, stride)[1]
        return [TensorType(tuple(shape), data.dtype)]

    def _unknown(self, attrs: StridedSliceAttrs, data: Value, *bounds: Value | None) -> tuple[Dim, ...]:
        given = zip(_own(attrs), bounds, ("begin", "end", "strides", "axes"), strict=True)
        lengths = [static_length(self.name, v, n) if a is None else len(a) for a, v, n in given if (a, v) != (None, None)]
        if len(set(lengths)) != 1:
            raise fail(self.name, "numbers of begin, end, strides and axes", lengths, "equal numbers")
        count = lengths[0]
        axes = attrs.axes if attrs.axes is not None or bounds[3] is not None else tuple(range(count))
        changed = range(data.rank) if axes is None else normalize_axes(self.name, axes, data.rank)
        fresh = fresh_dims("slice", data.rank)
        return tuple(fresh[k] if k in changed else d for k, d in enumerate(data.shape))

    def _ranges(self, bounds: _Bounds, rank: int) -> list[tuple[int, Dim, Dim, int]]:
        axes = normalize_axes(self.name, bounds.axes, rank)
        lengths = {len(axes), len(bounds.begin), len(bounds.end), len(bounds.strides)}
        if len(lengths) != 1:
            raise fail(self.name, "numbers of begin, end, strides and axes", sorted(lengths), "equal numbers")
        if 0 in bounds.strides:
            raise fail(self.name, "strides", bounds.strides, "no 0")
        return list(zip(axes, bounds.begin, bounds.end, bounds.strides, strict=True))

    def reference(self, attrs: StridedSliceAttrs, data: Array, *bounds: Array | None) -> Arrays:
        known = _Bounds.static(attrs, [None if v is None else v.reshape(-1).tolist() for v in bounds])
        assert known is not None
        selection = [slice(None)] * data.ndim
        for axis, begin, end, stride in self._ranges(known, data.ndim):
            start, count = (int(d) for d in slice_range(data.shape[axis], begin, end, stride))  # type: ignore[arg-type]
            stop = start + count * stride
            selection[axis] = slice(start, stop if stop >= 0 else None, stride) if count else slice(0, 0)
        return [data[tuple(selection)]]

    def lower(self, attrs: StridedSliceAttrs, results: TensorTypes, data: Tensor, *bounds: Tensor | None) -> Lowered:
        steps = _steps(attrs, data, *bounds)

        def body(i: Sequence[Expr]) -> Expr:
            return data[tuple(start + x * stride for x, (start, _, stride) in zip(i, steps, strict=True))]

        return [injective(self.name, results[0], body)]

    def define_symbols(self, attrs: StridedSliceAttrs, results: TensorTypes, data: Tensor, *bounds: Tensor | None) -> Symbols:
        if all(t is None for t in bounds):
            return {}
        return new_symbols(results[0], [count for _, count, _ in _steps(attrs, data, *bounds)])

    def evaluate_dims(self, attrs: StridedSliceAttrs, types: OperandTypes, data: DimArray, *bounds: DimArray) -> DimArray:
        given = [None if v is None else list(v.reshape(-1)) for v in bounds]
        unknown = any(t is not None and g is None for t, g in zip(types[1:], given))
        known = None if unknown else _Bounds.static(attrs, given)
        if data is None or known is None or not dims.is_static(*known.begin, *known.end):
            return None
        return np.asarray(self.reference(_as_attrs(known), data, *[None] * 4)[0], dtype=object)

    def in_layout(self, change: LayoutChange) -> Value | None:
        """With the bounds as attributes; of a blocked axis whole blocks."""
        attrs, rank = self.attrs, self.result.rank
        if attrs.begin is None or attrs.end is None or not attrs.axes or self.strides is not None:
            return None
        begin, end = list(attrs.begin), list(attrs.end)
        for k, (axis, first, last) in enumerate(zip(attrs.axes, attrs.begin, attrs.end)):
            if (block := change.block(axis % rank)) == 1:
                continue
            if not isinstance(first, int) or not isinstance(last, int) or (attrs.strides is not None and attrs.strides[k] != 1):
                return None
            if not 0 <= first < last or first % block or last % block:
                return None
            begin[k], end[k] = first // block, last // block
        axes = tuple(change.axis(axis, rank) for axis in attrs.axes)
        return change.on_first(self.node, begin=tuple(begin), end=tuple(end), axes=axes)


def _as_attrs(bounds: _Bounds) -> StridedSliceAttrs:
    return StridedSliceAttrs(bounds.begin, bounds.end, bounds.strides, "end", bounds.axes)


def _known(value: Any) -> list[Dim] | str | None:
    """Contents of a run-time operand; "unknown" where it is there but not known."""
    if value is None:
        return None
    contents = known_dims(value)
    return "unknown" if contents is None else list(contents.reshape(-1))


@dataclass(frozen=True)
class _Bounds:
    begin: tuple[Dim, ...]
    end: tuple[Dim, ...]
    strides: tuple[int, ...]
    axes: tuple[int, ...]

    @staticmethod
    def static(attrs: StridedSliceAttrs, operands: Sequence[Any]) -> _Bounds | None:
        """The bounds out of attributes and contents of operands; None when they are not known."""
        merged = [g if a is None else a for a, g in zip(_own(attrs), operands, strict=True)]
        if any(isinstance(m, str) for m in merged) or merged[0] is None or merged[1] is None:
            return None
        begin, end, strides, axes = merged
        strides = strides if strides is not None else [1] * len(begin)
        axes = axes if axes is not None else range(len(begin))
        if not dims.is_static(*strides, *axes):
            return None
        if attrs.slice_mode == "size":
            end = [UNBOUNDED if s == -1 else b + s for b, s in zip(begin, end, strict=True)]
        return _Bounds(tuple(begin), tuple(end), tuple(map(_number, strides)), tuple(map(_number, axes)))


def _number(value: Any) -> int:
    return int(value)


Step = tuple[Expr, Expr, Expr]  # first index, number of elements, stride


def _steps(attrs: StridedSliceAttrs, data: Tensor, *bounds: Tensor | None) -> list[Step]:
    """What is read along every dimension of the operand."""
    begin, end, strides, axes = [_entries(o, a) for o, a in zip(bounds, _own(attrs), strict=True)]
    assert begin is not None and end is not None
    strides = strides or [te.const(1)] * len(begin)
    axes = axes or [te.const(k) for k in range(len(begin))]
    steps: list[Step] = []
    for axis, extent in enumerate(data.shape):
        chosen: Step = (te.const(0), extent, te.const(1))
        for a, b, e, s in zip(axes, begin, end, strides, strict=True):
            chosen = _choose(_is_axis(a, axis, data.ndim), _step(extent, b, _stop(attrs, b, e), s), chosen)
        steps.append(chosen)
    return steps


def _own(attrs: StridedSliceAttrs) -> tuple[Sequence[Dim] | None, ...]:
    return attrs.begin, attrs.end, attrs.strides, attrs.axes


def _entries(operand: Tensor | None, own: Sequence[Dim] | None) -> list[Expr] | None:
    if own is not None:
        return [te.dim(d) for d in own]
    return None if operand is None else [element(operand, k) for k in range(length(operand))]


def _stop(attrs: StridedSliceAttrs, begin: Expr, end: Expr) -> Expr:
    if attrs.slice_mode == "end":
        return end
    return te.select(end.eq(-1), te.const(UNBOUNDED), begin + end)


def _is_axis(axis: Expr, wanted: int, rank: int) -> Expr:
    hits = [axis.eq(wanted), axis.eq(wanted - rank)]
    if any(te.is_const(h, True) for h in hits):
        return te.const(True, "bool")
    return hits[1] if te.is_const(hits[0], False) else te.binary("or", hits[0], hits[1])


def _choose(condition: Expr, a: Step, b: Step) -> Step:
    first, second, third = (te.select(condition, x, y) for x, y in zip(a, b, strict=True))
    return first, second, third


def _step(extent: Expr, begin: Expr, end: Expr, stride: Expr) -> Step:
    """``slice_range`` in expressions, for a stride of either sign."""
    begin, end = (te.select(x < 0, x + extent, x) for x in (begin, end))
    ahead = stride > 0
    before, last = te.select(ahead, te.const(0), te.const(-1)), te.select(ahead, extent, extent - 1)
    start = te.binary("min", te.binary("max", begin, te.const(0)), last)
    stop = te.binary("min", te.binary("max", end, before), last)
    count = te.const(0) - te.binary("floordiv", start - stop, stride)
    return start, te.binary("max", count, te.const(0)), stride
