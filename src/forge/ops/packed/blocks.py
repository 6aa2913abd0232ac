"""Dense layers whose weights are codes of 2, 4 or 8 bits with a scale for each block of them along the summed axis."""

from __future__ import annotations

from collections.abc import Sequence
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
        check_blocks(self.name, attrs, data, data_scale, weight, scale, zero)
        if table is not None and (table.shape, attrs.bits, zero, data_scale) != ((TABLE,), 4, None, None):
            raise fail(self.name, "operand 'table'", table.type, f"{TABLE} numbers for 4 bits, no zero_point and no data_scale")
        return [TensorType((*data.shape[:-1], attrs.units), attrs.out_dtype)]

    def reference(
        self, attrs: DenseBlocksAttrs, data: Array, data_scale: Array | None, weight: Array, scale: Array, zero: Array | None,
        table: Array | None,
    ) -> Arrays:
        real = plain_weight(attrs, weight, scale, zero, table)
        return [np.matmul(plain_rows(attrs, data, data_scale), real).astype(dtypes.numpy_dtype(attrs.out_dtype))]

    def lower(
        self, attrs: DenseBlocksAttrs, results: TensorTypes, data: Tensor, data_scale: Tensor | None, weight: Tensor,
        scale: Tensor, zero: Tensor | None, table: Tensor | None,
    ) -> Lowered:
        k = te.reduce_axis(data.shape[-1], "k")

        def body(*i: Expr) -> Expr:
            real = number_of(attrs, (), i[-1], k.var, weight, scale, zero, table)
            return te.reduce("sum", row_element(attrs, i[:-1], k.var, data, data_scale) * real, [k])

        total = te.compute(te.shape_of(results[0].shape), body, name="dense_blocks")
        return [cast_result(total, results[0].dtype)]

    def flops(self, attrs: DenseBlocksAttrs, results: TensorTypes, data: Value, *_: Value | None) -> Any:
        return 2 * results[0].size * data.shape[-1]


@register
class IndexedBlocksPack(Op[DenseBlocksAttrs]):
    """``out[i, n] = sum over k of x[i, k] * (code[g, n, k] - zero_point[g, n, k / B]) * scale[g, n, k / B]``, ``g = index[i]``.

    Operands: those of ``nn.contrib_dense_blocks_pack``, of rank 2, with an axis of weights before those of weight, scale and
    zero_point; index ``[M]``. A row whose index is that of no weight is zero. Kernel family ``indexed_blocks_pack``: rows next to
    each other with the same index are one product.
    """

    name = "nn.contrib_indexed_blocks_pack"
    data, data_scale = Operand(accepts="numeric", rank=2), Operand(accepts="float", rank=2, optional=True)
    weight, scale = Operand(accepts="uint8", rank=5), Operand(accepts="float", rank=4)
    zero_point, index = Operand(accepts="uint8", rank=4, optional=True), Operand(accepts="index", rank=1)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "indexed_blocks_pack"
    category = Category.CONTRACTION

    def infer(
        self, attrs: DenseBlocksAttrs, data: Value, data_scale: Value | None, weight: Value, scale: Value, zero: Value | None,
        index: Value,
    ) -> TensorTypes:
        check_blocks(self.name, attrs, data, data_scale, weight, scale, zero)
        require_equal(self.name, "rows of data against indices", data.shape[0], index.shape[0])
        return [TensorType((data.shape[0], attrs.units), attrs.out_dtype)]

    def reference(
        self, attrs: DenseBlocksAttrs, data: Array, data_scale: Array | None, weight: Array, scale: Array, zero: Array | None,
        index: Array,
    ) -> Arrays:
        rows = plain_rows(attrs, data, data_scale)
        out = np.zeros((len(rows), attrs.units), np.float32)
        for g in range(len(weight)):
            own = index == g
            out[own] = rows[own] @ plain_weight(attrs, weight[g], scale[g], None if zero is None else zero[g])
        return [out.astype(dtypes.numpy_dtype(attrs.out_dtype))]

    def lower(
        self, attrs: DenseBlocksAttrs, results: TensorTypes, data: Tensor, data_scale: Tensor | None, weight: Tensor,
        scale: Tensor, zero: Tensor | None, index: Tensor,
    ) -> Lowered:
        k, groups = te.reduce_axis(data.shape[1], "k"), weight.shape[0]

        def body(*i: Expr) -> Expr:
            g = te.cast(index[i[0]], "int64")
            real = number_of(attrs, [te.clamp(g, groups)], i[1], k.var, weight, scale, zero)
            product = row_element(attrs, i[:1], k.var, data, data_scale) * real
            return te.reduce("sum", te.select((g >= 0) & (g < groups), product, te.const(0, "float32")), [k])

        total = te.compute(te.shape_of(results[0].shape), body, name="indexed_blocks")
        return [cast_result(total, results[0].dtype)]

    def flops(self, attrs: DenseBlocksAttrs, results: TensorTypes, data: Value, *_: Value | None) -> Any:
        return 2 * results[0].size * data.shape[-1]


