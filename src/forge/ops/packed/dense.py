"""Dense layers with packed weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from forge import dims, te
from forge.ir.op import Accuracy, Category, Kind, Operand
from forge.ir.types import TensorType
from forge.ops.core.inference import expect_rank, fail, real_tensor, require_equal, tensor_type
from forge.ops.core.op import Op, register
from forge.ops.nn.convolution import conv_result_dtype
from forge.ops.nn.matmul import DenseAttrs, contraction, matrix_product, reduction_size
from forge.ops.packed import pairs
from forge.te import Tensor

if TYPE_CHECKING:
    from forge.ir.nodes import Graph, Value


@register
class DensePack(Op[DenseAttrs]):
    """Dense with a weight packed in panels: ``out[..., n] = sum over k of data[..., k] * weight[n // p, k, n % p]``.

    Operands: data ``[..., K]`` of any rank, weight ``[ceil(N / p), K, p]`` with zeros beyond ``N = units``, or in pairs of k
    ``[ceil(N / p), K / 2, p, 2]``. Kernel family ``dense_pack``.
    """

    name = "nn.contrib_dense_pack"
    data, weight = Operand(), Operand()
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
        return [matrix_product(data, columns[:, : attrs.units], attrs.out_dtype)]

    def lower(self, operands: tuple[Tensor, ...], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        data, weight = operands
        panel = weight.shape[2]
        return contraction(te.shape_of(results[0].shape), data.shape[-1], lambda i, k: data[(*i[:-1], k)],
                            lambda i, k: pairs.element(weight, 3, (i[-1] // panel, k, i[-1] % panel)), results[0].dtype,
                            "dense_pack")

    def flops(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Any:
        return 2 * results[0].size * reduction_size(operands)
