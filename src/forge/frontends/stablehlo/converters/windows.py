"""Reductions of windows, and the transpose of choosing an element of each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from forge import dims, dtypes
from forge.dims import Dim
from forge.frontends.stablehlo import regions
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.elementwise import binary
from forge.frontends.stablehlo.converters.reduce import combined, is_neutral, neutral, with_start
from forge.frontends.stablehlo.converters.scatter import scattered
from forge.frontends.stablehlo.converters.shape import padded
from forge.frontends.stablehlo.importer import build_region
from forge.frontends.stablehlo.module import Block
from forge.frontends.stablehlo.operators import bodies_of
from forge.frontends.stablehlo.registry import CUSTOM_CALL, converts
from forge.frontends.stablehlo.scope import StablehloScope
from forge.ir.nodes import Value

Ints = tuple[int, ...]
Dims = tuple[Dim, ...]
MAX_TAPS = 512
"""Elements of a window that are combined one by one."""

_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
_OF_BOOLS = {"add": "any", "or": "any", "maximum": "any", "multiply": "all", "and": "all", "minimum": "all"}
_RUNNING = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}

_LAYOUTS = {3: ("NWC", "NCW"), 4: ("NHWC", "NCHW"), 5: ("NDHWC", "NCDHW")}


@dataclass(frozen=True)
class _Windows:
    """Windows over all dimensions."""

    sizes: Dims
    strides: Ints
    base_dilation: Ints
    dilation: Ints
    low: Dims
    high: Dims

    def elements(self, g: Context, whole: Value, tap: Ints, counts: Dims) -> Value:
        """The elements at one place of all windows."""
        begin = tuple(k * apart for k, apart in zip(tap, self.dilation))
        end = tuple(b + (n - 1) * stride + 1 for b, n, stride in zip(begin, counts, self.strides))
        return g.call("strided_slice", whole, begin=begin, end=end, strides=self.strides)

    def counts(self, value: Value) -> Dims:
        """How many windows there are along each dimension of ``value``."""
        return tuple(
            windows_along(size, *of_axis) for size, *of_axis in
            zip(value.shape, self.sizes, self.strides, self.base_dilation, self.dilation, self.low, self.high))

    def whole_axis(self, value: Value) -> tuple[int, bool] | None:
        """The axis along which each window has all elements up to one, or, backwards, from one on."""
        axes = [k for k, size in enumerate(self.sizes) if size != 1 or self.low[k] or self.high[k]]
        if len(axes) != 1 or any(n != 1 for n in (*self.strides, *self.base_dilation, *self.dilation)):
            return None
        (axis,) = axes
        size = self.sizes[axis]
        own = value.shape[axis]
        may_be_whole = dims.equal(own, size) or not isinstance(size, int) and not dims.different(own, size)
        if not may_be_whole or (self.low[axis], self.high[axis]) not in ((size - 1, 0), (0, size - 1)):
            return None
        return axis, self.low[axis] == 0 and size != 1


def windows_along(
    size: Dim, taps: Dim, stride: int, base_dilation: int, dilation: int, low: Dim, high: Dim
) -> Dim:
    """How many windows of ``taps`` elements there are along an axis; none where one does not fit."""
    extent = dims.maximum((size - 1) * base_dilation + 1, 0) + low + high
    return dims.maximum(dims.floordiv(extent - (taps - 1) * dilation - 1, stride) + 1, 0)


@converts("reduce_window")
def reduce_window(
    g: Context, *operands: Value, window_dimensions: Ints, window_strides: Ints | None = None, base_dilations: Ints | None = None,
    window_dilations: Ints | None = None, padding: tuple[Ints, ...] | None = None,
) -> list[Value]:
    count, rank = len(operands) // 2, operands[0].rank
    ones, widths = (1,) * rank, padding or ((0, 0),) * rank
    windows = _Windows(
        window_dimensions, window_strides or ones, base_dilations or ones, window_dilations or ones,
        tuple(a for a, _ in widths), tuple(b for _, b in widths))
    return _windows_reduced(g, g.region(0), operands[:count], operands[count:], windows)


@converts("stablehlo.dynamic_reduce_window", domain=CUSTOM_CALL)
def dynamic_reduce_window(g: Context, *operands: Value, **attributes: Any) -> list[Value]:
    """What jax makes of windows whose sizes are symbolic; the body is a function."""
    count, rank = (len(operands) - 5) // 2, operands[0].rank
    known = [g.dims(v) for v in operands[2 * count:]]
    functions = g.scope.state.source.functions
    function = next((functions[name] for name in bodies_of(g.operation) if name in functions), None)
    if any(sizes is None for sizes in known) or function is None or len(known) != 5:
        raise g.unsupported("windows that are computed at run time, of more than sizes, are not supported")
    sizes, strides, base_dilation, dilation, flat = ([*(found or ())] for found in known)
    if len(flat) != 2 * rank or not dims.is_static(*strides, *base_dilation, *dilation):
        raise g.unsupported("strides and dilations of windows that are not numbers are not supported")
    windows = _Windows(*map(tuple, (sizes, strides, base_dilation, dilation, flat[::2], flat[1::2])))  # type: ignore[arg-type]
    return _windows_reduced(g, function.body, operands[:count], operands[count:2 * count], windows)


def _windows_reduced(
    g: Context, body: Block, values: Sequence[Value], starts: Sequence[Value], windows: _Windows
) -> list[Value]:
    """As XLA does it: what windows begin with is combined once with each, and not with their padding."""
    counts = windows.counts(values[0])
    if 0 in counts:
        return [g.broadcast(g.reshape(s, (1,) * len(counts)), counts) for s in starts]
    whole = windows.whole_axis(values[0])
    if whole is not None and not dims.equal(values[0].shape[whole[0]], windows.sizes[whole[0]]):  # the run checks that they are
        shape = tuple(windows.sizes[k] if k == whole[0] else size for k, size in enumerate(values[0].shape))
        values = [g.call("broadcast_to", v, shape=shape, exact=True) for v in values]
    names = regions.combinations(body)
    if names is None:
        return _along(g, body, values, starts, *whole) if whole is not None else _tap_by_tap(g, body, values, starts, windows)
    return [_reduced(g, body, name, value, start, windows, whole) for name, value, start in zip(names, values, starts)]


def _reduced(
    g: Context, body: Block, name: str, value: Value, start: Value, windows: _Windows, whole: tuple[int, bool] | None
) -> Value:
    if whole is not None and name in _RUNNING and value.dtype != "bool":
        axis, backwards = whole
        given = g.call("reverse", value, axis=axis) if backwards else value
        found = g.multi(_RUNNING[name], given, axis=axis)[0]
        return with_start(g, name, g.call("reverse", found, axis=axis) if backwards else found, start)
    value, windows = _of_known_padding(g, value, g.scalar(neutral(name, value.dtype), value), windows)
    reduction = (_OF_BOOLS if value.dtype == "bool" else _REDUCTIONS).get(name)
    if reduction is None:
        found = _tap_by_tap(g, body, [value], [g.scalar(neutral(name, value.dtype), value)], windows)[0]
    else:
        options = {
            "reduction": reduction, "window": windows.sizes, "strides": windows.strides, "base_dilation": windows.base_dilation,
            "window_dilation": windows.dilation, "padding": (*windows.low, *windows.high)}
        found = _pooled(g, reduction, value, windows) or g.call("reduce_window", value, None, **options)
    return with_start(g, name, found, start)


def _of_known_padding(g: Context, value: Value, fill: Value, windows: _Windows) -> tuple[Value, _Windows]:
    """Padding whose widths are symbolic is put around ``value``."""
    if dims.is_static(*windows.low, *windows.high):
        return value, windows
    whole = padded(g, value, fill, windows.low, windows.high, tuple(n - 1 for n in windows.base_dilation))
    none, ones = (0,) * value.rank, (1,) * value.rank
    return whole, replace(windows, low=none, high=none, base_dilation=ones)


def _pooled(g: Context, reduction: str, value: Value, windows: _Windows) -> Value | None:
    """Windows over the spatial axes of images as pooling, which goes with the layouts of convolutions."""
    rank = value.rank
    wide = [k for k in range(rank) if windows.sizes[k] != 1 or windows.strides[k] != 1 or windows.low[k] or windows.high[k]]
    layout = next((text for text in _LAYOUTS.get(rank, ()) if all(text[k] in "DHW" for k in wide)), None)
    fits = all(
        isinstance(low, int) and isinstance(high, int) and isinstance(size, int) and 0 <= low < size and 0 <= high < size
        for low, high, size in zip(windows.low, windows.high, windows.sizes))
    if layout is None or not wide or not fits or set(windows.base_dilation) != {1} or not dtypes.is_float(value.dtype):
        return None
    axes = [k for k, letter in enumerate(layout) if letter in "DHW"]
    sizes, strides, apart, low, high = (
        tuple(numbers[k] for k in axes)
        for numbers in (windows.sizes, windows.strides, windows.dilation, windows.low, windows.high))
    options = {"pool_size": sizes, "strides": strides, "dilation": apart, "padding": (*low, *high), "layout": layout}
    if reduction == "max":
        return g.call(f"nn.max_pool{rank - 2}d", value, **options)
    if reduction != "sum" or value.dtype not in ("float32", "float64"):
        return None
    mean = g.call(f"nn.avg_pool{rank - 2}d", value, **options, count_include_pad=True)
    return g.call("multiply", mean, g.scalar(float(dims.product(sizes)), value))  # type: ignore[arg-type]


def _along(
    g: Context, body: Block, values: Sequence[Value], starts: Sequence[Value], axis: int, backwards: bool
) -> list[Value]:
    """Running reductions by any body: of 2, 4, 8, .. elements; of a number of elements that is symbolic, one after the other."""
    found = [g.call("reverse", v, axis=axis) if backwards else v for v in values]
    size, step = values[0].shape[axis], 1
    if not isinstance(size, int):
        found = _row_after_row(g, body, found, starts, axis, backwards)
        return [g.call("reverse", v, axis=axis) if backwards else v for v in found]
    while step < size:
        early = [_part(g, v, axis, 0, step) for v in found]
        before, after = ([_part(g, v, axis, b, e) for v in found] for b, e in ((0, size - step), (step, size)))
        pair = (after, before) if backwards else (before, after)
        found = [g.call("concatenate", a, b, axis=axis) for a, b in zip(early, combined(g, body, *pair))]
        step *= 2
    begin = [g.broadcast(g.reshape(s, (1,) * values[0].rank), values[0].shape) for s in starts]
    found = combined(g, body, begin, found)
    return [g.call("reverse", v, axis=axis) if backwards else v for v in found]


def _row_after_row(
    g: Context, body: Block, values: Sequence[Value], starts: Sequence[Value], axis: int, backwards: bool
) -> list[Value]:
    count, rank = len(values), values[0].rank
    rows = [g.moved(v, (axis, *(k for k in range(rank) if k != axis))) for v in values]
    begin = [g.broadcast(g.reshape(s, (1,) * (rank - 1)), rows[0].shape[1:]) for s in starts]

    def step(scope: StablehloScope, inputs: list[Value]) -> list[Value]:
        before, row = inputs[:count], inputs[count:]
        return combined(Context(scope, g.operation, g.name), body, *((row, before) if backwards else (before, row))) * 2

    region = build_region(g, [v.tensor_type for v in begin] * 2, step)
    graph = region.with_captures(region.captured, 2 * count)
    results = g.multi("scan", *begin, *rows, *region.captured, regions=[graph], num_states=count, num_scan_inputs=count)
    return [g.moved(v, (*range(1, axis + 1), 0, *range(axis + 1, rank))) for v in results[count:]]


def _part(g: Context, value: Value, axis: int, begin: int, end: int) -> Value:
    return g.call("strided_slice", value, begin=(begin,), end=(end,), strides=(1,), axes=(axis,))


def _tap_by_tap(
    g: Context, body: Block, values: Sequence[Value], starts: Sequence[Value], windows: _Windows
) -> list[Value]:
    """Windows by any body: the first elements of all windows are combined with the second ones, and so on."""
    taps = dims.product(windows.sizes)
    if not isinstance(taps, int) or taps > MAX_TAPS:
        raise g.unsupported(f"windows of {taps} elements are reduced by a body without a name; expected at most {MAX_TAPS}")
    interior = tuple(n - 1 for n in windows.base_dilation)
    whole = [padded(g, v, s, windows.low, windows.high, interior) for v, s in zip(values, starts)]
    counts = windows.counts(values[0])
    total = [g.broadcast(g.reshape(s, (1,) * len(counts)), counts) for s in starts]
    for tap in itertools.product(*(range(n) for n in windows.sizes if isinstance(n, int))):
        taken = [windows.elements(g, v, tap, counts) for v in whole]
        total = combined(g, body, total, taken)
    return total


_SELECTIONS = {"GE(0,1)": "max", "LE(0,1)": "min"}


@converts("select_and_scatter")
def select_and_scatter(
    g: Context, operand: Value, source: Value, init_value: Value, *, window_dimensions: Ints | None = None,
    window_strides: Ints | None = None, padding: tuple[Ints, ...] | None = None,
) -> Value:
    ones, widths = (1,) * operand.rank, padding or ((0, 0),) * operand.rank
    select, scatter = g.region(0), g.region(1)
    sizes, strides = window_dimensions or ones, window_strides or ones
    low, high = tuple(a for a, _ in widths), tuple(b for _, b in widths)
    chosen = _SELECTIONS.get(regions.text_of(select, select.results[0])) if len(select.results) == 1 else None
    if chosen is None or regions.combination(scatter) != "add":
        windows = _Windows(sizes, strides, ones, ones, low, high)
        return scattered(g, scatter, operand, _selected(g, select, operand, windows), source, init_value)
    if 0 in source.shape:
        return g.broadcast(g.reshape(init_value, ones), operand.shape)
    found = g.call(
        "select_and_scatter", operand, source, window=sizes, strides=strides, padding=(*low, *high), select=chosen)
    return found if is_neutral(g, "add", init_value) else binary(g, "add", found, init_value)


def _selected(g: Context, body: Block, operand: Value, windows: _Windows) -> Value:
    """The position in ``operand``, as one row, of the element of each window that a body prefers to those before it."""
    taps = dims.product(windows.sizes)
    if not isinstance(taps, int) or taps > MAX_TAPS:
        raise g.unsupported(f"windows of {taps} elements are compared by a body without a name; expected at most {MAX_TAPS}")
    whole = padded(g, operand, g.constant(0, operand.dtype), windows.low, windows.high, (0,) * operand.rank)
    counts = windows.counts(operand)
    best: Value | None = None
    place = g.filled(g.constant(-1, "int64"), "", counts)
    for tap in itertools.product(*(range(n) for n in windows.sizes if isinstance(n, int))):
        value, (at, inside) = windows.elements(g, whole, tap, counts), _places(g, operand, windows, tap, counts)
        if best is None:
            best, place = value, g.call("where", inside, at, place)
            continue
        (stays,) = combined(g, body, [best], [value])
        none_yet = g.call("less", place, g.constant(0, "int64"))
        better = g.call("logical_and", inside, g.call("logical_or", none_yet, g.call("logical_not", stays)))
        best, place = g.call("where", better, value, best), g.call("where", better, at, place)
    return place


def _places(g: Context, operand: Value, windows: _Windows, tap: Ints, counts: Dims) -> tuple[Value, Value]:
    """Where in ``operand``, as one row, an element of each window is, and whether it is there."""
    at, inside = g.constant(0, "int64"), g.constant(True, "bool")
    for axis, count in enumerate(counts):
        extent = g.extent(operand, axis)
        number = g.count(g.constant(count, "int64") if isinstance(count, int) else g.scope.size(g, count), count)
        begin = g.call("multiply", number, g.constant(windows.strides[axis], "int64"))
        offset = g.scope.size(g, tap[axis] - windows.low[axis])
        own = g.reshape(g.call("add", begin, offset), [count if k == axis else 1 for k in range(len(counts))])
        there = g.call("logical_and", g.call("greater_equal", own, g.constant(0, "int64")), g.call("less", own, extent))
        at, inside = g.call("add", g.call("multiply", at, extent), own), g.call("logical_and", inside, there)
    return g.broadcast(at, counts), g.broadcast(inside, counts)
