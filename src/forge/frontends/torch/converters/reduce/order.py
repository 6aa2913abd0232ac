"""Reductions that depend on the order of the elements: medians and modes."""

from __future__ import annotations

import math

from forge import dtypes
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.reduce.reduction import extent, of_some
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


def _along_last(g: Context, x: Value, dim: int | None) -> Value:
    """``x`` with the axis that is reduced at the end; all of them as one where ``dim`` is None."""
    if dim is None or x.rank == 0:
        return g.call("reshape", x, newshape=(-1,))
    axis = g.axis(dim, x.rank, "dim")
    order = (*(k for k in range(x.rank) if k != axis), axis)
    return x if axis == x.rank - 1 else g.call("transpose", x, axes=order)


def _back(g: Context, found: Value, x: Value, dim: int | None, keepdim: bool) -> Value:
    """``found``, which ends with an axis of 1, as the result of reducing ``x``."""
    if dim is None or x.rank == 0:
        return g.reshape(found, ())
    axis = g.axis(dim, x.rank, "dim")
    return g.reshape(found, [1 if k == axis else d for k, d in enumerate(x.shape) if keepdim or k != axis])


def _median(op: str, skips_nan: bool) -> None:
    def found(g: Context, x: Value, dim: int | None, keepdim: bool) -> list[Value]:
        """The smaller one of the two in the middle; NaN is sorted to the end."""
        data = _along_last(g, of_some(g, x, x, dim, op), dim)
        last = data.rank - 1
        order = g.call("argsort", data, axis=last)
        count = extent(g, data, last, "int64").reshape(*[1] * data.rank)
        if dtypes.is_float(x.dtype):
            numbers = Term(g, g.cast(g.call("logical_not", g.call("isnan", data)), "int64")).sum(last)
            if skips_nan:
                place = (numbers - 1).maximum(0).floor_divide(2)
            else:
                place = numbers.equals(count).where((count - 1).floor_divide(2), numbers)
        else:
            place = (count - 1).floor_divide(2)
        places = g.call("broadcast_to", place.value, shape=(*data.shape[:-1], 1))
        index = g.call("gather", order, places, axis=last)
        value = g.call("gather", data, index, axis=last)
        return [_back(g, v, x, dim, keepdim) for v in (value, index)]

    @converts(f"{op}.default")
    def of_all(g: Context, self: Value) -> Value:
        if dtypes.is_float(self.dtype) and self.tensor_type.size == 0:
            return g.scalar(math.nan, self)
        return found(g, self, None, False)[0]

    @converts(f"{op}.dim")
    def along(g: Context, self: Value, *, dim: int, keepdim: bool = False) -> list[Value]:
        return found(g, self, dim, keepdim)


_median("median", False)
_median("nanmedian", True)


@converts("mode.default")
def mode(g: Context, self: Value, *, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """The most frequent element, of several the smallest, where it stands last: the longest run of the sorted elements."""
    data = of_some(g, g.cast(self, "uint8") if self.dtype == "bool" else self, self, dim, "mode")
    data = _along_last(g, data, dim)
    last, size = data.rank - 1, data.shape[-1]
    order = g.call("argsort", data, axis=last)
    ordered = g.call("gather", data, order, axis=last)
    following, before = (
        g.call("strided_slice", ordered, begin=(begin,), end=(end,), strides=(1,), axes=(last,))
        for begin, end in ((1, size), (0, size - 1))
    )
    place = Term(g, g.count(g.tensor(size, "int64"), size))
    second = Term(g, g.call("strided_slice", place.value, begin=(1,), end=(size,), strides=(1,), axes=(0,)))
    begins = Term(g, g.call("not_equal", following, before)).where(second, 0)
    first = g.call("broadcast_to", g.constant(0, "int64"), shape=(*data.shape[:-1], 1))
    starts = g.multi("cummax", g.call("concatenate", first, begins.value, axis=last), axis=last)[0]
    best = g.call("argmax", (place - Term(g, starts)).value, axis=last, keepdims=True)
    index = g.call("gather", order, best, axis=last)
    value = g.call("gather", data, index, axis=last)
    return [g.cast(_back(g, value, self, dim, keepdim), self.dtype), _back(g, index, self, dim, keepdim)]
