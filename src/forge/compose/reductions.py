"""Reductions that are not operators: norms of vectors, variances with a correction, logarithms of sums, parts of an axis.

``axes`` are counted from the front. A tensor of rank 0 counts as one element along an axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from forge import dims, dtypes
from forge.compose.axes import neighbours, places
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

Axes = Sequence[int]


def reduced(g: Composer, op: str, x: Value, axes: Axes, keepdims: bool = False, **options: Any) -> Value:
    """Applies a reduction that is an operator."""
    if x.rank == 0:
        return g.call(op, g.reshape(x, (1,)), axis=(0,), keepdims=False, **options)
    return g.call(op, x, axis=tuple(axes), keepdims=keepdims, **options)


def count(x: Value, axes: Axes) -> Dim:
    """How many elements are reduced to one."""
    return dims.product(x.shape[axis] for axis in axes) if x.rank else 1


def size(g: Composer, x: Value, axes: Axes) -> Term:
    """`count` as an int64 of rank 0."""
    known = count(x, axes)
    if isinstance(known, int):
        return Term(g, g.constant(known, "int64"))
    return reduce(lambda a, b: a * b, (Term(g, g.extent(x, axis)) for axis in axes))


def of_some(g: Composer, found: Value, x: Value, axes: Axes, what: str) -> Value:
    """``found``, derived from ``x``; a call fails if ``axes`` are empty. ``what`` names the reduction in the message."""
    given = count(x, axes)
    least = dims.bounds(given)[0]
    if least is not None and least > 0:
        return found
    return g.call("check_size", found, axis=0, least=1, size=given, label=f"{given} that {what} reduces")


def extreme(g: Composer, op: str, x: Value, axes: Axes, keepdims: bool = False) -> Value:
    """The largest ("max") or smallest ("min") element; False is less than True."""
    return reduced(g, {"max": "any", "min": "all"}[op] if x.dtype == "bool" else op, x, axes, keepdims)


def variance(g: Composer, x: Value, axes: Axes, keepdims: bool = False, *, correction: float = 1) -> Value:
    """The sum of the squared distances from the mean over the number of elements less ``correction``; a real number."""
    if dtypes.is_complex(x.dtype):
        parts = (g.call(f"complex.{part}", x) for part in ("real", "imag"))
        return g.call("add", *(variance(g, part, axes, keepdims, correction=correction) for part in parts))
    if correction in (0, 1):
        return reduced(g, "variance", x, axes, keepdims, unbiased=bool(correction))
    biased = Term(g, reduced(g, "variance", x, axes, keepdims, unbiased=False))
    number = size(g, x, axes).cast("float64")
    return (biased * (number / (number - correction).maximum(0)).cast(x.dtype)).value


def vector_norm(g: Composer, x: Value, p: float, axes: Axes, keepdims: bool = False) -> Value:
    """``(sum of |x| ** p) ** (1 / p)``; the number of nonzero elements for p = 0, the extreme of ``|x|`` for infinite p."""
    x = g.call("abs", x) if dtypes.is_complex(x.dtype) else x
    if math.isinf(p):
        return reduced(g, "max" if p > 0 else "min", g.call("abs", x), axes, keepdims)
    if p == 0:
        return g.cast(reduced(g, "count_nonzero", x, axes, keepdims), x.dtype)
    if p == 1:
        return reduced(g, "sum", g.call("abs", x), axes, keepdims)
    if p == 2:
        return g.call("sqrt", reduced(g, "sum", g.call("multiply", x, x), axes, keepdims))
    total = reduced(g, "sum", g.call("power", g.call("abs", x), g.scalar(p, x)), axes, keepdims)
    return g.call("power", total, g.scalar(1 / p, x))


def logsumexp(g: Composer, x: Value, axes: Axes, keepdims: bool = False) -> Value:
    """``log(sum of exp(x))``; of complex numbers relative to the largest real part."""
    if not dtypes.is_complex(x.dtype):
        return reduced(g, "logsumexp", x, axes, keepdims)
    most = Term(g, reduced(g, "max", g.call("complex.real", x), axes, keepdims=True))
    most = Term(g, g.call("isfinite", most.value)).where(most, 0).cast(x.dtype)
    total = Term(g, g.call("log", reduced(g, "sum", g.call("exp", (Term(g, x) - most).value), axes, keepdims)))
    return (total + most.reshape(*total.value.shape)).value


def segment_reduce(g: Composer, data: Value, offsets: Value, reduction: str, axis: int, initial: float | None = None) -> Value:
    """Reductions ("sum", "mean", "prod", "max", "min") of the parts of ``axis`` between neighbouring ``offsets``.

    ``data`` is ``[.., N, ..]``, ``offsets`` ``[.., S + 1]``, whose last axis is ``axis``, the result ``[.., S, ..]``. An empty
    part gives ``initial``, else what is neutral, and NaN as mean. ``initial`` counts in a sum, and so in a mean.
    """
    lead, rows, rest = data.shape[:axis], data.shape[axis], data.shape[axis + 1 :]
    batch, parts = dims.product(lead), offsets.shape[axis] - 1
    bounds = g.reshape(offsets, (batch, parts + 1))
    positions = g.call("broadcast_to", places(g, data, axis), shape=(batch, rows))
    number = Term(g, g.call("searchsorted", bounds, positions, right=True, dtype="int64")) - 1
    width = Term(g, g.extent(offsets, axis)) - 1
    first = Term(g, g.reshape(places(g, bounds, 0), (batch, 1))) * width
    inside = (number >= 0).both(number < width)
    ids = inside.where(number + first, -1).reshape(dims.product((batch, rows))).value
    total = Term(g, g.call(
        "segment_reduce", g.reshape(data, (dims.product((batch, rows)), *rest)), ids,
        None if initial is None else g.scalar(initial, data),
        reduction="sum" if reduction == "mean" else reduction, num_segments=batch * parts,
    ))
    if reduction == "mean":
        begin, end = (Term(g, v) for v in neighbours(g, bounds, 1))
        given = (end - begin).reshape(batch * parts, *(1,) * len(rest)).cast(data.dtype)
        total = (given > 0).where(total / given, math.nan if initial is None else initial)
    return g.reshape(total.value, (*lead, parts, *rest))
