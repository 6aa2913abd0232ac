"""Rows of matrix products and their neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dtypes
from tests.ops.case import Case, bf16, boolean, const, f16, f32, f64, i8, i32, i64, row, u8


def packed(weight: np.ndarray, panel: int) -> np.ndarray:
    padded = np.pad(weight, ((0, -weight.shape[0] % panel), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, panel, weight.shape[1]).transpose(0, 2, 1))


def packed_row(rows: tuple[int, ...], depth: int, units: int, panel: int) -> Case:
    weight = np.random.default_rng(units).uniform(-4, 4, (units, depth)).astype(np.float32)
    return row("nn.contrib_dense_pack", [f32(*rows, depth), packed(weight, panel)], lambda x, _: x @ weight.T, symbolic=False,
        units=units)


def parts_of(weight: np.ndarray, count: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Bfloat16 that a float32 is split into, and what they add up to."""
    rest, found = weight, list[np.ndarray]()
    for _ in range(count):
        found.append(rest.astype(dtypes.numpy_dtype("bfloat16")))
        rest = rest - found[-1].astype(np.float32)
    return found, weight - rest


def parts_row(rows: tuple[int, ...], depth: int, units: int, panel: int, parts: int) -> Case:
    weight = np.random.default_rng(units).uniform(-4, 4, (units, depth)).astype(np.float32)
    found, whole = parts_of(weight, parts)
    pairs = [packed(part, panel).reshape(-1, depth // 2, 2, panel).swapaxes(2, 3) for part in found]
    return row("nn.contrib_dense_parts_pack", [f32(*rows, depth), np.ascontiguousarray(np.stack(pairs))],
        lambda x, _: x @ whole.T, symbolic=False, units=units)


class Blocks:
    """Random codes of few bits, packed by definition: code by code."""

    def __init__(self, units: int, depth: int, panel: int, bits: int, block: int, zeros: bool, seed: int = 0,
                 has_table: bool = False) -> None:
        rng = np.random.default_rng(units + seed)
        codes, self.bits, self.block = rng.integers(0, 1 << bits, (units, depth)), bits, block
        scale = rng.uniform(0.1, 1.0, (units, depth // block)).astype(np.float32)
        zero = rng.integers(0, 1 << bits, scale.shape).astype(np.uint8) if zeros else None
        word, panels = 32 // bits, -(-units // panel)
        weight = np.zeros((panels, depth // word, panel, 4), np.uint8)
        for n, k in np.ndindex(codes.shape):
            weight[n // panel, k // word, n % panel, k % 4] |= codes[n, k] << (k % word // 4 * bits)
        self.operands = [weight, *(None if v is None else packed(v, panel) for v in (scale, zero))]
        origin = 1 << (bits - 1) if zero is None else np.repeat(zero, block, 1).astype(int)
        self.table = np.sort(rng.standard_normal(16)).astype(np.float32) if has_table else None
        self.real = (codes - origin if self.table is None else self.table[codes]) * np.repeat(scale, block, 1).astype(np.float64)

    def rows(self, x: np.ndarray, x_scale: np.ndarray | None) -> np.ndarray:
        """What data stand for."""
        return np.asarray(x * np.float64(1.0 if x_scale is None else np.repeat(x_scale, self.block, -1)))


def data_of(rows: tuple[int, ...], depth: int, block: int, quantized: bool) -> list[Any]:
    return [i8(*rows, depth, low=-127, high=127), f32(*rows, depth // block)] if quantized else [f32(*rows, depth), None]


def blocks_row(
    rows: tuple[int, ...], depth: int, units: int, panel: int, bits: int, block: int, quantized: bool, zeros: bool,
    has_table: bool = False, **attrs: Any,
) -> Case:
    weight = Blocks(units, depth, panel, bits, block, zeros, has_table=has_table)

    def oracle(x: np.ndarray, x_scale: np.ndarray | None, *_: Any) -> np.ndarray:
        return weight.rows(x, x_scale) @ weight.real.T

    operands = [*data_of(rows, depth, block, quantized), *weight.operands, weight.table]
    return row("nn.contrib_dense_blocks_pack", operands, oracle, symbolic=False,
        units=units, bits=bits, block_size=block, **attrs)


def indexed_blocks_row(
    index: list[int], depth: int, units: int, panel: int, bits: int, block: int, quantized: bool, zeros: bool, **attrs: Any
) -> Case:
    """Rows of three weights."""
    weights = [Blocks(units, depth, panel, bits, block, zeros, seed) for seed in range(3)]

    def oracle(x: np.ndarray, x_scale: np.ndarray | None, *_: Any) -> np.ndarray:
        out = np.zeros((len(index), units))
        for place, (own, g) in enumerate(zip(weights[0].rows(x, x_scale), index, strict=True)):
            if 0 <= g < 3:
                out[place] = weights[g].real @ own
        return out

    operands = [None if parts[0] is None else np.stack(parts) for parts in zip(*(w.operands for w in weights))]
    given = [*data_of((len(index),), depth, block, quantized), *operands, np.array(index, np.int64)]
    return row("nn.contrib_indexed_blocks_pack", given, oracle, symbolic=False, units=units, bits=bits, block_size=block, **attrs)


def blocks_rows() -> list[Case]:
    return [
        blocks_row((3,), 64, 24, 16, 4, 32, False, False),
        blocks_row((1,), 64, 70, 64, 4, 16, False, True),
        blocks_row((2, 9), 64, 33, 16, 2, 32, False, True),
        blocks_row((1,), 48, 24, 32, 8, 48, False, False),
        blocks_row((3,), 64, 24, 16, 4, 32, True, False),
        blocks_row((1,), 64, 70, 64, 4, 16, True, True),
        blocks_row((2, 9), 64, 33, 16, 2, 32, True, True),
        blocks_row((), 256, 24, 32, 8, 128, True, True),
        blocks_row((30,), 64, 40, 32, 8, 32, True, False),
        blocks_row((30,), 64, 200, 64, 4, 32, True, False, out_dtype="float16"),
        blocks_row((1,), 64, 70, 64, 4, 16, False, False, has_table=True),
        blocks_row((2, 9), 96, 33, 16, 4, 32, False, False, has_table=True),
    ]


def indexed_blocks_rows() -> list[Case]:
    many = [0] * 5 + [2] * 17 + [1] * 2 + [3] * 2 + [0] * 14
    return [
        indexed_blocks_row([], 64, 24, 16, 4, 32, False, False),
        indexed_blocks_row([1], 64, 24, 16, 4, 32, False, False),
        indexed_blocks_row([2, 0], 64, 70, 64, 4, 16, True, True),
        indexed_blocks_row([0, 0, -1, 2, 2, 0], 64, 33, 16, 2, 32, False, True),
        indexed_blocks_row(many, 64, 40, 32, 4, 16, False, True, out_dtype="float16"),
        indexed_blocks_row(many, 64, 40, 32, 8, 32, True, False),
        indexed_blocks_row([2**63 - 1, 1, -(2**63)], 48, 24, 32, 8, 48, False, False),
    ]


def dense_rows() -> list[Case]:
    def oracle(x, w):
        return x @ w.T

    return [
        row("nn.dense", [f32(4, 7), f32(5, 7)], oracle),
        row("nn.dense", [f32(7), f32(5, 7)], oracle),
        row("nn.dense", [f32(2, 3, 7), f32(5, 7)], oracle),
        row("nn.dense", [f32(1, 33), f32(50, 33)], oracle),
        row("nn.dense", [f64(3, 4), f64(5, 4)], oracle),
        row("nn.dense", [f16(3, 4), f16(5, 4)]),
        row("nn.dense", [bf16(3, 4), bf16(5, 4)]),
        row("nn.dense", [u8(3, 4, low=0, high=255), i8(5, 4, low=-128, high=127)], lambda x,
            w: x.astype(np.int32) @ w.T.astype(np.int32),
            out_dtype="int32"),
        packed_row((4,), 7, 48, 16),
        packed_row((1,), 70, 100, 48),
        packed_row((2, 9), 33, 30, 32),
        packed_row((), 5, 7, 8),
        packed_row((37,), 64, 64, 16),
        parts_row((3,), 64, 40, 16, 3),
        parts_row((2, 17), 96, 64, 32, 2),
    ]


def matmul_rows() -> list[Case]:
    return [
        row("nn.matmul", [f32(4, 5), f32(5, 6)], np.matmul),
        row("nn.matmul", [f32(2, 1, 4, 5), f32(3, 5, 6)], np.matmul),
        row("nn.matmul", [f32(1, 7), f32(7, 33)], np.matmul),
        row("nn.matmul", [f16(5, 0), f16(0, 10)], np.matmul, symbolic=False),
        row("nn.matmul", [f32(2, 5, 4), f32(2, 5, 6)], lambda a, b: a.swapaxes(1, 2) @ b, transpose_a=True),
        row("nn.matmul", [f32(3, 4, 5), f32(6, 5)], lambda a, b: a @ b.T, transpose_b=True),
        row("nn.matmul", [const([[3]], "float32"), f32(1, 33)], np.matmul),
        row("nn.matmul", [f32(1, 1), const([[3]], "float32")], np.matmul),
        row("nn.matmul", [boolean(8, 5, 2), boolean(2, 1)], np.matmul),
        row("nn.matmul", [boolean(8, 5, 2), boolean(2, 33)], np.matmul),
        row("nn.matmul", [bf16(3, 5), bf16(5, 33)]),
        row("nn.matmul", [f32(0, 5), f32(5, 3)], np.matmul),
        row("nn.matmul", [f32(4, 5), f32(5, 0)], np.matmul),
        row("nn.matmul", [f32(17, 40), f32(40, 19)], np.matmul),
        row("nn.matmul", [f64(3, 4), f64(4, 5)], np.matmul),
        row("nn.matmul", [i32(3, 4), i32(4, 5)], np.matmul),
        row("nn.matmul", [f16(3, 4), f16(4, 5)]),
        row("nn.matmul", [bf16(3, 4), bf16(4, 5)]),
        row("nn.batch_matmul", [f32(3, 4, 5), f32(3, 6, 5)], lambda a, b: a @ b.swapaxes(1, 2), transpose_b=True),
        row("nn.batch_matmul", [f32(3, 5, 4), f32(1, 5, 6)], lambda a, b: a.swapaxes(1, 2) @ b, transpose_a=True),
    ]


def indexed_rows() -> list[Case]:
    def oracle(x, w, i):
        return np.stack([a @ w[k] if 0 <= k < len(w) else np.zeros(w.shape[2], w.dtype) for a, k in zip(x, i, strict=True)])

    return [
        row("nn.indexed_matmul", [f32(5, 7), f32(3, 7, 4), i64(5, low=0, high=3)], oracle),
        row("nn.indexed_matmul", [f32(4, 33), f32(2, 33, 70), i32(4, low=-1, high=3)], oracle),
        row("nn.indexed_matmul", [f64(2, 3), f64(1, 3, 5), i64(2, low=0, high=1)], oracle),
        row("nn.indexed_matmul", [f32(4, 3), f32(2, 3, 5), np.array([2**63 - 1, 1, -(2**63), 0])], oracle, symbolic=False),
        row("nn.indexed_matmul", [bf16(2, 3), bf16(2, 3, 5), i64(2, low=0, high=2)]),
    ]


def small_rows() -> list[Case]:
    return [
        row("nn.bias_add", [f32(2, 3, 4), f32(3)], lambda x, b: x + b[:, None]),
        row("nn.bias_add", [f32(2, 3, 4), f32(4)], lambda x, b: x + b, axis=-1),
        row("nn.batch_flatten", [f32(2, 3, 4, 5)], lambda x: x.reshape(2, 60)),
        row("nn.batch_flatten", [f32(3)], lambda x: x.reshape(3, 1)),
        row("nn.dropout", [f32(2, 3)], lambda x: x),
    ]


CASES = [*dense_rows(), *blocks_rows(), *indexed_blocks_rows(), *matmul_rows(), *indexed_rows(), *small_rows()]
