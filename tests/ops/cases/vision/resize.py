"""Rows of resizing."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, f16, f32, i32, row, u8
from tests.ops.onnx_oracle import onnx_node

ROUNDINGS = {"round_prefer_floor": "round_prefer_floor", "round_prefer_ceil": "round_prefer_ceil", "floor": "floor",
    "ceil": "ceil"}


def resized(shape: tuple[int, ...], size: tuple[int, ...], method: str, mode: str, rounding: str = "floor",
    exclude: bool = False) -> Case:
    """A row with onnxruntime as oracle."""
    names = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
    rank = len(size)
    options = {"cubic_coeff_a": -0.5, "exclude_outside": int(exclude)} if method == "cubic" else {}
    run = onnx_node("Resize", mode=names[method], coordinate_transformation_mode=mode, nearest_mode=ROUNDINGS[rounding],
        **options)

    def oracle(x):
        return run(x, None, None, np.array([*x.shape[: x.ndim - rank], *size], np.int64))

    return row(f"image.resize{rank}d", [f32(*shape)], oracle, note=f"{mode},{rounding}", size=size, method=method,
               coordinate_transformation_mode=mode, rounding_method=rounding, cubic_exclude=exclude)


def mode_rows() -> list[Case]:
    modes = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    return [
        *(resized((1, 2, 5, 7), (9, 4), "nearest_neighbor", mode, rounding) for mode in modes for rounding in ROUNDINGS),
        *(resized((1, 2, 5, 7), (9, 4), method, mode) for method in ("linear", "cubic") for mode in modes),
        *(resized((1, 2, 5, 7), (1, 1), "linear", mode) for mode in modes),
        resized((1, 2, 5, 7), (9, 4), "cubic", "half_pixel", exclude=True),
    ]


def fixed(data: np.ndarray, size: int, half: bool, corners: bool) -> np.ndarray:
    """Rows, with positions in integers."""
    n, m = (data.shape[2] - 1, size - 1) if corners else (data.shape[2], size)
    step = (1024 * n + m // 2) // m
    places = np.arange(size) * step + (step // 2 - 512 if half else 0)
    first = np.clip(places // 1024, 0, data.shape[2] - 1)
    after = np.clip(places // 1024 + 1, 0, data.shape[2] - 1)
    weights = (places % 1024 / 1024).astype(np.float32)
    return data[:, :, first] * (1 - weights) + data[:, :, after] * weights


def fixed_rows() -> list[Case]:
    modes = {"fixed_half_pixel": (True, False), "fixed_asymmetric": (False, False), "fixed_align_corners": (False, True)}
    return [
        row("image.resize1d", [f32(2, 3, 7)], lambda x, size=size, how=how: fixed(x, size, *how), note=f"{mode},{size}",
            size=(size,),
            coordinate_transformation_mode=mode)
        for mode, how in modes.items() for size in (5, 11, 14, 21, 28)]


def other_rows() -> list[Case]:
    nearest = {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    return [
        row("image.resize1d", [f32(2, 3, 6)], size=(11,)),
        row("image.resize3d", [f32(1, 2, 3, 4, 5)], size=(4, 6, 7), coordinate_transformation_mode="align_corners"),
        row("image.resize2d", [f32(2, 5, 7, 3)], size=(6, 6), layout="NHWC"),
        row("image.resize2d", [f32(1, 2, 4, 4, 8)], size=(8, 8), layout="NCHW8c", **nearest),
        row("image.resize2d", [i32(1, 2, 4, 5)], lambda x: x.repeat(2, 2).repeat(2, 3), size=(8, 10), **nearest),
        row("image.resize2d", [u8(1, 2, 4, 5, low=0, high=255)], size=(7, 3)),
        row("image.resize2d", [f16(1, 2, 4, 5)], size=(7, 3)),
        row("image.resize2d", [f32(1, 2, 4, 5), [8, 10]], lambda x, s: x.repeat(2, 2).repeat(2, 3), **nearest),
        row("image.resize2d", [f32(1, 2, 4, 5), [3, 9]]),
        row("nn.upsampling", [f32(1, 2, 4, 5)], lambda x: x.repeat(2, 2).repeat(3, 3), scale_h=2.0, scale_w=3.0),
        row("nn.upsampling", [f32(1, 2, 4, 5)], scale_h=2.0, scale_w=2.0, method="bilinear", align_corners=True),
        row("nn.upsampling", [f32(1, 2, 4, 5)], scale_h=1.5, scale_w=2.5, method="bicubic", symbolic=False),
    ]


def shrunk_rows() -> list[Case]:
    """The oracle is onnxruntime's interpolation as wide as the step."""
    half, sizes = (0.125, 0.375, 0.375, 0.125), np.array([2, 3, 3, 3], np.int64)

    def oracle(exclude: int):
        run = onnx_node("Resize", mode="linear", antialias=1, exclude_outside=exclude, opset=18)
        return lambda x: run(x, None, None, sizes)

    return [
        row("image.shrink", [f32(2, 3, 6, 3)], oracle(0), axis=2, first=-1, weights=half),
        row("image.shrink", [f32(2, 3, 3, 6)], oracle(1), axis=3, first=-1, weights=half, exclude_outside=True),
        row("image.shrink", [f32(1, 3, 40, 45)], axis=2, step=3, first=-2, weights=(0.5, 0.25, 1.0, 0.25, -0.5)),
        row("image.shrink", [f32(1, 3, 7, 101)], axis=-1, step=4, first=-2, weights=(0.5, 0.25, 1.0), exclude_outside=True),
        row("image.shrink", [f32(2, 1)], axis=1, step=2, first=-1, weights=half),
        row("image.shrink", [f16(2, 9)], axis=0, step=2, first=0, weights=(0.5, 0.5)),
    ]


CASES = [*mode_rows(), *fixed_rows(), *other_rows(), *shrunk_rows()]
