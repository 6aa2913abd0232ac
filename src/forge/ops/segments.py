"""Reductions of rows that belong together: segment_reduce, and embedding_bag on top of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops import numeric
from forge.ops.base import Accuracy, Category, Op, Operand, register
from forge.ops.creation import one_element
from forge.ops.infer_helpers import expect_dtype, expect_rank, fail, fresh_dims, same_dtype, tensor, unify_dim
from forge.ops.lower_helpers import new_symbols, scalar
from forge.ops.nn_common import compute_dtype
from forge.ops.shape_ops import optional_operand
from forge.ops.signatures import Array, Arrays, Regions, Tensors, TensorTypes, Types, Values
from forge.ops.window import neutral
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
    operands = (
        Operand("data"),
        Operand("segment_ids"),
        Operand("init", optional=True),
        Operand("num_segments", optional=True),
    )
    Attrs = SegmentAttrs
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


@dataclass(frozen=True)
class EmbeddingBagAttrs:
    mode: str = "sum"
    include_last_offset: bool = False
    padding_idx: int | None = None


@register
class EmbeddingBag(Op[EmbeddingBagAttrs]):
    """out[b] = the sum, mean or max (``mode``) of weight[indices[i]] * per_sample_weights[i] for all i in bag b.

    Bag b is the range from offsets[b] to offsets[b + 1]; the last one ends where indices end, or with ``include_last_offset``
    at the last offset. Offsets ascend from 0. Indices equal to ``padding_idx`` do not
    count. An empty bag gives 0. Only a sum takes per_sample_weights.
    """

    name = "nn.embedding_bag"
    operands = (Operand("weight"), Operand("indices"), Operand("offsets"), Operand("per_sample_weights", optional=True))
    Attrs = EmbeddingBagAttrs
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION

    def infer(self, operands: Values, attrs: EmbeddingBagAttrs, regions: Regions = ()) -> Types:
        weight, indices, offsets = (tensor(self.name, v, o.name) for v, o in zip(operands[:3], self.operands[:3], strict=True))
        for type_, name, rank in ((weight, "weight", 2), (indices, "indices", 1), (offsets, "offsets", 1)):
            expect_rank(self.name, type_, name, rank)
            expect_dtype(self.name, type_, name, "float" if name == "weight" else "index")
        if attrs.mode not in ("sum", "mean", "max"):
            raise fail(self.name, "attribute mode", repr(attrs.mode), "sum, mean or max")
        if (factors := optional_operand(operands, 3)) is not None:
            type_ = tensor(self.name, factors, "per_sample_weights")
            expect_rank(self.name, type_, "per_sample_weights", 1)
            unify_dim(self.name, type_.shape[0], indices.shape[0], "number of per_sample_weights")
            same_dtype(self.name, [weight, type_])
            if attrs.mode != "sum":
                raise fail(self.name, "operand 'per_sample_weights'", f"mode {attrs.mode}", "mode sum")
        return [TensorType((self._bags(offsets, attrs), weight.shape[1]), weight.dtype)]

    def _bags(self, offsets: TensorType, attrs: EmbeddingBagAttrs) -> Dim:
        return dims.maximum(offsets.shape[0] - 1, 0) if attrs.include_last_offset else offsets.shape[0]

    def reference(self, operands: Arrays, attrs: EmbeddingBagAttrs) -> Arrays:
        weight, indices, offsets, factors = [*operands, None][:4]
        ends = [*offsets.tolist(), *([] if attrs.include_last_offset else [len(indices)])]
        out = np.zeros((max(len(ends) - 1, 0), weight.shape[1]), numeric.widest(weight).dtype)
        for bag, (first, last) in enumerate(itertools.pairwise(ends)):
            chosen = [i for i in range(first, last) if attrs.padding_idx is None or indices[i] != attrs.padding_idx]
            rows = numeric.widest(weight)[indices[chosen].astype(np.int64)]
            if factors is not None:
                rows = rows * numeric.widest(factors)[chosen][:, None]
            if chosen:
                out[bag] = {"sum": np.sum, "mean": np.mean, "max": np.max}[attrs.mode](rows, axis=0)  # type: ignore[operator]
        return [out.astype(weight.dtype)]

    def decompose(self, builder: Builder, operands: Values, attrs: EmbeddingBagAttrs) -> Sequence[Value]:
        weight, indices, offsets, factors = [*operands, None][:4]
        assert weight is not None and indices is not None and offsets is not None
        zero, one = (builder.constant(v, "int64") for v in (0, 1))
        wide = builder.call("cast", indices, dtype="int64")
        places = builder.call("arange", zero, builder.call("ndarray_size", indices), one)
        places = builder.call("reshape", places, newshape=indices.shape, allowzero=True)
        bags = builder.call("searchsorted", builder.call("cast", offsets, dtype="int64"), places, right=True)
        bags = builder.call("subtract", bags, one)
        if attrs.padding_idx is not None:
            counts = builder.call("not_equal", wide, builder.constant(attrs.padding_idx, "int64"))
            bags = builder.call("where", counts, bags, builder.constant(-1, "int64"))
        rows = builder.call("take", weight, wide, axis=0)
        if factors is not None:
            rows = builder.call("multiply", rows, builder.call("expand_dims", factors, axis=1))
        segments = self._bags(offsets.tensor_type, attrs)
        result = builder.call(SegmentReduce(), rows, bags, reduction=attrs.mode, num_segments=segments)
        if attrs.mode != "max":
            return [result]
        ones = builder.call("ones_like", bags)
        count = builder.call(SegmentReduce(), ones, bags, reduction="sum", num_segments=segments)
        filled = builder.call("greater", builder.call("expand_dims", count, axis=1), zero)
        return [builder.call("where", filled, result, builder.constant(0, weight.dtype))]


__all__ = ["EmbeddingBag", "SegmentReduce"]
