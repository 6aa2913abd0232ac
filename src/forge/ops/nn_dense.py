"""Matrix products, and the small operators around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.types import TensorType
from forge.ops import pairs
from forge.ops.base import Accuracy, Category, Kind, NoAttrs, Op, Operand, Precision, register
from forge.ops.batch_parts import carry_reshaped
from forge.ops.complex_products import split_product
from forge.ops.infer_helpers import broadcast_shapes, expect_rank, tensor
from forge.ops.layout_change import LayoutChange, along_axis
from forge.ops.nn_common import (
    cast_result,
    compute_dtype,
    fail,
    normalize_axis,
    real_tensor,
    require_equal,
    tensor_type,
)
from forge.ops.nn_conv import conv_result_dtype
from forge.te import Expr, Tensor

if TYPE_CHECKING:
    from forge.ir.builder import Builder
    from forge.ir.nodes import Graph, Node, Value


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


@dataclass(frozen=True)
class BiasAddAttrs:
    axis: int = 1


@dataclass(frozen=True)
class DropoutAttrs:
    rate: float = 0.5


def _product(a: np.ndarray, b: np.ndarray, out_dtype: str) -> np.ndarray:
    as_type = dtypes.numpy_dtype(compute_dtype(out_dtype or dtypes.canonical(a.dtype)))
    product: np.ndarray = np.matmul(a.astype(as_type), b.astype(as_type))
    return product


def _contraction(shape: Sequence[Expr], inner: Expr, a: Any, b: Any, dtype: str, name: str) -> Sequence[Tensor]:
    """``out[i] = sum over k < inner of a(i, k) * b(i, k)`` in ``dtype``, through its accumulator."""
    k = te.reduce_axis(inner, "k")
    wide = compute_dtype(dtype)

    def body(*indices: Expr) -> Expr:
        return te.reduce("sum", te.cast(a(indices, k.var), wide) * te.cast(b(indices, k.var), wide), [k])

    return [cast_result(te.compute(shape, body, name=name), dtype)]


def _depth(operands: Sequence[Any]) -> Dim:
    """Extent of the summed axis: the last one of operand 0."""
    data = operands[0].type if hasattr(operands[0], "type") else operands[0]
    return data.shape[-1]  # type: ignore[no-any-return]


@register
class Dense(Op[DenseAttrs]):
    """``out[..., n] = sum over k of data[..., k] * weight[n, k]``: data of any rank, weight ``[N, K]``; ``units`` restates N.

    float16 and bfloat16 are accumulated in float32.
    """

    name = "nn.dense"
    operands = (Operand("data"), Operand("weight"))
    Attrs = DenseAttrs
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
        return [_product(data, weight.T, attrs.out_dtype)]

    def lower(self, operands: Sequence[Tensor | None], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        data, weight = operands
        assert data is not None and weight is not None
        return _contraction(te.shape_of(results[0].shape), weight.shape[1], lambda i, k: data[(*i[:-1], k)],
                            lambda i, k: weight[i[-1], k], results[0].dtype, "dense")

    def decompose(self, builder: Builder, operands: Sequence[Value | None], attrs: Any) -> Sequence[Value] | None:
        return split_product(self, builder, operands, attrs)

    def flops(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Any:
        return 2 * results[0].size * _depth(operands)


@register
class DensePack(Op[DenseAttrs]):
    """Dense with a weight packed in panels: ``out[..., n] = sum over k of data[..., k] * weight[n // p, k, n % p]``.

    Operands: data ``[..., K]`` of any rank, weight ``[ceil(N / p), K, p]`` with zeros beyond ``N = units``, or in pairs of k
    ``[ceil(N / p), K / 2, p, 2]``. Kernel family ``dense_pack``.
    """

    name = "nn.contrib_dense_pack"
    operands = (Operand("data"), Operand("weight"))
    Attrs = DenseAttrs
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "dense_pack"
    category = Category.CONTRACTION

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        data = real_tensor(self.name, "data", operands[0])
        weight = pairs.plain_type(tensor_type(self.name, "weight", operands[1]), 3)
        expect_rank(self.name, weight, "weight", 3)
        if data.rank == 0:
            raise fail(self.name, "operand 'data'", data, "rank 1 or more")
        require_equal(self.name, f"last axis of data {data} against the weight's", data.shape[-1], weight.shape[1])
        units = weight.shape[0] * weight.shape[2] if attrs.units is None else attrs.units
        require_equal(self.name, f"panels of the weight for {units} units", weight.shape[0], dims.ceildiv(units, weight.shape[2]))
        return [TensorType((*data.shape[:-1], units), conv_result_dtype(self.name, data, weight, attrs.out_dtype))]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        data, weight = operands
        weight = pairs.plain_array(weight, 3)
        columns = weight.transpose(1, 0, 2).reshape(weight.shape[1], -1)
        return [_product(data, columns[:, : attrs.units], attrs.out_dtype)]

    def lower(self, operands: Sequence[Tensor | None], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        data, weight = operands
        assert data is not None and weight is not None
        panel = weight.shape[2]
        return _contraction(te.shape_of(results[0].shape), data.shape[-1], lambda i, k: data[(*i[:-1], k)],
                            lambda i, k: pairs.element(weight, 3, (i[-1] // panel, k, i[-1] % panel)), results[0].dtype,
                            "dense_pack")

    def flops(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Any:
        return 2 * results[0].size * _depth(operands)


class _Matmul(Op[Any]):
    """What products of two (stacks of) matrices share."""

    operands = (Operand("a"), Operand("b"))
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
        return [_product(left, right, attrs.out_dtype)]

    def lower(self, operands: Sequence[Tensor | None], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        a, b = operands
        assert a is not None and b is not None

        def left(i: Sequence[Expr], k: Expr) -> Expr:
            return te.broadcast_read(a, [*i[:-2], *((k, i[-2]) if attrs.transpose_a else (i[-2], k))])

        def right(i: Sequence[Expr], k: Expr) -> Expr:
            return te.broadcast_read(b, [*i[:-2], *((i[-1], k) if attrs.transpose_b else (k, i[-1]))])

        inner = a.shape[-2 if attrs.transpose_a else -1]
        return _contraction(te.shape_of(results[0].shape), inner, left, right, results[0].dtype, "matmul")

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


@register
class BiasAdd(Op[BiasAddAttrs]):
    """``out[..., c, ...] = data[..., c, ...] + bias[c]``, with c at ``axis``."""

    name = "nn.bias_add"
    operands = (Operand("data"), Operand("bias"))
    Attrs = BiasAddAttrs
    accuracy = Accuracy.ROUNDING
    kind = Kind.ELEMENTWISE
    precision = Precision.FOLLOWS
    is_map = False

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        data, bias = tensor_type(self.name, "data", operands[0]), tensor_type(self.name, "bias", operands[1], 1)
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        require_equal(self.name, f"bias against axis {axis} of data {data}", bias.shape[0], data.shape[axis])
        if data.dtype != bias.dtype:
            raise fail(self.name, "dtypes", f"{data.dtype} and {bias.dtype}", "equal ones")
        return [data]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        data, bias = operands
        axis = normalize_axis(self.name, attrs.axis, data.ndim)
        return [data + bias.reshape([-1 if k == axis else 1 for k in range(data.ndim)])]

    def lower(self, operands: Sequence[Tensor | None], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        data, bias = operands
        assert data is not None and bias is not None
        axis = normalize_axis(self.name, attrs.axis, data.ndim)
        return [te.compute(te.shape_of(results[0].shape), lambda *i: data[i] + bias[i[axis]], name="bias_add")]

    def in_layout(self, node: Node, change: LayoutChange) -> Value | None:
        """In blocks the bias has two axes, so that it broadcasts in an addition."""
        data, bias = node.operands
        assert data is not None and bias is not None
        axis = node.attrs.axis % data.rank
        if change.block(axis) == 1:
            return along_axis(self, node, change)
        return change.builder.call("add", change.converted(data), change.vector(bias, axis, data.shape), name=node.name)


@register
class BatchFlatten(Op[NoAttrs]):
    """``out[n, i]`` = element ``i``, in row-major order, of ``data[n]``."""

    name = "nn.batch_flatten"
    carry_batch = carry_reshaped
    operands = (Operand("data"),)
    accuracy = Accuracy.EXACT
    kind = Kind.INJECTIVE
    is_view = True

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        data = tensor(self.name, operands[0], "data")
        if data.rank == 0:
            raise fail(self.name, "operand 'data'", data, "rank 1 or more")
        return [TensorType((data.shape[0], dims.product(data.shape[1:])), data.dtype)]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        x = operands[0]
        return [x.reshape(x.shape[0], int(np.prod(x.shape[1:])))]

    def lower(self, operands: Sequence[Tensor | None], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        (data,) = operands
        assert data is not None

        def body(n: Expr, flat: Expr) -> Expr:
            indices: list[Expr] = []
            for extent in reversed(data.shape[2:]):
                indices.insert(0, flat % extent)
                flat = flat // extent
            return data[(n, flat, *indices)[: data.ndim]]

        return [te.compute(te.shape_of(results[0].shape), body, name="batch_flatten")]


@register
class Dropout(Op[DropoutAttrs]):
    """``out = data``: dropout at inference. ``rate`` is kept for the record."""

    name = "nn.dropout"
    operands = (Operand("data"),)
    Attrs = DropoutAttrs
    accuracy = Accuracy.EXACT
    kind = Kind.ELEMENTWISE

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        return [tensor(self.name, operands[0], "data")]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        return [operands[0]]

    def lower(self, operands: Sequence[Tensor | None], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        (data,) = operands
        assert data is not None
        return [te.compute(te.shape_of(results[0].shape), lambda *i: data[i], name="dropout")]

    def flops(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Any:
        return 0
