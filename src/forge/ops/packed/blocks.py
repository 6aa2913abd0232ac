"""Dense layers whose weights are codes of 2, 4 or 8 bits with a scale for each block of them along the summed axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.ops.core.inference import fail, require_equal
from forge.ops.core.lowering import cast_result
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Value
from forge.tir.expr import binary

WORD = 4
"""Bytes of a word: numbers of neighbouring k, one to a byte, which a dot product takes at once."""


TABLE = 16
"""Numbers that codes of 4 bits stand for."""


@dataclass(frozen=True)
class DenseBlocksAttrs:
    units: int
    bits: int = 4
    block_size: int = 32
    out_dtype: str = "float32"


@register
class DenseBlocksPack(Op[DenseBlocksAttrs]):
    """``out[..., n] = sum over k of x[..., k] * (code[n, k] - zero_point[n, k / B]) * scale[n, k / B]`` for blocks of
    ``B = block_size``, where x is data, or ``data[..., k] * data_scale[..., k / B]``. With a table, ``table[code[n, k]]`` takes
    the place of the difference.

    Operands: data ``[..., K]``, float, or int8 with ``data_scale [..., K / B]``; weight of uint8 ``[ceil(N / p), K / W, p, 4]``:
    words of 4 bytes that hold ``W = 32 / bits`` codes of one n, code ``4 * c + j`` in bits ``c * bits`` of byte j; scale and
    zero_point ``[ceil(N / p), K / B, p]`` (absent: ``2 ** (bits - 1)``); table of 16 numbers, for 4 bits and float data.
    N is ``units``, K a multiple of B, B of W. Kernel family ``dense_blocks_pack``: the sums of a block of integers are exact.
    """

    name = "nn.contrib_dense_blocks_pack"
    data, data_scale = Operand(accepts="numeric", min_rank=1), Operand(accepts="float", optional=True)
    weight, scale = Operand(accepts="uint8", rank=4), Operand(accepts="float", rank=3)
    zero_point, table = Operand(accepts="uint8", rank=3, optional=True), Operand(accepts="float32", rank=1, optional=True)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "dense_blocks_pack"
    category = Category.CONTRACTION

    def infer(
        self, attrs: DenseBlocksAttrs, data: Value, data_scale: Value | None, weight: Value, scale: Value, zero: Value | None,
        table: Value | None,
    ) -> TensorTypes:
        if attrs.bits not in (2, 4, 8):
            raise fail(self.name, "attribute 'bits'", attrs.bits, "2, 4 or 8")
        codes = codes_of_word(attrs.bits)
        if attrs.block_size <= 0 or attrs.block_size % codes:
            raise fail(self.name, "attribute 'block_size'", attrs.block_size, f"a multiple of {codes}")
        panels, words, panel, word = weight.shape
        require_equal(self.name, "bytes of a word of the weight", word, WORD)
        require_equal(self.name, f"last axis of data {data.type} against the weight's", data.shape[-1], words * codes)
        require_equal(self.name, f"panels of the weight for {attrs.units} units", panels, dims.ceildiv(attrs.units, panel))
        blocks = dims.ceildiv(data.shape[-1], attrs.block_size)
        require_equal(self.name, "summed axis in blocks", data.shape[-1], blocks * attrs.block_size)
        for name, parameter in (("scale", scale), ("zero_point", zero)):
            if parameter is not None and parameter.shape != (panels, blocks, panel):
                raise fail(self.name, f"operand {name!r}", parameter.type, f"the shape {(panels, blocks, panel)}")
        if data.dtype != "int8" and not dtypes.is_float(data.dtype):
            raise fail(self.name, "operand 'data'", data.type, "float, or int8")
        if (data_scale is None) == (data.dtype == "int8"):
            got = "none" if data_scale is None else data_scale.type
            raise fail(self.name, "operand 'data_scale'", got, "one for data of int8, else none")
        if data_scale is not None and data_scale.shape != (*data.shape[:-1], blocks):
            raise fail(self.name, "operand 'data_scale'", data_scale.type, f"the shape {(*data.shape[:-1], blocks)}")
        if table is not None and (table.shape, attrs.bits, zero, data_scale) != ((TABLE,), 4, None, None):
            raise fail(self.name, "operand 'table'", table.type, f"{TABLE} numbers for 4 bits, no zero_point and no data_scale")
        return [TensorType((*data.shape[:-1], attrs.units), attrs.out_dtype)]

    def reference(
        self, attrs: DenseBlocksAttrs, data: Array, data_scale: Array | None, weight: Array, scale: Array, zero: Array | None,
        table: Array | None,
    ) -> Arrays:
        codes = plain_codes(weight, attrs.bits)
        columns = (v.transpose(1, 0, 2).reshape(v.shape[1], -1) for v in (scale, zero) if v is not None)
        factors, *zeros = (np.repeat(v.astype(np.float32), attrs.block_size, axis=0) for v in columns)
        middle = zeros[0] if zeros else np.float32(1 << (attrs.bits - 1))
        real = (codes - middle if table is None else table[codes]) * factors
        rows = data.astype(np.float32)
        if data_scale is not None:
            rows = rows * np.repeat(data_scale.astype(np.float32), attrs.block_size, axis=-1)
        return [np.matmul(rows, real[:, : attrs.units]).astype(dtypes.numpy_dtype(attrs.out_dtype))]

    def lower(
        self, attrs: DenseBlocksAttrs, results: TensorTypes, data: Tensor, data_scale: Tensor | None, weight: Tensor,
        scale: Tensor, zero: Tensor | None, table: Tensor | None,
    ) -> Lowered:
        codes, panel = codes_of_word(attrs.bits), weight.shape[2]
        k = te.reduce_axis(data.shape[-1], "k")

        def body(*i: Expr) -> Expr:
            place, column, block = i[-1] // panel, i[-1] % panel, k.var // attrs.block_size
            byte = te.cast(weight[place, k.var // codes, column, k.var % WORD], "int32")
            shift = te.cast(k.var % codes // WORD * attrs.bits, "int32")
            code = binary("shr", byte, shift) & ((1 << attrs.bits) - 1)
            middle = te.const(1 << (attrs.bits - 1), "int32")
            origin = middle if zero is None else te.cast(zero[place, block, column], "int32")
            number = te.cast(code - origin, "float32") if table is None else table[te.cast(code, "int64")]
            real = number * te.cast(scale[place, block, column], "float32")
            row = te.cast(data[(*i[:-1], k.var)], "float32")
            if data_scale is not None:
                row = row * te.cast(data_scale[(*i[:-1], block)], "float32")
            return te.reduce("sum", row * real, [k])

        total = te.compute(te.shape_of(results[0].shape), body, name="dense_blocks")
        return [cast_result(total, results[0].dtype)]

    def flops(self, attrs: DenseBlocksAttrs, results: TensorTypes, data: Value, *_: Value | None) -> Any:
        return 2 * results[0].size * data.shape[-1]


def codes_of_word(bits: int) -> int:
    """How many codes a word holds."""
    return 8 * WORD // bits


def plain_codes(weight: np.ndarray, bits: int) -> np.ndarray:
    """The codes ``[K, N]`` of a packed weight."""
    panels, words, panel, _ = weight.shape
    parts = np.stack([(weight >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=2)  # [panels, words, c, p, 4]
    return parts.transpose(1, 2, 4, 0, 3).reshape(words * codes_of_word(bits), panels * panel)


def packed_codes(codes: np.ndarray, bits: int, panel: int) -> np.ndarray:
    """Codes ``[N, K]`` as a packed weight; zeros beyond N."""
    units, depth = codes.shape
    whole = np.zeros((-(-units // panel) * panel, depth), np.uint8)
    whole[:units] = codes
    parts = whole.reshape(-1, panel, depth // codes_of_word(bits), 8 // bits, WORD).transpose(3, 0, 2, 1, 4)
    packed = np.ascontiguousarray(parts[0])
    for number in range(1, 8 // bits):
        packed |= parts[number] << (number * bits)
    return packed
