"""Binary search in sorted rows."""

from __future__ import annotations

from forge import dtypes
from forge.loops import Loop, parallel_nest
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, Let, loop, seq, store


def _goes_before(element: Expr, value: Expr, right: bool) -> Expr:
    """Whether ``value`` is inserted after ``element``; NaN is larger than every number."""
    hit = element <= value if right else element < value
    if not dtypes.is_float(value.dtype):
        return hit
    return E.binary("or", hit, E.logical_and(E.call("isnan", value), _below_nan(element, right)))


def _below_nan(element: Expr, right: bool) -> Expr:
    return E.const(True, "bool") if right else E.logical_not(E.call("isnan", element))


@kernel("searchsorted")
def searchsorted(call: KernelCall) -> Function:
    """Family of ``searchsorted``: operands sorted (.., n) or (n), values (.., m) of any shape if sorted is one row; attribute
    right. Every step halves the range [low, low + size) that the place lies in; there are as many as n has bits.
    """
    ordered, values = call.readers
    (result,) = call.results
    loops = [Loop(E.var(f"i{k}"), extent) for k, extent in enumerate(values.shape)]
    at: list[Expr] = [x.var for x in loops]
    batch = at[:-1] if len(ordered.shape) > 1 else []
    extent, zero = ordered.shape[-1], E.const(0)
    low, size = (Buffer(name, "int64", (E.const(1),), scope="local") for name in ("low", "size"))
    value, middle = E.Var(values.dtype, 1, "value"), E.var("middle")
    half, left, count = E.var("half"), E.var("left"), E.var("count")
    safe = E.binary("max", E.binary("min", middle, extent - 1), zero)
    after = E.logical_and(_goes_before(ordered.read((*batch, safe)), value, call.attrs.right), count > 0)
    step = seq(
        Let(count, E.load(size, zero)),
        Let(left, E.load(low, zero)),
        Let(half, count // 2),
        Let(middle, left + half),
        store(low, zero, E.select(after, middle + 1, left)),
        store(size, zero, E.select(after, count - half - 1, half)),
    )
    steps = E.const(64) - E.call("clz", extent) if not isinstance(extent, E.Const) else E.const(int(extent.value).bit_length())  # type: ignore[arg-type]
    body = seq(
        Allocate(low),
        Allocate(size),
        Let(value, values.read(at)),
        store(low, zero, zero),
        store(size, zero, extent),
        loop(E.var("step"), steps, step),
        result.write(at, E.cast(E.load(low, zero), result.dtype)),
    )
    return call.function(parallel_nest(loops, body, E.const(64)))
