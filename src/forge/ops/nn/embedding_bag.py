"""Sums, means and maxima of the rows of a table that belong together."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from forge import dims
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail, same_dtype, unify_dim
from forge.ops.core.op import Accuracy, Category, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, Types, Value, Values
from forge.ops.reduce.segment import SegmentReduce


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
    weight, indices = Operand(accepts="float", rank=2), Operand(accepts="index", rank=1)
    offsets, per_sample_weights = Operand(accepts="index", rank=1), Operand(optional=True, rank=1)
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION

    def infer(
        self, attrs: EmbeddingBagAttrs, weight: Value, indices: Value, offsets: Value, per_sample_weights: Value | None
    ) -> Types:
        if attrs.mode not in ("sum", "mean", "max"):
            raise fail(self.name, "attribute mode", repr(attrs.mode), "sum, mean or max")
        if per_sample_weights is not None:
            unify_dim(self.name, per_sample_weights.shape[0], indices.shape[0], "number of per_sample_weights")
            same_dtype(self.name, [weight, per_sample_weights])
            if attrs.mode != "sum":
                raise fail(self.name, "operand 'per_sample_weights'", f"mode {attrs.mode}", "mode sum")
        return [TensorType((self._bags(offsets, attrs), weight.shape[1]), weight.dtype)]

    def _bags(self, offsets: Value, attrs: EmbeddingBagAttrs) -> Dim:
        return dims.maximum(offsets.shape[0] - 1, 0) if attrs.include_last_offset else offsets.shape[0]

    def reference(
        self, attrs: EmbeddingBagAttrs, weight: Array, indices: Array, offsets: Array, per_sample_weights: Array | None
    ) -> Arrays:
        ends = [*offsets.tolist(), *([] if attrs.include_last_offset else [len(indices)])]
        out = np.zeros((max(len(ends) - 1, 0), weight.shape[1]), numeric.widest(weight).dtype)
        for bag, (first, last) in enumerate(itertools.pairwise(ends)):
            chosen = [i for i in range(first, last) if attrs.padding_idx is None or indices[i] != attrs.padding_idx]
            rows = numeric.widest(weight)[indices[chosen].astype(np.int64)]
            if per_sample_weights is not None:
                rows = rows * numeric.widest(per_sample_weights)[chosen][:, None]
            if chosen:
                out[bag] = {"sum": np.sum, "mean": np.mean, "max": np.max}[attrs.mode](rows, axis=0)  # type: ignore[operator]
        return [out.astype(weight.dtype)]

    def decompose(
        self,
        builder: Builder,
        attrs: EmbeddingBagAttrs,
        weight: Value,
        indices: Value,
        offsets: Value,
        per_sample_weights: Value | None,
    ) -> Values:
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
        if per_sample_weights is not None:
            rows = builder.call("multiply", rows, builder.call("expand_dims", per_sample_weights, axis=1))
        segments = self._bags(offsets, attrs)
        result = builder.call(SegmentReduce(), rows, bags, reduction=attrs.mode, num_segments=segments)
        if attrs.mode != "max":
            return [result]
        ones = builder.call("ones_like", bags)
        count = builder.call(SegmentReduce(), ones, bags, reduction="sum", num_segments=segments)
        filled = builder.call("greater", builder.call("expand_dims", count, axis=1), zero)
        return [builder.call("where", filled, result, builder.constant(0, weight.dtype))]
