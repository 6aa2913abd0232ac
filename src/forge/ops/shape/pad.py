"""Padding of axes: nn.pad."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ops.core.inference import at_most, fail, fresh_dims, given_numbers, required, same_dtype, tensor
from forge.ops.core.layout_change import LayoutChange
from forge.ops.core.lowering import injective, new_symbols, scalar
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Lowered, Symbols, Tensor, TensorType, TensorTypes, Types, Value
from forge.te import Expr


@dataclass(frozen=True)
class PadAttrs:
    pad_width: tuple[tuple[Dim, Dim], ...] | None = None
    pad_mode: str = "constant"


PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def _source(mode: str, index: Expr, extent: Expr, is_once: Expr) -> Expr:
    """Where the padded element ``index`` (counted from the first element of the operand) comes from.

    ``is_once``: whether no more is added to a side than there is.
    """
    if mode in ("constant", "edge"):
        return te.clamp(index, extent)
    if mode == "wrap":
        low, high, folded = index + extent, index - extent, index % extent
    elif mode == "reflect":
        low, high = -index, extent * 2 - 2 - index
        period = te.binary("max", (extent - 1) * 2, te.const(1))
        folded = te.binary("min", index % period, period - index % period)
    else:
        low, high = -1 - index, extent * 2 - 1 - index
        folded = te.binary("min", index % (extent * 2), extent * 2 - 1 - index % (extent * 2))
    once = te.select(index >= 0, te.select(index < extent, index, high), low)
    return te.select(is_once, once, te.clamp(folded, extent))


def _is_once(attrs: PadAttrs, axis: int, extent: Expr) -> Expr:
    """Whether no more is added to a side of ``axis`` than there is, as far as the attribute says."""
    if attrs.pad_width is None:
        return te.const(False, "bool")
    most = extent - 1 if attrs.pad_mode == "reflect" else extent
    return reduce(te.logical_and, (te.dim(width) <= most for width in attrs.pad_width[axis]))


def _source_indices(mode: str, count: int, before: int, after: int) -> Array:
    """The same for all elements of a padded axis, with -1 for a padded constant."""
    index = np.arange(-before, count + after)
    if mode == "constant":
        return np.where((index >= 0) & (index < count), index, -1)
    if mode == "edge":
        return np.clip(index, 0, count - 1)
    if mode == "wrap":
        return index % count
    period = max(1, 2 * (count - 1)) if mode == "reflect" else 2 * count
    folded = index % period
    return np.minimum(folded, period - folded if mode == "reflect" else period - 1 - folded)


@register
class Pad(Op[PadAttrs]):
    """data with ``pad_width[k]`` = (before, after) elements added to dimension k; negative numbers remove.

    ``pad_mode``: constant (operand ``pad_value``, 0 or "" if absent), edge, reflect (without the edge), symmetric (with
    it), wrap. Operand ``pad_width``, of shape (rank, 2), takes the place of a missing attribute.
    """

    name = "nn.pad"
    data, pad_value, pad_width = Operand(), Operand(optional=True), Operand(optional=True, accepts="integer")
    kind = Kind.INJECTIVE

    def infer(self, attrs: PadAttrs, data: Value, pad_value: Value | None, pad_width: Value | None) -> Types:
        if attrs.pad_mode not in PAD_MODES:
            raise fail(self.name, "attribute pad_mode", repr(attrs.pad_mode), f"one of {', '.join(PAD_MODES)}")
        if pad_value is not None:
            same_dtype(self.name, [data, pad_value])
        if attrs.pad_width is None:
            if tensor(self.name, pad_width, "pad_width").shape != (data.rank, 2):
                raise fail(self.name, "operand 'pad_width'", tensor(self.name, pad_width, "pad_width"), f"shape ({data.rank}, 2)")
            return [TensorType(fresh_dims("pad", data.rank), data.dtype)]
        if len(attrs.pad_width) != data.rank:
            raise fail(self.name, "attribute pad_width", f"{len(attrs.pad_width)} pairs", f"{data.rank} pairs")
        shape = tuple(d + before + after for d, (before, after) in zip(data.shape, attrs.pad_width, strict=True))
        if any(dims.different(d, dims.maximum(d, 0)) for d in shape):
            raise fail(self.name, "attribute pad_width", attrs.pad_width, "at most as much removed as there is")
        return [TensorType(shape, data.dtype)]

    def reference(self, attrs: PadAttrs, data: Array, pad_value: Array | None, pad_width: Array | None) -> Arrays:
        given = None if attrs.pad_width is None else [n for pair in attrs.pad_width for n in pair]
        numbers = given_numbers(given, pad_width)
        for axis, (before, after) in enumerate(zip(numbers[::2], numbers[1::2])):
            source = _source_indices(attrs.pad_mode, data.shape[axis], before, after)
            blank = data.shape[axis] == 0
            taken = _blank(data, axis, len(source)) if blank else np.take(data, np.maximum(source, 0), axis=axis)
            shape = [-1 if k == axis else 1 for k in range(data.ndim)]
            fill = np.asarray("" if data.dtype == object else 0, data.dtype) if pad_value is None else pad_value.reshape(())
            data = np.where((source < 0).reshape(shape), fill, taken)
        return [data]

    def lower(
        self, attrs: PadAttrs, results: TensorTypes, data: Tensor, pad_value: Tensor | None, pad_width: Tensor | None
    ) -> Lowered:
        if attrs.pad_width is not None:
            before = [te.dim(b) for b, _ in attrs.pad_width]
        else:
            assert pad_width is not None
            before = [te.cast(pad_width[te.const(k), te.const(0)], "int64") for k in range(data.ndim)]
        fill = te.const(0, data.dtype) if pad_value is None else scalar(pad_value)
        same = [_unpadded(attrs, k) for k in range(data.ndim)]

        def body(i: Sequence[Expr]) -> Expr:
            shifted = [x if keep else x - b for x, b, keep in zip(i, before, same, strict=True)]
            source = [
                x if keep else _source(attrs.pad_mode, x, extent, _is_once(attrs, k, extent))
                for k, (x, extent, keep) in enumerate(zip(shifted, data.shape, same, strict=True))
            ]
            result = data[tuple(source)]
            if attrs.pad_mode != "constant":
                return result
            return te.select(_inside(shifted, data.shape, same), result, fill)

        return [injective(self.name, results[0], body)]

    def requires(
        self, attrs: PadAttrs, results: TensorTypes, data: TensorType, pad_value: TensorType | None, pad_width: TensorType | None
    ) -> Conditions:
        found: list[tuple[Expr, str]] = []
        if attrs.pad_mode == "constant":
            return found
        for k, d in enumerate(data.shape):
            fine = _unpadded(attrs, k) or at_most(1, d)
            why = f"dimension {k} is empty; mode {attrs.pad_mode} repeats it"
            found += required(fine, partial(operator.ge, te.dim(d), 1), why)
        return found

    def define_symbols(
        self, attrs: PadAttrs, results: TensorTypes, data: Tensor, pad_value: Tensor | None, pad_width: Tensor | None
    ) -> Symbols:
        if attrs.pad_width is not None or pad_width is None:
            return {}
        both = [[te.cast(pad_width[te.const(k), te.const(s)], "int64") for s in (0, 1)] for k in range(data.ndim)]
        return new_symbols(results[0], [d + b[0] + b[1] for d, b in zip(data.shape, both, strict=True)])

    def in_layout(self, change: LayoutChange) -> Value | None:
        """Blocked axes keep their extent."""
        widths, rank = self.attrs.pad_width, self.result.rank
        if widths is None or any(change.block(k) > 1 and not _unpadded(self.attrs, k) for k in range(rank)):
            return None
        return change.on_first(self.node, pad_width=tuple((0, 0) if k is None else widths[k] for k in change.order(rank)))


def _unpadded(attrs: PadAttrs, axis: int) -> bool:
    return attrs.pad_width is not None and tuple(attrs.pad_width[axis]) == (0, 0)


def _inside(indices: Sequence[Expr], shape: Sequence[Expr], skip: Sequence[bool]) -> Expr:
    """Whether all indices are in bounds."""
    inside: Expr = te.const(True, "bool")
    for index, extent, skipped in zip(indices, shape, skip, strict=True):
        if not skipped:
            inside = te.logical_and(inside, te.logical_and(index >= 0, index < extent))
    return inside


def _blank(data: Array, axis: int, count: int) -> Array:
    shape = list(data.shape)
    shape[axis] = count
    return np.zeros(shape, data.dtype)
