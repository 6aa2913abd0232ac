"""Resizing of images along any axes.

An axis is resized by reading a few neighbours of each source position and adding them with weights; the positions and weights
are known when the sizes are, so they are constants of the graph. Axes are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial, reduce

import numpy as np

from forge import dims, dtypes
from forge.compose import resize_dynamic as dynamic
from forge.compose.resize_rules import MODES, Array, AxisNumbers, AxisPlan, Method, nearest_indices, neighbours
from forge.dims import Dim
from forge.errors import option
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term
from forge.ops.vision.resize import MAX_FACTOR, ROUNDINGS

MAX_TAPS_READ_SINGLY = 4
MAX_TAPS = 8
"""The widest window for which an axis that keeps one element of k is read element by element."""
NO_WEIGHT = 1e-12
"""Weights below this are rounding errors."""
MAX_SCALE = float(1 << 32)
OPERATORS = {3: ("image.resize1d", "NCW"), 4: ("image.resize2d", "NCHW"), 5: ("image.resize3d", "NCDHW")}
"""By rank: the operator that resizes all axes but the first two, and their layout."""
SAME_COORDINATES = {"half_pixel": "half_pixel", "pytorch_half_pixel": "half_pixel", "half_pixel_symmetric": "half_pixel",
                    "asymmetric": "asymmetric"}
"""What operators call the coordinates that are the same for whole factors of at least two."""
SHRINKING = {"half_pixel": "half_pixel", "pytorch_half_pixel": "half_pixel", "asymmetric": "asymmetric"}
"""Of those, the ones that are the same for all elements of a result whose axes keep one element of k."""
MAX_POSITIONS, MAX_MATRIX = 1 << 22, 1 << 26
"""Elements of an axis, and weights, that are tabulated."""


def resize(
    g: Composer,
    x: Value,
    places: list[int],
    method: Method,
    *,
    scales: Value | None = None,
    sizes: Value | None = None,
    roi: Value | None = None,
    policy: str = "stretch",
) -> Value:
    """``x`` resized along the axes ``places``, by ``scales`` or to ``sizes``, vectors with a number for each axis.

    A scale gives floor(size * scale) elements. ``roi``, for tf_crop_and_resize: the starts of all axes, then their ends, 1 being
    the last element. ``policy``: stretch, or one scale for all axes with which sizes are not_larger or not_smaller. What
    arrives at run time is computed by the graph.

    Raises:
        OpAttributeInvalid: an unknown mode, neither scales nor sizes, or numbers that do not fit the axes.
    """
    if method.mode not in MODES:
        raise g.invalid(f"attribute 'mode': got {method.mode!r}; expected one of {', '.join(MODES)}")
    by_size = sizes is not None and sizes.shape != (0,)
    given = sizes if by_size else scales
    if given is None or given.shape == (0,):
        raise g.invalid("got neither scales nor sizes; expected one of them")
    crop = method.coordinates == "tf_crop_and_resize"
    known = g.dims(given) if by_size else g.array(given)
    corners = _roi(g, roi, len(places)) if crop else None
    if known is None or (crop and corners is None):
        return _at_run_time(g, x, places, roi if crop else None, given, by_size, policy, method)
    if by_size:
        plans = _plans_by_size(g, x, places, g.dims(given) or (), policy, corners)
    else:
        plans = _plans_by_scale(g, x, places, [float(s) for s in np.asarray(known).ravel()], corners)
    changed = [p for p in plans if crop or not (dims.equal(p.size, p.target) and p.scale in (None, 1.0))]
    changed.sort(key=lambda p: p.turn(x.rank))
    if not crop and (repeated := _repeated(g, x, changed, method)) is not None:
        return repeated
    if all(isinstance(p.size, int) and isinstance(p.target, int) for p in changed):
        return resized(g, x, changed, method)
    if crop or policy != "stretch":
        return _at_run_time(g, x, places, roi if crop else None, given, by_size, policy, method)
    wide = x if method.mode == "nearest" or x.dtype == dynamic.WIDE else g.cast(x, "float32")
    wide, changed = _shrunk(g, wide, changed, method)
    sizes_given = given if by_size else None
    numbers = [(p.axis, _numbers(g, wide, p, sizes_given, places)) for p in changed]
    return g.cast(dynamic.resize_axes(g, wide, numbers, method, {p.axis: p.target for p in changed}), x.dtype)


def resize_images(
    g: Composer, x: Value, targets: Sequence[Dim], method: Method, scales: Sequence[float | None] | None = None
) -> Value:
    """Images ``[N, C, ...]`` with the spatial sizes ``targets``; absent scales follow from the sizes.

    Bytes are rounded after each axis.

    Raises:
        OpAttributeUnimplemented: bytes, of sizes that are symbolic.
    """
    given = [None] * len(targets) if scales is None or method.coordinates == "align_corners" else list(scales)
    plans = [
        AxisPlan(axis, size, target, _ratio(size, target) if scale is None else scale)
        for axis, (size, target, scale) in enumerate(zip(x.shape[2:], targets, given), 2)
    ]
    is_known = all(isinstance(plan.size, int) and isinstance(plan.target, int) for plan in plans)
    if x.dtype == "uint8" and method.mode != "nearest":
        if not is_known:
            raise g.unsupported(f"input: got {x.type}; supported: uint8 of known sizes, or floating point; fix the sizes")
        return resized_bytes(g, x, [p for p in plans if p.size != p.target], method)
    if is_known:
        return resized(g, x, [p for p in plans if p.size != p.target or p.scale != 1.0], method)
    if method.antialias or any(not _follows(plan, scale) for plan, scale in zip(plans, scales or given)):
        by_scale = None if any(plan.scale is None for plan in plans) else g.constant([plan.scale for plan in plans], "float64")
        sizes = g.vector(targets) if by_scale is None else None
        return g.reshape(resize(g, x, [p.axis for p in plans], method, scales=by_scale, sizes=sizes), (*x.shape[:2], *targets))
    nearest = {"asymmetric": "floor", "tf_half_pixel_for_nn": "round_prefer_ceil"}
    return g.call(
        f"image.resize{len(plans)}d", x, size=tuple(targets), cubic_alpha=method.cubic_coefficient,
        method={"nearest": "nearest_neighbor"}.get(method.mode, method.mode),
        coordinate_transformation_mode={"tf_half_pixel_for_nn": "half_pixel"}.get(method.coordinates, method.coordinates),
        rounding_method=nearest.get(method.coordinates, "round"),
    )


def _follows(plan: AxisPlan, scale: float | None) -> bool:
    """Whether the sizes have the scale that is given exactly."""
    ratio = None if scale is None else Fraction(scale)
    return ratio is None or dims.equal(plan.size * ratio.numerator, plan.target * ratio.denominator)


def _shrunk(g: Composer, x: Value, plans: Sequence[AxisPlan], method: Method) -> tuple[Value, list[AxisPlan]]:
    """``x`` with the axes done that keep one element of k: each is the same few elements around, with the same weights.

    Not those where the only one of a short axis may lie elsewhere between elements, but for reading the first.
    """
    left = []
    for plan in plans:
        step = 0 if plan.scale is None else round(1 / plan.scale)
        taps = _taps(g, step, method) if step > 1 and plan.scale == 1 / step and method.coordinates in SHRINKING else {}
        is_inside = all(0 <= tap < step for tap in taps)
        moves_one = method.coordinates == "pytorch_half_pixel" and (len(taps) > 2 or not is_inside)
        if not 0 < len(taps) <= MAX_TAPS or moves_one:
            left.append(plan)
        elif is_inside:
            x = _sliced(g, x, plan, step, taps, method)
        else:
            weights = tuple(taps.get(k, 0.0) for k in range(min(taps), max(taps) + 1))
            x = g.call("image.shrink", x, axis=plan.axis, step=step, first=min(taps), weights=weights,
                       exclude_outside=method.exclude_outside)
    return x, left


def _taps(g: Composer, step: int, method: Method) -> dict[int, float]:
    """What the first of ``step`` elements is made of, where there are enough before it: places, and their weights."""
    at = np.array([(step - 1) / 2 if SHRINKING[method.coordinates] == "half_pixel" else 0.0])
    if method.mode == "nearest":
        return {int(nearest_indices(g, at, method.nearest)[0]): 1.0}
    before = 4 * step
    indices, weights = neighbours(at + before, 9 * step, 1 / step, method)
    return {int(i) - before: float(w) for i, w in zip(indices[:, 0], weights[:, 0]) if abs(w) > NO_WEIGHT}


def _sliced(g: Composer, x: Value, plan: AxisPlan, step: int, taps: Mapping[int, float], method: Method) -> Value:
    """The sum of slices, where ``taps`` lie among the ``step`` elements."""
    is_one = method.coordinates == "pytorch_half_pixel"  # reads the first element where the axis has one step
    parts = []
    for tap, weight in taps.items():
        begin = dims.minimum(dims.floordiv(plan.size, step + 1), 1) * tap if is_one else tap
        part = g.call("strided_slice", x, begin=(begin,), end=(plan.target * step,), strides=(step,), axes=(plan.axis,))
        part = g.reshape(part, [plan.target if k == plan.axis else size for k, size in enumerate(part.shape)])
        parts.append(part if weight == 1 else g.call("multiply", part, g.scalar(weight, part)))
    return reduce(partial(g.call, "add"), parts)


def _repeated(g: Composer, x: Value, plans: Sequence[AxisPlan], method: Method) -> Value | None:
    """``x`` resized by the operator for spatial axes, if all are made longer by a whole factor."""
    rank, axes = x.rank, {plan.axis: plan for plan in plans}
    factors = [dims.floordiv(plan.target, plan.size) for plan in plans]
    if rank not in OPERATORS or not axes or min(axes) < 2 or method.coordinates not in SAME_COORDINATES:
        return None
    nearest = method.mode == "nearest"
    if nearest and method.nearest not in ROUNDINGS or method.mode == "cubic" and method.exclude_outside:
        return None
    for plan, factor in zip(plans, factors):
        exact = isinstance(factor, int) and 2 <= factor <= MAX_FACTOR and dims.equal(plan.size * factor, plan.target)
        if not exact or plan.scale not in (None, factor):
            return None
    name, layout = OPERATORS[rank]
    size = tuple(axes[k].target if k in axes else x.shape[k] for k in range(2, rank))
    options = {
        "size": size, "layout": layout, "method": "nearest_neighbor" if nearest else method.mode,
        "coordinate_transformation_mode": SAME_COORDINATES[method.coordinates],
        "rounding_method": method.nearest if nearest else "floor",
        "cubic_alpha": method.cubic_coefficient,
    }
    narrow = x.dtype
    result = g.call(name, x if nearest or dtypes.is_float(narrow) else g.cast(x, "float32"), **options)
    return g.cast(result, narrow)


def _numbers(g: Composer, x: Value, plan: AxisPlan, sizes: Value | None, places: list[int]) -> AxisNumbers[Term]:
    """The numbers of an axis whose sizes are symbolic, the result's as it is given in ``sizes`` or by the scale."""
    size = dynamic.extent(g, x, plan.axis)
    start, end = (Term(g, g.constant(v, dynamic.WIDE)) for v in plan.roi)
    if sizes is not None:
        target = dynamic.element(g, sizes, places.index(plan.axis))
        return AxisNumbers(size, target, target / size, start, end)
    assert plan.scale is not None
    ratio = _fraction(plan.scale)
    target = (Term(g, g.extent(x, plan.axis)) * ratio.numerator).floor_divide(ratio.denominator).cast(dynamic.WIDE)
    return AxisNumbers(size, target, Term(g, g.constant(plan.scale, dynamic.WIDE)), start, end)


