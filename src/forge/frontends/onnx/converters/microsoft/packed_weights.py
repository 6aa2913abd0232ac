"""Products and look-ups with weights of 2 to 8 bits, packed into bytes, with a scale for each block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims, dtypes
from forge.compose import quantized
from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.nn.matmul import dense
from forge.frontends.onnx.registry import converts
from forge.ops.quantized.unpack import packed_bytes, unpacked

_WIDTHS = {2: 2, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 8: 8}
"""The bits that codes of so many are held in, as `qnn.unpack` takes them."""
MAX_ROUNDED = 4
"""The level of accuracy at which the data are rounded to 8 bits."""

_FLOAT4 = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
FP4 = (*_FLOAT4, *(-x for x in _FLOAT4))
"""Numbers of four bits by their code: a sign and one of eight fractions."""

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)
"""Quantiles of the normal distribution, scaled to [-1, 1] (Dettmers et al., "QLoRA", 2023, appendix E)."""


def unsigned(g: Context, packed: Value, bits: int) -> Value:
    """Codes of ``bits``, unsigned; the last axis grows by the number of codes in a byte, the first in the lowest bits."""
    return packed if bits == 8 else g.call("qnn.unpack", packed, out_dtype=f"uint{bits}")


def signed(g: Context, packed: Value, bits: int) -> Value:
    """Codes of ``bits`` less the middle one, signed."""
    top = 1 << (bits - 1)
    flipped = g.call("bitwise_xor", packed, g.scalar(sum(top << place for place in range(0, 8, bits)), packed))
    if bits == 8:
        return g.call("reinterpret", flipped, dtype="int8")
    return g.call("qnn.unpack", flipped, out_dtype=f"int{bits}")


def _held(g: Context, weight: Value, zeros: Value | None, bits: int) -> tuple[Value, Value | None, int]:
    """Weights and zero points of 3, 5, 6 or 7 bits as those of more, and how many these are.

    Codes without zero points get another middle.
    """
    wide = _WIDTHS[bits]
    if weight.constant is None or zeros is not None and zeros.constant is None:
        raise g.unsupported(f"inputs 1 and 3 (B, zero_points): got {bits} bits that are not constant; supported: constants")
    shift = (1 << (wide - 1)) - (1 << (bits - 1)) if zeros is None else 0
    codes = _stream(weight.constant, bits) + np.uint8(shift)
    held = g.constant(_bytes(codes, wide), "uint8")
    if zeros is None or zeros.constant is None or zeros.dtype != "uint8":
        return held, zeros, wide
    row = -(-codes.shape[1] * bits // 8)
    return held, g.constant(_bytes(_stream(zeros.constant.reshape(-1, row), bits)[:, : codes.shape[1]], wide), "uint8"), wide


def _stream(packed: np.ndarray, bits: int) -> np.ndarray:
    """Codes of ``bits``, of uint8: those of a row of bytes follow each other from the lowest bit on, over the ends of bytes."""
    single = np.unpackbits(packed, axis=-1, bitorder="little")
    whole = single.shape[-1] // bits
    parts = single[..., : whole * bits].reshape(*packed.shape[:-1], whole, bits)
    return np.packbits(parts, axis=-1, bitorder="little")[..., 0]


def _bytes(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of uint8 with ``bits`` each, the first in the lowest ones; rows fill whole bytes."""
    whole = np.pad(codes, [*[(0, 0)] * (codes.ndim - 1), (0, -codes.shape[-1] % (8 // bits))])
    packed = packed_bytes(whole.astype(dtypes.numpy_dtype(f"uint{bits}")))
    return whole if packed is None else packed


@converts("MatMulNBits", domain=DOMAIN)
def matmul_of_few_bits(
    g: Context, x: Value, weight: Value, scales: Value, zero_points: Value | None = None, group_index: Value | None = None,
    bias: Value | None = None,
    *, K: int, N: int, accuracy_level: int = 0, bits: int = 4, block_size: int, weight_prepacked: int = 0,  # noqa: N803
) -> Value:
    """``x @ ((codes - zero_points) * scales)^T``. With ``accuracy_level`` 4 and constant weights, ``x`` is rounded to 8 bits,
    each block by its own scale, as onnxruntime does; else products are as accurate as those of the operands' type.
    """
    if bits not in _WIDTHS:
        raise g.unsupported(f"attribute 'bits': got {bits}; supported: {', '.join(map(str, _WIDTHS))}")
    if weight_prepacked:
        raise g.unsupported("attribute 'weight_prepacked': got 1; supported: 0; save the model without packed weights")
    if group_index is not None and bits != 4:
        raise g.unsupported(f"input 4 (g_idx): got one with {bits} bits; supported: 4 bits, or none")
    if block_size < 16 or block_size & (block_size - 1) or min(K, N) < 1:
        raise g.invalid(f"attributes: got K {K}, N {N}, block_size {block_size}; expected positive numbers, a power of 2 from 16")
    blocks = -(-K // block_size)
    expected = (N, blocks, block_size * bits // 8)
    if any(dims.different(own, size) for own, size in zip(weight.shape, expected)) or weight.rank != 3:
        raise g.invalid(f"B: got {weight.type}; expected {'x'.join(map(str, expected))}, which K, N, bits and block_size say")
    if _WIDTHS[bits] != bits:
        weight, zero_points, bits = _held(g, weight, zero_points, bits)
        expected = weight.shape
    scales = g.reshape(scales, (N, blocks))
    flat = cut(g, g.reshape(weight, (N, blocks * expected[2])), -(-K * bits // 8))
    if group_index is not None or zero_points is not None and zero_points.dtype != "uint8":
        codes = cut(g, unsigned(g, flat, bits), K)
        data, real = x, _with_float_zeros(g, codes, scales, zero_points, group_index, bits, block_size)
    else:
        codes, zeros = signed(g, flat, bits), None
        if zero_points is not None:
            codes, zeros = unsigned(g, flat, bits), zero_points_of(g, zero_points, bits, (N, blocks))
        rounds = accuracy_level == MAX_ROUNDED and weight.constant is not None and K % block_size == 0
        factors = g.cast(scales, "float32") if rounds else scales
        real = g.call("qnn.dequantize", cut(g, codes, K), factors, zeros, axis=1, block_size=block_size, out_dtype=factors.dtype)
        data = quantized.rounded_by_block(g, x, block_size) if rounds else x
    product = g.cast(dense(g, data, real, transposed=True), x.dtype)
    return product if bias is None else g.call("add", product, bias)


def zero_points_of(g: Context, given: Value, bits: int, shape: tuple[int, int]) -> Value:
    """``[N, blocks]``, unsigned; those of a row fill whole bytes."""
    rows, blocks = shape
    row = g.reshape(given, (rows, -(-blocks * bits // 8)))
    if row.constant is None:
        return cut(g, unsigned(g, row, bits), blocks)
    codes = row.constant if bits == 8 else unpacked(row.constant, f"uint{bits}")
    return g.constant(codes[:, :blocks], dtypes.canonical(codes.dtype))


def _with_float_zeros(
    g: Context, codes: Value, scales: Value, zeros: Value | None, group_index: Value | None, bits: int, block_size: int
) -> Value:
    """``[N, K]``: (codes - zeros) * scales, by block, or by the block that ``group_index`` gives each of the K."""
    if zeros is None:
        zeros = g.call("full", g.scalar(1 << (bits - 1), scales), shape=scales.shape)
    elif zeros.dtype == "uint8":
        zeros = zero_points_of(g, zeros, bits, scales.shape)
    zeros = g.cast(g.reshape(zeros, scales.shape), scales.dtype)

    def of_codes(v: Value) -> Value:
        if group_index is not None:
            return g.call("take", v, group_index, axis=1, mode="clip")
        return _repeated(g, v, block_size, codes.shape)

    return g.call("multiply", g.call("subtract", g.cast(codes, scales.dtype), of_codes(zeros)), of_codes(scales))


def cut(g: Context, x: Value, size: Dim) -> Value:
    """The first ``size`` columns; the last block may be a part."""
    if dims.equal(x.shape[-1], size):
        return x
    return g.call("strided_slice", x, begin=(0,), end=(size,), strides=(1,), axes=(x.rank - 1,))


@converts("MatMulBnb4", domain=DOMAIN)
def matmul_of_table(
    g: Context, x: Value, weight: Value, absmax: Value,
    *, K: int, N: int, block_size: int, quant_type: int, training_mode: int = 0, transB: int = 1,  # noqa: N803
) -> Value:
    """``x @ w^T``: codes of four bits, high ones first, stand for numbers of a table; blocks go over the ends of rows.

    Where they do not, codes are ``[N, blocks, block_size]``, and may stay packed.
    """
    if quant_type not in (0, 1):
        raise g.invalid(f"attribute 'quant_type': got {quant_type}; expected 0 (FP4) or 1 (NF4)")
    if training_mode or not transB:
        raise g.unsupported(f"attributes 'training_mode' and 'transB': got {training_mode} and {transB}; supported: 0 and 1")
    count = K * N
    if min(K, N, block_size) < 1 or dims.different(dims.product(weight.shape), -(-count // 2)):
        raise g.invalid(f"B: got {weight.type}; expected {-(-count // 2)} bytes for K {K} and N {N}")
    rows = K % block_size == 0 and block_size % 2 == 0
    packed = g.reshape(_with_low_first(g, weight), (N, K // block_size, block_size // 2) if rows else (-(-count // 2),))
    codes = unsigned(g, packed, 4)
    codes = codes if rows else cut(g, codes, count)
    numbers = g.call("take", g.constant(FP4 if quant_type == 0 else NF4, x.dtype), g.cast(codes, "int64"), axis=0, mode="clip")
    if rows:
        scaled = g.call("multiply", numbers, g.reshape(absmax, (N, K // block_size, 1)))
        return dense(g, x, g.reshape(scaled, (N, K)), transposed=True)
    scales = cut(g, g.call("repeat", absmax, repeats=block_size, axis=0), count)
    return dense(g, x, g.reshape(g.call("multiply", numbers, scales), (N, K)), transposed=True)


def _with_low_first(g: Context, pairs: Value) -> Value:
    """Bytes whose two codes have changed places."""
    if pairs.constant is not None:
        return g.constant(pairs.constant >> 4 | pairs.constant << 4, "uint8")
    swapped = [g.call(shift, pairs, g.scalar(4, pairs)) for shift in ("left_shift", "right_shift")]
    return g.call("bitwise_or", *swapped)


@converts("GatherBlockQuantized", domain=DOMAIN)
def gather_of_blocks(
    g: Context, data: Value, indices: Value, scales: Value, zero_points: Value | None = None,
    *, bits: int = 4, block_size: int = 128, gather_axis: int = 0, quantize_axis: int = 1,
) -> Value:
    """Rows of a table of codes, as real numbers. Codes of four bits lie in pairs along the last axis, the low one first."""
    if data.dtype != "uint8" or bits not in (4, 8):
        raise g.unsupported(f"got {data.dtype} and {bits} bits; supported: uint8 with 4 or 8 bits")
    first, along = g.axis(gather_axis, data.rank, "gather_axis"), g.axis(quantize_axis, data.rank, "quantize_axis")
    if along != data.rank - 1 or first != 0 or data.rank < 2:
        raise g.unsupported(f"attributes: got quantize_axis {along} and gather_axis {first}; supported: the last axis, and 0")
    rows, factors = (_taken(g, v, indices) for v in (data, scales))
    codes, zeros = signed(g, rows, bits), None
    if zero_points is not None:
        parts = cut(g, unsigned(g, _taken(g, zero_points, indices), bits), scales.shape[-1])
        codes, zeros = unsigned(g, rows, bits), parts
    return g.call("qnn.dequantize", codes, factors, zeros, axis=-1, block_size=block_size, out_dtype=scales.dtype)


def _taken(g: Context, x: Value, indices: Value) -> Value:
    return g.call("take", x, checked_indices(g, indices, x.shape[0]), axis=0, mode="wrap_negative")


def _repeated(g: Context, x: Value, block_size: int, shape: Sequence[Dim]) -> Value:
    return cut(g, g.call("repeat", x, repeats=block_size, axis=x.rank - 1), shape[-1])
