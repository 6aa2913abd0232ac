"""What the neural network operators share: checks with located messages, and the arithmetic of sliding windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.types import TensorType
from forge.ops.infer_helpers import expect_rank, fail, normalize_axis, tensor, unequal
from forge.te import Expr, Tensor

if TYPE_CHECKING:
    from forge.ir.nodes import Value

HALF_TYPES = ("float16", "bfloat16")


def tensor_type(op: str, name: str, value: Value | None, rank: int | None = None) -> TensorType:
    """The type of an operand that must be a tensor of numbers or bools (of ``rank`` dimensions).

    Raises:
        TypeInferenceError: it is not.
    """
    found = tensor(op, value, name)
    if found.dtype == "string":
        raise fail(op, f"operand {name!r} has the wrong element type", found.dtype, "numbers")
    if rank is not None:
        expect_rank(op, found, name, rank)
    return found


def real_tensor(op: str, name: str, value: Value | None, rank: int | None = None) -> TensorType:
    """``tensor_type`` of an operand that must not hold complex numbers.

    Raises:
        TypeInferenceError: it is no such tensor.
    """
    found = tensor_type(op, name, value, rank)
    if dtypes.is_complex(found.dtype):
        raise fail(op, f"operand {name!r} has the wrong element type", found.dtype, "a real one")
    return found


def float_tensor(op: str, name: str, value: Value | None, rank: int | None = None) -> TensorType:
    """``tensor_type`` of an operand that must hold floats.

    Raises:
        TypeInferenceError: it is no such tensor.
    """
    found = tensor_type(op, name, value, rank)
    if not dtypes.is_float(found.dtype):
        raise fail(op, f"operand {name!r} has the wrong element type", found.dtype, "float")
    return found


def require_equal(op: str, what: str, got: Dim, expected: Dim) -> None:
    """Raises TypeInferenceError unless two dimensions are provably equal."""
    if not dims.equal(got, expected):
        raise unequal(fail(op, what, got, expected), got, expected)


def tuple_of(op: str, what: str, value: Any, n: int) -> tuple[Any, ...]:
    """``value`` once per axis: a single number stands for all of ``n``."""
    items = tuple(value) if isinstance(value, tuple) else (value,)
    if len(items) == 1:
        return items * n
    if len(items) != n:
        raise fail(op, what, items, f"1 or {n} numbers")
    return items


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


def wide(array: np.ndarray) -> np.ndarray:
    """``array`` as the dtype that sums are computed in."""
    return array.astype(dtypes.numpy_dtype(compute_dtype(dtypes.canonical(array.dtype))), copy=False)


def cast_result(tensor: Tensor, dtype: str) -> Tensor:
    """``tensor``, or an element-wise conversion of it to ``dtype``."""
    if tensor.dtype == dtype:
        return tensor
    return te.compute(tensor.shape, lambda *i: te.cast(tensor[i], dtype), name=f"{tensor.name}_cast")


def lowest(dtype: str) -> float | int | bool:
    """The identity of max."""
    if dtypes.is_float(dtype):
        return float("-inf")
    return False if dtype == "bool" else dtypes.integer_range(dtype)[0]


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


def require_positive(op: str, what: str, extents: Sequence[Dim]) -> None:
    """Raises TypeInferenceError when an output extent is certainly below 1 where one element is the least."""
    for extent in extents:
        if isinstance(extent, int) and extent < 1:
            raise fail(op, what, f"output extent {extent}", "a window that fits into the padded input")


def padded_read(source: Tensor, indices: Sequence[Expr], overhang: Sequence[bool], fill: float | int | bool) -> Expr:
    """``source`` at ``indices``; ``fill`` where an index marked in ``overhang`` is out of range."""
    valid: Expr = te.const(True, "bool")
    safe = list(indices)
    for axis, (index, extent, check) in enumerate(zip(indices, source.shape, overhang)):
        if check:
            valid = te.logical_and(valid, te.logical_and(index >= 0, index < extent))
            safe[axis] = te.clamp(index, extent)
    return te.select(valid, source[tuple(safe)], te.const(fill, source.dtype))


def sliding_windows(
    x: np.ndarray, axes: Sequence[int], spec: Sequence[Window], counts: Sequence[int], fill: Any
) -> np.ndarray:
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


__all__ = [
    "HALF_TYPES", "Window", "compute_dtype", "cast_result", "fail", "lowest", "normalize_axis", "padded_read",
    "padding_pairs", "require_equal", "require_positive", "sliding_windows", "tensor_type", "tuple_of", "wide", "windows",
]
