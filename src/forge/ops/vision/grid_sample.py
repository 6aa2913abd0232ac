"""Sampling of images at given positions: grid_sample, and the patches and the sum of patches of convolutions.

A normalised coordinate of -1 to 1 runs from the centre of the first element to that of the last one (``align_corners``),
or from edge to edge. Elements outside of the data are 0 ("zeros"), the nearest one ("border"), or mirrored
("reflection"): at the centres of the outermost elements with ``align_corners``, else at their outer edges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import te
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, expect_rank, fail, unify_dim
from forge.ops.core.lowering import cast_result, chain_select
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.core.window_geometry import compute_dtype
from forge.ops.vision.resize import cubic_weight

OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
PADDINGS = ("zeros", "border", "reflection")
CUBIC_ALPHA = -0.75


@dataclass(frozen=True)
class GridSampleAttrs:
    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: bool = False


def denormalized(x: Any, extent: Any, align_corners: bool) -> Any:
    """The position along an axis of ``extent`` elements that a normalised coordinate means."""
    return (x + 1.0) * 0.5 * (extent - 1.0) if align_corners else ((x + 1.0) * extent - 1.0) * 0.5


def _reflected(
    index: Any, extent: Any, align_corners: bool, choose: Callable[..., Any], at_least_one: Callable[[Any], Any]
) -> Any:
    """An index of the infinitely mirrored axis as one of the axis."""
    period = at_least_one((extent - 1) * 2) if align_corners else extent * 2
    place = index % period
    mirrored = period - place if align_corners else period - 1 - place
    return choose(place < extent, place, mirrored)


def _tap_weights(fraction: Any, mode: str, choose: Callable[..., Any], absolute: Callable[[Any], Any]) -> list[Any]:
    """Weights of the taps at ``OFFSETS[mode]`` from the element before the position."""
    if mode == "linear":
        return [fraction * -1.0 + 1.0, fraction]
    return [cubic_weight(absolute(fraction - float(k)), CUBIC_ALPHA, choose) for k in OFFSETS["cubic"]]


@register
class GridSample(Op[GridSampleAttrs]):
    """out[n, c, p..] = data[n, c] at grid[n, p..]: normalised coordinates in the last dimension, innermost axis first.

    ``mode``: nearest (half to even), linear, cubic (Keys' kernel with -0.75). ``padding_mode``: zeros, border, reflection.
    Elements of weight 0 do not count, whatever they are.
    """

    name = "image.grid_sample"
    data, grid = Operand(min_rank=3), Operand(accepts="float")
    kind = Kind.ANCHOR
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: GridSampleAttrs, data: Value, grid: Value) -> Types:
        for what, accepted in (("mode", tuple(OFFSETS)), ("padding_mode", PADDINGS)):
            if getattr(attrs, what) not in accepted:
                raise fail(self.name, f"attribute {what}", repr(getattr(attrs, what)), ", ".join(accepted))
        expect_dtype(self.name, data, "data", "numeric or bool" if attrs.mode == "nearest" else "float")
        expect_rank(self.name, grid.tensor_type, "grid", data.rank)
        unify_dim(self.name, data.shape[0], grid.shape[0], "batch of data and grid")
        unify_dim(self.name, grid.shape[-1], data.rank - 2, "last dimension of grid")
        return [TensorType((*data.shape[:2], *grid.shape[1:-1]), data.dtype)]

    def reference(self, attrs: GridSampleAttrs, data: Array, grid: Array) -> Arrays:
        grid = numeric.widen(grid)
        extents = data.shape[2:]
        out = np.zeros((*data.shape[:2], *grid.shape[1:-1]), data.dtype if attrs.mode == "nearest" else np.float64)
        for place in np.ndindex(grid.shape[:-1]):
            taps = [_reference_taps(x, n, attrs) for x, n in zip(reversed(grid[place]), extents, strict=True)]
            for chosen in itertools.product(*taps):
                if any(index is None or weight == 0 for index, weight in chosen):
                    continue
                element = data[(place[0], slice(None), *(index for index, _ in chosen))]
                target = (place[0], slice(None), *place[1:])
                if attrs.mode == "nearest":
                    out[target] = element
                else:
                    out[target] += element.astype(np.float64) * math.prod(w for _, w in chosen)
        return [out.astype(data.dtype)]

    def lower(self, attrs: GridSampleAttrs, results: TensorTypes, data: Tensor, grid: Tensor) -> Lowered:
        indices, weights = self._taps(data, grid, attrs)
        rank = data.ndim - 2
        out = te.shape_of(results[0].shape)
        if attrs.mode == "nearest":
            return [te.compute(out, lambda *i: _nearest(data, indices, weights, i), "grid_sample", data.dtype)]
        taps = [te.reduce_axis(len(OFFSETS[attrs.mode]), f"tap{k}") for k in range(rank)]
        real = compute_dtype(data.dtype)

        def body(*i: Expr) -> Expr:
            places = [(i[0], *i[2:], te.const(k), tap.var) for k, tap in enumerate(taps)]
            value = te.cast(data[(i[0], i[1], *(indices[p] for p in places))], real)
            for place in places:
                weight = te.cast(weights[place], real)
                value = te.select(weight.eq(0.0), te.const(0.0, real), value * weight)
            return te.reduce("sum", value, taps)

        return [cast_result(te.compute(out, body, "grid_sample"), data.dtype)]

    def _taps(self, data: Tensor, grid: Tensor, attrs: GridSampleAttrs) -> tuple[Tensor, Tensor]:
        """Indices into the data, and their weights, by position in the grid, axis and tap."""
        rank = data.ndim - 2
        offsets = OFFSETS[attrs.mode]
        real = "float64" if grid.dtype == "float64" else "float32"
        shape = (*grid.shape[:-1], te.const(rank), te.const(len(offsets)))

        def tap(i: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
            axis, number = i[-2], i[-1]
            extent = chain_select([axis.eq(k) for k in range(rank - 1)], data.shape[2:-1], data.shape[-1])
            x = te.cast(grid[(*i[:-2], te.const(rank - 1) - axis)], real)
            position = denormalized(x, te.cast(extent, real), attrs.align_corners)
            if attrs.mode == "nearest":
                return te.cast(te.call("round", position), "int64"), te.const(1.0, real), extent
            first = te.call("floor", position)
            weights = _tap_weights(position - first, attrs.mode, te.select, lambda v: te.call("abs", v))
            weight = chain_select([number.eq(k) for k in range(len(weights) - 1)], weights[:-1], weights[-1])
            return te.cast(first + te.cast(number + offsets[0], real), "int64"), weight, extent

        def index(*i: Expr) -> Expr:
            at, _, extent = tap(i)
            if attrs.padding_mode == "reflection":
                at = _reflected(at, extent, attrs.align_corners, te.select, lambda v: te.binary("max", v, te.const(1)))
            return te.clamp(at, extent)

        def weight(*i: Expr) -> Expr:
            at, value, extent = tap(i)
            if attrs.padding_mode != "zeros":
                return value
            return te.select(te.logical_and(at >= 0, at < extent), value, te.const(0.0, real))

        return te.compute(shape, index, "grid_index", "int64"), te.compute(shape, weight, "grid_weight", real)

    def flops(self, attrs: GridSampleAttrs, results: TensorTypes, *_: object) -> Any:
        return 2 * len(OFFSETS[attrs.mode]) ** (results[0].rank - 2) * results[0].size


def _nearest(data: Tensor, indices: Tensor, weights: Tensor, i: Sequence[Expr]) -> Expr:
    places = [(i[0], *i[2:], te.const(k), te.const(0)) for k in range(data.ndim - 2)]
    inside: Expr = te.const(True, "bool")
    for place in places:
        inside = te.logical_and(inside, weights[place] > 0.0)
    value = data[(i[0], i[1], *(indices[p] for p in places))]
    return te.select(inside, value, te.const(False if data.dtype == "bool" else 0, data.dtype))


def _reference_taps(x: Any, extent: int, attrs: GridSampleAttrs) -> list[tuple[int | None, float]]:
    """(index, weight) of every tap along one axis; the index is None where the data counts as 0."""
    position = denormalized(x, extent, attrs.align_corners)
    if attrs.mode == "nearest":
        first, weights = int(np.rint(position)), [1.0]
    else:
        first = math.floor(position)
        weights = _tap_weights(float(position) - first, attrs.mode, np.where, abs)
    taps = [first + k for k in OFFSETS[attrs.mode]]
    return [(_padded(index, extent, attrs), float(weight)) for index, weight in zip(taps, weights, strict=True)]


def _padded(index: int, extent: int, attrs: GridSampleAttrs) -> int | None:
    if attrs.padding_mode == "zeros":
        return index if 0 <= index < extent else None
    if attrs.padding_mode == "reflection":
        index = int(_reflected(index, extent, attrs.align_corners, np.where, lambda v: max(v, 1)))
    return min(max(index, 0), extent - 1)
