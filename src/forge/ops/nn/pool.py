"""Pooling over sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from forge import dims, dtypes, te
from forge.ops.core.inference import expect_rank, fail, require_positive, tuple_of
from forge.ops.core.layout_change import named_layout
from forge.ops.core.lowering import cast_result, lowest, wide
from forge.ops.core.op import Accuracy, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Value
from forge.ops.core.window_geometry import Window, compute_dtype, fits, padded_read, sliding_windows, windows
from forge.ops.shape.layout_transform import Layout, parse_layout
from forge.tir.expr import binary


@dataclass(frozen=True)
class MaxPool2DAttrs:
    pool_size: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    padding: tuple[Dim, ...] = (0, 0)
    layout: str = "NCHW"
    out_layout: str = ""
    ceil_mode: bool = False


@dataclass(frozen=True)
class MaxPool1DAttrs(MaxPool2DAttrs):
    strides: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)
    padding: tuple[Dim, ...] = (0,)
    layout: str = "NCW"


@dataclass(frozen=True)
class MaxPool3DAttrs(MaxPool2DAttrs):
    strides: tuple[int, ...] = (1, 1, 1)
    dilation: tuple[int, ...] = (1, 1, 1)
    padding: tuple[Dim, ...] = (0, 0, 0)
    layout: str = "NCDHW"


@dataclass(frozen=True)
class AvgPool2DAttrs(MaxPool2DAttrs):
    count_include_pad: bool = False


@dataclass(frozen=True)
class AvgPool1DAttrs(MaxPool1DAttrs):
    count_include_pad: bool = False


@dataclass(frozen=True)
class AvgPool3DAttrs(MaxPool3DAttrs):
    count_include_pad: bool = False


def spatial_axes(op: str, layout: Layout, spatial: str) -> list[int]:
    """Positions of the axes that are pooled over; blocks of other axes may be anywhere.

    Raises:
        TypeInferenceError: the layout lacks one, or has other letters.
    """
    if sorted(layout.letters) != sorted("NC" + spatial) or any(layout.block(s) > 1 for s in spatial):
        raise fail(op, "layout", repr(layout.text), f"the axes NC{spatial}, blocks of N and C only")
    return [layout.index(s) for s in spatial]


class Pool(Op[Any]):
    """What pools over sliding windows share."""

    in_layout = named_layout
    data = Operand(accepts="numeric or bool")
    kind = Kind.REDUCTION
    precision = Precision.FOLLOWS
    is_pool = True
    spatial: ClassVar[str]

    def windows(self, attrs: Any) -> tuple[Window, ...]:
        sizes = tuple_of(self.name, "pool_size", attrs.pool_size, len(self.spatial))
        return windows(self.name, sizes, attrs.strides, attrs.dilation, attrs.padding)

    def axes(self, attrs: Any) -> list[int]:
        if attrs.out_layout not in ("", attrs.layout):
            raise fail(self.name, "out_layout", repr(attrs.out_layout), f"'' or the layout {attrs.layout!r}")
        return spatial_axes(self.name, parse_layout(attrs.layout), self.spatial)

    def infer(self, attrs: Any, data: Value) -> TensorTypes:
        axes = self.axes(attrs)
        expect_rank(self.name, data.tensor_type, "data", parse_layout(attrs.layout).rank)
        shape = list(data.shape)
        for axis, window in zip(axes, self.windows(attrs)):
            shape[axis] = window.positions(shape[axis], attrs.ceil_mode)
        require_positive(self.name, f"window over {data.type}", [shape[axis] for axis in axes])
        return [TensorType(tuple(shape), data.dtype)]

    def requires(self, attrs: Any, results: TensorTypes, data: TensorType) -> Conditions:
        return fits(data, [results[0].shape[axis] for axis in self.axes(attrs)])

    def view(self, x: np.ndarray, attrs: Any, fill: Any) -> np.ndarray:
        """``x`` with the taps of every window as new last axes; ``fill`` in the padding."""
        axes, spec = self.axes(attrs), self.windows(attrs)
        counts = [w.positions(x.shape[a], attrs.ceil_mode) for a, w in zip(axes, spec)]
        require_positive(self.name, f"window over data {x.shape}", counts)
        return sliding_windows(x, axes, spec, counts, fill)

    def reduce(self, data: Tensor, attrs: Any, kind: str, fill: float | int | bool, out: Sequence[Expr]) -> Tensor:
        """The reduction over all taps as a compute of extents ``out``, in the accumulator's dtype."""
        axes, spec = self.axes(attrs), self.windows(attrs)
        taps = [te.reduce_axis(w.size, f"r{k}") for k, w in enumerate(spec)]
        overhang = [False] * data.ndim
        for axis, w in zip(axes, spec):
            overhang[axis] = w.may_overhang(attrs.ceil_mode)

        def body(*indices: Expr) -> Expr:
            source = list(indices)
            for axis, w, tap in zip(axes, spec, taps):
                source[axis] = w.position(indices[axis], tap.var)
            value = padded_read(data, source, overhang, fill)
            return te.reduce(kind, te.cast(value, compute_dtype(data.dtype)), taps)

        return te.compute(out, body, name=f"pool_{kind}")

    def flops(self, attrs: Any, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * dims.product(w.size for w in self.windows(attrs))


class _MaxPool(Pool):
    """Maximum over sliding windows: ``out[.., p, ..] = max over taps k of data[.., p * stride + k * dilation - padding, ..]``.

    Padding never wins. With ``ceil_mode`` windows that overhang the end count if they start before it. ``layout`` may block C.
    """

    is_selection = True

    def reference(self, attrs: Any, data: Array) -> Arrays:
        taps = tuple(range(-len(self.spatial), 0))
        return [np.max(self.view(data, attrs, lowest(dtypes.canonical(data.dtype))), axis=taps)]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor) -> Lowered:
        out = te.shape_of(results[0].shape)
        return [cast_result(self.reduce(data, attrs, "max", lowest(data.dtype), out), data.dtype)]


