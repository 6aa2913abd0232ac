"""Reductions of rows with the same segment id: segment_reduce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Accuracy, Category, Operand
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, expect_rank, fail, fresh_dims, same_dtype, tensor, unify_dim
from forge.ops.core.lowering import new_symbols, optional_operand, scalar
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Array, Arrays, Regions, Tensors, TensorTypes, Types, Values
from forge.ops.core.window_geometry import compute_dtype
from forge.ops.reduce.window import neutral
from forge.ops.shape.full import one_element
from forge.te import Expr

MODES = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "mean": "add"}


@dataclass(frozen=True)
class SegmentAttrs:
    reduction: str = "sum"
    num_segments: Dim | None = None


@register
class SegmentReduce(Op[SegmentAttrs]):
    """out[s] = the ``reduction`` (sum, prod, max, min, mean) of all data[i] with segment_ids[i] == s, and of init.

    Rows whose number is no segment's are left out. Without init a segment without rows gives what changes nothing: 0, 1, the
    least or the greatest value of the type; 0 as mean. ``num_segments`` may be an operand.
    """

    name = "segment_reduce"
    data, segment_ids, init = Operand(), Operand(), Operand(optional=True)
    num_segments = Operand(optional=True)
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION

    def infer(self, operands: Values, attrs: SegmentAttrs, regions: Regions = ()) -> Types:
        data, ids = tensor(self.name, operands[0], "data"), tensor(self.name, operands[1], "segment_ids")
        if attrs.reduction not in MODES:
            raise fail(self.name, "attribute reduction", repr(attrs.reduction), f"one of {', '.join(MODES)}")
        expect_dtype(self.name, data, "data", "float" if attrs.reduction == "mean" else "numeric")
        expect_dtype(self.name, ids, "segment_ids", "index")
        expect_rank(self.name, ids, "segment_ids", 1)
        if not data.rank:
            raise fail(self.name, "operand 'data'", data, "at least one dimension")
        unify_dim(self.name, ids.shape[0], data.shape[0], "length of segment_ids")
        if (init := optional_operand(operands, 2)) is not None:
            same_dtype(self.name, [data, one_element(self.name, init, "init")])
            if attrs.reduction == "mean":
                raise fail(self.name, "operand 'init'", init.type, "none for a mean")
        return [TensorType((self._segments(operands, attrs), *data.shape[1:]), data.dtype)]

    def _segments(self, operands: Values, attrs: SegmentAttrs) -> Dim:
        if attrs.num_segments is not None:
            return attrs.num_segments
        operand = optional_operand(operands, 3)
        one_element(self.name, operand, "num_segments")
        known = known_dims(operand)
        count: Dim = fresh_dims("segments", 1)[0] if known is None else known.reshape(-1)[0]
        return count

    def reference(self, operands: Arrays, attrs: SegmentAttrs) -> Arrays:
        data, ids, init, count = [*operands, None, None][:4]
        segments = int(attrs.num_segments if attrs.num_segments is not None else count.reshape(()))  # type: ignore[arg-type]
        wide = numeric.widest(data)
        start = _start(attrs.reduction, data.dtype.name) if init is None else init.astype(wide.dtype).reshape(())
        out = np.full((segments, *data.shape[1:]), start, wide.dtype)
        rows = np.zeros(segments, np.int64)
        for number, row in zip(ids.tolist(), wide, strict=True):
            if 0 <= number < segments:
                out[number] = _COMBINE[MODES[attrs.reduction]](out[number], row)
                rows[number] += 1
        return [_mean(out, rows) if attrs.reduction == "mean" else out]

    def define_symbols(self, operands: Tensors, attrs: SegmentAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        count = optional_operand(operands, 3)
        if attrs.num_segments is not None or count is None:
            return {}
        return new_symbols(TensorType(results[0].shape[:1], "int64"), [te.cast(scalar(count), "int64")])

    def decompose(self, builder: Builder, operands: Values, attrs: SegmentAttrs) -> Sequence[Value]:
        data, ids, init, count = [*operands, None, None][:4]
        assert data is not None and ids is not None
        dtype = compute_dtype(data.dtype)
        rows = builder.call("cast", data, dtype=dtype)
        least = builder.constant(_start(attrs.reduction, dtype), dtype)
        start = least if init is None else builder.call("cast", init, dtype=dtype)
        rows_and_one = attrs.num_segments + 1 if attrs.num_segments is not None else _one_more(builder, count)
        places = _places(builder, ids, rows_and_one)
        total = _scattered(builder, start, rows, places, rows_and_one, MODES[attrs.reduction])
        if attrs.reduction == "mean":
            ones = builder.call("cast", builder.call("ones_like", places), dtype=dtype)
            ones = builder.call("expand_dims", ones, axis=1, num_newaxis=data.rank - 1) if data.rank > 1 else ones
            counted = _scattered(builder, least, ones, places, rows_and_one, "add")
            total = builder.call("divide", total, builder.call("maximum", counted, builder.constant(1, dtype)))
        return [builder.call("cast", total, dtype=data.dtype)]


_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _start(reduction: str, dtype: str) -> float | int | bool:
    return neutral("sum" if reduction == "mean" else reduction, dtype)


def _mean(total: Array, rows: Array) -> Array:
    return np.asarray(total / np.maximum(rows, 1).reshape(-1, *[1] * (total.ndim - 1)))


def _one_more(builder: Builder, count: Value | None) -> Dim:
    """A symbol for the contents of ``count`` and 1."""
    assert count is not None
    wide = builder.call("reshape", builder.call("cast", count, dtype="int64"), newshape=(1,))
    probe = builder.call("zeros", builder.call("add", wide, builder.constant(np.array([1]))), dtype="bool")
    size: Dim = probe.shape[0]
    return size


def _places(builder: Builder, ids: Value, rows_and_one: Dim) -> Value:
    """Segment numbers; what is none becomes the last row's, which is dropped."""
    wide = builder.call("cast", ids, dtype="int64")
    zero, one = (builder.constant(v, "int64") for v in (0, 1))
    size = builder.call("shape_of", builder.call("zeros", shape=(rows_and_one,), dtype="bool"))
    last = builder.call("subtract", size, one)
    fits = builder.call("logical_and", builder.call("less", wide, last), builder.call("greater_equal", wide, zero))
    return builder.call("where", fits, wide, last)


def _scattered(builder: Builder, start: Value, rows: Value, places: Value, rows_and_one: Dim, mode: str) -> Value:
    """``start``, combined with the rows at their places, without the last row."""
    blank = builder.call("full", start, shape=(rows_and_one, *rows.shape[1:]))
    full = builder.call("scatter_nd", blank, builder.call("expand_dims", places, axis=0), rows, mode=mode)
    return builder.call("strided_slice", full, begin=(0,), end=(-1,), axes=(0,))
