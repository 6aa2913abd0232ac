"""Dense layers with packed weights."""

from __future__ import annotations

from functools import reduce
from typing import Any

from forge import dims, te
from forge.ops.core.inference import expect_rank, fail, require_equal
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Value
from forge.ops.nn.convolution import conv_result_dtype
from forge.ops.nn.matmul import DenseAttrs, contraction, matrix_product
from forge.ops.packed import pairs


@register
class DensePack(Op[DenseAttrs]):
    """Dense with a weight packed in panels: ``out[..., n] = sum over k of data[..., k] * weight[n // p, k, n % p]``.

    Operands: data ``[..., K]`` of any rank, weight ``[ceil(N / p), K, p]`` with zeros beyond ``N = units``, or in groups of k,
    ``[ceil(N / p), K / g, p, g]``: two of bfloat16 or float16, two or four of int8. Kernel family ``dense_pack``.
    """

    name = "nn.contrib_dense_pack"
    data, weight = Operand(accepts="numeric or bool", min_rank=1), Operand(accepts="number or bool")
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "dense_pack"
    category = Category.CONTRACTION

    def infer(self, attrs: DenseAttrs, data: Value, weight: Value) -> TensorTypes:
        plain = pairs.plain_type(weight.tensor_type, 3)
        expect_rank(self.name, plain, "weight", 3)
        require_equal(self.name, f"last axis of data {data.type} against the weight's", data.shape[-1], plain.shape[1])
        units = plain.shape[0] * plain.shape[2] if attrs.units is None else attrs.units
        require_equal(self.name, f"panels of the weight for {units} units", plain.shape[0], dims.ceildiv(units, plain.shape[2]))
        return [TensorType((*data.shape[:-1], units), conv_result_dtype(self.name, data, plain, attrs.out_dtype))]

    def reference(self, attrs: DenseAttrs, data: Array, weight: Array) -> Arrays:
        weight = pairs.plain_array(weight, 3)
        columns = weight.transpose(1, 0, 2).reshape(weight.shape[1], -1)
        return [matrix_product(data, columns[:, : attrs.units], attrs.out_dtype)]

    def lower(self, attrs: DenseAttrs, results: TensorTypes, data: Tensor, weight: Tensor) -> Lowered:
        panel = weight.shape[2]
        return contraction(te.shape_of(results[0].shape), data.shape[-1], lambda i, k: data[(*i[:-1], k)],
                            lambda i, k: pairs.element(weight, 3, (i[-1] // panel, k, i[-1] % panel)), results[0].dtype,
                            "dense_pack")

    def flops(self, attrs: DenseAttrs, results: TensorTypes, data: Value, weight: Value) -> Any:
        return 2 * results[0].size * data.shape[-1]


@register
class DensePartsPack(Op[DenseAttrs]):
    """Dense with a weight of float32 that two or three of bfloat16 add up to, packed in panels of pairs.

    ``out[..., n] = sum over k of data[..., k] * sum over i of weight[i, n // p, k // 2, n % p, k % 2]``.

    Operands: data ``[..., K]`` of float32, weight ``[P, ceil(N / p), K / 2, p, 2]`` of bfloat16 with zeros beyond ``N = units``.
    Kernel family ``dense_parts_pack``: sums of the largest products of parts. With three parts, errors are below those of
    multiply-adds; with two, some 4e-6 of the sizes of the products.
    """

    name = "nn.contrib_dense_parts_pack"
    data, weight = Operand(accepts="float", min_rank=1), Operand(accepts="float", rank=5)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "dense_parts_pack"
    category = Category.CONTRACTION

    def infer(self, attrs: DenseAttrs, data: Value, weight: Value) -> TensorTypes:
        parts, panels, steps, panel, group = weight.shape
        if (data.dtype, weight.dtype, group) != ("float32", "bfloat16", 2) or parts not in (2, 3):
            raise fail(self.name, "operands", f"{data.type} and {weight.type}", "float32, and 2 or 3 parts of pairs of bfloat16")
        require_equal(self.name, f"last axis of data {data.type} against the weight's", data.shape[-1], 2 * steps)
        units = panels * panel if attrs.units is None else attrs.units
        require_equal(self.name, f"panels of the weight for {units} units", panels, dims.ceildiv(units, panel))
        return [TensorType((*data.shape[:-1], units), "float32")]

    def reference(self, attrs: DenseAttrs, data: Array, weight: Array) -> Arrays:
        plain = pairs.plain_array(pairs.parts_sum(weight), 3)
        columns = plain.transpose(1, 0, 2).reshape(plain.shape[1], -1)
        return [matrix_product(data, columns[:, : attrs.units], "float32")]

    def lower(self, attrs: DenseAttrs, results: TensorTypes, data: Tensor, weight: Tensor) -> Lowered:
        panel, last = weight.shape[3], 2 if te.is_const(weight.shape[0], 3) else 1

        def element(n: Expr, k: Expr) -> Expr:
            parts = (te.cast(weight[part, n // panel, k // 2, n % panel, k % 2], "float32") for part in range(last, -1, -1))
            return reduce(lambda low, high: high + low, parts)

        return contraction(te.shape_of(results[0].shape), data.shape[-1], lambda i, k: data[(*i[:-1], k)],
                           lambda i, k: element(i[-1], k), "float32", "dense_parts_pack")

    def flops(self, attrs: DenseAttrs, results: TensorTypes, data: Value, weight: Value) -> Any:
        return 2 * results[0].size * data.shape[-1]
