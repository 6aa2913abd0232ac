"""Resizing of images along any axes.

An axis is resized by reading a few neighbours of each source position and adding them with weights; the positions and weights
are known when the sizes are, so they are constants of the graph. Axes are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

MAX_TAPS_READ_SINGLY = 4
_MODES = ("nearest", "linear", "cubic")
Array = np.ndarray


@dataclass(frozen=True)
class Method:
    """How positions are found and neighbours weighed; names are ONNX's."""

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


@converts("Upsample", since=1)
def upsample_1(g: Context, x: Value, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Value:
    return _upsampled(g, x, (1.0, 1.0, height_scale, width_scale), mode)


@converts("Upsample", since=7)
def upsample_7(g: Context, x: Value, *, scales: tuple[float, ...], mode: str = "nearest") -> Value:
    return _upsampled(g, x, scales, mode)


@converts("Upsample", since=9)
@converts("Resize", since=10)
def upsample_9(g: Context, x: Value, scales: Value, *, mode: str = "nearest") -> Value:
    return _resize(g, x, list(range(x.rank)), None, scales, None, "stretch", _asymmetric(mode))


def _upsampled(g: Context, x: Value, scales: Sequence[float], mode: str) -> Value:
    return upsample_9(g, x, g.constant(scales, "float32"), mode=mode)


def _asymmetric(mode: str) -> Method:
    return Method({"bilinear": "linear"}.get(mode, mode), "asymmetric", "floor")


@converts("Resize", since=11)
def resize_11(
    g: Context,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    return resize(
        g,
        x,
        roi,
        scales,
        sizes,
        coordinate_transformation_mode={"tf_half_pixel_for_nn": "half_pixel"}.get(
            coordinate_transformation_mode, coordinate_transformation_mode
        ),
        cubic_coeff_a=cubic_coeff_a,
        exclude_outside=exclude_outside,
        extrapolation_value=extrapolation_value,
        mode=mode,
        nearest_mode=nearest_mode,
    )


@converts("Resize", since=18)
def resize(
    g: Context,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Value:
    places = [g.axis(a, x.rank, "axes") for a in (range(x.rank) if axes is None else axes)]
    method = Method(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
        extrapolation_value,
    )
    return _resize(g, x, places, roi, scales, sizes, keep_aspect_ratio_policy, method)


def _resize(
    g: Context,
    x: Value,
    places: list[int],
    roi: Value | None,
    scales: Value | None,
    sizes: Value | None,
    policy: str,
    method: Method,
) -> Value:
    if method.mode not in _MODES:
        raise g.invalid(f"attribute 'mode': got {method.mode!r}; expected one of {', '.join(_MODES)}")
    by_size = sizes is not None and sizes.shape != (0,)
    given = sizes if by_size else scales
    if given is None or given.shape == (0,):
        raise g.invalid("got neither scales nor sizes; expected one of them")
    crop = method.coordinates == "tf_crop_and_resize"
    known = g.dims(given) if by_size else g.array(given)
    corners = _roi(g, roi, len(places)) if crop else None
    if known is None or (crop and corners is None):
        return _resize_at_run_time(g, x, places, roi if crop else None, given, by_size, policy, method)
    if by_size:
        plans = _plans_by_size(g, x, places, g.dims(given) or (), policy, corners)
    else:
        plans = plans_by_scale(g, x, places, [float(s) for s in np.asarray(known).ravel()], corners)
    changed = [p for p in plans if crop or not (dims.equal(p.size, p.target) and p.scale in (None, 1.0))]
    if not all(isinstance(p.size, int) and isinstance(p.target, int) for p in changed):
        return _resize_at_run_time(g, x, places, roi if crop else None, given, by_size, policy, method)
    return resized(g, x, changed, method)


def _resize_at_run_time(
    g: Context, x: Value, places: list[int], roi: Value | None, given: Value, by_size: bool, policy: str, method: Method
) -> Value:
    from forge.frontends.onnx.converters import resize_dynamic as dynamic

    sizes = [dynamic.extent(g, x, axis) for axis in places]
    numbers = [dynamic.element(g, given, i) for i in range(len(places))]
    scales = [n / size for n, size in zip(numbers, sizes)] if by_size else numbers
    if by_size and policy != "stretch":
        chosen = scales[0]
        for scale in scales[1:]:
            chosen = chosen.minimum(scale) if policy == "not_larger" else chosen.maximum(scale)
        scales = [chosen] * len(scales)
        numbers = [(chosen * size + 0.5).floor() for size in sizes]
    axes = []
    for i, axis in enumerate(places):
        corners = (None, None) if roi is None else (dynamic.element(g, roi, i), dynamic.element(g, roi, i + len(places)))
        target = numbers[i] if by_size else (sizes[i] * scales[i]).floor()
        if corners[0] is not None and corners[1] is not None and not by_size:
            target = (sizes[i] * (corners[1] - corners[0]) * scales[i]).floor()
        axes.append(dynamic.RuntimeAxis(axis, sizes[i], target.cast("int64"), scales[i], *corners))
    return dynamic.resize_axes(g, x, axes, method)


def _roi(g: Context, roi: Value | None, count: int) -> list[tuple[float, float]] | None:
    known = g.array(roi)
    if roi is None or roi.shape != (2 * count,):
        raise g.invalid(f"roi: expected {2 * count} numbers, the starts and ends of {count} axes")
    return None if known is None else [(float(known[i]), float(known[i + count])) for i in range(count)]


def plans_by_scale(
    g: Context, x: Value, places: Sequence[int], scales: Sequence[float], corners: list[tuple[float, float]] | None
) -> list[AxisPlan]:
    """Axes with the targets floor(size * scale)."""
    if len(scales) != len(places) or min(scales, default=1.0) <= 0:
        raise g.invalid(f"scales: got {list(scales)}; expected {len(places)} positive numbers")
    found = []
    for i, (axis, scale) in enumerate(zip(places, scales)):
        part = corners[i] if corners else (0.0, 1.0)
        ratio = Fraction(scale).limit_denominator(1 << 16)
        covered = Fraction(part[1] - part[0]).limit_denominator(1 << 16) if corners else 1
        exact = ratio * covered
        found.append(
            AxisPlan(axis, x.shape[axis], dims.floordiv(x.shape[axis] * exact.numerator, exact.denominator), scale, part)
        )
    return found


def _plans_by_size(
    g: Context, x: Value, places: Sequence[int], targets: Sequence[Dim], policy: str, corners: list[tuple[float, float]] | None
) -> list[AxisPlan]:
    """Axes with given targets."""
    if len(targets) != len(places):
        raise g.invalid(f"sizes: got {len(targets)} numbers; expected {len(places)}")
    pairs = [(x.shape[axis], target) for axis, target in zip(places, targets)]
    if policy != "stretch":
        pairs = _keeping_aspect(g, pairs, policy)
    return [
        AxisPlan(axis, size, target, _ratio(size, target), corners[i] if corners else (0.0, 1.0))
        for i, (axis, (size, target)) in enumerate(zip(places, pairs))
    ]


def _ratio(size: Dim, target: Dim) -> float | None:
    return target / size if isinstance(size, int) and isinstance(target, int) and size else None


def _keeping_aspect(g: Context, pairs: Sequence[tuple[Dim, Dim]], policy: str) -> list[tuple[Dim, Dim]]:
    """Targets for one scale of all axes, the smallest or the largest."""
    if policy not in ("not_larger", "not_smaller"):
        raise g.invalid(f"attribute 'keep_aspect_ratio_policy': got {policy!r}; expected stretch, not_larger or not_smaller")
    ratios = [_ratio(size, target) for size, target in pairs]
    known = [r for r in ratios if r is not None]
    if len(known) != len(ratios):
        raise g.unsupported(
            f"attribute 'keep_aspect_ratio_policy': {policy!r} with symbolic sizes; expected numbers; fix them with shape="
        )
    scale = min(known) if policy == "not_larger" else max(known)
    return [(size, math.floor(scale * size + 0.5)) for size, _ in pairs if isinstance(size, int)]


def resized(g: Context, x: Value, plans: Sequence[AxisPlan], method: Method) -> Value:
    """``x`` resized along each axis of ``plans``, whose sizes are numbers."""
    narrow = x.dtype
    if method.mode != "nearest" and narrow not in ("float32", "float64"):
        x = g.cast(x, "float32")
    for plan in plans:
        x = _resize_axis(g, x, plan, method)
    if method.coordinates == "tf_crop_and_resize":
        x = _extrapolated(g, x, plans, method)
    return g.cast(x, narrow)


def _resize_axis(g: Context, x: Value, plan: AxisPlan, method: Method) -> Value:
    size, target, scale = plan.size, plan.target, plan.scale
    assert isinstance(size, int) and isinstance(target, int) and scale is not None
    if size == 0 and target != 0:
        raise g.invalid(f"axis {plan.axis} has size 0; expected elements to resize")
    positions = source_positions(g, method.coordinates, size, target, scale, plan.roi)
    if method.mode == "nearest":
        indices = np.clip(_nearest(g, positions, method.nearest), 0, max(size - 1, 0)).astype(np.int64)
        return g.call("take", x, g.constant(indices), axis=plan.axis, mode="fast")
    indices, weights = neighbours(positions, size, scale, method)
    if len(weights) <= MAX_TAPS_READ_SINGLY:
        return _weighted_reads(g, x, plan.axis, indices, weights)
    matrix = np.zeros((target, size))
    np.add.at(matrix, (np.arange(target)[None, :].repeat(len(weights), 0), indices), weights)
    return _along_last(g, x, plan.axis, matrix)


def source_positions(g: Context, mode: str, size: int, target: int, scale: float, roi: tuple[float, float]) -> Array:
    """Where the elements of the result lie on the axis of the operand, in elements."""
    i = np.arange(target, dtype=np.float64)
    exact = scale * size
    match mode:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
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
    raise g.invalid(f"attribute 'coordinate_transformation_mode': got {mode!r}; expected one of the modes of Resize-19")


def _nearest(g: Context, positions: Array, mode: str) -> Array:
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


def _weighted_reads(g: Context, x: Value, axis: int, indices: Array, weights: Array) -> Value:
    shape = [1] * x.rank
    shape[axis] = indices.shape[1]
    total: Value | None = None
    for positions, factors in zip(indices, weights):
        part = g.call("take", x, g.constant(positions), axis=axis, mode="fast")
        part = g.call("multiply", part, g.constant(factors.reshape(shape), x.dtype))
        total = part if total is None else g.call("add", total, part)
    assert total is not None
    return total


def _along_last(g: Context, x: Value, axis: int, matrix: Array) -> Value:
    """``matrix`` applied to each vector along ``axis``."""
    order = [i for i in range(x.rank) if i != axis] + [axis]
    moved = x if axis == x.rank - 1 else g.call("transpose", x, axes=tuple(order))
    result = g.call("nn.dense", moved, g.constant(matrix, x.dtype), units=len(matrix))
    return result if axis == x.rank - 1 else g.call("transpose", result, axes=tuple(int(i) for i in np.argsort(order)))


def _extrapolated(g: Context, x: Value, plans: Sequence[AxisPlan], method: Method) -> Value:
    """``x`` with the extrapolation value where a position lies outside of the operand."""
    for plan in plans:
        assert isinstance(plan.size, int) and isinstance(plan.target, int) and plan.scale is not None
        positions = source_positions(g, method.coordinates, plan.size, plan.target, plan.scale, plan.roi)
        outside = (positions < 0) | (positions > plan.size - 1)
        if outside.any():
            shape = [1] * x.rank
            shape[plan.axis] = plan.target
            x = g.call("where", g.constant(outside.reshape(shape)), g.scalar(method.extrapolation, x), x)
    return x
