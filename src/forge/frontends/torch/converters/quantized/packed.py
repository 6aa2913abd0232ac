"""Products with weights of four bits that torch has packed: at import they become integers again, with a scale for each block."""

from __future__ import annotations

import numpy as np

from forge.compose import affine
from forge.frontends.torch.context import Context
from forge.frontends.torch.layouts import MissingLayout, rows_of_packed_block
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def _known(g: Context, value: Value, what: str) -> np.ndarray:
    array = g.array(value)
    if array is None:
        raise g.unsupported(f"{what}: got a tensor that is computed at run time; supported: constants and parameters")
    return array


def _block_rows(g: Context) -> int:
    try:
        return rows_of_packed_block()
    except MissingLayout as error:
        raise g.unsupported(f"mat2: {error}") from error


def packed_rows(codes: np.ndarray, block: int) -> np.ndarray:
    """Codes [N, K] of four bits as torch packs them for the CPU: bytes [N, K / 2].

    Rows lie in blocks, each column of a block in one piece; a byte of a full block holds rows that are half a block apart, one of
    the last, smaller block two neighbours.
    """
    parts = []
    for first in range(0, len(codes), block):
        rows = codes[first : first + block].astype(np.uint8)
        half = len(rows) // 2
        low, high = (rows[:half], rows[half:]) if len(rows) == block else (rows[::2], rows[1::2])
        parts.append((low | high << 4).T.ravel())
    return np.concatenate(parts).reshape(len(codes), -1)


def unpacked_rows(packed: np.ndarray, block: int) -> np.ndarray:
    """The codes [N, K] of `packed_rows`."""
    count, width = packed.shape[0], packed.shape[1] * 2
    codes = np.empty((count, width), np.uint8)
    for first in range(0, count, block):
        size = min(block, count - first)
        columns = packed.ravel()[first * width // 2 :][: size * width // 2].reshape(width, size // 2)
        low, high = (columns & 15).T, (columns >> 4).T
        rows = codes[first : first + size]
        if size == block:
            rows[: size // 2], rows[size // 2 :] = low, high
        else:
            rows[::2], rows[1::2] = low, high
    return codes


@converts("_convert_weight_to_int4pack_for_cpu.default")
def pack_rows(g: Context, self: Value, *, innerKTiles: int) -> Value:  # noqa: N803
    """Codes [N, K] of int32; the packed bytes are [N, K / 2]."""
    return g.constant(packed_rows(_known(g, self, "self"), _block_rows(g)), "uint8")


@converts("_weight_int4pack_mm_for_cpu.default")
def weight_int4pack_mm(g: Context, self: Value, mat2: Value, qScaleAndZeros: Value, *, qGroupSize: int) -> Value:  # noqa: N803
    """``self @ ((codes - 8) * scales + zeros).T``, with scales and zeros of blocks of columns, [K / block, N, 2].

    Sums are of float32.
    """
    packed, parameters = _known(g, mat2, "mat2"), _known(g, qScaleAndZeros, "qScaleAndZeros")
    codes = unpacked_rows(packed, _block_rows(g))
    scales, zeros = parameters.astype(np.float32).transpose(2, 1, 0)
    product = affine.product_of_blocks(g, g.cast(self, "float32"), codes.astype(np.int8) - 8, scales, qGroupSize, zeros)
    return g.cast(product, g.dtype)


@converts("_dyn_quant_pack_4bit_weight.default")
def pack_with_scales(
    g: Context, weights: Value, scales_zeros: Value, bias: Value | None = None,
    *, block_size: int, in_features: int, out_features: int,
) -> Value:
    """Bytes of two codes, scales and biases, one after the other, each as one float32."""
    given = {"weights": weights, "scales_zeros": scales_zeros, "bias": bias}
    parts = [_known(g, v, name).astype(np.float32).ravel() for name, v in given.items() if v is not None]
    return g.constant(np.concatenate(parts), "float32")


@converts("_dyn_quant_matmul_4bit.default")
def dyn_quant_matmul(
    g: Context, inp: Value, packed_weights: Value, *, block_size: int, in_features: int, out_features: int
) -> Value:
    """``rounded(inp) @ ((codes - 8) * scales).T + bias``, where rows of the operand are rounded to eight bits.

    Bytes hold two codes of a row, the low one first.
    """
    size, blocks = out_features * in_features // 2, out_features * (in_features // block_size)
    packed = _known(g, packed_weights, "packed_weights").ravel()
    if inp.dtype != "float32" or packed.dtype != np.float32 or packed.size not in (size + blocks, size + blocks + out_features):
        raise g.unsupported(
            f"inp, packed_weights: got {inp.type}, {packed_weights.type}; supported: float32, and weights as torch packs them "
            f"where it has no kernels of Arm: {size + blocks} float32, or {out_features} more")
    codes = packed[:size].astype(np.uint8).reshape(out_features, -1)
    codes = np.stack([codes & 15, codes >> 4], -1).reshape(out_features, in_features)
    scales = packed[size : size + blocks].reshape(out_features, -1)
    product = affine.product_of_blocks(g, affine.rounded_rows(g, inp), codes.astype(np.int8) - 8, scales, block_size)
    offsets = packed[size + blocks :]
    return g.call("add", product, g.constant(offsets, "float32")) if offsets.size else product
