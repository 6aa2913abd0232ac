"""Resizing of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge import dims
from forge.compose import resize as compose
from forge.compose.resize import MAX_SCALE
from forge.compose.resize_rules import Method
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Scales = Sequence[float | None]
_ALIGNED = {"linear": Method("linear", "align_corners"), "cubic": Method("cubic", "align_corners")}


_COPYING = frozenset({
    "upsample_nearest2d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
})
"""Operators that copy an image whose sizes stay, whatever the scales; the others move its elements by these."""


def _resized(g: Context, name: str, x: Value, scales: Scales, method: Method) -> Value:
    """``x`` resized to the shape of the result; ``scales`` of None follow from the sizes."""
    targets = g.shape[2:]
    if name in _COPYING and all(map(dims.equal, x.shape, g.shape)):
        return x
    if method.antialias and method.coordinates == "align_corners":
        method, scales = replace(method, coordinates="half_pixel"), _scales_of_corners(g, x.shape[2:], targets)
    return compose.resize_images(g, x, targets, method, scales)


def _scales_of_corners(g: Context, sizes: Sequence[Dim], targets: Sequence[Dim]) -> Scales:
    """What torch does with corners where it antialiases: the scale is (target - 1) / (size - 1), the centres of pixels stay."""
    scales = []
    for size, target in zip(sizes, targets):
        if not isinstance(size, int) or not isinstance(target, int):
            raise g.unsupported(f"align_corners: got True with antialiasing and the symbolic size {size} or {target}")
        scales.append((target - 1) / (size - 1) if size > 1 and target > 1 else MAX_SCALE)
    return scales


def _upsampling(name: str, rank: int, plain: Method, aligned: Method | None = None) -> None:
    @converts(f"{name}.default")
    def by_size(
        g: Context, self: Value,
        *, output_size: Sequence[Dim], align_corners: bool = False, scales: float | None = None, scales_d: float | None = None,
        scales_h: float | None = None, scales_w: float | None = None,
    ) -> Value:
        given = (scales,) if rank == 1 else (scales_d, scales_h, scales_w)[-rank:]
        return _resized(g, name, self, given, aligned if align_corners and aligned else plain)

    @converts(f"{name}.vec")
    def by_size_or_scale(
        g: Context, input: Value,  # noqa: A002
        *, output_size: Sequence[Dim] | None = None, align_corners: bool = False, scale_factors: Sequence[float] | None = None,
    ) -> Value:
        method = aligned if align_corners and aligned else plain
        return _resized(g, name, input, scale_factors or (None,) * rank, method)


for _rank in (1, 2, 3):
    _upsampling(f"upsample_nearest{_rank}d", _rank, Method("nearest", "asymmetric", "floor"))
    _upsampling(f"_upsample_nearest_exact{_rank}d", _rank, Method("nearest", "tf_half_pixel_for_nn", "floor"))
for _name, _rank in (("upsample_linear1d", 1), ("upsample_bilinear2d", 2), ("upsample_trilinear3d", 3)):
    _upsampling(_name, _rank, Method("linear"), _ALIGNED["linear"])
_upsampling("upsample_bicubic2d", 2, Method("cubic"), _ALIGNED["cubic"])
for _name, _method in (
    ("_upsample_bilinear2d_aa", Method("linear", antialias=True, exclude_outside=True)),
    ("_upsample_bicubic2d_aa", Method("cubic", antialias=True, exclude_outside=True, cubic_coefficient=-0.5)),
):
    _upsampling(_name, 2, _method, replace(_method, coordinates="align_corners"))
