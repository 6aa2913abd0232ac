"""Masks: sequence_mask, masked_scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes, te
from forge.ops.core.inference import fail, same_dtype, unify_dim
from forge.ops.core.lowering import injective
from forge.ops.core.op import Kind, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Expr, Lowered, Tensor, TensorTypes, Types, Value, Values


@dataclass(frozen=True)
class SequenceMaskAttrs:
    mask_value: float = 0.0
    axis: int = 0


def _holds(dtype: str, number: float) -> bool:
    return number.is_integer() and dtypes.wrap_int(int(number), dtype) == number


@register
class SequenceMask(Op[SequenceMaskAttrs]):
    """data with ``mask_value`` at all positions along ``axis`` (0 or 1) from valid_length[b] on, b along the other of the two."""

    name = "sequence_mask"
    data, valid_length = Operand(), Operand(accepts="numeric", rank=1)
    kind = Kind.INJECTIVE

    def infer(self, attrs: SequenceMaskAttrs, data: Value, valid_length: Value) -> Types:
        if attrs.axis not in (0, 1) or data.rank < 2:
            raise fail(self.name, "attribute axis and rank of data", (attrs.axis, data.rank), "axis 0 or 1, rank 2 or more")
        if dtypes.is_integer(data.dtype) and not _holds(data.dtype, attrs.mask_value):
            raise fail(self.name, "attribute mask_value", attrs.mask_value, f"a number that {data.dtype} holds")
        unify_dim(self.name, valid_length.shape[0], data.shape[1 - attrs.axis], "length of valid_length")
        return [data.type]

    def reference(self, attrs: SequenceMaskAttrs, data: Array, valid_length: Array) -> Arrays:
        data = data.copy()
        for b in range(len(valid_length)):
            rows = [slice(None), slice(None)]
            rows[1 - attrs.axis] = b  # type: ignore[call-overload]
            column = data[tuple(rows)]
            column[np.arange(len(column)) >= valid_length[b]] = attrs.mask_value
        return [data]

    def lower(self, attrs: SequenceMaskAttrs, results: TensorTypes, data: Tensor, valid_length: Tensor) -> Lowered:
        fill = te.const(attrs.mask_value, data.dtype)

        def body(i: Sequence[Expr]) -> Expr:
            limit = valid_length[i[1 - attrs.axis]]
            return te.select(te.cast(i[attrs.axis], "float64") < te.cast(limit, "float64"), data[tuple(i)], fill)

        return [injective(self.name, results[0], body)]


@register
class MaskedScatter(Op[NoAttrs]):
    """data with the elements where mask holds replaced by the first elements of source, in row-major order.

    mask broadcasts to data; when source is used up, its last element is repeated.
    """

    name = "masked_scatter"
    data, mask, source = Operand(), Operand(accepts="bool"), Operand()

    def infer(self, attrs: NoAttrs, data: Value, mask: Value, source: Value) -> Types:
        same_dtype(self.name, [data, source])
        for a, b in zip(reversed(mask.shape), reversed(data.shape), strict=False):
            if not (isinstance(a, int) and a == 1):
                unify_dim(self.name, a, b, "shapes of mask and data")
        if mask.rank > data.rank:
            raise fail(self.name, "rank of mask", mask.rank, f"at most {data.rank}")
        return [data.type]

    def reference(self, attrs: NoAttrs, data: Array, mask: Array, source: Array) -> Arrays:
        result, flat = data.copy(), source.reshape(-1)
        mask = np.broadcast_to(mask, data.shape)
        count = int(mask.sum())
        if len(flat):
            result[mask] = flat[np.minimum(np.arange(count), len(flat) - 1)]
        return [result]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value, mask: Value, source: Value) -> Values:
        if dims.equal(source.size, 0):
            return [builder.call("copy", data)]
        mask = builder.call("broadcast_to", mask, shape=data.shape)
        running = builder.call("cumsum", builder.call("reshape", mask, newshape=(-1,)), axis=0, dtype="int64")
        number = builder.call("subtract", running, builder.constant(1, "int64"))
        number = builder.call("maximum", number, builder.constant(0, "int64"))
        flat = builder.call("reshape", source, newshape=(-1,))
        taken = builder.call("take", flat, number, axis=0, mode="clip")
        taken = builder.call("reshape", taken, newshape=data.shape, allowzero=True)
        return [builder.call("where", mask, taken, data)]