def _fraction(number: float) -> Fraction:
    """The simple fraction that ``number``, rounded, stands for."""
    return Fraction(number).limit_denominator(1 << 16)


def _at_run_time(
    g: Composer, x: Value, places: list[int], roi: Value | None, given: Value, by_size: bool, policy: str, method: Method
) -> Value:
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
        start, end = (Term(g, g.constant(v, dynamic.WIDE)) for v in (0, 1))
        target = numbers[i] if by_size else (sizes[i] * scales[i]).floor()
        if roi is not None:
            start, end = dynamic.element(g, roi, i), dynamic.element(g, roi, i + len(places))
            target = numbers[i] if by_size else (sizes[i] * (end - start) * scales[i]).floor()
        axes.append((axis, AxisNumbers(sizes[i], target, scales[i], start, end)))
    return dynamic.resize_axes(g, x, axes, method)


def _roi(g: Composer, roi: Value | None, count: int) -> list[tuple[float, float]] | None:
    known = g.array(roi)
    if roi is None or roi.shape != (2 * count,):
        raise g.invalid(f"roi: expected {2 * count} numbers, the starts and ends of {count} axes")
    return None if known is None else [(float(known[i]), float(known[i + count])) for i in range(count)]


def _plans_by_scale(
    g: Composer, x: Value, places: Sequence[int], scales: Sequence[float], corners: list[tuple[float, float]] | None
) -> list[AxisPlan]:
    """Axes with the targets floor(size * scale)."""
    if len(scales) != len(places) or not all(0 < s <= MAX_SCALE for s in scales):
        raise g.invalid(f"scales: got {list(scales)}; expected {len(places)} positive numbers, at most {MAX_SCALE}")
    found = []
    for i, (axis, scale) in enumerate(zip(places, scales)):
        part = corners[i] if corners else (0.0, 1.0)
        ratio = _fraction(scale)
        covered = _fraction(part[1] - part[0]) if corners else 1
        exact = ratio * covered
        found.append(
            AxisPlan(axis, x.shape[axis], dims.floordiv(x.shape[axis] * exact.numerator, exact.denominator), scale, part)
        )
    return found


