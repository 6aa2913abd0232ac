"""Repetition of whole axes: broadcast_to, tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.errors import ExecutionError
from forge.ir.nodes import Value
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core.inference import Shape, fail, fresh_dims, given_numbers, required, shape_of_contents, static_length
from forge.ops.core.layout_change import LayoutChange
from forge.ops.core.lowering import as_dim, element, injective, is_one, length, new_symbols
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.ranges import kept
from forge.ops.core.signatures import Array, Arrays, Conditions, DimArray, Lowered, OperandTypes, Symbols, TensorTypes, Types
from forge.ops.shape.concatenate import equal_sizes
from forge.te import Expr, Tensor


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
    target_shape = "shape"
    data, shape = Operand(), Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    element_range = kept
    is_strided = True

    def infer(self, attrs: BroadcastToAttrs, data: Value, shape: Value | None) -> Types:
        wanted = attrs.shape
        if attrs.exact and (wanted is None or len(wanted) != data.rank or any(map(dims.different, data.shape, wanted))):
            raise fail(self.name, "shape, which is exact", data.type, f"the attribute {wanted}")
        if attrs.exact and wanted is not None:
            return [TensorType(wanted, data.dtype)]
        if wanted is None:
            count = static_length(self.name, shape, "shape")
            known = known_dims(shape)
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

    def reference(self, attrs: BroadcastToAttrs, data: Array, shape: Array | None) -> Arrays:
        wanted = given_numbers(attrs.shape, shape)
        if attrs.exact and data.shape != wanted:
            raise ExecutionError(f"{self.name}: got shape {data.shape}; expected {wanted}")
        return [np.broadcast_to(data, np.broadcast_shapes(data.shape, wanted))]

    def lower(self, attrs: BroadcastToAttrs, results: TensorTypes, data: Tensor, *_: object) -> Lowered:
        shape = results[0].shape

        def index(i: Expr, extent: Expr, wanted: Dim) -> Expr:
            if is_one(extent):
                return te.const(0)
            return i if attrs.exact or dims.equal(as_dim(extent), wanted) else te.clamp(i, extent)

        def body(i: Sequence[Expr]) -> Expr:
            skipped = len(shape) - data.ndim
            aligned = zip(i[skipped:], data.shape, shape[skipped:], strict=True)
            return data[tuple(index(*part) for part in aligned)]

        return [injective(self.name, results[0], body)]

    def in_layout(self, change: LayoutChange) -> Value | None:
        """Blocked axes keep their extent, and no axis is added."""
        before, after = self.data.shape, self.result.shape
        if self.attrs.shape is None or len(before) != len(after):
            return None
        if any(change.block(k) > 1 and before[k] != after[k] for k in range(len(after))):
            return None
        value = change.converted(self.data)
        axes = zip(change.order(len(after)), value.shape, strict=True)
        return change.call(self.node, value, shape=tuple(d if k is None or change.block(k) > 1 else after[k] for k, d in axes))

    def requires(self, attrs: BroadcastToAttrs, results: TensorTypes, data: TensorType, *_: object) -> Conditions:
        shape = results[0].shape
        found = []
        for ours, wanted in zip(data.shape, shape[len(shape) - data.rank :], strict=True):
            if attrs.exact:
                condition = partial(equal_sizes, ours, wanted)
                found += required(dims.equal(ours, wanted), condition, f"a dimension {ours} is not {wanted}")
                continue
            fits = dims.equal(ours, wanted) or ours == 1
            why = f"a dimension {ours} does not broadcast to {wanted}"
            found += required(fits, partial(_broadcasts, ours, wanted), why)
        return found

    def define_symbols(self, attrs: BroadcastToAttrs, results: TensorTypes, data: Tensor, shape: Tensor | None) -> Symbols:
        if attrs.shape is not None or shape is None:
            return {}
        rank = results[0].rank
        ours = [te.const(1)] * (rank - data.ndim) + list(data.shape)
        skipped = rank - length(shape)
        sizes: list[Expr] = [te.const(1)] * skipped + [element(shape, k) for k in range(rank - skipped)]
        chosen = [te.select(b.eq(1), a, b) for a, b in zip(ours, sizes, strict=True)]
        return new_symbols(results[0], chosen)

    def evaluate_dims(self, attrs: BroadcastToAttrs, types: OperandTypes, data: DimArray, shape: DimArray) -> DimArray:
        wanted = attrs.shape if shape is None else tuple(shape.reshape(-1))
        if data is None or wanted is None:
            return None
        target = self.result_shape(data.shape, wanted)
        return np.broadcast_to(data, target) if dims.is_static(*target) else None  # type: ignore[arg-type]


@dataclass(frozen=True)
class TileAttrs:
    reps: tuple[Dim, ...] | None = None


@register
class Tile(Op[TileAttrs]):
    """data repeated ``reps`` (attribute or operand) times along its last dimensions: out[i] = data[i % extent]."""

    name = "tile"
    data, reps = Operand(), Operand(optional=True, holds="integers")
    kind = Kind.INJECTIVE
    element_range = kept

    def infer(self, attrs: TileAttrs, data: Value, reps: Value | None) -> Types:
        if attrs.reps is None and known_dims(reps) is None:
            count = static_length(self.name, reps, "reps")
            return [TensorType(fresh_dims("tile", max(count, data.rank)), data.dtype)]
        shape, counts = self._aligned(data.shape, shape_of_contents(self.name, "reps", attrs.reps, reps, "tile"))
        return [TensorType(tuple(d * r for d, r in zip(shape, counts, strict=True)), data.dtype)]

    @staticmethod
    def _aligned(shape: Shape, reps: Shape) -> tuple[Shape, Shape]:
        rank = max(len(shape), len(reps))
        return (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(reps)) + reps

    def reference(self, attrs: TileAttrs, data: Array, reps: Array | None) -> Arrays:
        return [np.tile(data, given_numbers(attrs.reps, reps))]

    def lower(self, attrs: TileAttrs, results: TensorTypes, data: Tensor, reps: Tensor | None) -> Lowered:
        shape = results[0].shape
        skipped = len(shape) - data.ndim

        def index(i: Expr, extent: Expr, whole: Dim) -> Expr:
            if is_one(extent):
                return te.const(0)
            return i if dims.equal(as_dim(extent), whole) else i % extent

        def body(i: Sequence[Expr]) -> Expr:
            return data[tuple(index(*part) for part in zip(i[skipped:], data.shape, shape[skipped:], strict=True))]

        return [injective(self.name, results[0], body)]

    def define_symbols(self, attrs: TileAttrs, results: TensorTypes, data: Tensor, reps: Tensor | None) -> Symbols:
        if attrs.reps is not None or reps is None:
            return {}
        rank = results[0].rank
        ours = [te.const(1)] * (rank - data.ndim) + list(data.shape)
        skipped = rank - length(reps)
        counts: list[Expr] = [te.const(1)] * skipped + [element(reps, k) for k in range(rank - skipped)]
        return new_symbols(results[0], [a * b for a, b in zip(ours, counts, strict=True)])

    def evaluate_dims(self, attrs: TileAttrs, types: OperandTypes, data: DimArray, reps: DimArray) -> DimArray:
        counts = attrs.reps if reps is None else tuple(reps.reshape(-1))
        if data is None or counts is None or not dims.is_static(*counts):
            return None
        return np.tile(data, [int(r) for r in counts])  # type: ignore[arg-type]
