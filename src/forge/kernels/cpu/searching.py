"""Binary search in sorted rows."""

from __future__ import annotations

from forge import dtypes
from forge.loops import Cell, axes, bit_length, bound, clamped, parallel_nest, places
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Let, Stmt, loop, seq


def _goes_before(element: Expr, value: Expr, right: bool) -> Expr:
    """Whether ``value`` is inserted after ``element``; NaN is larger than every number."""
    hit = element <= value if right else element < value
    if not dtypes.is_float(value.dtype):
        return hit
    below_nan = E.const(True, "bool") if right else E.logical_not(E.call("isnan", element))
    return E.binary("or", hit, E.logical_and(E.call("isnan", value), below_nan))


@kernel("searchsorted")
def searchsorted(call: KernelCall) -> Function:
    """Family of ``searchsorted``: operands sorted (.., n) or (n), values (.., m) of any shape if sorted is one row; attribute
    right. Every step halves the range [low, low + size) that the place lies in; there are as many as n has bits.
    """
    ordered, values = call.readers
    (result,) = call.results
    loops = axes(values.shape)
    at = places(loops)
    batch = at[:-1] if len(ordered.shape) > 1 else []
    extent, low, size = ordered.shape[-1], Cell("low"), Cell("size")
    value, lets = E.Var(values.dtype, 1, "value"), list[Stmt]()
    count, left = bound(size.value, lets, "count"), bound(low.value, lets, "left")
    half = bound(count // 2, lets, "half")
    middle = bound(left + half, lets, "middle")
    element = ordered.read((*batch, clamped(middle, extent)))
    after = E.logical_and(_goes_before(element, value, call.attrs.right), count > 0)
    step = seq(
        lets,
        low.set(E.select(after, middle + 1, left)),
        size.set(E.select(after, count - half - 1, half)),
    )
    body = seq(
        low.allocate(),
        size.allocate(),
        Let(value, values.read(at)),
        low.set(0),
        size.set(extent),
        loop(E.var("step"), bit_length(extent), step),
        result.write(at, E.cast(low.value, result.dtype)),
    )
    return call.function(parallel_nest(loops, body, E.const(64)))