def _plans_by_size(
    g: Composer, x: Value, places: Sequence[int], targets: Sequence[Dim], policy: str, corners: list[tuple[float, float]] | None
) -> list[AxisPlan]:
    """Axes with given targets."""
    if len(targets) != len(places) or any(isinstance(t, int) and t < 0 for t in targets):
        raise g.invalid(f"sizes: got {list(targets)}; expected {len(places)} sizes")
    sizes = [x.shape[axis] for axis in places]
    scales = [_ratio(size, target) for size, target in zip(sizes, targets)]
    if policy != "stretch":
        targets, scales = _keeping_aspect(g, sizes, scales, policy)
    return [
        AxisPlan(axis, sizes[i], targets[i], scales[i], corners[i] if corners else (0.0, 1.0)) for i, axis in enumerate(places)
    ]


def _ratio(size: Dim, target: Dim) -> float | None:
    return target / size if isinstance(size, int) and isinstance(target, int) and size else None


def _keeping_aspect(
    g: Composer, sizes: Sequence[Dim], scales: Sequence[float | None], policy: str
) -> tuple[list[Dim], list[float | None]]:
    """Targets and scales with one scale for all axes, the smallest or the largest."""
    if policy not in ("not_larger", "not_smaller"):
        raise g.invalid(f"attribute 'keep_aspect_ratio_policy': got {policy!r}; expected stretch, not_larger or not_smaller")
    known = [s for s in scales if s is not None]
    if len(known) != len(scales):
        raise g.unsupported(
            f"attribute 'keep_aspect_ratio_policy': {policy!r} with symbolic sizes; expected numbers; pass {option('shape=')}"
        )
    scale = min(known) if policy == "not_larger" else max(known)
    return [math.floor(scale * size + 0.5) for size in sizes if isinstance(size, int)], [scale] * len(scales)


