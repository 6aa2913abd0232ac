"""The rules by which images are resized: where a result lies on the operand, which neighbours it reads, with which weights.

Formulas are for arrays, where all sizes are known, and for terms, which the graph computes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from forge.dims import Dim
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn", "asymmetric", "align_corners",
    "tf_crop_and_resize",
)
Array = np.ndarray
N = TypeVar("N", np.ndarray, Term)


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

    def turn(self, rank: int) -> int:
        """When this axis of a tensor of ``rank`` is resized.

        Elements along the last axis are gathered one by one, those along others are read in whole vectors: the last axis comes
        before those that become longer, and after those that become shorter.
        """
        return 1 if self.axis == rank - 1 else 0 if self.scale is not None and self.scale < 1 else 2

    def positions(self, g: Composer, mode: str) -> Array:
        """Where the elements of the result lie on the axis of the operand, whose sizes are numbers."""
        numbers = AxisNumbers(*(np.asarray(v, np.float64) for v in (self.size, self.target, self.scale, *self.roi)))
        with np.errstate(divide="ignore", invalid="ignore"):
            return source_positions(g, mode, np.arange(float(numbers.target)), numbers)


@dataclass(frozen=True)
class AxisNumbers(Generic[N]):
    """The numbers of an ``AxisPlan`` as wide floats of rank 0."""

    size: N
    target: N
    scale: N
    start: N
    end: N


def where(condition: N, yes: N | float, no: N | float) -> N:
    if isinstance(condition, Term):
        return condition.where(yes, no)
    chosen: Array = np.where(condition, yes, no)
    return chosen


def source_positions(g: Composer, mode: str, i: N, at: AxisNumbers[N]) -> N:
    """Where elements ``i`` of the result lie on the axis of the operand, in elements."""
    exact = at.scale * at.size
    found: N
    match mode:
        case "half_pixel":
            found = (i + 0.5) / at.scale - 0.5
        case "tf_half_pixel_for_nn":
            found = (i + 0.5) / at.scale
        case "half_pixel_symmetric":
            found = at.size / 2 * (1 - at.target / exact) + (i + 0.5) / at.scale - 0.5
        case "pytorch_half_pixel":
            found = where(exact > 1, (i + 0.5) / at.scale - 0.5, i * 0 - 0.5)
        case "asymmetric":
            found = i / at.scale
        case "align_corners":
            found = where(abs(exact - 1) > 0, i * (at.size - 1) / (exact - 1), i * 0)
        case "tf_crop_and_resize":
            length, last = at.end - at.start, at.size - 1
            found = where(at.target > 1, i * length * last / (at.target - 1), i * 0 + length * last / 2) + at.start * last
        case _:
            expected = ", ".join(COORDINATES)
            raise g.invalid(f"attribute 'coordinate_transformation_mode': got {mode!r}; expected one of {expected}")
    return found


_NEAREST = {"round_prefer_floor": (-0.5, True), "round_prefer_ceil": (0.5, False), "floor": (0.0, False), "ceil": (0.0, True)}
"""What is added to a position, and whether it is rounded up then, else down."""


def nearest_indices(g: Composer, positions: N, mode: str) -> N:
    if mode not in _NEAREST:
        raise g.invalid(
            f"attribute 'nearest_mode': got {mode!r}; expected round_prefer_floor, round_prefer_ceil, floor or ceil"
        )
    shift, is_up = _NEAREST[mode]
    moved = positions + shift if shift else positions
    if isinstance(moved, Term):
        return moved.ceil() if is_up else moved.floor()
    rounded: Array = np.ceil(moved) if is_up else np.floor(moved)
    return rounded


def neighbours(positions: Array, size: int, scale: float, method: Method) -> tuple[Array, Array]:
    """Indices and weights of the elements that are read, of shape [taps, result]."""
    base = np.ceil(positions) - 1
    ratio = positions - base
    shrink = min(scale, 1.0) if method.antialias else 1.0
    reach = 1 if method.mode == "linear" else 2
    first = math.floor(-reach / shrink) + 1
    offsets = np.arange(first, 2 - first)[:, None]
    distances = np.abs(shrink * (offsets - ratio[None, :]))
    weights = np.clip(1 - distances, 0, 1) if method.mode == "linear" else cubic(distances, method.cubic_coefficient)
    weights = weights / weights.sum(axis=0) if method.antialias else weights
    indices = base[None, :] + offsets
    if method.exclude_outside:
        weights = np.where((indices < 0) | (indices >= size), 0, weights)
        weights = weights / weights.sum(axis=0)
    return np.clip(indices, 0, size - 1).astype(np.int64), weights


def cubic(t: N, a: float) -> N:
    """Keys' kernel at distances ``t``."""
    near = (t * (a + 2) - (a + 3)) * t * t + 1
    far = ((t * a - 5 * a) * t + 8 * a) * t - 4 * a
    return where(t <= 1, near, where(t < 2, far, 0.0))
