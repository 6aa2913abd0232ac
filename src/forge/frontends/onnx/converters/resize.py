"""Resizing and sampling of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@converts("Upsample", since=1)
def upsample_1(g: Context, x: Value, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Value:
    return _upsampled(g, x, (1.0, 1.0, height_scale, width_scale), mode)


@converts("Upsample", since=7)
def upsample_7(g: Context, x: Value, *, scales: tuple[float, ...], mode: str = "nearest") -> Value:
    return _upsampled(g, x, scales, mode)


@converts("Upsample", since=9)
@converts("Resize", since=10)
def upsample_9(g: Context, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    return _upsampled(g, x, _scales(g, scales), mode)


def _upsampled(g: Context, x: Value, scales: Sequence[float], mode: str) -> Value:
    mode = {"bilinear": "linear"}.get(mode, mode)
    return resize(g, x, scales=scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
