"""Sums, means and maxima of the rows of a table that belong together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Accuracy, Category, Operand
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, expect_rank, fail, same_dtype, tensor, unify_dim
from forge.ops.core.lowering import optional_operand
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Arrays, Regions, Types, Values
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
    weight, indices, offsets, per_sample_weights = Operand(), Operand(), Operand(), Operand(optional=True)
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
