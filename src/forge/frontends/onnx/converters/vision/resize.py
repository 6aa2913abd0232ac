"""Resizing of images."""

from __future__ import annotations

from forge.compose import resize as compose
from forge.compose.resize_rules import Method
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Upsample", since=1)
def upsample_1(g: Context, x: Value, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Value:
    return upsample(g, x, g.constant((1.0, 1.0, height_scale, width_scale), "float32"), mode=mode)


@converts("Upsample", since=7, attribute_before={"scales": 9})
@converts("Resize", since=10)
def upsample(g: Context, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    return compose.resize(g, x, list(range(x.rank)), _asymmetric(mode), scales=scales)


def _asymmetric(mode: str) -> Method:
    return Method({"bilinear": "linear"}.get(mode, mode), "asymmetric", "floor")


@converts("Resize", since=11, introduced=dict.fromkeys(("antialias", "axes", "keep_aspect_ratio_policy"), 18))
def resize(
    g: Context, x: Value, roi: Value | None = None, scales: Value | None = None, sizes: Value | None = None,
    *, antialias: int = 0, axes: tuple[int, ...] | None = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Value:
    places = [g.axis(a, x.rank, "axes") for a in (range(x.rank) if axes is None else axes)]
    method = Method(
        mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside), bool(antialias),
        extrapolation_value,
    )
    return compose.resize(g, x, places, method, scales=scales, sizes=sizes, roi=roi, policy=keep_aspect_ratio_policy)
