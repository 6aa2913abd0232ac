"""Matrix products: nn.dense, nn.matmul, nn.batch_matmul."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes, te
from forge.ops.core.complex_products import split_product
from forge.ops.core.inference import broadcast_shapes, fail, require_equal
from forge.ops.core.lowering import cast_result
from forge.ops.core.op import Accuracy, Kind, Operand, Precision, register
from forge.ops.core.product import Product
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Value, Values
from forge.ops.core.window_geometry import compute_dtype
from forge.ops.nn.convolution import conv_result_dtype


@dataclass(frozen=True)
class DenseAttrs:
    units: Dim | None = None
    out_dtype: str = ""


@dataclass(frozen=True)
class MatmulAttrs:
    units: Dim | None = None
    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = False


@dataclass(frozen=True)
class BatchMatmulAttrs:
    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = False


def matrix_product(a: np.ndarray, b: np.ndarray, out_dtype: str) -> np.ndarray:
    as_type = dtypes.numpy_dtype(compute_dtype(out_dtype or dtypes.canonical(a.dtype)))
    product: np.ndarray = np.matmul(a.astype(as_type), b.astype(as_type))
    return product


def contraction(shape: Sequence[Expr], inner: Expr, a: Any, b: Any, dtype: str, name: str) -> Sequence[Tensor]:
    """``out[i] = sum over k < inner of a(i, k) * b(i, k)`` in ``dtype``, through its accumulator."""
    k = te.reduce_axis(inner, "k")
    wide = compute_dtype(dtype)

    def body(*indices: Expr) -> Expr:
        return te.reduce("sum", te.cast(a(indices, k.var), wide) * te.cast(b(indices, k.var), wide), [k])

    return [cast_result(te.compute(shape, body, name=name), dtype)]


@register
class Dense(Product[DenseAttrs]):
    """``out[..., n] = sum over k of data[..., k] * weight[n, k]``: data of any rank, weight ``[N, K]``; ``units`` restates N.

    float16 and bfloat16 are accumulated in float32.
    """

    name = "nn.dense"
    data, weight = Operand(accepts="number or bool"), Operand(accepts="number or bool", rank=2)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.REDUCTION
    precision = Precision.NARROWS

    weight_axis = 0

    @property
    def depth_axis(self) -> int:
        return self.data.rank - 1

    @property
    def channel_axis(self) -> int:
        return self.result.rank - 1

    def infer(self, attrs: DenseAttrs, data: Value, weight: Value) -> TensorTypes:
        if data.rank == 0:
            raise fail(self.name, "operand 'data'", data.type, "rank 1 or more")
        require_equal(self.name, f"last axis of data {data.type} against the weight's", data.shape[-1], weight.shape[1])
        if attrs.units is not None:
            require_equal(self.name, "rows of the weight", weight.shape[0], attrs.units)
        dtype = conv_result_dtype(self.name, data, weight, attrs.out_dtype)
        return [TensorType((*data.shape[:-1], weight.shape[0]), dtype)]

    def reference(self, attrs: DenseAttrs, data: Array, weight: Array) -> Arrays:
        return [matrix_product(data, weight.T, attrs.out_dtype)]

    def lower(self, attrs: DenseAttrs, results: TensorTypes, data: Tensor, weight: Tensor) -> Lowered:
        return contraction(te.shape_of(results[0].shape), weight.shape[1], lambda i, k: data[(*i[:-1], k)],
                            lambda i, k: weight[i[-1], k], results[0].dtype, "dense")

    def decompose(self, builder: Builder, attrs: DenseAttrs, data: Value, weight: Value) -> Values | None:
        return split_product(self, builder, attrs, data, weight)

    def flops(self, attrs: DenseAttrs, results: TensorTypes, data: Value, weight: Value) -> Any:
        return 2 * results[0].size * data.shape[-1]


class _Matmul(Product[Any]):
    """What products of two (stacks of) matrices share."""

    a, b = Operand(accepts="number or bool", min_rank=2), Operand(accepts="number or bool", min_rank=2)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "matmul"
    precision = Precision.NARROWS

    @property
    def depth_axis(self) -> int:
        return self.a.rank - (2 if self.attrs.transpose_a else 1)

    @property
    def weight_axis(self) -> int:
        return self.b.rank - (2 if self.attrs.transpose_b else 1)

    @property
    def channel_axis(self) -> int:
        return self.result.rank - 1

    def infer(self, attrs: Any, a: Value, b: Value) -> TensorTypes:
        rows, depth = reversed(a.shape[-2:]) if attrs.transpose_a else a.shape[-2:]
        other, columns = reversed(b.shape[-2:]) if attrs.transpose_b else b.shape[-2:]
        require_equal(self.name, f"summed axis of a {a.type} against that of b {b.type}", depth, other)
        batch = broadcast_shapes(self.name, a.shape[:-2], b.shape[:-2])
        return [TensorType((*batch, rows, columns), conv_result_dtype(self.name, a, b, attrs.out_dtype))]

    def reference(self, attrs: Any, a: Array, b: Array) -> Arrays:
        left = np.swapaxes(a, -1, -2) if attrs.transpose_a else a
        right = np.swapaxes(b, -1, -2) if attrs.transpose_b else b
        return [matrix_product(left, right, attrs.out_dtype)]

    def lower(self, attrs: Any, results: TensorTypes, a: Tensor, b: Tensor) -> Lowered:
        def left(i: Sequence[Expr], k: Expr) -> Expr:
            return te.broadcast_read(a, [*i[:-2], *((k, i[-2]) if attrs.transpose_a else (i[-2], k))])

        def right(i: Sequence[Expr], k: Expr) -> Expr:
            return te.broadcast_read(b, [*i[:-2], *((i[-1], k) if attrs.transpose_b else (k, i[-1]))])

        inner = a.shape[-2 if attrs.transpose_a else -1]
        return contraction(te.shape_of(results[0].shape), inner, left, right, results[0].dtype, "matmul")

    def decompose(self, builder: Builder, attrs: Any, a: Value, b: Value) -> Values | None:
        return split_product(self, builder, attrs, a, b)

    def flops(self, attrs: Any, results: TensorTypes, a: Value, b: Value) -> Any:
        return 2 * results[0].size * a.shape[-2 if attrs.transpose_a else -1]


@register
class Matmul(_Matmul):
    """``out[..., m, n] = sum over k of a[..., m, k] * b[..., k, n]``; the axes before broadcast as in NumPy.

    Operands: a and b, both of rank 2 or more; ``transpose_a`` (``transpose_b``) says that the last two axes of a (b) are
    swapped: ``a[..., k, m]`` (``b[..., n, k]``). Kernel family ``matmul``. float16 and bfloat16 are accumulated in float32.
    """

    name = "nn.matmul"
    Attrs = MatmulAttrs

    def infer(self, attrs: Any, a: Value, b: Value) -> TensorTypes:
        (result,) = super().infer(attrs, a, b)
        if attrs.units is not None:
            require_equal(self.name, "columns", result.shape[-1], attrs.units)
        return [result]


@register
class BatchMatmul(_Matmul):
    """``out[i, m, n] = sum over k of a[i, m, k] * b[i, k, n]``: ``nn.matmul`` for operands of rank 3.

    ``transpose_a`` and ``transpose_b`` as there; a batch of 1 broadcasts. Kernel family ``matmul``.
    """

    name = "nn.batch_matmul"
    Attrs = BatchMatmulAttrs
    a, b = Operand(accepts="number or bool", rank=3), Operand(accepts="number or bool", rank=3)
