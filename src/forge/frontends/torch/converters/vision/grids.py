"""Sampling of images at positions."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import grids
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_MODES = ("linear", "nearest", "cubic")
_PADDING = ("zeros", "border", "reflection")


@converts("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(
    g: Context, input: Value, grid: Value, *, interpolation_mode: int, padding_mode: int, align_corners: bool  # noqa: A002
) -> Value:
    options = {"mode": _MODES[interpolation_mode], "padding_mode": _PADDING[padding_mode]}
    return g.call("image.grid_sample", input, grid, **options, align_corners=align_corners)


@converts("affine_grid_generator.default")
def affine_grid(g: Context, theta: Value, *, size: Sequence[Dim], align_corners: bool) -> Value:
    """``size`` is that of the images: batch, channels, then what the grid covers."""
    sizes = [g.tensor(n) for n in size[2:]]
    return g.reshape(grids.affine_grid(g, theta, sizes, align_corners=align_corners, single=0.0), g.shape)
