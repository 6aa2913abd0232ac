"""The arithmetic of sliding windows: strides, dilations, padding and the sizes of results."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ops.core.inference import HALF_TYPES, at_most, fail, required, tuple_of
from forge.ops.core.signatures import Conditions, TensorType
from forge.te import Expr, Tensor


def padding_pairs(op: str, padding: Any, n: int) -> tuple[tuple[Dim, Dim], ...]:
    """(before, after) per axis; ``padding`` has one number, one per axis, or all "before" and then all "after"."""
    items = tuple(padding) if isinstance(padding, tuple) else (padding,)
    if len(items) == 2 * n:
        return tuple(zip(items[:n], items[n:]))
    both = tuple_of(op, "padding", items, n)
    return tuple(zip(both, both))


def compute_dtype(dtype: str) -> str:
    """In which dtype functions and sums of values of ``dtype`` are computed."""
    return "float32" if dtype in HALF_TYPES else dtype


@dataclass(frozen=True)
class Window:
    """A sliding window along one axis: ``size`` taps, ``dilation`` apart, every ``stride``.

    ``size`` and the paddings are dimensions; where a reference evaluates them, integers.
    """

    size: Any
    stride: int
    dilation: int
    before: Any = 0
    after: Any = 0

    def positions(self, extent: Any, ceil_mode: bool = False) -> Any:
        """Number of windows over ``extent`` padded elements; with ``ceil_mode`` also partial ones that start inside."""
        span = extent + self.before + self.after - self.dilation * (self.size - 1) - 1
        if not ceil_mode:
            return dims.floordiv(span, self.stride) + 1
        inside = dims.floordiv(extent + self.before - 1, self.stride) + 1
        return dims.minimum(dims.ceildiv(span, self.stride) + 1, inside)

    def position(self, output: Expr, tap: Expr) -> Expr:
        """The input index under ``tap`` of the window at ``output``; may be out of range by the padding."""
        return output * self.stride + tap * self.dilation - te.dim(self.before)

    def may_overhang(self, ceil_mode: bool = False) -> bool:
        return not (self.before == 0 and self.after == 0) or ceil_mode


def windows(op: str, sizes: Sequence[Dim], strides: Any, dilation: Any, padding: Any) -> tuple[Window, ...]:
    """One ``Window`` per axis from attributes.

    Raises:
        TypeInferenceError: wrong number of values, or a stride or dilation below 1.
    """
    n = len(sizes)
    steps, gaps = tuple_of(op, "strides", strides, n), tuple_of(op, "dilation", dilation, n)
    for what, values in (("strides", steps), ("dilation", gaps)):
        if any(v < 1 for v in values):
            raise fail(op, what, values, "positive numbers")
    pads = padding_pairs(op, padding, n)
    return tuple(Window(k, s, d, b, a) for k, s, d, (b, a) in zip(sizes, steps, gaps, pads))


def fits(data: TensorType, extents: Sequence[Dim]) -> Conditions:
    """For ``Op.requires``: windows over ``data``, of which results have ``extents``, fit; `require_positive` refuses numbers."""
    found: Conditions = []
    for extent in extents:
        why = f"window over {data}; got output extent {extent} below 1; expected a window that fits into the padded input"
        found += required(at_most(1, extent), partial(operator.ge, te.dim(extent), 1), why)
    return found


def padded_read(source: Tensor, indices: Sequence[Expr], overhang: Sequence[bool], fill: float | int | bool) -> Expr:
    """``source`` at ``indices``; ``fill`` where an index marked in ``overhang`` is out of range."""
    valid: Expr = te.const(True, "bool")
    safe = list(indices)
    for axis, (index, extent, check) in enumerate(zip(indices, source.shape, overhang)):
        if check:
            valid = te.logical_and(valid, te.logical_and(index >= 0, index < extent))
            safe[axis] = te.clamp(index, extent)
    return te.select(valid, source[tuple(safe)], te.const(fill, source.dtype))


def sliding_windows(x: np.ndarray, axes: Sequence[int], spec: Sequence[Window], counts: Sequence[int], fill: Any) -> np.ndarray:
    """A view of padded ``x`` with ``counts`` windows along ``axes`` and one new axis per window, at the end, for its taps."""
    pads = [(0, 0)] * x.ndim
    for axis, w, count in zip(axes, spec, counts):
        needed = (count - 1) * w.stride + (w.size - 1) * w.dilation + 1
        pads[axis] = (w.before, max(w.after, needed - x.shape[axis] - w.before))
    x = _pad(x, pads, fill)
    shape, strides = list(x.shape), list(x.strides)
    for axis, w, count in zip(axes, spec, counts):
        shape[axis] = count
        strides[axis] = x.strides[axis] * w.stride
        shape.append(w.size)
        strides.append(x.strides[axis] * w.dilation)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


MAX_PADDED, MAX_PADDED_GROWTH = 1 << 26, 64
"""Elements to which the interpreter pads an array, and times the elements that it has."""


def _pad(x: np.ndarray, pads: Sequence[tuple[int, int]], fill: Any) -> np.ndarray:
    """Constant padding; negative amounts crop."""
    crop = tuple(slice(max(0, -b), x.shape[i] - max(0, -a)) for i, (b, a) in enumerate(pads))
    grown = [(max(0, b), max(0, a)) for b, a in pads]
    if not any(b or a for b, a in grown):
        return x[crop]
    size = math.prod(d + b + a for d, (b, a) in zip(x[crop].shape, grown))
    if size > max(MAX_PADDED, MAX_PADDED_GROWTH * x.size):
        raise fail("padding", "elements of the result", f"{size} for {grown} around {x.shape}", f"at most {MAX_PADDED}")
    return np.pad(x[crop], grown, constant_values=fill)