def resized(g: Composer, x: Value, plans: Sequence[AxisPlan], method: Method) -> Value:
    """``x`` resized along each axis of ``plans``, whose sizes are numbers."""
    narrow = x.dtype
    if method.mode != "nearest" and narrow not in ("float32", "float64"):
        x = g.cast(x, "float32")
    for plan in plans:
        x = _resize_axis(g, x, plan, method)
    if method.coordinates == "tf_crop_and_resize":
        x = _extrapolated(g, x, plans, method)
    return g.cast(x, narrow)


def _resize_axis(g: Composer, x: Value, plan: AxisPlan, method: Method) -> Value:
    size, target, scale = plan.size, plan.target, plan.scale
    assert isinstance(size, int) and isinstance(target, int) and scale is not None
    if size == 0 and target != 0:
        raise g.invalid(f"axis {plan.axis} has size 0; expected elements to resize")
    if target > MAX_POSITIONS or (method.antialias and method.mode != "nearest" and size > MAX_POSITIONS):
        raise g.unsupported(
            f"axis {plan.axis}: resizes {size} elements to {target}; expected at most {MAX_POSITIONS}; split the tensor before"
        )
    positions = plan.positions(g, method.coordinates)
    if method.mode == "nearest":
        indices = np.clip(nearest_indices(g, positions, method.nearest), 0, max(size - 1, 0)).astype(np.int64)
        return g.call("take", x, g.constant(indices), axis=plan.axis, mode="fast")
    indices, weights = neighbours(positions, size, scale, method)
    if len(weights) <= MAX_TAPS_READ_SINGLY:
        return _weighted_reads(g, x, plan.axis, indices, weights)
    if target * size > MAX_MATRIX:
        raise g.unsupported(
            f"axis {plan.axis}: antialiasing of {size} elements to {target} takes a matrix of {target * size} weights; expected "
            f"at most {MAX_MATRIX}; shrink in steps"
        )
    matrix = np.zeros((target, size))
    np.add.at(matrix, (np.arange(target)[None, :].repeat(len(weights), 0), indices), weights)
    return _along_last(g, x, plan.axis, matrix)


