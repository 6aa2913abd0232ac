"""Numbers of few bits that lie several to a byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes, te
from forge.ops.core.inference import fail
from forge.ops.core.op import Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Value
from forge.tir.expr import binary

DTYPES = ("int2", "uint2", "int4", "uint4")
"""What a byte can hold several of."""


@dataclass(frozen=True)
class UnpackAttrs:
    out_dtype: str = "uint4"


@register
class Unpack(Op[UnpackAttrs]):
    """``out[..., n * j + i]`` is bits ``i * b`` to ``(i + 1) * b`` of ``data[..., j]``: numbers of b bits, n = 8 / b to a byte.

    Operands: data of uint8. ``out_dtype`` is int2, uint2, int4 or uint4; signed numbers are two's complements. As ONNX packs
    its sub-byte types, whose first number is in the lowest bits.
    """

    name = "qnn.unpack"
    data = Operand(accepts="uint8", min_rank=1)
    kind = Kind.INJECTIVE
    category = Category.QUANTIZATION
    unpacks = True

    def infer(self, attrs: UnpackAttrs, data: Value) -> TensorTypes:
        if attrs.out_dtype not in DTYPES:
            raise fail(self.name, "out_dtype", attrs.out_dtype, f"one of {', '.join(DTYPES)}")
        return [TensorType((*data.shape[:-1], data.shape[-1] * per_byte(attrs.out_dtype)), attrs.out_dtype)]

    def reference(self, attrs: UnpackAttrs, data: Array) -> Arrays:
        return [unpacked(data, attrs.out_dtype)]

    def lower(self, attrs: UnpackAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        bits, count = dtypes.bits(attrs.out_dtype), per_byte(attrs.out_dtype)

        def body(*i: Expr) -> Expr:
            byte = te.cast(data[(*i[:-1], i[-1] // count)], "int32")
            code = binary("shr", byte, te.cast(i[-1] % count * bits, "int32")) & ((1 << bits) - 1)
            if dtypes.is_signed(attrs.out_dtype):
                sign = 1 << (bits - 1)
                code = binary("xor", code, sign) - sign
            return te.cast(code, attrs.out_dtype)

        return [te.compute(te.shape_of(results[0].shape), body, name="unpack")]


def per_byte(dtype: str) -> int:
    """How many numbers of a sub-byte type are in a byte."""
    return 8 // dtypes.bits(dtype)


def unpacked(data: np.ndarray, dtype: str) -> np.ndarray:
    """The meaning of ``qnn.unpack``."""
    bits, low = dtypes.bits(dtype), dtypes.integer_range(dtype)[0]
    codes = np.stack([(data >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=-1)
    codes = codes.reshape(*data.shape[:-1], -1).astype(np.int8)
    return ((codes ^ -low) + low).astype(dtypes.numpy_dtype(dtype))


def packed_bytes(array: np.ndarray) -> np.ndarray | None:
    """What ``qnn.unpack`` makes ``array`` of; None where its type is not below a byte, or rows are not whole bytes."""
    dtype = dtypes.canonical(array.dtype)
    if dtype not in DTYPES or array.ndim == 0 or array.shape[-1] % per_byte(dtype):
        return None
    bits, count = dtypes.bits(dtype), per_byte(dtype)
    codes = array.view(np.uint8) & ((1 << bits) - 1)
    packed = np.zeros((*array.shape[:-1], array.shape[-1] // count), np.uint8)
    for place in range(count):
        packed |= codes[..., place::count] << (place * bits)
    return packed
