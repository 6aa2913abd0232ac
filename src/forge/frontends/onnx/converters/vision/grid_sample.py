"""GridSample and AffineGrid."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose import grids
from forge.dims import Dim
from forge.errors import option
from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

Ints = tuple[int, ...]
_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}


def of_size(g: Context, x: Value, shape: Sequence[Dim | None]) -> Value:
    """``x`` with symbolic sizes that are taken for those of ``shape`` (None: any), which is checked at run time."""
    wanted = tuple(own if size is None or dims.different(own, size) else size for own, size in zip(x.shape, shape))
    same = all(dims.equal(own, size) for own, size in zip(x.shape, wanted))
    return x if same else g.call("broadcast_to", x, shape=wanted)


@converts("GridSample", since=20)
def grid_sample(
    g: Context, x: Value, grid: Value, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Value:
    if mode not in _MODES:
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected one of {', '.join(_MODES)}")
    grid = of_size(g, grid, (x.shape[0], *[None] * (grid.rank - 2), x.rank - 2))
    return g.call("image.grid_sample", x, grid, mode=_MODES[mode], padding_mode=padding_mode, align_corners=bool(align_corners))


grid_sample_16 = forwarding(grid_sample, 2, align_corners=0, mode="bilinear", padding_mode="zeros")
converts("GridSample", since=16)(grid_sample_16)


@converts("AffineGrid", since=20)
def affine_grid(g: Context, theta: Value, size: Value, *, align_corners: int = 0) -> Value:
    """``size`` is that of the images: batch, channels, then what the grid covers."""
    count = theta.shape[1]
    if not isinstance(count, int):
        raise g.unsupported(f"theta of type {theta.type}; expected a known number of axes; fix it with {option('shape=')}")
    spatial = [g.call("take", size, g.constant(axis + 2, "int64"), axis=0) for axis in range(count)]
    return grids.affine_grid(g, theta, spatial, align_corners=bool(align_corners))