def resized_bytes(g: Composer, x: Value, plans: Sequence[AxisPlan], method: Method) -> Value:
    """``x`` of uint8 resized along each axis of ``plans``, linear or cubic, in the arithmetic of Pillow and torch.

    Axes are resized from the last to the first, each to bytes. Weights are integers of 16 bits with as many binary places as the
    largest weight leaves.
    """
    for plan in reversed(plans):
        assert isinstance(plan.size, int) and isinstance(plan.target, int) and plan.scale is not None
        if plan.target * plan.size > MAX_MATRIX:
            raise g.unsupported(f"axis {plan.axis}: resizes {plan.size} bytes to {plan.target}, which takes "
                                f"{plan.target * plan.size} weights; expected at most {MAX_MATRIX}")
        indices, weights = neighbours(plan.positions(g, method.coordinates), plan.size, plan.scale, method)
        matrix = np.zeros((plan.target, plan.size))
        np.add.at(matrix, (np.arange(plan.target)[None, :].repeat(len(weights), 0), indices), weights)
        places = next((p for p in range(_MAX_PLACES) if matrix.max() * 2.0 ** (p + 1) + 0.5 >= 1 << 15), _MAX_PLACES)
        integers = np.trunc(matrix * 2.0**places + np.copysign(0.5, matrix))
        total = g.call("add", _along_last(g, g.cast(x, "int32"), plan.axis, integers), g.constant(1 << places >> 1, "int32"))
        total = g.call("right_shift", total, g.constant(places, "int32"))
        x = g.cast(g.call("clip", total, a_min=0, a_max=255), "uint8")
    return x


_MAX_PLACES = 22


def _weighted_reads(g: Composer, x: Value, axis: int, indices: Array, weights: Array) -> Value:
    shape = [1] * x.rank
    shape[axis] = indices.shape[1]
    total: Value | None = None
    for positions, factors in zip(indices, weights):
        part = g.call("take", x, g.constant(positions), axis=axis, mode="fast")
        part = g.call("multiply", part, g.constant(factors.reshape(shape), x.dtype))
        total = part if total is None else g.call("add", total, part)
    assert total is not None
    return total


def _along_last(g: Composer, x: Value, axis: int, matrix: Array) -> Value:
    """``matrix`` applied to each vector along ``axis``."""
    order = [i for i in range(x.rank) if i != axis] + [axis]
    moved = x if axis == x.rank - 1 else g.call("transpose", x, axes=tuple(order))
    result = g.call("nn.dense", moved, g.constant(matrix, x.dtype), units=len(matrix))
    return result if axis == x.rank - 1 else g.call("transpose", result, axes=tuple(int(i) for i in np.argsort(order)))


def _extrapolated(g: Composer, x: Value, plans: Sequence[AxisPlan], method: Method) -> Value:
    """``x`` with the extrapolation value where a position lies outside of the operand."""
    for plan in plans:
        assert isinstance(plan.size, int) and isinstance(plan.target, int) and plan.scale is not None
        positions = plan.positions(g, method.coordinates)
        outside = (positions < 0) | (positions > plan.size - 1)
        if outside.any():
            shape = [1] * x.rank
            shape[plan.axis] = plan.target
            x = g.call("where", g.constant(outside.reshape(shape)), g.scalar(method.extrapolation, x), x)
    return x


__all__ = ["AxisPlan", "Method", "resize", "resized", "resized_bytes"]
