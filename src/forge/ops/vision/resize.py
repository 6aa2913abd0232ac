"""Resizing of images, one axis after the other.

``coordinate_transformation_mode`` maps an index i of the result, of extent m, to a position in the data, of extent n:

==================  ================================================
half_pixel          ``(i + 1/2) * n / m - 1/2``
pytorch_half_pixel  the same, but 0 where m is 1
asymmetric          ``i * n / m``
align_corners       ``i * (n - 1) / (m - 1)``, and 0 where m is 1
==================  ================================================

With ``fixed_`` before the first, third or fourth name, ``n / m`` and half of it are rounded to multiples of 1/1024 first, as
integer kernels compute them. With ``tabulated_`` before them, the positions are, as kernels with a table of weights have them.

``method`` "nearest_neighbor" reads the element that ``rounding_method`` gives ("round": half to even, "round_prefer_floor",
"round_prefer_ceil", "floor", "ceil"); "linear" weighs two neighbours; "cubic" four, by Keys' kernel with ``cubic_alpha``.
Neighbours outside of the data are those at its edge; with ``cubic_exclude`` their weight goes to the others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import (
    expect_rank,
    fail,
    given_numbers,
    require_equal,
    require_positive,
    shape_of_contents,
    tuple_of,
)
from forge.ops.core.layout_change import named_layout
from forge.ops.core.lowering import dim_type, element, new_symbols, wide
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Builder, Lowered, Symbols, Tensor, TensorType, TensorTypes, Value, Values
from forge.ops.nn.pool import spatial_axes
from forge.ops.shape.layout_transform import parse_layout
from forge.te import Expr
from forge.tir.expr import binary

METHODS = ("nearest_neighbor", "linear", "cubic")
POSITION = "float64"
MAX_FACTOR = 8
"""Elements of a result for one of the data whose weights are constants."""


@dataclass(frozen=True)
class Resize2DAttrs:
    size: tuple[Dim, ...] | None = None
    layout: str = "NCHW"
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = "round"
    cubic_alpha: float = -0.5
    cubic_exclude: bool = False
    out_dtype: str = ""


@dataclass(frozen=True)
class Resize1DAttrs(Resize2DAttrs):
    layout: str = "NCW"


@dataclass(frozen=True)
class Resize3DAttrs(Resize2DAttrs):
    layout: str = "NCDHW"


def _half_pixel(i: Any, n: Any, m: Any, choose: Any) -> Any:
    return ((i * 2.0 + 1.0) * n) / (m * 2.0) - 0.5


def _fixed_point(i: Any, n: Any, m: Any, choose: Any, half: bool) -> Any:
    """Steps and positions are multiples of 1/1024."""

    def floor(x: Any) -> Any:
        return np.floor(x) if choose is np.where else te.call("floor", x)

    unit = 1024.0
    step = floor((n * unit + floor(m / 2.0)) / m)
    return (i * step + (floor(step / 2.0) - unit / 2.0 if half else 0.0)) / unit


def _fixed_corners(i: Any, n: Any, m: Any, choose: Any) -> Any:
    is_plain = m > 1.0
    return _fixed_point(i, choose(is_plain, n - 1.0, n), choose(is_plain, m - 1.0, m), choose, False)


def _tabulated(position: Callable[..., Any]) -> Callable[..., Any]:
    """Positions are rounded to multiples of 1/1024."""

    def rounded(i: Any, n: Any, m: Any, choose: Any) -> Any:
        found = position(i, n, m, choose) * 1024.0
        return (np.rint(found) if choose is np.where else te.call("round", found)) / 1024.0

    return rounded


COORDINATES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": lambda i, n, m, choose: choose(m > 1.0, _half_pixel(i, n, m, choose), i * 0.0),
    "asymmetric": lambda i, n, m, choose: (i * n) / m,
    "align_corners": lambda i, n, m, choose: choose(m > 1.0, (i * (n - 1.0)) / choose(m > 1.0, m - 1.0, m), i * 0.0),
    "fixed_half_pixel": lambda i, n, m, choose: _fixed_point(i, n, m, choose, True),
    "fixed_asymmetric": lambda i, n, m, choose: _fixed_point(i, n, m, choose, False),
    "fixed_align_corners": _fixed_corners,
}
COORDINATES |= {f"tabulated_{name}": _tabulated(COORDINATES[name]) for name in ("half_pixel", "asymmetric", "align_corners")}
"""(index, extent of the data, extent of the result, select) -> position; for NumPy and for expressions."""
ROUNDINGS: dict[str, tuple[Callable[[Any], Any], Callable[[Expr], Expr]]] = {
    "round": (np.rint, lambda x: te.call("round", x)),
    "round_prefer_floor": (lambda x: np.ceil(x - 0.5), lambda x: te.call("ceil", x - 0.5)),
    "round_prefer_ceil": (lambda x: np.floor(x + 0.5), lambda x: te.call("floor", x + 0.5)),
    "floor": (np.floor, lambda x: te.call("floor", x)),
    "ceil": (np.ceil, lambda x: te.call("ceil", x)),
}


def cubic_weight(distance: Any, alpha: float, choose: Any) -> Any:
    """Keys' kernel at a distance of at most 2."""
    near = ((alpha + 2.0) * distance - (alpha + 3.0)) * distance * distance + 1.0
    far = ((distance - 5.0) * distance + 8.0) * distance * alpha - 4.0 * alpha
    return choose(distance <= 1.0, near, far)