class _AvgPool(Pool):
    """Mean over sliding windows (positions as in max pooling).

    The divisor is the number of taps inside of the data or, with ``count_include_pad``, inside of the padded data.
    """

    accuracy = Accuracy.ACCUMULATING
    is_average = True
    data = Operand(accepts="float")

    def reference(self, attrs: Any, data: Array) -> Arrays:
        x = wide(data)
        total = np.sum(self.view(x, attrs, 0), axis=tuple(range(-len(self.spatial), 0)), dtype=x.dtype)
        divisor = np.ones([1] * x.ndim, np.int64)
        for axis, window in zip(self.axes(attrs), self.windows(attrs)):
            counts = [_count_taps(window, x.shape[axis], p, attrs.count_include_pad) for p in range(total.shape[axis])]
            divisor = divisor * np.reshape(counts, [-1 if k == axis else 1 for k in range(x.ndim)])
        return [total / np.maximum(divisor, 1)]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor) -> Lowered:
        total = self.reduce(data, attrs, "sum", 0, te.shape_of(results[0].shape))
        axes, spec = self.axes(attrs), self.windows(attrs)

        def mean(*indices: Expr) -> Expr:
            divisor: Expr = te.const(1)
            for axis, window in zip(axes, spec):
                divisor = divisor * _divisor(window, data.shape[axis], indices[axis], attrs)
            return te.cast(total[indices] * (te.const(1.0, total.dtype) / te.cast(divisor, total.dtype)), data.dtype)

        return [te.compute(total.shape, mean, name="pool_mean")]


def _count_taps(window: Window, extent: int, position: int, include_pad: bool) -> int:
    """Taps of the window at output ``position`` that count."""
    low, high = (-window.before, extent + window.after) if include_pad else (0, extent)
    first = position * window.stride - window.before
    return sum(low <= first + k * window.dilation < high for k in range(window.size))


def _divisor(window: Window, extent: Expr, position: Expr, attrs: Any) -> Expr:
    """``_count_taps``, at least 1, as an expression; a number where all taps count."""
    whole = attrs.count_include_pad or (window.before == 0 and window.after == 0)
    if whole and not attrs.ceil_mode:
        return te.dim(window.size)
    before, after = te.dim(window.before), te.dim(window.after)
    low, high = (-before, extent + after) if attrs.count_include_pad else (te.const(0), extent)
    first = position * window.stride - before
    begin = binary("max", (low - first + (window.dilation - 1)) // window.dilation, 0)
    end = binary("min", (high - first + (window.dilation - 1)) // window.dilation, te.dim(window.size))
    return binary("max", end - begin, 1)


@register
class MaxPool1D(_MaxPool):
    __doc__ = _MaxPool.__doc__
    name = "nn.max_pool1d"
    Attrs = MaxPool1DAttrs
    spatial = "W"


@register
class MaxPool2D(_MaxPool):
    __doc__ = _MaxPool.__doc__
    name = "nn.max_pool2d"
    Attrs = MaxPool2DAttrs
    spatial = "HW"


@register
class MaxPool3D(_MaxPool):
    __doc__ = _MaxPool.__doc__
    name = "nn.max_pool3d"
    Attrs = MaxPool3DAttrs
    spatial = "DHW"


@register
class AvgPool1D(_AvgPool):
    __doc__ = _AvgPool.__doc__
    name = "nn.avg_pool1d"
    Attrs = AvgPool1DAttrs
    spatial = "W"


@register
class AvgPool2D(_AvgPool):
    __doc__ = _AvgPool.__doc__
    name = "nn.avg_pool2d"
    Attrs = AvgPool2DAttrs
    spatial = "HW"


@register
class AvgPool3D(_AvgPool):
    __doc__ = _AvgPool.__doc__
    name = "nn.avg_pool3d"
    Attrs = AvgPool3DAttrs
    spatial = "DHW"
