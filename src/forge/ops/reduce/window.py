"""Windows over all dimensions: reductions, the transpose of choosing an extreme, views of windows, dilation.

A window of ``window[k]`` taps, ``window_dilation[k]`` apart, is put every ``strides[k]`` elements on dimension k, which has
``base_dilation[k]`` - 1 holes between its elements and padding (befores, then afters; negative removes) around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.ir.builder import Builder
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import (
    at_most,
    expect_dtype,
    expect_rank,
    fail,
    required,
    same_dtype,
    tuple_of,
    unify_dim,
)
from forge.ops.core.lowering import cast_result, dim_type, injective, lowest, row_major, scalar
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Dim, Expr, Lowered, TensorType, TensorTypes, Types, Value, Values
from forge.ops.core.window_geometry import Window, compute_dtype, padded_read, sliding_windows, windows
from forge.te import Tensor

Ints = tuple[int, ...]


@dataclass(frozen=True)
class ReduceWindowAttrs:
    reduction: str
    window: Ints
    strides: Ints = (1,)
    padding: Ints = (0,)
    base_dilation: Ints = (1,)
    window_dilation: Ints = (1,)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "all": np.all, "any": np.any,
}
TE_KINDS = {"sum": "sum", "prod": "prod", "max": "max", "min": "min", "all": "and", "any": "or"}
_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "all": "and", "any": "or"}


def highest(dtype: str) -> float | int:
    """The identity of min."""
    return float("inf") if dtypes.is_float(dtype) else dtypes.integer_range(dtype)[1]


def neutral(reduction: str, dtype: str) -> float | int | bool:
    """What changes no result of ``reduction``."""
    if reduction in ("max", "min"):
        return lowest(dtype) if reduction == "max" else highest(dtype)
    return {"sum": 0, "prod": 1, "all": True, "any": False}[reduction]


def dilated(extent: Any, gap: int) -> Any:
    """The size of a dimension with holes."""
    return extent if gap == 1 else dims.maximum(extent * gap - gap + 1, 0)


def _refuse_empty(data: TensorType) -> list[tuple[Expr, str]]:
    """Conditions: no symbolic dimension of ``data`` is empty, as every result reads one of its elements."""
    found: list[tuple[Expr, str]] = []
    for k, d in enumerate(data.shape):
        found += required(at_most(1, d) or isinstance(d, int), lambda d=d: te.dim(d) >= 1, f"dimension {k} is empty")  # type: ignore[misc]
    return found


@register
class ReduceWindow(Op[ReduceWindowAttrs]):
    """out[p..] = the ``reduction`` (sum, prod, max, min, all, any) of init and of what lies under the window at p..

    Holes and padding hold init, a scalar; without it they hold what changes nothing. Windows cover every dimension.
    """

    name = "reduce_window"
    data, init = Operand(), Operand(optional=True, single=True)
    kind = Kind.REDUCTION
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: ReduceWindowAttrs, data: Value, init: Value | None) -> Types:
        if attrs.reduction not in REDUCTIONS:
            raise fail(self.name, "attribute reduction", repr(attrs.reduction), f"one of {', '.join(REDUCTIONS)}")
        expect_dtype(self.name, data, "data", "bool" if attrs.reduction in ("all", "any") else "numeric")
        if init is not None:
            same_dtype(self.name, [data, init])
        if len(attrs.window) != data.rank:
            raise fail(self.name, "attribute window", attrs.window, f"{data.rank} sizes")
        spec, gaps = self._windows(attrs, data.rank), self._gaps(attrs, data.rank)
        counts = [w.positions(dilated(e, g)) for w, e, g in zip(spec, data.shape, gaps, strict=True)]
        return [TensorType(tuple(dims.maximum(c, 0) for c in counts), data.dtype)]

    def _windows(self, attrs: ReduceWindowAttrs, rank: int) -> tuple[Window, ...]:
        return windows(self.name, attrs.window, attrs.strides, attrs.window_dilation, attrs.padding) if rank else ()

    def _gaps(self, attrs: ReduceWindowAttrs, rank: int) -> Ints:
        gaps = tuple_of(self.name, "base_dilation", attrs.base_dilation, rank)
        if any(g < 1 for g in gaps):
            raise fail(self.name, "attribute base_dilation", gaps, "positive numbers")
        return gaps

    def reference(self, attrs: ReduceWindowAttrs, data: Array, init: Array | None) -> Arrays:
        dtype = dtypes.canonical(data.dtype)
        fill = np.asarray(neutral(attrs.reduction, dtype), data.dtype) if init is None else init.reshape(())
        spread = spread_out(data, self._gaps(attrs, data.ndim), fill)
        spec = self._windows(attrs, data.ndim)
        counts = [max(w.positions(e), 0) for w, e in zip(spec, spread.shape, strict=True)]
        view = numeric.widest(spread)
        if 0 not in counts:
            view = sliding_windows(view, range(data.ndim), spec, counts, fill.astype(view.dtype))
        else:
            view = np.empty((*counts, *attrs.window), view.dtype)
        taps = tuple(range(data.ndim, 2 * data.ndim))
        options: dict[str, Any] = {"dtype": view.dtype} if attrs.reduction in ("sum", "prod") else {}
        if attrs.reduction in ("max", "min"):
            options["initial"] = fill.astype(view.dtype)
        total = REDUCTIONS[attrs.reduction](view, axis=taps, **options)
        return [np.asarray(_NUMPY[attrs.reduction](total, fill.astype(view.dtype))).astype(data.dtype)]

    def lower(self, attrs: ReduceWindowAttrs, results: TensorTypes, data: Tensor, init: Tensor | None) -> Lowered:
        dtype, result = data.dtype, results[0]
        fill = te.const(neutral(attrs.reduction, dtype), dtype) if init is None else scalar(init)
        wide = compute_dtype(dtype)
        spec, gaps = self._windows(attrs, data.ndim), self._gaps(attrs, data.ndim)
        taps = [te.reduce_axis(size, f"r{k}") for k, size in enumerate(attrs.window)]
        empty = any(te.is_const(e, 0) for e in data.shape)

        def body(*i: Expr) -> Expr:
            value = fill if empty else _read_spread(data, spec, gaps, i, [t.var for t in taps], fill)
            return te.reduce(TE_KINDS[attrs.reduction], te.cast(value, wide), taps)

        reduced = te.compute(te.shape_of(result.shape), body, "reduce_window")
        if init is not None:
            inner = reduced
            start = te.cast(fill, wide)
            reduced = te.compute(inner.shape, lambda *i: te.binary(_COMBINE[attrs.reduction], inner[i], start), "with_init")
        return [cast_result(reduced, dtype)]

    def requires(self, attrs: ReduceWindowAttrs, results: TensorTypes, data: TensorType, *_: object) -> Conditions:
        return _refuse_empty(data)

    def flops(self, attrs: ReduceWindowAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * math.prod(attrs.window)


_NUMPY = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "all": np.logical_and, "any": np.logical_or}


def spread_out(data: Array, gaps: Sequence[int], fill: Any) -> Array:
    """data with holes that hold ``fill``."""
    out = np.full([dilated(e, g) for e, g in zip(data.shape, gaps, strict=True)], fill, data.dtype)
    out[tuple(slice(None, None, g) for g in gaps)] = data
    return out


def _read_spread(
    data: Tensor, spec: Sequence[Window], gaps: Sequence[int], at: Sequence[Expr], taps: Sequence[Expr], fill: Expr
) -> Expr:
    """The element under ``taps`` of the window ``at``; ``fill`` in holes and padding."""
    inside: Expr = te.const(True, "bool")
    source = []
    for window, gap, out, tap, extent in zip(spec, gaps, at, taps, data.shape, strict=True):
        place = window.position(out, tap)
        if gap > 1:
            inside = te.logical_and(inside, (place % gap).eq(0))
            place = place // gap
        if gap > 1 or window.may_overhang():
            inside = te.logical_and(inside, te.logical_and(place >= 0, place < extent))
            place = te.clamp(place, extent)
        source.append(place)
    return te.select(inside, data[tuple(source)], fill)


@dataclass(frozen=True)
class WindowExtremeAttrs:
    window: Ints
    strides: Ints = (1,)
    padding: Ints = (0,)
    select: str = "max"


def _check_extreme(op: str, data: Value, attrs: WindowExtremeAttrs) -> tuple[Window, ...]:
    if attrs.select not in ("max", "min"):
        raise fail(op, "attribute select", repr(attrs.select), "max or min")
    if len(attrs.window) != data.rank:
        raise fail(op, "attribute window", attrs.window, f"{data.rank} sizes")
    return _plain_windows(op, attrs)


def _plain_windows(op: str, attrs: WindowExtremeAttrs) -> tuple[Window, ...]:
    return windows(op, attrs.window, attrs.strides, 1, attrs.padding) if attrs.window else ()


@register
class WindowExtreme(Op[WindowExtremeAttrs]):
    """For every window the row-major position in data of its largest (``select`` "max") or smallest ("min") element.

    The first of equal ones, NaN before all; the number of elements of data for a window that has none of them.
    """

    name = "window_extreme"
    data = Operand(accepts="numeric")
    kind = Kind.ANCHOR
    category = Category.REDUCTION

    def infer(self, attrs: WindowExtremeAttrs, data: Value) -> Types:
        spec = _check_extreme(self.name, data, attrs)
        shape = tuple(dims.maximum(w.positions(e), 0) for w, e in zip(spec, data.shape, strict=True))
        return [TensorType(shape, "int64")]

    def reference(self, attrs: WindowExtremeAttrs, data: Array) -> Arrays:
        data = numeric.widen(data)
        spec = _plain_windows(self.name, attrs)
        out = np.full([max(w.positions(e), 0) for w, e in zip(spec, data.shape, strict=True)], data.size)
        choose = np.argmax if attrs.select == "max" else np.argmin
        for at in np.ndindex(out.shape):
            places = [
                [q for t in range(w.size) if 0 <= (q := p * w.stride + t - w.before) < e]
                for p, w, e in zip(at, spec, data.shape, strict=True)
            ]
            if all(places):
                block = data[np.ix_(*places)]
                chosen = np.unravel_index(int(choose(block)), block.shape)
                out[at] = np.ravel_multi_index([p[c] for p, c in zip(places, chosen, strict=True)], data.shape)
        return [out]

    def lower(self, attrs: WindowExtremeAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        counts = te.shape_of(results[0].shape)
        if any(te.is_const(e, 0) for e in data.shape):
            return [te.compute(counts, lambda *i: te.const(0), self.name)]
        return [_first_extreme(data, _plain_windows(self.name, attrs), attrs.select, counts)]

    def requires(self, attrs: WindowExtremeAttrs, results: TensorTypes, data: TensorType, *_: object) -> Conditions:
        return _refuse_empty(data)

    def flops(self, attrs: WindowExtremeAttrs, results: TensorTypes, *_: object) -> Dim:
        return 2 * results[0].size * math.prod(attrs.window)


def _first_extreme(data: Tensor, spec: Sequence[Window], select: str, counts: Sequence[Expr]) -> Tensor:
    """Two stages: the extreme of every window, then the first position that has it."""
    worst = neutral(select, data.dtype)
    overhang = [w.may_overhang() for w in spec]
    size = te.dim(dim_type(data).size)

    def taps(name: str) -> list[te.Axis]:
        return [te.reduce_axis(w.size, f"{name}{k}") for k, w in enumerate(spec)]

    def places(at: Sequence[Expr], axes: Sequence[te.Axis]) -> list[Expr]:
        return [w.position(x, t.var) for w, x, t in zip(spec, at, axes, strict=True)]

    outer, inner = taps("a"), taps("b")
    best = te.compute(
        counts, lambda *i: te.reduce(select, padded_read(data, places(i, outer), overhang, worst), outer), "extreme"
    )

    def body(*i: Expr) -> Expr:
        at = places(i, inner)
        inside: Expr = te.const(True, "bool")
        for x, extent, check in zip(at, data.shape, overhang, strict=True):
            inside = te.logical_and(inside, te.logical_and(x >= 0, x < extent)) if check else inside
        value = padded_read(data, at, overhang, worst)
        hit = value.eq(best[i])
        if dtypes.is_float(data.dtype):
            hit = te.binary("or", hit, te.call("isnan", value))
        return te.reduce("min", te.select(te.logical_and(hit, inside), row_major(at, data.shape), size), inner)

    return te.compute(counts, body, "first_extreme")


@register
class SelectAndScatter(Op[WindowExtremeAttrs]):
    """init (0 if absent), and where the extreme element of a window of data lies, the sum of source at all such windows.

    Which one of equal elements: as for window_extreme. The gradient of max pooling.
    """

    name = "select_and_scatter"
    data, source, init = Operand(accepts="numeric"), Operand(), Operand(optional=True, single=True)
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION

    def infer(self, attrs: WindowExtremeAttrs, data: Value, source: Value, init: Value | None) -> Types:
        same_dtype(self.name, [data, source] if init is None else [data, source, init])
        spec = _check_extreme(self.name, data, attrs)
        expect_rank(self.name, source.tensor_type, "source", data.rank)
        for k, (w, e) in enumerate(zip(spec, data.shape, strict=True)):
            unify_dim(self.name, source.shape[k], w.positions(e), f"dimension {k} of source")
        return [data.type]

    def reference(self, attrs: WindowExtremeAttrs, data: Array, source: Array, init: Array | None) -> Arrays:
        (places,) = WindowExtreme().reference(attrs, data)
        start = 0 if init is None else numeric.widest(init).item()
        total = np.full(data.size + 1, start, numeric.widest(data).dtype)
        np.add.at(total, places.reshape(-1), numeric.widest(source).reshape(-1))
        return [total[:-1].reshape(data.shape).astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: WindowExtremeAttrs, data: Value, source: Value, init: Value | None) -> Values:
        places = builder.call(WindowExtreme(), data, **vars(attrs))
        if not all(map(dims.equal, source.shape, places.shape)):
            source = builder.call("broadcast_to", source, shape=places.shape, exact=True)
        dtype = compute_dtype(data.dtype)
        start = builder.constant(0, dtype) if init is None else builder.call("cast", init, dtype=dtype)
        flat, addends = (builder.call("reshape", v, newshape=(-1,)) for v in (places, builder.call("cast", source, dtype=dtype)))
        real = builder.call("less", flat, builder.call("ndarray_size", data))
        addends = builder.call("where", real, addends, builder.constant(0, dtype))
        total = builder.call("full", start, shape=(data.size,))
        total = builder.call("scatter_elements", total, flat, addends, axis=0, reduction="add")
        shaped = builder.call("reshape", total, newshape=data.shape, allowzero=True)
        return [builder.call("cast", shaped, dtype=data.dtype)]


@dataclass(frozen=True)
class SlidingWindowAttrs:
    axis: int
    window_shape: Ints
    strides: Ints = (1,)
    dilation: Ints = (1,)
    padding: Ints = (0,)


@register
class SlidingWindow(Op[SlidingWindowAttrs]):
    """Windows of data along the dimensions from ``axis``: out[i.., p.., j.., t..] = data[i.., p * stride + t * dilation.., j..].

    The taps t.. stand at the end, after dimensions that no window covers. ``padding`` adds zeros.
    """

    name = "sliding_window"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: SlidingWindowAttrs, data: Value) -> Types:
        first, spec = self._place(attrs, data.rank)
        covered = data.shape[first : first + len(spec)]
        counts = [dims.maximum(w.positions(e), 0) for w, e in zip(spec, covered, strict=True)]
        shape = (*data.shape[:first], *counts, *data.shape[first + len(spec) :], *attrs.window_shape)
        return [TensorType(shape, data.dtype)]

    def _place(self, attrs: SlidingWindowAttrs, rank: int) -> tuple[int, tuple[Window, ...]]:
        first = attrs.axis + rank if attrs.axis < 0 else attrs.axis
        if not attrs.window_shape or not 0 <= first <= rank - len(attrs.window_shape):
            raise fail(self.name, "attribute window_shape", attrs.window_shape, f"1 to {max(rank - first, 0)} sizes")
        return first, windows(self.name, attrs.window_shape, attrs.strides, attrs.dilation, attrs.padding)

    def reference(self, attrs: SlidingWindowAttrs, data: Array) -> Arrays:
        first, spec = self._place(attrs, data.ndim)
        axes = range(first, first + len(spec))
        counts = [max(w.positions(data.shape[a]), 0) for w, a in zip(spec, axes, strict=True)]
        if 0 in counts:
            shape = (*data.shape[:first], *counts, *data.shape[first + len(spec) :], *attrs.window_shape)
            return [np.empty(shape, data.dtype)]
        return [sliding_windows(data, axes, spec, counts, np.zeros((), data.dtype)).copy()]

    def lower(self, attrs: SlidingWindowAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        first, spec = self._place(attrs, data.ndim)
        overhang = [False] * data.ndim
        for k, w in enumerate(spec):
            overhang[first + k] = w.may_overhang()

        def body(i: Sequence[Expr]) -> Expr:
            source, taps = list(i[: data.ndim]), i[data.ndim :]
            for k, (w, tap) in enumerate(zip(spec, taps, strict=True)):
                source[first + k] = w.position(source[first + k], tap)
            return padded_read(data, source, overhang, 0)

        return [injective(self.name, results[0], body)]
