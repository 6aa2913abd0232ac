"""Rows of layout_transform and of the conversions between real numbers and integers."""

from __future__ import annotations

import numpy as np

from forge import dtypes
from tests.ops.case import Case, Fixed, f16, f32, i8, i32, row, u8
from tests.ops.onnx_oracle import onnx_node


def unpacked(x: np.ndarray, dtype: str) -> np.ndarray:
    """Bits, the lowest first, as numbers of a type of few of them."""
    width, signed = dtypes.bits(dtype), dtypes.is_signed(dtype)
    bits = np.unpackbits(x, axis=-1, bitorder="little").reshape(*x.shape[:-1], -1, width).astype(np.int8)
    weights = [(1 << k) * (-1 if signed and k == width - 1 else 1) for k in range(width)]
    return (bits @ np.array(weights, np.int8)).astype(dtypes.numpy_dtype(dtype))


def layout_rows() -> list[Case]:
    def blocked(x):
        padded = np.pad(x, ((0, 0), (0, -x.shape[1] % 4), (0, 0), (0, 0)))
        return padded.reshape(x.shape[0], -1, 4, *x.shape[2:]).transpose(0, 1, 3, 4, 2)

    def plain(x):
        return x.transpose(0, 1, 4, 2, 3).reshape(x.shape[0], -1, *x.shape[2:4])[:, :6]

    return [
        row("layout_transform", [f32(2, 8, 3, 5)], blocked, src_layout="NCHW", dst_layout="NCHW4c"),
        row("layout_transform", [f32(2, 6, 3, 5)], blocked, src_layout="NCHW", dst_layout="NCHW4c"),
        row("layout_transform", [f32(2, 2, 3, 5, 4)], plain, src_layout="NCHW4c", dst_layout="NCHW", channels=6, symbolic=False),
        row("layout_transform", [f32(2, 3, 4, 5)], lambda x: x.transpose(0, 2, 3, 1), src_layout="NCHW", dst_layout="NHWC"),
        row("layout_transform", [f32(2, 3, 4, 6)], src_layout="NHWC", dst_layout="NCHW2c"),
        row("layout_transform", [f32(3, 7, 2, 2)], src_layout="OIHW", dst_layout="OIHW2i3o2i"),
    ]


def scalar(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.asarray(value, dtype)


TABLE = np.random.default_rng(6).integers(0, 256, 256).astype(np.uint8)


def quantize_rows() -> list[Case]:
    special = (0.5, 1.5, 2.5, -0.5, 1e9, -1e9, np.inf, -np.inf)
    return [
        row("qnn.quantize", [f32(4, 5, special=special), scalar(1), scalar(3, np.int8)], onnx_node("QuantizeLinear")),
        row("qnn.quantize", [f32(4, 5, special=special), scalar(0.1), scalar(3, np.uint8)], onnx_node("QuantizeLinear"),
            out_dtype="uint8"),
        row("qnn.quantize", [f32(2, 3, 4), np.array([0.1, 0.2, 0.5], np.float32), np.array([1, -2, 3], np.int8)],
            onnx_node("QuantizeLinear", axis=1), axis=1, symbolic=False),
        row("qnn.quantize", [f32(7), scalar(0.01)], out_dtype="int16"),
        row("qnn.quantize", [f32(4, 5, special=special), scalar(1), scalar(3, np.int8)], lambda x, scale, zero: np.clip(
            np.trunc(x + np.copysign(np.where(x < 0, 0.75, 0.625), x)) + zero, -128, 127).astype(np.int8), away=(0.25, 0.125)),
        row("qnn.quantize", [f32(7, special=(3e9, np.nan)), scalar(1e-3)], out_dtype="int32"),
        row("qnn.quantize", [f32(7), scalar(0.5)], out_dtype="int4"),
        row("qnn.quantize", [f16(7), scalar(0.5, np.float16), scalar(3, np.uint8)], out_dtype="uint8"),
        *(row("qnn.unpack", [u8(3, 5, low=0, high=255)], lambda x, dtype=dtype: unpacked(x, dtype), out_dtype=dtype)
          for dtype in ("int2", "uint2", "int4", "uint4")),
        row("qnn.lookup", [u8(4, 35, low=0, high=255), Fixed(TABLE)], lambda x, table: table[x]),
        row("qnn.lookup", [u8(3, 5, low=0, high=255), Fixed(np.where(TABLE < 9, np.nan, TABLE / 7.0).astype(np.float32))],
            lambda x, table: table[x]),
        row("qnn.dequantize", [i8(4, 5, low=-128, high=127), scalar(0.1), scalar(-7, np.int8)], onnx_node("DequantizeLinear")),
        row("qnn.dequantize", [u8(4, 5, low=0, high=255), scalar(0.1), scalar(200, np.uint8)], onnx_node("DequantizeLinear")),
        row("qnn.dequantize", [i8(2, 3, 4), np.array([0.1, 0.2, 0.5], np.float32), np.array([1, -2, 3], np.int8)],
            onnx_node("DequantizeLinear", axis=1), axis=1, symbolic=False),
        row("qnn.dequantize", [i32(6), scalar(0.25)], onnx_node("DequantizeLinear")),
    ]


CASES = [*layout_rows(), *quantize_rows()]
