"""The rules by which images are resized: where a result lies on the operand, which neighbours it reads, with which weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forge.dims import Dim
from forge.ops.core.composer import Composer

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn", "asymmetric", "align_corners",
    "tf_crop_and_resize",
)
Array = np.ndarray


@dataclass(frozen=True)
class Method:
    """How positions are found and neighbours weighed.

    ``mode``: nearest, linear or cubic. ``coordinates``: the position of element i of the result, with s the scale, n the size, m
    the result's size:

    - half_pixel: (i + 0.5) / s - 0.5 (TensorFlow's half_pixel_centers, torch's align_corners=False)
    - pytorch_half_pixel: the same, -0.5 where s * n <= 1
    - half_pixel_symmetric: the same, moved so that the middle stays the middle when m is not s * n
    - tf_half_pixel_for_nn: (i + 0.5) / s
    - asymmetric: i / s
    - align_corners: i * (n - 1) / (s * n - 1), 0 where s * n = 1
    - tf_crop_and_resize: m positions from start * (n - 1) to end * (n - 1) of a region; ``extrapolation`` outside of the operand

    ``nearest``: round_prefer_floor, round_prefer_ceil, floor or ceil. ``cubic_coefficient``: a of Keys' kernel (torch -0.75,
    TensorFlow -0.5). ``exclude_outside``: neighbours outside of the operand have weight 0, else they are its end elements.
    ``antialias``: when shrinking, the kernel is as wide as the step.
    """

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True)
class AxisPlan:
    """One axis to resize: ``scale`` is what the model gives, ``roi`` the part of the axis that is read."""

    axis: int
    size: Dim
    target: Dim
    scale: float | None  # None: target / size, which is not known yet
    roi: tuple[float, float] = (0.0, 1.0)


def source_positions(g: Composer, mode: str, size: int, target: int, scale: float, roi: tuple[float, float]) -> Array:
    """Where the elements of the result lie on the axis of the operand, in elements."""
    i = np.arange(target, dtype=np.float64)
    exact = scale * size
    match mode:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        case "half_pixel_symmetric":
            return size / 2 * (1 - target / exact) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if exact > 1 else np.full(target, -0.5)
        case "asymmetric":
            return i / scale
        case "align_corners":
            return i * (size - 1) / (exact - 1) if exact != 1 else np.zeros(target)
        case "tf_crop_and_resize":
            start, end = roi
            if target == 1:
                return np.full(1, (end - start) * (size - 1) / 2 + start * (size - 1))
            return i * (end - start) * (size - 1) / (target - 1) + start * (size - 1)
    raise g.invalid(f"attribute 'coordinate_transformation_mode': got {mode!r}; expected one of {', '.join(COORDINATES)}")


def nearest_indices(g: Composer, positions: Array, mode: str) -> Array:
    if mode in ("floor", "round_prefer_ceil"):
        lifted: Array = np.floor(positions + (0.5 if mode == "round_prefer_ceil" else 0.0))
        return lifted
    if mode in ("ceil", "round_prefer_floor"):
        lowered: Array = np.ceil(positions - (0.5 if mode == "round_prefer_floor" else 0.0))
        return lowered
    raise g.invalid(f"attribute 'nearest_mode': got {mode!r}; expected round_prefer_floor, round_prefer_ceil, floor or ceil")


def neighbours(positions: Array, size: int, scale: float, method: Method) -> tuple[Array, Array]:
    """Indices and weights of the elements that are read, of shape [taps, result]."""
    base = np.ceil(positions) - 1
    ratio = positions - base
    shrink = min(scale, 1.0) if method.antialias else 1.0
    reach = 1 if method.mode == "linear" else 2
    first = math.floor(-reach / shrink) + 1
    offsets = np.arange(first, 2 - first)[:, None]
    distances = np.abs(shrink * (offsets - ratio[None, :]))
    weights = np.clip(1 - distances, 0, 1) if method.mode == "linear" else _cubic(distances, method.cubic_coefficient)
    weights = weights / weights.sum(axis=0) if method.antialias else weights
    indices = base[None, :] + offsets
    if method.exclude_outside:
        weights = np.where((indices < 0) | (indices >= size), 0, weights)
        weights = weights / weights.sum(axis=0)
    return np.clip(indices, 0, size - 1).astype(np.int64), weights


def _cubic(t: Array, a: float) -> Array:
    """Keys' kernel at distances ``t``."""
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))