class _Resize(Op[Any]):
    """Resizes the spatial axes to ``size`` (attribute or operand ``sizes``); modes are at the head of this module."""

    in_layout = named_layout
    data, sizes = Operand(accepts="numeric or bool"), Operand(optional=True, holds="integers", rank=1)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.INJECTIVE
    precision = Precision.FOLLOWS_IN_RANGE
    spatial: ClassVar[str]

    def axes(self, attrs: Any) -> list[int]:
        return spatial_axes(self.name, parse_layout(attrs.layout), self.spatial)

    def infer(self, attrs: Any, data: Value, sizes: Value | None) -> TensorTypes:
        expect_rank(self.name, data.tensor_type, "data", parse_layout(attrs.layout).rank)
        modes = (("method", METHODS), ("coordinate_transformation_mode", COORDINATES), ("rounding_method", ROUNDINGS))
        for what, accepted in modes:
            if getattr(attrs, what) not in accepted:
                raise fail(self.name, what, repr(getattr(attrs, what)), ", ".join(accepted))
        shape, extents = list(data.shape), self._sizes(attrs, sizes)
        require_positive(self.name, "size", extents)
        for axis, size in zip(self.axes(attrs), extents):
            shape[axis] = size
        return [TensorType(tuple(shape), attrs.out_dtype or data.dtype)]

    def _sizes(self, attrs: Any, sizes: Value | None) -> tuple[Any, ...]:
        count = len(self.spatial)
        if attrs.size is not None:
            return tuple_of(self.name, "size", attrs.size, count)
        found = shape_of_contents(self.name, "sizes", None, sizes, "resized")
        require_equal(self.name, "numbers in operand 'sizes'", len(found), count)
        return found

    def define_symbols(self, attrs: Any, results: TensorTypes, data: Tensor, sizes: Tensor | None) -> Symbols:
        if attrs.size is not None or sizes is None:
            return {}
        extents = list(data.shape)
        for k, axis in enumerate(self.axes(attrs)):
            extents[axis] = element(sizes, k)
        return new_symbols(results[0], extents)

    def reference(self, attrs: Any, data: Array, sizes: Array | None) -> Arrays:
        y = data if attrs.method == "nearest_neighbor" else wide(data)
        extents = tuple_of(self.name, "size", given_numbers(attrs.size, sizes), len(self.spatial))
        for axis, size in zip(self.axes(attrs), extents):
            indices, weights = taps(y.shape[axis], size, attrs)
            parts = [np.take(y, i, axis) for i in indices]
            if attrs.method == "nearest_neighbor":
                y = parts[0]
                continue
            shape = [-1 if k == axis else 1 for k in range(y.ndim)]
            y = sum(p.astype(np.float64) * w.reshape(shape) for p, w in zip(parts, weights))
        return [_narrowed(y, attrs.out_dtype or dtypes.canonical(data.dtype))]

    def decompose(self, builder: Builder, attrs: Any, data: Value, sizes: Value | None) -> Values | None:
        """Reads of numbered rows and columns, added with constant weights, where the sizes are numbers."""
        extents, axes = self._sizes(attrs, sizes), self.axes(attrs)
        repeats = all(_factor(data.shape[a], size, attrs) is not None for a, size in zip(axes, extents))
        if repeats or not dims.is_static(*extents, *(data.shape[a] for a in axes)):
            return None
        nearest = attrs.method == "nearest_neighbor"
        dtype = data.dtype if nearest else _weighing_dtype(data.dtype)
        y = data if data.dtype == dtype else builder.call("cast", data, dtype=dtype)
        for axis, size in zip(axes, extents):
            indices, weights = taps(y.shape[axis], size, attrs)
            shape = [-1 if k == axis else 1 for k in range(y.rank)]
            parts = [builder.call("take", y, builder.constant(i), axis=axis, mode="fast") for i in indices]
            y = parts[0] if nearest else _weighted(builder, parts, [builder.constant(w.reshape(shape), dtype) for w in weights])
        return [self._cast_back(builder, y, attrs.out_dtype or data.dtype)]

    def _cast_back(self, builder: Builder, value: Value, dtype: str) -> Value:
        if value.dtype == dtype:
            return value
        rounded = dtypes.is_integer(dtype) and dtypes.is_float(value.dtype)
        return builder.call("cast", builder.call("round", value) if rounded else value, dtype=dtype)

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor, sizes: Tensor | None) -> Lowered:
        out = te.shape_of(results[0].shape)
        y = data
        for axis in self.axes(attrs):
            factor = _factor(dim_type(data).shape[axis], results[0].shape[axis], attrs)
            y = _resized_axis(y, axis, out[axis], attrs) if factor is None else _repeated_axis(y, axis, out[axis], factor, attrs)
        dtype = results[0].dtype
        return [te.compute(out, lambda *i: _converted(y[i], dtype), name="resize")]

    def flops(self, attrs: Any, results: TensorTypes, *_: object) -> Dim:
        taps_read = {"nearest_neighbor": 0, "linear": 2, "cubic": 4}[attrs.method]
        return 2 * taps_read * len(self.spatial) * results[0].size


