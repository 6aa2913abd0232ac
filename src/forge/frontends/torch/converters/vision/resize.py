"""Resizing of images."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from forge import dims
from forge.compose import resize as compose
from forge.compose.resize_rules import AxisPlan, Method
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Scales = Sequence[float | None]
_ALIGNED = {"linear": Method("linear", "align_corners"), "cubic": Method("cubic", "align_corners")}


def _resized(g: Context, x: Value, scales: Scales, method: Method) -> Value:
    """``x`` resized to the shape of the result; ``scales`` of None follow from the sizes."""
    targets = g.shape[2:]
    plans = [
        AxisPlan(axis, size, target, _scale(size, target, None if method.coordinates == "align_corners" else scale))
        for axis, (size, target, scale) in enumerate(zip(x.shape[2:], targets, scales), 2)
    ]
    if all(isinstance(plan.size, int) and isinstance(plan.target, int) for plan in plans):
        return compose.resized(g, x, [p for p in plans if p.size != p.target or p.scale != 1.0], method)
    if method.antialias or any(not _follows(plan, scale) for plan, scale in zip(plans, scales)):
        by_scale = None if any(plan.scale is None for plan in plans) else g.constant([plan.scale for plan in plans], "float32")
        sizes = g.vector(targets) if by_scale is None else None
        return g.reshape(compose.resize(g, x, [p.axis for p in plans], method, scales=by_scale, sizes=sizes), g.shape)
    nearest = {"asymmetric": "floor", "tf_half_pixel_for_nn": "round_prefer_ceil"}
    return g.call(
        f"image.resize{len(plans)}d", x, size=targets, method={"nearest": "nearest_neighbor"}.get(method.mode, method.mode),
        coordinate_transformation_mode={"tf_half_pixel_for_nn": "half_pixel"}.get(method.coordinates, method.coordinates),
        rounding_method=nearest.get(method.coordinates, "round"), cubic_alpha=method.cubic_coefficient,
    )


def _scale(size: Dim, target: Dim, scale: float | None) -> float | None:
    """The scale that is given, or that of the sizes if they are numbers."""
    if scale is not None or not isinstance(size, int) or not isinstance(target, int):
        return scale
    return target / size if size else 1.0


def _follows(plan: AxisPlan, scale: float | None) -> bool:
    """Whether the sizes have the scale that is given exactly."""
    ratio = None if scale is None else Fraction(scale)
    return ratio is None or dims.equal(plan.size * ratio.numerator, plan.target * ratio.denominator)


def _chosen(g: Context, align_corners: bool, plain: Method, aligned: Method | None) -> Method:
    if align_corners and plain.antialias:  # torch widens the window by another scale than it places it with
        raise g.unsupported("align_corners: got True with antialiasing; supported: False")
    return aligned if align_corners and aligned else plain


def _upsampling(name: str, rank: int, plain: Method, aligned: Method | None = None) -> None:
    @converts(f"{name}.default")
    def by_size(
        g: Context, self: Value,
        *, output_size: Sequence[Dim], align_corners: bool = False, scales: float | None = None, scales_d: float | None = None,
        scales_h: float | None = None, scales_w: float | None = None,
    ) -> Value:
        given = (scales,) if rank == 1 else (scales_d, scales_h, scales_w)[-rank:]
        return _resized(g, self, given, _chosen(g, align_corners, plain, aligned))

    @converts(f"{name}.vec")
    def by_size_or_scale(
        g: Context, input: Value,  # noqa: A002
        *, output_size: Sequence[Dim] | None = None, align_corners: bool = False, scale_factors: Sequence[float] | None = None,
    ) -> Value:
        return _resized(g, input, scale_factors or (None,) * rank, _chosen(g, align_corners, plain, aligned))


for _rank in (1, 2, 3):
    _upsampling(f"upsample_nearest{_rank}d", _rank, Method("nearest", "asymmetric", "floor"))
    _upsampling(f"_upsample_nearest_exact{_rank}d", _rank, Method("nearest", "tf_half_pixel_for_nn", "floor"))
for _name, _rank in (("upsample_linear1d", 1), ("upsample_bilinear2d", 2), ("upsample_trilinear3d", 3)):
    _upsampling(_name, _rank, Method("linear"), _ALIGNED["linear"])
_upsampling("upsample_bicubic2d", 2, Method("cubic"), _ALIGNED["cubic"])
_upsampling("_upsample_bilinear2d_aa", 2, Method("linear", antialias=True, exclude_outside=True))
_upsampling("_upsample_bicubic2d_aa", 2, Method("cubic", antialias=True, exclude_outside=True, cubic_coefficient=-0.5))
