"""Max pooling that also says where the maxima are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes, te
from forge.ops.core.inference import fail
from forge.ops.core.lowering import cast_result, lowest
from forge.ops.core.op import register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Value
from forge.ops.core.window_geometry import padded_read
from forge.ops.nn.pool import MaxPool1DAttrs, MaxPool2DAttrs, MaxPool3DAttrs, Pool


@dataclass(frozen=True)
class IndexedMaxPool1DAttrs(MaxPool1DAttrs):
    column_major: bool = False


@dataclass(frozen=True)
class IndexedMaxPool2DAttrs(MaxPool2DAttrs):
    column_major: bool = False


@dataclass(frozen=True)
class IndexedMaxPool3DAttrs(MaxPool3DAttrs):
    column_major: bool = False


class _IndexedMaxPool(Pool):
    """Max pooling with two results: the maxima, and the flat int64 index in data of the first tap that has each.

    The index counts elements of data in row-major order; with ``column_major`` the spatial axes of one channel count in the
    opposite order, the first fastest.
    """


    def infer(self, attrs: Any, data: Value) -> TensorTypes:
        (values,) = super().infer(attrs, data)
        if values.dtype == "bool":
            raise fail(self.name, "operand 'data' has the wrong element type", values.dtype, "numeric")
        if attrs.layout != "NC" + self.spatial:
            raise fail(self.name, "layout", repr(attrs.layout), f"'NC{self.spatial}'")
        return [values, TensorType(values.shape, "int64")]

    def reference(self, attrs: Any, data: Array) -> Arrays:
        n = len(self.spatial)
        places = np.arange(data.size).reshape(data.shape)
        if attrs.column_major:
            turned = np.arange(data.size).reshape(*data.shape[:2], *reversed(data.shape[2:]))
            places = turned.transpose(0, 1, *reversed(range(2, 2 + n)))
        taps = self.view(data, attrs, lowest(dtypes.canonical(data.dtype)))
        inside = self.view(np.ones(data.shape, bool), attrs, False)
        flat = taps.reshape(*taps.shape[:-n], -1)
        best = np.max(flat, axis=-1)
        is_best = (flat == best[..., None]) | (flat != flat)
        chosen = np.argmax(is_best & inside.reshape(flat.shape), axis=-1)
        indices = np.take_along_axis(self.view(places, attrs, 0).reshape(flat.shape), chosen[..., None], -1)[..., 0]
        return [best, indices]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor) -> Lowered:
        out = te.shape_of(results[0].shape)
        values = self.reduce(data, attrs, "max", lowest(data.dtype), out)
        return [cast_result(values, data.dtype), self._indices(data, values, attrs, out)]

    def _indices(self, data: Tensor, values: Tensor, attrs: Any, out: Sequence[Expr]) -> Tensor:
        """The lowest tap that holds the maximum, as a tensor of taps, then its flat index; 0 where all taps are padding."""
        spec = self.windows(attrs)
        taps = [te.reduce_axis(w.size, f"t{k}") for k, w in enumerate(spec)]
        overhang = [False, False, *(w.may_overhang(attrs.ceil_mode) for w in spec)]

        def first(*i: Expr) -> Expr:
            source = [*i[:2], *(w.position(at, tap.var) for w, at, tap in zip(spec, i[2:], taps))]
            value = te.cast(padded_read(data, source, overhang, lowest(data.dtype)), values.dtype)
            hit = value.eq(values[i])
            if dtypes.is_float(data.dtype):
                hit = hit | te.call("isnan", value)
            for at, extent, check in zip(source, data.shape, overhang):
                if check:
                    hit = te.logical_and(hit, te.logical_and(at >= 0, at < extent))
            number: Expr = te.const(0)
            for tap in taps:
                number = number * tap.extent + tap.var
            count: Expr = te.const(1)
            for tap in taps:
                count = count * tap.extent
            return te.reduce("min", te.select(hit, number, count - 1), taps)

        chosen = te.compute(out, first, name="pool_tap", dtype="int64")

        def flat(*i: Expr) -> Expr:
            number = chosen[i]
            places: list[Expr] = []
            for window, at, tap in zip(reversed(spec), reversed(i[2:]), reversed(taps)):
                places.insert(0, window.position(at, number % tap.extent))
                number = number // tap.extent
            for axis, at in enumerate(places, 2):
                if overhang[axis]:
                    places = [te.select(te.logical_and(at >= 0, at < data.shape[axis]), p, te.const(0)) for p in places]
            index = i[0] * data.shape[1] + i[1]
            order = range(len(spec))
            if attrs.column_major:
                for extent in data.shape[2:]:
                    index = index * extent
                stride: Expr = te.const(1)
                for k in order:
                    index, stride = index + places[k] * stride, stride * data.shape[2 + k]
                return index
            for k in order:
                index = index * data.shape[2 + k] + places[k]
            return index

        return te.compute(out, flat, name="pool_index", dtype="int64")


@register
class IndexedMaxPool1D(_IndexedMaxPool):
    __doc__ = _IndexedMaxPool.__doc__
    name = "nn.max_pool1d_with_indices"
    Attrs = IndexedMaxPool1DAttrs
    spatial = "W"


@register
class IndexedMaxPool2D(_IndexedMaxPool):
    __doc__ = _IndexedMaxPool.__doc__
    name = "nn.max_pool2d_with_indices"
    Attrs = IndexedMaxPool2DAttrs
    spatial = "HW"


@register
class IndexedMaxPool3D(_IndexedMaxPool):
    __doc__ = _IndexedMaxPool.__doc__
    name = "nn.max_pool3d_with_indices"
    Attrs = IndexedMaxPool3DAttrs
    spatial = "DHW"