def check_blocks(
    name: str, attrs: DenseBlocksAttrs, data: Value, data_scale: Value | None, weight: Value, scale: Value, zero: Value | None
) -> None:
    """Fails unless the operands are those of products by blocks; weights may have an axis before the others."""
    if attrs.bits not in (2, 4, 8):
        raise fail(name, "attribute 'bits'", attrs.bits, "2, 4 or 8")
    codes = codes_of_word(attrs.bits)
    if attrs.block_size <= 0 or attrs.block_size % codes:
        raise fail(name, "attribute 'block_size'", attrs.block_size, f"a multiple of {codes}")
    *groups, panels, words, panel, word = weight.shape
    require_equal(name, "bytes of a word of the weight", word, WORD)
    require_equal(name, f"last axis of data {data.type} against the weight's", data.shape[-1], words * codes)
    require_equal(name, f"panels of the weight for {attrs.units} units", panels, dims.ceildiv(attrs.units, panel))
    blocks = dims.ceildiv(data.shape[-1], attrs.block_size)
    require_equal(name, "summed axis in blocks", data.shape[-1], blocks * attrs.block_size)
    for operand, parameter in (("scale", scale), ("zero_point", zero)):
        if parameter is not None and parameter.shape != (*groups, panels, blocks, panel):
            raise fail(name, f"operand {operand!r}", parameter.type, f"the shape {(*groups, panels, blocks, panel)}")
    if data.dtype != "int8" and not dtypes.is_float(data.dtype):
        raise fail(name, "operand 'data'", data.type, "float, or int8")
    if (data_scale is None) == (data.dtype == "int8"):
        got = "none" if data_scale is None else data_scale.type
        raise fail(name, "operand 'data_scale'", got, "one for data of int8, else none")
    if data_scale is not None and data_scale.shape != (*data.shape[:-1], blocks):
        raise fail(name, "operand 'data_scale'", data_scale.type, f"the shape {(*data.shape[:-1], blocks)}")


def plain_rows(attrs: DenseBlocksAttrs, data: Array, data_scale: Array | None) -> Array:
    """What the data stand for, of float32."""
    rows = data.astype(np.float32)
    if data_scale is None:
        return rows
    return np.asarray(rows * np.repeat(data_scale.astype(np.float32), attrs.block_size, axis=-1))


def plain_weight(
    attrs: DenseBlocksAttrs, weight: Array, scale: Array, zero: Array | None, table: Array | None = None
) -> Array:
    """What the codes of one weight stand for, ``[K, N]`` of float32."""
    codes = plain_codes(weight, attrs.bits)
    columns = (v.transpose(1, 0, 2).reshape(v.shape[1], -1) for v in (scale, zero) if v is not None)
    factors, *zeros = (np.repeat(v.astype(np.float32), attrs.block_size, axis=0) for v in columns)
    middle = zeros[0] if zeros else np.float32(1 << (attrs.bits - 1))
    real = (codes - middle if table is None else table[codes]) * factors
    return np.asarray(real[:, : attrs.units])


def row_element(attrs: DenseBlocksAttrs, row: Sequence[Expr], k: Expr, data: Tensor, data_scale: Tensor | None) -> Expr:
    """What element k of a row of the data stands for."""
    element = te.cast(data[(*row, k)], "float32")
    if data_scale is None:
        return element
    return element * te.cast(data_scale[(*row, k // attrs.block_size)], "float32")


def number_of(
    attrs: DenseBlocksAttrs, group: Sequence[Expr], unit: Expr, k: Expr, weight: Tensor, scale: Tensor, zero: Tensor | None,
    table: Tensor | None = None,
) -> Expr:
    """What code k of a unit stands for; ``group``: the index of the weight, where there are several."""
    codes, panel = codes_of_word(attrs.bits), weight.shape[-2]
    place, column, block = unit // panel, unit % panel, k // attrs.block_size
    byte = te.cast(weight[(*group, place, k // codes, column, k % WORD)], "int32")
    shift = te.cast(k % codes // WORD * attrs.bits, "int32")
    code = binary("shr", byte, shift) & ((1 << attrs.bits) - 1)
    middle = te.const(1 << (attrs.bits - 1), "int32")
    origin = middle if zero is None else te.cast(zero[(*group, place, block, column)], "int32")
    number = te.cast(code - origin, "float32") if table is None else table[te.cast(code, "int64")]
    return number * te.cast(scale[(*group, place, block, column)], "float32")


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
