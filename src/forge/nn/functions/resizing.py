"""Resizing of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forge import dtypes
from forge.compose import resize
from forge.compose.resize_rules import Method
from forge.dims import Dim
from forge.errors import OptionError
from forge.frontends.state import ratios
from forge.frontends.state.ratios import Ratio
from forge.nn.functions.arguments import sizes
from forge.nn.functions.windows import _back, _channels_first
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context

_METHODS: dict[str, Method] = {
    "nearest": Method("nearest", "asymmetric", "floor"), "nearest-exact": Method("nearest", "tf_half_pixel_for_nn", "floor"),
    "nearest_neighbor": Method("nearest", "asymmetric", "floor"), "linear": Method("linear"), "bilinear": Method("linear"),
    "trilinear": Method("linear"), "bicubic": Method("cubic"), "cubic": Method("cubic"), "area": Method("linear"),
}  # fmt: skip
_RANKS = {"linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,), "cubic": (2,)}
_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool | None = None,
    data_layout: str | None = "NCHW",
    name: str = "interpolate",
) -> Tensor:
    """Images of another size, as ``torch.nn.functional.interpolate``.

    Args:
        x: ``(n, c, w)``, ``(n, c, h, w)`` or ``(n, c, d, h, w)``.
        size: the new sizes, or one for all axes. Either this or
        scale_factor: by which sizes grow, or one for all axes; sizes are rounded down.
        mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic" or "area".
        align_corners: centres of the outer elements stay where they are; not of "nearest" and "area".
        recompute_scale_factor: places are computed by the ratio of sizes, not by ``scale_factor``.
        antialias: of "bilinear" and "bicubic": elements are means over all that they cover when images shrink.
        data_layout: "NCHW": channels first; "NHWC": channels last, of any number of axes; or the layout itself, as in "NDHWC".

    Raises:
        OptionError: an argument does not fit.

    >>> nn.interpolate([[[1.0, 3.0]]], 4, mode='linear').numpy().tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """
    g = Context(name)
    value = g.value(x)
    rank = value.rank - 2
    if rank not in _LAYOUTS:
        raise OptionError(f"{name}: got {value.type}; expected (n, c, w), (n, c, h, w) or (n, c, d, h, w)")
    method = _method(name, mode, rank, bool(align_corners), bool(antialias))
    plain = _LAYOUTS[rank]
    layout = data_layout or plain
    if rank != 2 and layout in ("NCHW", "NHWC"):
        layout = plain if layout == "NCHW" else f"N{plain[2:]}C"
    if not mode.startswith("nearest") and not dtypes.is_float(value.dtype) and value.dtype != "uint8":
        raise OptionError(f"{name}: got {value.dtype} for mode {mode!r}; expected floating-point numbers; convert with astype")
    value = _channels_first(g, value, layout, plain)
    targets, scales = _targets(name, value.shape[2:], size, scale_factor)
    if mode == "area":
        result = g.call(f"nn.adaptive_avg_pool{rank}d", value, output_size=tuple(targets))
    else:
        result = resize.resize_images(g, value, targets, method, None if recompute_scale_factor else scales)
    return g.tensor(_back(g, result, layout, plain))


def _method(name: str, mode: str, rank: int, align_corners: bool, antialias: bool) -> Method:
    if mode not in _METHODS:
        raise OptionError(f"{name}: mode: got {mode!r}; expected one of: {', '.join(_METHODS)}")
    if rank not in _RANKS.get(mode, (1, 2, 3)):
        raise OptionError(f"{name}: mode: got {mode!r} for {rank + 2} axes; expected {_RANKS.get(mode, (1, 2, 3))[0] + 2}")
    method = _METHODS[mode]
    if align_corners:
        if mode.startswith("nearest") or mode == "area":
            raise OptionError(f"{name}: align_corners: got True for mode {mode!r}; expected it for linear and cubic modes")
        method = replace(method, coordinates="align_corners")
    if antialias:
        if mode not in ("bilinear", "bicubic"):
            raise OptionError(f"{name}: antialias: got True for mode {mode!r}; expected 'bilinear' or 'bicubic'")
        if align_corners:
            raise OptionError(f"{name}: antialias: got True with align_corners; expected one of them")
        coefficient = -0.5 if mode == "bicubic" else method.cubic_coefficient
        method = replace(method, antialias=True, exclude_outside=True, cubic_coefficient=coefficient)
    return method


def _targets(name: str, own: Sequence[Dim], size: Any, scale_factor: Any) -> tuple[list[Dim], list[float | None]]:
    """The new sizes, and scales where they were given."""
    if (size is None) == (scale_factor is None):
        got = "both" if size is not None else "neither"
        raise OptionError(f"{name}: got {got} of size and scale_factor; expected one of them")
    if scale_factor is None:
        return list(sizes(size, f"{name}: size", len(own), 1)), [None] * len(own)
    scales = list(scale_factor) if isinstance(scale_factor, list | tuple) else [scale_factor] * len(own)
    if len(scales) != len(own) or not all(isinstance(k, int | float) and 0 < k < math.inf for k in scales):
        raise OptionError(f"{name}: scale_factor: got {scale_factor!r}; expected a positive number, or {len(own)} of them")
    targets = [_scaled(name, extent, float(scale)) for extent, scale in zip(own, scales)]
    if any(isinstance(target, int) and target < 1 for target in targets):
        raise OptionError(f"{name}: scale_factor: got {scale_factor!r} for sizes {tuple(own)}, of which nothing is left")
    return targets, [float(scale) for scale in scales]


def _scaled(name: str, size: Dim, scale: float) -> Dim:
    """``floor(size * scale)`` as float64 rounds the product."""
    if isinstance(size, int):
        return int(size * scale)
    try:
        return ratios.floor(Ratio(size) * Ratio.of(scale))
    except ValueError as error:
        expected = "expected a ratio of small integers, or size"
        raise OptionError(f"{name}: scale_factor: got {scale} for the symbolic size {size}; {expected}") from error
