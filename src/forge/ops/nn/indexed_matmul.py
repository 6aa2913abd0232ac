"""Products of rows with matrices that indices choose: layers of experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import te
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import require_equal, same_dtype
from forge.ops.core.op import Accuracy, Category, Kind, NoAttrs, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.nn.matmul import contraction


@register
class IndexedMatmul(Op[NoAttrs]):
    """``out[i, n] = sum over k of data[i, k] * weight[index[i], k, n]``: data [M, K], weight [G, K, N], index [M].

    An index outside of 0 to G - 1 gives a row of zeros. float16 and bfloat16 are accumulated in float32.
    """

    name = "nn.indexed_matmul"
    data, weight = Operand(accepts="float", rank=2), Operand(accepts="float", rank=3)
    index = Operand(accepts="index", rank=1)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.REDUCTION
    category = Category.CONTRACTION
    precision = Precision.NARROWS

    def infer(self, attrs: NoAttrs, data: Value, weight: Value, index: Value) -> Types:
        same_dtype(self.name, [data, weight])
        require_equal(self.name, "columns of data against rows of weight", data.shape[1], weight.shape[1])
        require_equal(self.name, "rows of data against indices", data.shape[0], index.shape[0])
        return [TensorType((data.shape[0], weight.shape[2]), data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array, weight: Array, index: Array) -> Arrays:
        out = np.zeros((len(data), weight.shape[2]), numeric.widest(data).dtype)
        for row, chosen in enumerate(index.tolist()):
            if 0 <= chosen < len(weight):
                out[row] = numeric.widest(data)[row] @ numeric.widest(weight)[chosen]
        return [out.astype(data.dtype)]

    def lower(self, attrs: NoAttrs, results: TensorTypes, data: Tensor, weight: Tensor, index: Tensor) -> Lowered:
        groups = weight.shape[0]

        def chosen(i: Any, k: Expr) -> Expr:
            g = te.cast(index[i[0]], "int64")
            inside = (g >= 0) & (g < groups)
            return te.select(inside, weight[te.clamp(g, groups), k, i[1]], te.const(0, data.dtype))

        return contraction(te.shape_of(results[0].shape), data.shape[1], lambda i, k: data[i[0], k], chosen, results[0].dtype,
                           "indexed_matmul")

    def flops(self, attrs: NoAttrs, results: TensorTypes, data: Value, *_: object) -> Any:
        return 2 * results[0].size * data.shape[1]
