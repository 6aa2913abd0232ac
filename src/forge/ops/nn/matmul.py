"""Matrix products: nn.dense, nn.matmul, nn.batch_matmul."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dtypes, te
from forge.dims import Dim
from forge.ir.op import Accuracy, Kind, Operand, Precision
from forge.ir.types import TensorType
from forge.ops.core.complex_products import split_product
from forge.ops.core.inference import broadcast_shapes, fail, require_equal, tensor_type
from forge.ops.core.lowering import cast_result
from forge.ops.core.op import Op, register
from forge.ops.core.window_geometry import compute_dtype
from forge.ops.nn.convolution import conv_result_dtype
from forge.te import Expr, Tensor

if TYPE_CHECKING:
    from forge.ir.builder import Builder
    from forge.ir.nodes import Graph, Value


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


def reduction_size(operands: Sequence[Any]) -> Dim:
    """Extent of the summed axis: the last one of operand 0."""
    data = operands[0].type if hasattr(operands[0], "type") else operands[0]
    return data.shape[-1]  # type: ignore[no-any-return]


@register
class Dense(Op[DenseAttrs]):
    """``out[..., n] = sum over k of data[..., k] * weight[n, k]``: data of any rank, weight ``[N, K]``; ``units`` restates N.

    float16 and bfloat16 are accumulated in float32.
    """

    name = "nn.dense"
    data, weight = Operand(), Operand()
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.REDUCTION
    precision = Precision.NARROWS

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        data, weight = tensor_type(self.name, "data", operands[0]), tensor_type(self.name, "weight", operands[1], 2)
        if data.rank == 0:
            raise fail(self.name, "operand 'data'", data, "rank 1 or more")
        require_equal(self.name, f"last axis of data {data} against the weight's", data.shape[-1], weight.shape[1])
        if attrs.units is not None:
            require_equal(self.name, "rows of the weight", weight.shape[0], attrs.units)
        return [TensorType((*data.shape[:-1], weight.shape[0]), conv_result_dtype(self.name, data, weight, attrs.out_dtype))]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        data, weight = operands
        return [matrix_product(data, weight.T, attrs.out_dtype)]

    def lower(self, operands: tuple[Tensor, ...], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        data, weight = operands
        return contraction(te.shape_of(results[0].shape), weight.shape[1], lambda i, k: data[(*i[:-1], k)],
                            lambda i, k: weight[i[-1], k], results[0].dtype, "dense")

    def decompose(self, builder: Builder, operands: Sequence[Value | None], attrs: Any) -> Sequence[Value] | None:
        return split_product(self, builder, operands, attrs)

    def flops(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Any:
        return 2 * results[0].size * reduction_size(operands)


class _Matmul(Op[Any]):
    """What products of two (stacks of) matrices share."""

    a, b = Operand(), Operand()
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "matmul"
    precision = Precision.NARROWS

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        a, b = (tensor_type(self.name, name, v) for name, v in zip("ab", operands))
        for name, type_ in (("a", a), ("b", b)):
            if type_.rank < 2:
                raise fail(self.name, f"operand {name!r}", type_, "rank 2 or more")
        rows, depth = reversed(a.shape[-2:]) if attrs.transpose_a else a.shape[-2:]
        other, columns = reversed(b.shape[-2:]) if attrs.transpose_b else b.shape[-2:]
        require_equal(self.name, f"summed axis of a {a} against that of b {b}", depth, other)
        batch = broadcast_shapes(self.name, a.shape[:-2], b.shape[:-2])
        return [TensorType((*batch, rows, columns), conv_result_dtype(self.name, a, b, attrs.out_dtype))]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        a, b = operands
        left = np.swapaxes(a, -1, -2) if attrs.transpose_a else a
        right = np.swapaxes(b, -1, -2) if attrs.transpose_b else b
        return [matrix_product(left, right, attrs.out_dtype)]

    def lower(self, operands: tuple[Tensor, ...], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        a, b = operands

        def left(i: Sequence[Expr], k: Expr) -> Expr:
            return te.broadcast_read(a, [*i[:-2], *((k, i[-2]) if attrs.transpose_a else (i[-2], k))])

        def right(i: Sequence[Expr], k: Expr) -> Expr:
            return te.broadcast_read(b, [*i[:-2], *((i[-1], k) if attrs.transpose_b else (k, i[-1]))])

        inner = a.shape[-2 if attrs.transpose_a else -1]
        return contraction(te.shape_of(results[0].shape), inner, left, right, results[0].dtype, "matmul")

    def decompose(self, builder: Builder, operands: Sequence[Value | None], attrs: Any) -> Sequence[Value] | None:
        return split_product(self, builder, operands, attrs)

    def flops(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Any:
        a = operands[0].type if hasattr(operands[0], "type") else operands[0]
        return 2 * results[0].size * a.shape[-2 if attrs.transpose_a else -1]


@register
class Matmul(_Matmul):
    """``out[..., m, n] = sum over k of a[..., m, k] * b[..., k, n]``; the axes before broadcast as in NumPy.

    Operands: a and b, both of rank 2 or more; ``transpose_a`` (``transpose_b``) says that the last two axes of a (b) are
    swapped: ``a[..., k, m]`` (``b[..., n, k]``). Kernel family ``matmul``. float16 and bfloat16 are accumulated in float32.
    """

    name = "nn.matmul"
    Attrs = MatmulAttrs

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        (result,) = super().infer(operands, attrs, regions)
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

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        for name, value in zip("ab", operands):
            tensor_type(self.name, name, value, 3)
        return super().infer(operands, attrs, regions)