def taps(extent: int, size: int, attrs: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Indices of the elements that each element of the result reads along one axis, and their weights (float64)."""
    position = COORDINATES[attrs.coordinate_transformation_mode](np.arange(size) * 1.0, float(extent), float(size), np.where)
    if attrs.method == "nearest_neighbor":
        return [_inside(ROUNDINGS[attrs.rounding_method][0](position), extent)], [np.ones(size)]
    first = np.floor(position)
    fraction = position - first
    if attrs.method == "linear":
        return [_inside(first, extent), _inside(first + 1, extent)], [1 - fraction, fraction]
    offsets = (-1, 0, 1, 2)
    weights = [cubic_weight(np.abs(fraction - k), attrs.cubic_alpha, np.where) for k in offsets]
    if attrs.cubic_exclude:
        weights = [np.where((first + k >= 0) & (first + k < extent), w, 0.0) for k, w in zip(offsets, weights)]
        total = sum(weights)
        weights = [w / total for w in weights]
    return [_inside(first + k, extent) for k in offsets], weights


def _inside(index: np.ndarray, extent: int) -> np.ndarray:
    return np.asarray(np.clip(index, 0, extent - 1), np.int64)


def _narrowed(y: np.ndarray, dtype: str) -> np.ndarray:
    if not dtypes.is_integer(dtype) or np.issubdtype(y.dtype, np.integer):
        return y.astype(dtypes.numpy_dtype(dtype))
    return numeric.convert(np.rint(y), dtype)


def _weighing_dtype(dtype: str) -> str:
    """The float type in which elements are added up."""
    return "float64" if dtype == "float64" or (dtypes.is_integer(dtype) and dtypes.bits(dtype) >= 32) else "float32"


def _weighted(builder: Builder, parts: Values, weights: Values) -> Value:
    products = [builder.call("multiply", p, w) for p, w in zip(parts, weights)]
    total = products[0]
    for product in products[1:]:
        total = builder.call("add", total, product)
    return total


def _factor(extent: Dim, size: Dim, attrs: Any) -> int | None:
    """How many elements of the result are as far along as one of the data, where that is a small number; else None."""
    factor = dims.floordiv(size, extent)
    if not isinstance(factor, int) or not 1 <= factor <= MAX_FACTOR or not dims.equal(extent * factor, size):
        return None
    mode = attrs.coordinate_transformation_mode
    if factor > 1 and (mode.endswith("align_corners") or attrs.cubic_exclude):
        return None
    if mode.startswith("fixed") and factor & (factor - 1):
        return None  # steps are rounded: elements are not equally far from those of the data
    is_tie = attrs.method == "nearest_neighbor" and attrs.rounding_method == "round" and any(_offsets(factor, attrs) % 1 == 0.5)
    return None if is_tie else factor


def _offsets(factor: int, attrs: Any) -> np.ndarray:
    """How far from element q of the data elements ``q * factor`` to ``q * factor + factor - 1`` of the result lie."""
    return np.asarray(COORDINATES[attrs.coordinate_transformation_mode](np.arange(factor) * 1.0, 1.0, float(factor), np.where))


def _repeated_axis(data: Tensor, axis: int, size: Expr, factor: int, attrs: Any) -> Tensor:
    """``data`` with ``factor`` elements for each one along an axis: which it reads, with which weights, are numbers for each."""
    extent, real = data.shape[axis], _weighing_dtype(data.dtype)
    taps_read = _repeated_taps(factor, attrs)

    def body(*i: Expr) -> Expr:
        place, part = i[axis] // factor, i[axis] % factor
        values = []
        for shifts, weights in taps_read:
            index = te.clamp(place + _chosen(part, [te.const(int(shift)) for shift in shifts]), extent)
            value = data[(*i[:axis], index, *i[axis + 1 :])]
            if weights is not None:
                value = te.cast(value, real) * _chosen(part, [te.const(float(w), real) for w in weights])
            values.append(value)
        return reduce(operator.add, values)

    shape = [size if k == axis else e for k, e in enumerate(data.shape)]
    return te.compute(shape, body, name=f"resize_{axis}")


def _repeated_taps(factor: int, attrs: Any) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """How far from its element of the data each of ``factor`` elements reads, and with which weights."""
    offsets = _offsets(factor, attrs) if factor > 1 else np.zeros(1)
    if attrs.method == "nearest_neighbor":
        return [(ROUNDINGS[attrs.rounding_method][0](offsets), None)]
    first = np.floor(offsets)
    fraction = offsets - first
    if attrs.method == "linear":
        return [(first, 1 - fraction), (first + 1, fraction)]
    return [(first + k, cubic_weight(np.abs(fraction - k), attrs.cubic_alpha, np.where)) for k in (-1, 0, 1, 2)]


def _chosen(number: Expr, values: Sequence[Expr]) -> Expr:
    """``values[number]``, which are constants."""
    result = values[-1]
    if all(te.is_const(result, getattr(value, "value", None)) for value in values):
        return result
    for k in reversed(range(len(values) - 1)):
        result = te.select(number.eq(k), values[k], result)
    return result


def _resized_axis(data: Tensor, axis: int, size: Expr, attrs: Any) -> Tensor:
    """``data`` resized along one axis, as a compute; what is weighed is kept in the accumulator's dtype."""
    extent = data.shape[axis]
    real = _weighing_dtype(data.dtype)

    def body(*i: Expr) -> Expr:
        index, n, m = (te.cast(x, POSITION) for x in (i[axis], extent, size))
        position = COORDINATES[attrs.coordinate_transformation_mode](index, n, m, te.select)

        def read(at: Expr) -> Expr:
            return data[(*i[:axis], te.clamp(te.cast(at, "int64"), extent), *i[axis + 1 :])]

        if attrs.method == "nearest_neighbor":
            return read(ROUNDINGS[attrs.rounding_method][1](position))
        first = te.call("floor", position)
        fraction = position - first
        if attrs.method == "linear":
            weights = [(0.0, fraction * -1.0 + 1.0), (1.0, fraction)]
        else:
            weights = _cubic_weights(first, fraction, te.cast(extent, POSITION), attrs)
        total: Expr | None = None
        for offset, weight in weights:
            part = te.cast(read(first + offset), real) * te.cast(weight, real)
            total = part if total is None else total + part
        assert total is not None
        return total

    shape = [size if k == axis else e for k, e in enumerate(data.shape)]
    return te.compute(shape, body, name=f"resize_{axis}")


def _cubic_weights(first: Expr, fraction: Expr, extent: Expr, attrs: Any) -> list[tuple[float, Expr]]:
    weights = [(k, cubic_weight(te.call("abs", fraction - k), attrs.cubic_alpha, te.select)) for k in (-1.0, 0.0, 1.0, 2.0)]
    if not attrs.cubic_exclude:
        return weights
    kept = [
        (k, te.select(te.logical_and(first + k >= 0.0, first + k < extent), w, te.const(0.0, POSITION))) for k, w in weights
    ]
    total = kept[0][1] + kept[1][1] + kept[2][1] + kept[3][1]
    return [(k, w / total) for k, w in kept]


def _converted(x: Expr, dtype: str) -> Expr:
    if dtypes.is_integer(dtype) and dtypes.is_float(x.dtype):
        low, high = dtypes.integer_range(dtype)
        x = binary("max", binary("min", te.call("round", x), float(high)), float(low))
    return te.cast(x, dtype)


@register
class Resize1D(_Resize):
    __doc__ = _Resize.__doc__
    name = "image.resize1d"
    Attrs = Resize1DAttrs
    spatial = "W"


@register
class Resize2D(_Resize):
    __doc__ = _Resize.__doc__
    name = "image.resize2d"
    Attrs = Resize2DAttrs
    spatial = "HW"


@register
class Resize3D(_Resize):
    __doc__ = _Resize.__doc__
    name = "image.resize3d"
    Attrs = Resize3DAttrs
    spatial = "DHW"


@dataclass(frozen=True)
class UpsamplingAttrs:
    scale_h: float
    scale_w: float
    layout: str = "NCHW"
    method: str = "nearest_neighbor"
    align_corners: bool = False


@register
class Upsampling(Op[UpsamplingAttrs]):
    """``image.resize2d`` to ``floor(scale * extent)``, with positions "asymmetric" (rounded down), or "align_corners" (rounded).

    ``method``: "nearest_neighbor", "bilinear" or "bicubic".
    """

    name = "nn.upsampling"
    in_layout = named_layout
    data = Operand(accepts="numeric or bool")
    accuracy = Accuracy.ACCUMULATING
    precision = Precision.FOLLOWS_IN_RANGE
    category = Category.MOVEMENT

    def resize_attributes(self, data: TensorType, attrs: UpsamplingAttrs) -> dict[str, Any]:
        """Attributes of the equal ``image.resize2d``."""
        names = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}
        if attrs.method not in names:
            raise fail(self.name, "method", repr(attrs.method), ", ".join(names))
        axes = spatial_axes(self.name, parse_layout(attrs.layout), "HW")
        size = tuple(self._scaled(data.shape[axis], scale) for axis, scale in zip(axes, (attrs.scale_h, attrs.scale_w)))
        mode, rounding = ("align_corners", "round") if attrs.align_corners else ("asymmetric", "floor")
        return {"size": size, "layout": attrs.layout, "method": names[attrs.method], "rounding_method": rounding,
                "coordinate_transformation_mode": mode}

    def _scaled(self, extent: Dim, scale: float) -> Dim:
        if isinstance(extent, int):
            return int(extent * scale)
        if not float(scale).is_integer():
            raise fail(self.name, "scale of a symbolic extent", scale, "a whole number")
        return extent * int(scale)

    def infer(self, attrs: UpsamplingAttrs, data: Value) -> TensorTypes:
        expect_rank(self.name, data.tensor_type, "data", parse_layout(attrs.layout).rank)
        resize = Resize2D()
        return resize.infer(resize.make_attrs(self.resize_attributes(data.tensor_type, attrs)), data, None)

    def reference(self, attrs: UpsamplingAttrs, data: Array) -> Arrays:
        resize, type_ = Resize2D(), TensorType(data.shape, dtypes.canonical(data.dtype))
        return resize.reference(resize.make_attrs(self.resize_attributes(type_, attrs)), data, None)

    def decompose(self, builder: Builder, attrs: UpsamplingAttrs, data: Value) -> Values:
        return [builder.call("image.resize2d", data, **self.resize_attributes(data.tensor_type, attrs))]
