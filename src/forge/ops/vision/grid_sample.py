"""Sampling of images at given positions: grid_sample, and the patches and the sum of patches of convolutions.

A normalized coordinate of -1 to 1 runs from the centre of the first element to that of the last one (``align_corners``),
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

from forge import dims, te
from forge.dims import Dim
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, expect_rank, fail, unify_dim
from forge.ops.core.lowering import chain_select
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import (
    Array,
    Arrays,
    Builder,
    Expr,
    Lowered,
    Tensor,
    TensorType,
    TensorTypes,
    Types,
    Value,
    Values,
)
from forge.ops.vision.resize import cubic_weight
from forge.ops.vision.taps import gathered

OFFSETS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
PADDINGS = ("zeros", "border", "reflection")
CUBIC_ALPHA = -0.75


@dataclass(frozen=True)
class GridSampleAttrs:
    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: bool = False


def denormalized(x: Any, extent: Any, align_corners: bool) -> Any:
    """The position along an axis of ``extent`` elements that a normalized coordinate means."""
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
    """out[n, c, p..] = data[n, c] at grid[n, p..]: normalized coordinates in the last dimension, innermost axis first.

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

    def decompose(self, builder: Builder, attrs: GridSampleAttrs, data: Value, grid: Value) -> Values:
        batch, *places, rank = grid.shape
        positions = builder.call("reshape", grid, newshape=(batch, dims.product(places), rank), allowzero=True)
        indices, *weights = builder.call_multi("image.grid_taps", positions, size=data.shape[2:], **vars(attrs))
        found = gathered(builder, data, indices, weights[0] if weights else None)
        return [builder.call("reshape", found, newshape=(*data.shape[:2], *places), allowzero=True)]

    def flops(self, attrs: GridSampleAttrs, results: TensorTypes, *_: object) -> Any:
        return 2 * len(OFFSETS[attrs.mode]) ** (results[0].rank - 2) * results[0].size


@dataclass(frozen=True)
class GridTapsAttrs:
    size: tuple[Dim, ...]
    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: bool = False


@register
class GridTaps(Op[GridTapsAttrs]):
    """Indices into a flat image of ``size``, and their weights, of what image.grid_sample sums up at grid[n, p]: [n, taps, p].

    The index is -1 for what does not count. ``mode`` nearest has one tap and no weights.
    """

    name = "image.grid_taps"
    grid = Operand(accepts="float", rank=3)
    kind = Kind.INJECTIVE
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: GridTapsAttrs, grid: Value) -> Types:
        batch, places, rank = grid.shape
        unify_dim(self.name, rank, len(attrs.size), "last dimension of grid")
        shape = (batch, len(OFFSETS[attrs.mode]) ** len(attrs.size), places)
        weights = [] if attrs.mode == "nearest" else [TensorType(shape, _weight_dtype(grid.dtype))]
        return [TensorType(shape, "int64"), *weights]

    def reference(self, attrs: GridTapsAttrs, grid: Array) -> Arrays:
        shape = (len(grid), len(OFFSETS[attrs.mode]) ** len(attrs.size), grid.shape[1])
        indices, weights = np.full(shape, -1), np.zeros(shape, _weight_dtype(str(grid.dtype)))
        grid, size = numeric.widen(grid), tuple(d for d in attrs.size if isinstance(d, int))
        for n, p in np.ndindex(grid.shape[:2]):
            taps = [_reference_taps(x, extent, attrs) for x, extent in zip(reversed(grid[n, p]), size, strict=True)]
            for number, chosen in enumerate(itertools.product(*taps)):
                weights[n, number, p] = math.prod(weight for _, weight in chosen)
                places = [index for index, weight in chosen if index is not None and weight != 0]
                if len(places) == len(size):
                    indices[n, number, p] = np.ravel_multi_index(places, size)
        return [indices] if attrs.mode == "nearest" else [indices, weights]

    def lower(self, attrs: GridTapsAttrs, results: TensorTypes, grid: Tensor) -> Lowered:
        count, rank = len(OFFSETS[attrs.mode]), len(attrs.size)
        size = te.shape_of(attrs.size)

        def taps(i: Sequence[Expr]) -> list[tuple[Expr, Expr, Expr]]:
            n, number, place = i
            coordinates = [grid[n, place, te.const(rank - 1 - k)] for k in range(rank)]
            digits = [number // count ** (rank - 1 - k) % count for k in range(rank)]
            return [_tap(x, extent, digit, attrs) for x, extent, digit in zip(coordinates, size, digits, strict=True)]

        def index(*i: Expr) -> Expr:
            flat: Expr = te.const(0)
            counts: Expr = te.const(True, "bool")
            for (at, weight, inside), extent in zip(taps(i), size, strict=True):
                flat = flat * extent + te.clamp(at, extent)
                counts = te.logical_and(counts, te.logical_and(inside, weight.ne(0.0)))
            return te.select(counts, flat, te.const(-1))

        def weight(*i: Expr) -> Expr:
            return math.prod((weight for _, weight, _ in taps(i)), start=te.const(1.0, _weight_dtype(grid.dtype)))

        shape = te.shape_of(results[0].shape)
        indices = te.compute(shape, index, "grid_index", "int64")
        return [indices] if attrs.mode == "nearest" else [indices, te.compute(shape, weight, "grid_weight", results[1].dtype)]


def _weight_dtype(grid: str) -> str:
    return "float64" if grid == "float64" else "float32"


def _tap(x: Expr, extent: Expr, number: Expr, attrs: GridTapsAttrs) -> tuple[Expr, Expr, Expr]:
    """The place of a tap along one axis, its weight, and whether it counts there."""
    real = _weight_dtype(x.dtype)
    position = denormalized(te.cast(x, real), te.cast(extent, real), attrs.align_corners)
    if attrs.mode == "nearest":
        first, weights = te.call("round", position), [te.const(1.0, real)]
    else:
        first = te.call("floor", position)
        weights = _tap_weights(position - first, attrs.mode, te.select, lambda v: te.call("abs", v))
    weight = chain_select([number.eq(k) for k in range(len(weights) - 1)], weights[:-1], weights[-1])
    at = te.cast(first + te.cast(number + OFFSETS[attrs.mode][0], real), "int64")
    if attrs.padding_mode == "reflection":
        at = _reflected(at, extent, attrs.align_corners, te.select, lambda v: te.binary("max", v, te.const(1)))
    inside = te.logical_and(at >= 0, at < extent) if attrs.padding_mode == "zeros" else te.const(True, "bool")
    return at, weight, inside


def _reference_taps(x: Any, extent: int, attrs: GridSampleAttrs | GridTapsAttrs) -> list[tuple[int | None, float]]:
    """(index, weight) of every tap along one axis; the index is None where the data counts as 0."""
    position = denormalized(x, extent, attrs.align_corners)
    if attrs.mode == "nearest":
        first, weights = np.rint(position), [1.0]
    else:
        first = np.floor(position)
        weights = _tap_weights(float(position) - float(first), attrs.mode, np.where, abs)
    taps = [int(numeric.convert(np.asarray(first + k), "int64")) for k in OFFSETS[attrs.mode]]
    return [(_padded(index, extent, attrs), float(weight)) for index, weight in zip(taps, weights, strict=True)]


def _padded(index: int, extent: int, attrs: GridSampleAttrs | GridTapsAttrs) -> int | None:
    if attrs.padding_mode == "zeros":
        return index if 0 <= index < extent else None
    if attrs.padding_mode == "reflection":
        index = int(_reflected(index, extent, attrs.align_corners, np.where, lambda v: max(v, 1)))
    return min(max(index, 0), extent - 1)
