"""Pooling to a given size, and over whole images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from forge import te
from forge.ops.core.inference import expect_dtype, expect_rank, fail, require_positive, tuple_of
from forge.ops.core.layout_change import named_layout
from forge.ops.core.lowering import cast_result, lowest, wide
from forge.ops.core.op import Accuracy, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Value
from forge.ops.core.window_geometry import compute_dtype
from forge.ops.nn.pool import spatial_axes
from forge.ops.shape.layout_transform import parse_layout
from forge.tir.expr import binary


@dataclass(frozen=True)
class AdaptivePool2DAttrs:
    output_size: tuple[Dim, ...] = ()
    layout: str = "NCHW"
    out_layout: str = ""


@dataclass(frozen=True)
class AdaptivePool1DAttrs(AdaptivePool2DAttrs):
    layout: str = "NCW"


@dataclass(frozen=True)
class AdaptivePool3DAttrs(AdaptivePool2DAttrs):
    layout: str = "NCDHW"


@dataclass(frozen=True)
class GlobalPool2DAttrs:
    layout: str = "NCHW"
    out_layout: str = ""


class _AdaptivePool(Op[Any]):
    """Pools to ``output_size``: cell ``p`` of ``n`` covers ``floor(p * extent / n)`` to ``ceil((p + 1) * extent / n)``.

    An empty ``output_size`` keeps the extents. ``layout`` may block C.
    """

    in_layout = named_layout
    data = Operand()
    kind = Kind.REDUCTION
    precision = Precision.FOLLOWS_IN_RANGE
    is_pool = True
    spatial: ClassVar[str]
    reduction: ClassVar[str]  # "max" or "sum" (of a mean, of floats)

    def sizes(self, shape: Sequence[Any], attrs: Any) -> list[tuple[int, Any]]:
        """(axis, output extent) of the axes that are pooled."""
        axes = spatial_axes(self.name, parse_layout(attrs.layout), self.spatial)
        if not attrs.output_size:
            return [(axis, shape[axis]) for axis in axes]
        return list(zip(axes, tuple_of(self.name, "output_size", attrs.output_size, len(axes))))

    def infer(self, attrs: Any, data: Value) -> TensorTypes:
        expect_dtype(self.name, data, "data", "numeric or bool" if self.reduction == "max" else "float")
        expect_rank(self.name, data.tensor_type, "data", parse_layout(attrs.layout).rank)
        if attrs.out_layout not in ("", attrs.layout):
            raise fail(self.name, "out_layout", repr(attrs.out_layout), f"'' or the layout {attrs.layout!r}")
        shape = list(data.shape)
        for axis, size in self.sizes(data.shape, attrs):
            shape[axis] = size
        require_positive(self.name, "output_size", [size for _, size in self.sizes(data.shape, attrs)])
        return [TensorType(tuple(shape), data.dtype)]

    def reference(self, attrs: Any, data: Array) -> Arrays:
        function: Callable[..., Any] = np.max if self.reduction == "max" else np.mean
        sizes = self.sizes(data.shape, attrs)
        shape = list(data.shape)
        for axis, size in sizes:
            shape[axis] = size
        out = np.empty(shape, data.dtype)
        for cell in np.ndindex(*(size for _, size in sizes)):
            source, target = [slice(None)] * data.ndim, [slice(None)] * data.ndim
            for (axis, size), p in zip(sizes, cell):
                extent = data.shape[axis]
                source[axis] = slice(p * extent // size, -(-(p + 1) * extent // size))
                target[axis] = slice(p, p + 1)
            out[tuple(target)] = function(wide(data[tuple(source)]), axis=tuple(a for a, _ in sizes), keepdims=True)
        return [out]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor) -> Lowered:
        dtype = compute_dtype(data.dtype)
        shape = te.shape_of(results[0].shape)
        cells = [(axis, *_cell(data.shape[axis], shape[axis])) for axis, _ in self.sizes(data.shape, attrs)]
        taps = [te.reduce_axis(longest, f"r{k}") for k, (_, longest, _) in enumerate(cells)]
        fill = lowest(data.dtype) if self.reduction == "max" else 0

        def total(*indices: Expr) -> Expr:
            source = list(indices)
            valid: Expr = te.const(True, "bool")
            for (axis, _, exact), tap in zip(cells, taps):
                begin, end = _bounds(indices[axis], data.shape[axis], shape[axis])
                source[axis] = begin + tap.var
                if not exact:
                    valid = te.logical_and(valid, source[axis] < end)
                    source[axis] = binary("min", source[axis], data.shape[axis] - 1)
            value = te.select(valid, data[tuple(source)], te.const(fill, data.dtype))
            return te.reduce(self.reduction, te.cast(value, dtype), taps)

        reduced = te.compute(shape, total, name=f"adaptive_{self.reduction}")
        if self.reduction == "max":
            return [cast_result(reduced, data.dtype)]

        def mean(*indices: Expr) -> Expr:
            count: Expr = te.const(1)
            for axis, longest, exact in cells:
                begin, end = _bounds(indices[axis], data.shape[axis], shape[axis])
                count = count * (longest if exact else end - begin)
            return te.cast(reduced[indices] / te.cast(count, dtype), data.dtype)

        return [te.compute(shape, mean, name="adaptive_mean")]

    def flops(self, attrs: Any, results: TensorTypes, data: Value) -> Dim:
        return data.size


def _bounds(cell: Expr, extent: Expr, cells: Expr) -> tuple[Expr, Expr]:
    """First element of a cell, and the one after its last."""
    return cell * extent // cells, ((cell + 1) * extent + (cells - 1)) // cells


def _cell(extent: Expr, cells: Expr) -> tuple[Expr, bool]:
    """The most elements of a cell, and whether every cell has that many."""
    size, count = getattr(extent, "value", None), getattr(cells, "value", None)
    if count == 1:
        return extent, True
    if isinstance(size, int) and isinstance(count, int):
        longest = max(-(-(p + 1) * size // count) - p * size // count for p in range(count))
        return te.const(longest), size % count == 0
    return (extent + (cells - 1)) // cells + 1, False


class _AdaptiveMax(_AdaptivePool):
    """Maximum of every cell."""

    reduction = "max"
    is_selection = True


class _AdaptiveAvg(_AdaptivePool):
    """Mean of every cell."""

    reduction = "sum"
    is_average = True
    accuracy = Accuracy.ACCUMULATING


@register
class AdaptiveMaxPool1D(_AdaptiveMax):
    """Maximum of every cell: floor(p * extent / n) to ceil((p + 1) * extent / n) is cell ``p`` of ``n``."""

    name = "nn.adaptive_max_pool1d"
    Attrs = AdaptivePool1DAttrs
    spatial = "W"


@register
class AdaptiveMaxPool2D(_AdaptiveMax):
    """Maximum of every cell: floor(p * extent / n) to ceil((p + 1) * extent / n) is cell ``p`` of ``n``."""

    name = "nn.adaptive_max_pool2d"
    Attrs = AdaptivePool2DAttrs
    spatial = "HW"


@register
class AdaptiveMaxPool3D(_AdaptiveMax):
    """Maximum of every cell: floor(p * extent / n) to ceil((p + 1) * extent / n) is cell ``p`` of ``n``."""

    name = "nn.adaptive_max_pool3d"
    Attrs = AdaptivePool3DAttrs
    spatial = "DHW"


@register
class AdaptiveAvgPool1D(_AdaptiveAvg):
    """Mean of every cell: floor(p * extent / n) to ceil((p + 1) * extent / n) is cell ``p`` of ``n``."""

    name = "nn.adaptive_avg_pool1d"
    Attrs = AdaptivePool1DAttrs
    spatial = "W"


@register
class AdaptiveAvgPool2D(_AdaptiveAvg):
    """Mean of every cell: floor(p * extent / n) to ceil((p + 1) * extent / n) is cell ``p`` of ``n``."""

    name = "nn.adaptive_avg_pool2d"
    Attrs = AdaptivePool2DAttrs
    spatial = "HW"


@register
class AdaptiveAvgPool3D(_AdaptiveAvg):
    """Mean of every cell: floor(p * extent / n) to ceil((p + 1) * extent / n) is cell ``p`` of ``n``."""

    name = "nn.adaptive_avg_pool3d"
    Attrs = AdaptivePool3DAttrs
    spatial = "DHW"


class _GlobalPool(_AdaptivePool):
    read_once = ("data",)
    spatial = "HW"
    Attrs = GlobalPool2DAttrs

    def sizes(self, shape: Sequence[Any], attrs: Any) -> list[tuple[int, Any]]:
        return [(axis, 1) for axis in spatial_axes(self.name, parse_layout(attrs.layout), self.spatial)]


@register
class GlobalMaxPool2D(_GlobalPool):
    """``out[n, c, 0, 0] = max over h, w of data[n, c, h, w]``. ``layout`` may block C."""

    name = "nn.global_max_pool2d"
    reduction = "max"
    is_selection = True


@register
class GlobalAvgPool2D(_GlobalPool):
    """``out[n, c, 0, 0] = mean over h, w of data[n, c, h, w]``. ``layout`` may block C."""

    name = "nn.global_avg_pool2d"
    reduction = "sum"
    is_average = True
    accuracy = Accuracy.ACCUMULATING
