"""Reductions of rows with the same segment id: segment_reduce."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes, te
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, fail, given_number, number_of, same_dtype, unify_dim
from forge.ops.core.lowering import new_symbols, scalar
from forge.ops.core.op import Accuracy, Category, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, Symbols, Tensor, TensorType, TensorTypes, Types, Value, Values
from forge.ops.core.window_geometry import compute_dtype
from forge.ops.index.scatter import MANY_UPDATES
from forge.ops.reduce.window import neutral

MODES = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "mean": "add"}


@dataclass(frozen=True)
class SegmentAttrs:
    reduction: str = "sum"
    num_segments: Dim | None = None


@register
class SegmentReduce(Op[SegmentAttrs]):
    """out[s] = the ``reduction`` (sum, prod, max, min, mean) of all data[i] with segment_ids[i] == s, and of init.

    Rows whose number is not that of a segment are left out. Without init a segment without rows gives what is neutral: 0, 1, the
    least or the greatest value of the type; 0 as mean. ``num_segments`` may be an operand.
    """

    name = "segment_reduce"
    data, segment_ids = Operand(), Operand(accepts="index", rank=1)
    init, num_segments = Operand(optional=True, single=True), Operand(optional=True, single=True)
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION

    def infer(
        self, attrs: SegmentAttrs, data: Value, segment_ids: Value, init: Value | None, num_segments: Value | None
    ) -> Types:
        if attrs.reduction not in MODES:
            raise fail(self.name, "attribute reduction", repr(attrs.reduction), f"one of {', '.join(MODES)}")
        expect_dtype(self.name, data, "data", "float" if attrs.reduction == "mean" else "numeric")
        if not data.rank:
            raise fail(self.name, "operand 'data'", data.type, "at least one dimension")
        unify_dim(self.name, segment_ids.shape[0], data.shape[0], "length of segment_ids")
        if init is not None:
            same_dtype(self.name, [data, init])
            if attrs.reduction == "mean":
                raise fail(self.name, "operand 'init'", init.type, "none for a mean")
        segments = number_of(self.name, "num_segments", attrs.num_segments, num_segments, "segments")
        return [TensorType((segments, *data.shape[1:]), data.dtype)]

    def reference(
        self, attrs: SegmentAttrs, data: Array, segment_ids: Array, init: Array | None, num_segments: Array | None
    ) -> Arrays:
        segments = given_number(attrs.num_segments, num_segments)
        wide = numeric.widest(data)
        start = _start(attrs.reduction, data.dtype.name) if init is None else init.astype(wide.dtype).reshape(())
        out = np.full((segments, *data.shape[1:]), start, wide.dtype)
        rows = np.zeros(segments, np.int64)
        for number, row in zip(segment_ids.tolist(), wide, strict=True):
            if 0 <= number < segments:
                out[number] = _COMBINE[MODES[attrs.reduction]](out[number], row)
                rows[number] += 1
        return [_mean(out, rows) if attrs.reduction == "mean" else out]

    def define_symbols(
        self,
        attrs: SegmentAttrs,
        results: TensorTypes,
        data: Tensor,
        segment_ids: Tensor,
        init: Tensor | None,
        num_segments: Tensor | None,
    ) -> Symbols:
        if attrs.num_segments is not None or num_segments is None:
            return {}
        return new_symbols(TensorType(results[0].shape[:1], "int64"), [te.cast(scalar(num_segments), "int64")])

    def decompose(
        self,
        builder: Builder,
        attrs: SegmentAttrs,
        data: Value,
        segment_ids: Value,
        init: Value | None,
        num_segments: Value | None,
    ) -> Values:
        dtype = self._accumulated(attrs, data)
        rows = builder.call("cast", data, dtype=dtype)
        least = builder.constant(_start(attrs.reduction, dtype), dtype)
        start = least if init is None else builder.call("cast", init, dtype=dtype)
        rows_and_one = attrs.num_segments + 1 if attrs.num_segments is not None else _one_more(builder, num_segments)
        places = _places(builder, segment_ids, rows_and_one)
        total = _scattered(builder, start, rows, places, rows_and_one, MODES[attrs.reduction])
        if attrs.reduction == "mean":
            ones = builder.call("cast", builder.call("ones_like", places), dtype=dtype)
            ones = builder.call("expand_dims", ones, axis=1, num_newaxis=data.rank - 1) if data.rank > 1 else ones
            counted = _scattered(builder, least, ones, places, rows_and_one, "add")
            total = builder.call("divide", total, builder.call("maximum", counted, builder.constant(1, dtype)))
        return [builder.call("cast", total, dtype=data.dtype)]


    def _accumulated(self, attrs: SegmentAttrs, data: Value) -> str:
        """Sums and products are wider where a segment has many rows, or may."""
        dtype = compute_dtype(data.dtype)
        sizes = data.shape[0], attrs.num_segments
        few = isinstance(sizes[0], int) and isinstance(sizes[1], int) and sizes[0] < MANY_UPDATES * sizes[1]
        return dtype if few or attrs.reduction in ("max", "min") else dtypes.WIDER.get(dtype, dtype)


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
    """Segment numbers; those of no segment become an extra last row's, which is dropped."""
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
