"""Matrix products with weights of few bits keep them packed, and unpack them in registers.

``nn.dense(%x, qnn.dequantize(qnn.unpack(w), s, z, axis=1, block_size=32))`` --> ``nn.contrib_dense_blocks_pack(%x, p, t, y)``:
codes, scales and zero points in panels as wide as the target's kernels read them. Scales may be those of blocks along the depth,
of rows of the weight, or one. Codes that 2 or 4 bits hold get no more. Data that are quantized to int8 by the same blocks are
multiplied as integers, which are exact.

``nn.dense(%x, reshape(multiply(take(u, cast(qnn.unpack(w))), s)))``, with w in blocks, becomes such a product with a table.

The weights of experts are packed alike:
``nn.indexed_matmul(%x, transpose(qnn.dequantize(...)), %i)`` --> ``nn.contrib_indexed_blocks_pack(%x, p, t, y, %i)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from forge import dtypes
from forge.backend import Layouts
from forge.ir.edits.rewrite import Declined, Rule, RuleBuilder, rewrite
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.core.product import Product
from forge.ops.elementwise.cast import Cast
from forge.ops.index.gather import Take
from forge.ops.nn.indexed_matmul import IndexedMatmul
from forge.ops.packed.blocks import TABLE, codes_of_word, packed_codes
from forge.ops.quantized.quantize import Dequantize
from forge.ops.quantized.unpack import Unpack, per_byte, unpacked
from forge.ops.shape.transpose import Transpose
from forge.options import CompileOptions
from forge.passes.integers.terms import signed
from forge.passes.matching import made_by, operand

NARROW = (2, 4)
"""Bits that codes of more may need: torchao keeps weights of 1 to 7 bits in 8, or 4."""
MAX_ZERO = 255
"""Zero points are of uint8."""
FLOATS = ("float32", "float16", "bfloat16")
CHUNK = 1 << 24
"""Codes that are packed at a time."""
SAMPLE = 1 << 16
"""Codes that are looked at together: few matrices need more to show that no fewer bits hold them."""
MAX_DEPTH = 1 << 15
"""Sums of this many products of 8 bits fit into 32 bits, and copies of a few rows on the stack."""


@dataclass(frozen=True)
class _Codes:
    """Integers as ``[N, K]``: ``low`` and an unsigned code of ``bits``.

    They may lie several to a byte, as ``qnn.unpack`` to ``packed_as`` takes them, or transposed.
    """

    array: np.ndarray
    bits: int
    low: int
    packed_as: str = ""
    swapped: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        *lead, last = self.array.shape
        shape = (*lead, last * (per_byte(self.packed_as) if self.packed_as else 1))
        return shape[::-1] if self.swapped else shape

    def rows(self, first: int, last: int) -> np.ndarray:
        """Rows of codes, of uint8."""
        if self.swapped:
            return self._plain(self.array).T[first:last]
        return self._plain(self.array[first:last])

    def extremes(self, span: int) -> tuple[int, int]:
        """The least and the greatest integer, or two that are at least ``span`` apart."""
        step = max(1, SAMPLE // self.array.shape[-1])
        least, most = np.inf, -np.inf
        for first in range(0, len(self.array), step):
            codes = self._plain(self.array[first : first + step])
            least, most = min(least, codes.min()), max(most, codes.max())
            if most - least >= span:
                break
        return int(least) + self.low, int(most) + self.low

    def _plain(self, part: np.ndarray) -> np.ndarray:
        numbers = unpacked(part, self.packed_as) if self.packed_as else part
        return (numbers.astype(np.int16) - self.low).astype(np.uint8)


def run(graph: Graph, options: CompileOptions) -> int:
    """Returns the number of products that read packed weights of few bits now."""
    return rewrite(graph, [Rule("pack_blocks", ("nn.dense", "nn.matmul"), partial(_packed, options.layouts)),
                           Rule("pack_tables", ("nn.dense",), partial(_with_table, options.layouts)),
                           Rule("pack_experts", ("nn.indexed_matmul",), partial(_packed_experts, options.layouts))])


def _packed(layouts: Layouts, builder: RuleBuilder, node: Node) -> Value | Declined | None:
    product: Product[Any] | None = Product.of(node)
    weight = None if product is None or not product.is_by_matrix else Dequantize.of(product.right.producer)
    codes = None if product is None or weight is None else _codes(weight.data, product.weight_axis == 1)
    if product is None or weight is None or codes is None:
        return None
    block = weight.attrs.block_size or codes.shape[1]
    return _on_packed(layouts, builder, node, product.left, weight, [codes], block)


def _on_packed(
    layouts: Layouts, builder: RuleBuilder, node: Node, data: Value, weight: Dequantize, matrices: Sequence[_Codes], block: int,
    *index: Value
) -> Value | Declined:
    """The product of ``node`` by a packed matrix, or by several of which ``index`` chooses."""
    refused = _refused(data, matrices[0], block, weight)
    if refused is not None:
        return refused
    units, depth = matrices[0].shape
    shape = (*((len(matrices),) if index else ()), units, depth // block)
    scales, zeros = (_parameters(v, weight, matrices[0].swapped, shape) for v in (weight.scale, weight.zero_point))
    if scales is None or weight.zero_point is not None and zeros is None:
        return Declined(f"scales or zero points are not constant, or {'those of experts' if index else 'lie along the depth'}")
    if not index:
        matrices = [_narrowed(matrices[0], zeros, block)]
    low, bits, panel = matrices[0].low, matrices[0].bits, layouts.blocks_panel(units)
    origin = np.broadcast_to(np.zeros(()) if zeros is None else zeros.astype(np.int16), scales.shape) - low
    same = bool((origin == 1 << (bits - 1)).all())  # all in the middle of the codes
    packed = [_panels(codes, panel) for codes in matrices]
    constants = (builder.constant(np.stack(packed) if index else packed[0], name=weight.data.name),
                 builder.constant(_in_panels(scales, panel)),
                 None if same else builder.constant(_in_panels(origin.astype(np.uint8), panel)))
    rows, steps, middle = (_by_block(data, block) if index else _quantized(builder, data, block)) or (data, None, None)
    attributes = {"units": units, "bits": bits, "block_size": block, "out_dtype": node.result.dtype}
    if index:
        return builder.call("nn.contrib_indexed_blocks_pack", rows, steps, *constants, *index, name=node.name, **attributes)
    result = builder.call("nn.contrib_dense_blocks_pack", rows, steps, *constants, name=node.name, **attributes)
    if middle is None:
        return result
    sums = builder.constant(_row_sums(matrices[0], origin, scales, block))
    return builder.call("subtract", result, builder.call("multiply", middle, sums))


def _with_table(layouts: Layouts, builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """Codes of 4 bits that stand for the numbers of a table, as ``[N, blocks, B]``, with a scale for each block."""
    matrix = made_by(operand(node, 1), "reshape")
    scaled = None if matrix is None else made_by(operand(matrix), "multiply")
    taken = None if scaled is None else Take.of(operand(scaled).producer)
    cast = None if taken is None else Cast.of(taken.indices.producer)
    if scaled is None or taken is None or cast is None or cast.data.dtype != "uint4" or cast.data.rank != 3:
        return None
    if not layouts.permutes_tables():
        return Declined("the target has no instructions that permute lanes by their numbers")
    found, table, scales, data = _codes(cast.data), taken.data.constant, operand(scaled, 1).constant, operand(node)
    if found is None or table is None or table.shape != (TABLE,) or scales is None:
        return Declined("codes, table or scales are not constant")
    units, blocks, block = (int(d) for d in cast.data.shape if isinstance(d, int))
    if scales.shape != (units, blocks, 1) or operand(node, 1).shape != (units, blocks * block):
        return Declined("scales are not those of blocks along the depth")
    if data.dtype not in FLOATS or blocks * block > MAX_DEPTH or block % codes_of_word(found.bits):
        return Declined(f"data of {data.dtype}, a depth of {blocks * block}, blocks of {block}")
    codes, panel = replace(found, array=found.array.reshape(units, -1)), layouts.blocks_panel(units)
    weight = builder.constant(_panels(codes, panel), name=cast.data.name)
    scale, numbers = (builder.constant(v) for v in (_in_panels(scales[..., 0], panel), table.astype(np.float32)))
    return builder.call("nn.contrib_dense_blocks_pack", data, None, weight, scale, None, numbers, name=node.name, units=units,
                        bits=found.bits, block_size=block, out_dtype=node.result.dtype)


def _refused(data: Value, codes: _Codes, block: int, weight: Dequantize) -> Declined | None:
    """Why the kernels do not take data of this type, or a weight of these sizes."""
    if data.dtype not in FLOATS:
        return Declined(f"the data are of {data.dtype}")
    units, depth = codes.shape
    if depth > MAX_DEPTH:
        return Declined(f"the depth is {depth}; expected at most {MAX_DEPTH}")
    along = weight.data.rank - (2 if codes.swapped else 1)
    if weight.attrs.block_size and weight.attrs.axis % weight.data.rank != along or not units:
        return Declined("blocks lie along the results, or there are none")
    if not block or depth % block or block % codes_of_word(codes.bits):
        return Declined(f"blocks of {block}; expected a multiple of {codes_of_word(codes.bits)} that divides the depth, {depth}")
    return None


def _packed_experts(layouts: Layouts, builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """The same for several weights, of which the index of each row chooses one."""
    product = IndexedMatmul.of(node)
    turn = None if product is None else Transpose.of(product.weight.producer)
    is_turned = turn is not None and turn.attrs.axes == (0, 2, 1)  # [E, N, K] lies there, not [E, K, N]
    source = turn.data if turn is not None and is_turned else operand(node, 1)
    weight = Dequantize.of(source.producer)
    codes = None if weight is None else _codes(weight.data)
    if product is None or weight is None or codes is None or not codes.array.shape[0]:
        return None
    experts = [replace(codes, array=array, swapped=not is_turned) for array in codes.array]
    depth = experts[0].shape[1]
    block = min(weight.attrs.block_size, depth) or depth
    return _on_packed(layouts, builder, node, product.data, weight, experts, block, product.index)


def _codes(value: Value, swapped: bool = False) -> _Codes | None:
    """Constant integers of 8 bits, or fewer."""
    unpack = Unpack.of(value.producer)
    source = value if unpack is None else unpack.data
    if source.constant is None or dtypes.bits(value.dtype) > 8:
        return None
    low, _ = dtypes.integer_range(value.dtype)
    return _Codes(source.constant, dtypes.bits(value.dtype), low, "" if unpack is None else value.dtype, swapped)


def _narrowed(codes: _Codes, zeros: np.ndarray | None, block: int) -> _Codes:
    """The same integers with codes of fewer bits, where these hold them; preferably with one zero point, in their middle."""
    fewer = [b for b in NARROW if b < codes.bits and block % codes_of_word(b) == 0]
    if not fewer:
        return codes
    least, most = codes.extremes(1 << fewer[-1])
    first, last = (0, 0) if zeros is None else (int(zeros.min()), int(zeros.max()))
    for bits in fewer:
        middle = [first - (1 << (bits - 1))] if first == last else []
        for low in (*middle, least):
            if low <= least and most < low + (1 << bits) and low <= first and last - low <= MAX_ZERO:
                return replace(codes, bits=bits, low=low)
    return codes


def _parameters(value: Value | None, weight: Dequantize, swapped: bool, shape: tuple[int, ...]) -> np.ndarray | None:
    """Scales or zero points as ``[N, blocks]``, or ``[E, N, blocks]`` of experts."""
    array = None if value is None else _numbers(value)
    if array is None:
        return None
    if weight.attrs.block_size:
        return array.swapaxes(-1, -2) if swapped else array
    if array.size != 1 and (len(shape) == 3 or weight.attrs.axis % 2 != swapped):
        return None
    return np.broadcast_to(array.reshape(-1, 1), shape)


def _numbers(value: Value) -> np.ndarray | None:
    """A constant, which may be packed."""
    unpack = Unpack.of(value.producer)
    array = value.constant if unpack is None else unpack.data.constant
    return array if array is None or unpack is None else unpacked(array, value.dtype)


_Rows = tuple[Value, Value | None, Value | None]
"""Data as the kernel takes them, scales, and ``[..., 1]``, what stands for zero, which each column of the weight adds."""


def _quantized(builder: RuleBuilder, data: Value, block: int) -> _Rows | None:
    """Data of 8 bits: with a scale for each of the same blocks, for each row of a matrix, or one for all."""
    found = Dequantize.of(data.producer)
    if found is None or found.data.dtype not in ("int8", "uint8") or data.dtype != "float32":
        return None
    if found.attrs.block_size:
        return _by_block(data, block)
    rank, zero = data.rank, found.zero_point
    sizes = {v.size for v in (found.scale, zero) if v is not None}
    if sizes != {1} and (rank != 2 or found.attrs.axis % rank != 0):
        return None

    def by_row(value: Value, dtype: str) -> Value:
        shape = (1,) * rank if value.size == 1 else (*data.shape[:-1], 1)
        return builder.call("cast", builder.call("reshape", value, newshape=shape), dtype=dtype)

    scale = by_row(found.scale, "float32")
    origin = None if zero is None else by_row(zero, "int32")
    codes, shift = signed(builder, found.data)
    if shift:
        middle = builder.constant(np.full((1,) * rank, -shift, np.int32))
        origin = builder.call("negative", middle) if origin is None else builder.call("subtract", origin, middle)
    depth = data.shape[-1]
    assert isinstance(depth, int)
    scales = builder.call("broadcast_to", scale, shape=(*data.shape[:-1], depth // block))
    if origin is not None:
        origin = builder.call("multiply", builder.call("cast", origin, dtype="float32"), scale)
    return codes, scales, origin


def _by_block(data: Value, block: int) -> _Rows | None:
    """Data of int8 with a scale for each of the same blocks."""
    found = Dequantize.of(data.producer)
    if found is None or found.data.dtype != "int8" or data.dtype != "float32" or found.zero_point is not None:
        return None
    last = found.attrs.axis % data.rank == data.rank - 1
    return (found.data, found.scale, None) if last and found.attrs.block_size == block else None


def _row_sums(codes: _Codes, origin: np.ndarray, scales: np.ndarray, block: int) -> np.ndarray:
    """The sum of each row of the weight, ``[N]``."""
    units, depth = codes.shape
    sums, step = np.empty(units, np.float64), max(1, CHUNK // depth)
    for first in range(0, units, step):
        part = codes.rows(first, first + step).reshape(-1, depth // block, block).sum(axis=2, dtype=np.int64)
        sums[first : first + step] = ((part - block * origin[first : first + step]) * scales[first : first + step]).sum(axis=1)
    return sums.astype(np.float32)


def _panels(codes: _Codes, panel: int) -> np.ndarray:
    """The packed weight."""
    units, depth = codes.shape
    packed = np.empty((-(-units // panel), depth // codes_of_word(codes.bits), panel, 4), np.uint8)
    step = len(packed) if codes.swapped else max(1, CHUNK // (depth * panel))
    for first in range(0, len(packed), step):
        packed[first : first + step] = packed_codes(codes.rows(first * panel, (first + step) * panel), codes.bits, panel)
    return packed


def _in_panels(parameters: np.ndarray, panel: int) -> np.ndarray:
    """``[..., N, blocks]`` as ``[..., ceil(N / panel), blocks, panel]``, zero beyond N."""
    *lead, units, blocks = parameters.shape
    whole = np.pad(parameters, ((0, 0),) * len(lead) + ((0, -units % panel), (0, 0)))
    return np.ascontiguousarray(whole.reshape(*lead, -1, panel, blocks).swapaxes(-1, -2))
