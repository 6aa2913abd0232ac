"""Operators that move elements: transpose, concatenate, stack, split, broadcast_to, tile."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.errors import ExecutionError
from forge.ir.nodes import Node, Value
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.base import Kind, Op, Operand, Precision, register
from forge.ops.infer_helpers import (
    MAX_PARTS,
    Shape,
    expect_rank,
    fail,
    fresh_dims,
    normalize_axes,
    normalize_axis,
    required,
    same_dtype,
    static_length,
    tensor,
    tensors,
    unify_dim,
)
from forge.ops.layout_change import LayoutChange
from forge.ops.lower_helpers import as_dim, element, injective, is_one, length, new_symbols, replaced
from forge.ops.shape_ops import optional_operand
from forge.ops.signatures import (
    Arrays,
    DimArray,
    DimArrays,
    Lowered,
    OperandTypes,
    Regions,
    Tensors,
    TensorTypes,
    Types,
    Values,
)
from forge.te import Expr, Tensor


@dataclass(frozen=True)
class TransposeAttrs:
    axes: tuple[int, ...] | None = None


@register
class Transpose(Op[TransposeAttrs]):
    """out[i] = data[j] with j[axes[k]] = i[k]; None reverses the dimensions."""

    name = "transpose"
    operands = (Operand("data"),)
    Attrs = TransposeAttrs
    kind = Kind.INJECTIVE
    is_permutation = True
    is_strided = True

    def permutation(self, attrs: TransposeAttrs, rank: int) -> tuple[int, ...]:
        """``axes``, counted from the front.

        Raises:
            TypeInferenceError: it is not a permutation of the dimensions.
        """
        if attrs.axes is None:
            return tuple(reversed(range(rank)))
        axes = normalize_axes(self.name, attrs.axes, rank)
        if len(axes) != rank:
            raise fail(self.name, "attribute axes", attrs.axes, f"a permutation of {rank} axes")
        return axes

    def infer(self, operands: Values, attrs: TransposeAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        return [TensorType(tuple(data.shape[a] for a in self.permutation(attrs, data.rank)), data.dtype)]

    def reference(self, operands: Arrays, attrs: TransposeAttrs) -> Arrays:
        return [np.transpose(operands[0], self.permutation(attrs, operands[0].ndim))]

    def lower(self, operands: Tensors, attrs: TransposeAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        axes = self.permutation(attrs, data.ndim)
        place = [axes.index(k) for k in range(data.ndim)]
        return [injective(self.name, results[0], lambda i: data[tuple(i[p] for p in place)])]

    def evaluate_dims(self, operands: DimArrays, attrs: TransposeAttrs, types: OperandTypes) -> DimArray:
        data = operands[0]
        return None if data is None else np.transpose(data, self.permutation(attrs, data.ndim))


def present(operands: Tensors) -> list[Tensor]:
    """The operands that are there."""
    return [t for t in operands if t is not None]


@dataclass(frozen=True)
class AxisAttrs:
    axis: int = 0


@register
class Concatenate(Op[AxisAttrs]):
    """The operands one after the other along ``axis``."""

    name = "concatenate"
    operands = (Operand("data", variadic=True),)
    Attrs = AxisAttrs
    kind = Kind.ANCHOR
    kernel = "concatenate"
    read_once = ("data",)
    precision = Precision.FOLLOWS

    def infer(self, operands: Values, attrs: AxisAttrs, regions: Regions = ()) -> Types:
        types = tensors(self.name, operands)
        if not types:
            raise fail(self.name, "operands", 0, "at least one")
        dtype, rank = same_dtype(self.name, types), types[0].rank
        axis = normalize_axis(self.name, attrs.axis, rank)
        shape: list[Dim] = list(types[0].shape)
        for type_ in types[1:]:
            expect_rank(self.name, type_, "data", rank)
            for k in range(rank):
                fits = shape[k] + type_.shape[k] if k == axis else self._same(shape[k], type_.shape[k], k)
                shape[k] = fits
        return [TensorType(tuple(shape), dtype)]

    def _same(self, a: Dim, b: Dim, axis: int) -> Dim:
        return unify_dim(self.name, a, b, f"dimension {axis} of the operands")

    def reference(self, operands: Arrays, attrs: AxisAttrs) -> Arrays:
        return [np.concatenate(operands, axis=attrs.axis)]

    def lower(self, operands: Tensors, attrs: AxisAttrs, results: TensorTypes) -> Lowered:
        parts = present(operands)
        axis = attrs.axis % results[0].rank
        filled = [t for t in parts if not te.is_const(t.shape[axis], 0)] or parts[:1]
        return [injective(self.name, results[0], lambda i: _piecewise(filled, axis, i))]

    def evaluate_dims(self, operands: DimArrays, attrs: AxisAttrs, types: OperandTypes) -> DimArray:
        parts = [x for x in operands if x is not None]
        return np.concatenate(parts, axis=attrs.axis) if len(parts) == len(operands) else None

    def in_layout(self, node: Node, change: LayoutChange) -> Value | None:
        """Only whole blocks join."""
        parts, rank = [v for v in node.operands if v is not None], node.result.rank
        axis = node.attrs.axis % rank
        if (block := change.block(axis)) > 1 and any(v.shape[axis] % block for v in parts):
            return None
        return change.call(node, *map(change.converted, parts), axis=change.axis(axis, rank))


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
    operands = (Operand("data", variadic=True),)
    Attrs = AxisAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: AxisAttrs, regions: Regions = ()) -> Types:
        types = tensors(self.name, operands)
        if not types:
            raise fail(self.name, "operands", 0, "at least one")
        axis = normalize_axis(self.name, attrs.axis, types[0].rank + 1)
        shape = list(types[0].shape)
        for type_ in types[1:]:
            expect_rank(self.name, type_, "data", types[0].rank)
            for k, (a, b) in enumerate(zip(shape, type_.shape, strict=True)):
                unify_dim(self.name, a, b, f"dimension {k} of the operands")
        return [TensorType((*shape[:axis], len(types), *shape[axis:]), same_dtype(self.name, types))]

    def reference(self, operands: Arrays, attrs: AxisAttrs) -> Arrays:
        return [np.stack(operands, axis=attrs.axis)]

    def lower(self, operands: Tensors, attrs: AxisAttrs, results: TensorTypes) -> Lowered:
        parts = present(operands)
        axis = attrs.axis % results[0].rank

        def body(i: Sequence[Expr]) -> Expr:
            rest = (*i[:axis], *i[axis + 1 :])
            value = parts[-1][rest]
            for k in range(len(parts) - 2, -1, -1):
                value = te.select(i[axis].eq(k), parts[k][rest], value)
            return value

        return [injective(self.name, results[0], body)]

    def evaluate_dims(self, operands: DimArrays, attrs: AxisAttrs, types: OperandTypes) -> DimArray:
        parts = [x for x in operands if x is not None]
        return np.stack(parts, axis=attrs.axis) if len(parts) == len(operands) else None


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
    operands = (Operand("data"), Operand("sizes", optional=True, holds="integers"))
    Attrs = SplitAttrs
    kind = Kind.INJECTIVE

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

    def infer(self, operands: Values, attrs: SplitAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        sizes = self._sizes(operands, attrs, data.shape[axis])
        return [TensorType((*data.shape[:axis], size, *data.shape[axis + 1 :]), data.dtype) for size in sizes]

    def _sizes(self, operands: Values, attrs: SplitAttrs, extent: Dim) -> list[Dim]:
        if attrs.indices_or_sections is None:
            count = static_length(self.name, optional_operand(operands, 1), "sizes")
            known = known_dims(operands[1])
            return list(fresh_dims("split", count)) if known is None else list(known.reshape(-1))
        ends = self.bounds(extent, attrs)
        sizes = [b - a for a, b in itertools.pairwise(ends)]
        wrong = [s for s in sizes if dims.bounds(s)[1] is not None and dims.different(s, dims.maximum(s, 0))]
        if wrong:
            raise fail(self.name, "positions of the parts", attrs.indices_or_sections, f"growing ones up to {extent}")
        return sizes

    def reference(self, operands: Arrays, attrs: SplitAttrs) -> Arrays:
        data = operands[0]
        if attrs.indices_or_sections is None:
            return np.split(data, np.cumsum(operands[1])[:-1], axis=attrs.axis)
        return np.split(data, self.bounds(data.shape[attrs.axis], attrs)[1:-1], axis=attrs.axis)  # type: ignore[arg-type]

    def lower(self, operands: Tensors, attrs: SplitAttrs, results: TensorTypes) -> Lowered:
        data, axis = present(operands)[0], attrs.axis % results[0].rank
        if attrs.indices_or_sections is not None:
            begins: list[Expr] = [te.dim(b) for b in self.bounds(as_dim(data.shape[axis]), attrs)]
        else:
            begins = _running_sum(_given(operands[1]))
        clamp = attrs.indices_or_sections is None
        return [_part(self.name, data, axis, b, r, clamp) for b, r in zip(begins, results, strict=False)]

    def define_symbols(self, operands: Tensors, attrs: SplitAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        sizes = optional_operand(operands, 1)
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


def _equals(ours: Dim, wanted: Dim) -> Expr:
    return te.dim(ours).eq(te.dim(wanted))


def _broadcasts(ours: Dim, wanted: Dim) -> Expr:
    return te.dim(ours).eq(1) | te.dim(ours).eq(te.dim(wanted))


@dataclass(frozen=True)
class BroadcastToAttrs:
    shape: tuple[Dim, ...] | None = None
    dtype: str | None = None
    exact: bool = False


@register
class BroadcastTo(Op[BroadcastToAttrs]):
    """data repeated along its dimensions of 1 to ``shape`` (attribute or operand); both broadcast against each other.

    A symbolic pair that is not provably equal takes the dimension of ``shape``: that data has it, or 1, is a matter
    of run time. With ``exact`` nothing is repeated: that data has the attribute ``shape`` is a matter of run time.
    """

    name = "broadcast_to"
    operands = (Operand("data"), Operand("shape", optional=True, holds="integers"))
    Attrs = BroadcastToAttrs
    kind = Kind.INJECTIVE
    is_strided = True

    def infer(self, operands: Values, attrs: BroadcastToAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        wanted = attrs.shape
        if attrs.exact and (wanted is None or len(wanted) != data.rank or any(map(dims.different, data.shape, wanted))):
            raise fail(self.name, "shape, which is exact", data, f"the attribute {wanted}")
        if attrs.exact and wanted is not None:
            return [TensorType(wanted, data.dtype)]
        if wanted is None:
            count = static_length(self.name, optional_operand(operands, 1), "shape")
            known = known_dims(operands[1])
            wanted = fresh_dims("broadcast", count) if known is None else tuple(known.reshape(-1))
            return [TensorType(self.result_shape(data.shape, wanted, known is None), data.dtype)]
        return [TensorType(self.result_shape(data.shape, wanted), data.dtype)]

    def result_shape(self, shape: Shape, wanted: Shape, fresh: bool = False) -> Shape:
        """The broadcast; ``fresh``: ``wanted`` are new symbols, which may turn out to be 1."""
        rank = max(len(shape), len(wanted))
        ours, theirs = (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(wanted)) + wanted
        return tuple(self._dim(a, b, fresh) for a, b in zip(ours, theirs, strict=True))

    def _dim(self, ours: Dim, theirs: Dim, fresh: bool) -> Dim:
        if theirs == 1 or (fresh and isinstance(ours, int) and ours != 1):
            return ours
        if ours != 1 and dims.different(ours, theirs):
            raise fail(self.name, "dimension", ours, f"1 or {theirs}")
        return theirs

    def reference(self, operands: Arrays, attrs: BroadcastToAttrs) -> Arrays:
        wanted = attrs.shape if attrs.shape is not None else tuple(operands[1].reshape(-1).tolist())
        if attrs.exact and operands[0].shape != wanted:
            raise ExecutionError(f"{self.name}: got shape {operands[0].shape}; expected {wanted}")
        return [np.broadcast_to(operands[0], np.broadcast_shapes(operands[0].shape, wanted))]  # type: ignore[arg-type]

    def lower(self, operands: Tensors, attrs: BroadcastToAttrs, results: TensorTypes) -> Lowered:
        data, shape = present(operands)[0], results[0].shape

        def index(i: Expr, extent: Expr, wanted: Dim) -> Expr:
            if is_one(extent):
                return te.const(0)
            return i if attrs.exact or dims.equal(as_dim(extent), wanted) else te.clamp(i, extent)

        def body(i: Sequence[Expr]) -> Expr:
            skipped = len(shape) - data.ndim
            aligned = zip(i[skipped:], data.shape, shape[skipped:], strict=True)
            return data[tuple(index(*part) for part in aligned)]

        return [injective(self.name, results[0], body)]

    def requires(
        self, operands: Sequence[TensorType | None], attrs: BroadcastToAttrs, results: TensorTypes
    ) -> list[tuple[Expr, str]]:
        data, shape = operands[0], results[0].shape
        assert data is not None
        found = []
        for ours, wanted in zip(data.shape, shape[len(shape) - data.rank :], strict=True):
            if attrs.exact:
                found += required(dims.equal(ours, wanted), partial(_equals, ours, wanted), f"a dimension {ours} is not {wanted}")
                continue
            fits = dims.equal(ours, wanted) or ours == 1
            why = f"a dimension {ours} does not broadcast to {wanted}"
            found += required(fits, partial(_broadcasts, ours, wanted), why)
        return found

    def define_symbols(self, operands: Tensors, attrs: BroadcastToAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        data, wanted = operands[0], optional_operand(operands, 1)
        if attrs.shape is not None or wanted is None or data is None:
            return {}
        rank = results[0].rank
        ours = [te.const(1)] * (rank - data.ndim) + list(data.shape)
        skipped = rank - length(wanted)
        sizes: list[Expr] = [te.const(1)] * skipped + [element(wanted, k) for k in range(rank - skipped)]
        chosen = [te.select(b.eq(1), a, b) for a, b in zip(ours, sizes, strict=True)]
        return new_symbols(results[0], chosen)

    def evaluate_dims(self, operands: DimArrays, attrs: BroadcastToAttrs, types: OperandTypes) -> DimArray:
        data, wanted = operands[0], optional_operand(operands, 1)
        target = attrs.shape if wanted is None else tuple(wanted.reshape(-1))
        if data is None or target is None:
            return None
        shape = self.result_shape(data.shape, target)
        return np.broadcast_to(data, shape) if dims.is_static(*shape) else None  # type: ignore[arg-type]


@dataclass(frozen=True)
class TileAttrs:
    reps: tuple[Dim, ...] | None = None


@register
class Tile(Op[TileAttrs]):
    """data repeated ``reps`` (attribute or operand) times along its last dimensions: out[i] = data[i % extent]."""

    name = "tile"
    operands = (Operand("data"), Operand("reps", optional=True, holds="integers"))
    Attrs = TileAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: TileAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        reps = attrs.reps
        if reps is None:
            count = static_length(self.name, optional_operand(operands, 1), "reps")
            known = known_dims(operands[1])
            if known is None:
                return [TensorType(fresh_dims("tile", max(count, data.rank)), data.dtype)]
            reps = tuple(known.reshape(-1))
        shape, counts = self._aligned(data.shape, reps)
        return [TensorType(tuple(d * r for d, r in zip(shape, counts, strict=True)), data.dtype)]

    @staticmethod
    def _aligned(shape: Shape, reps: Shape) -> tuple[Shape, Shape]:
        rank = max(len(shape), len(reps))
        return (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(reps)) + reps

    def reference(self, operands: Arrays, attrs: TileAttrs) -> Arrays:
        reps = attrs.reps if attrs.reps is not None else operands[1].reshape(-1).tolist()
        return [np.tile(operands[0], reps)]  # type: ignore[arg-type]

    def lower(self, operands: Tensors, attrs: TileAttrs, results: TensorTypes) -> Lowered:
        data, shape = present(operands)[0], results[0].shape
        skipped = len(shape) - data.ndim

        def index(i: Expr, extent: Expr, whole: Dim) -> Expr:
            if is_one(extent):
                return te.const(0)
            return i if dims.equal(as_dim(extent), whole) else i % extent

        def body(i: Sequence[Expr]) -> Expr:
            return data[tuple(index(*part) for part in zip(i[skipped:], data.shape, shape[skipped:], strict=True))]

        return [injective(self.name, results[0], body)]

    def define_symbols(self, operands: Tensors, attrs: TileAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        data, reps = operands[0], optional_operand(operands, 1)
        if attrs.reps is not None or reps is None or data is None:
            return {}
        rank = results[0].rank
        ours = [te.const(1)] * (rank - data.ndim) + list(data.shape)
        skipped = rank - length(reps)
        counts: list[Expr] = [te.const(1)] * skipped + [element(reps, k) for k in range(rank - skipped)]
        return new_symbols(results[0], [a * b for a, b in zip(ours, counts, strict=True)])

    def evaluate_dims(self, operands: DimArrays, attrs: TileAttrs, types: OperandTypes) -> DimArray:
        data, counts = operands[0], optional_operand(operands, 1)
        reps = attrs.reps if counts is None else tuple(counts.reshape(-1))
        if data is None or reps is None or not dims.is_static(*reps):
            return None
        return np.tile(data, [int(r) for r in reps])  # type: ignore[arg-type]
