"""Slice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims
from forge.compose.checks import checked_divisor, checked_indices
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Slice", since=1, introduced={"steps": 10}, attribute_before=dict.fromkeys(("starts", "ends", "axes"), 10))
def slice_(g: Context, x: Value, starts: Value, ends: Value, axes: Value | None = None, steps: Value | None = None) -> Value:
    operands = _of_known_length(g, x, (starts, ends, axes, steps))
    known = [None if v is None else g.dims(v) for v in operands]
    axes_known, steps_known = (g.ints(v) for v in operands[2:])
    static = known[0] is not None and known[1] is not None
    if static and (axes is None or axes_known is not None) and (steps is None or steps_known is not None):
        return slice_of(g, x, known[0], known[1], axes_known, steps_known)  # type: ignore[arg-type]
    return _runtime_slice(g, x, operands, known)


def _of_known_length(g: Context, x: Value, operands: Sequence[Value | None]) -> list[Value | None]:
    """``operands`` with lengths that are known: that of any, which all have, or the rank of ``x``."""
    lengths = [v.shape[0] for v in operands if v is not None]
    if dims.is_static(*lengths):
        return list(operands)
    length = next((d for d in lengths if isinstance(d, int)), None)
    if length is not None:
        return [None if v is None else g.reshape(v, (length,)) for v in operands]
    starts, ends, axes, steps = operands
    if axes is not None:
        raise g.unsupported("axes: their number is known only at run time; expected a known one")

    def filled(value: Value | None, default: int) -> Value | None:
        if value is None:
            return None
        rest = g.constant(np.full(x.rank, default), value.dtype)
        return g.reshape(g.call("strided_slice", g.call("concatenate", value, rest), begin=(0,), end=(x.rank,)), (x.rank,))

    return [filled(starts, 0), filled(ends, 2**31 - 1), None, filled(steps, 1)]


def _runtime_slice(g: Context, x: Value, operands: Sequence[Value | None], known: Sequence[Sequence[Dim] | None]) -> Value:
    """What is known becomes an attribute, the rest stays an operand."""
    begin, end, axes, strides = (v if k is None else None for v, k in zip(operands, known))
    if axes is not None:
        axes = checked_indices(g, axes, x.rank, what="an axis")
    if strides is not None:
        strides = checked_divisor(g, strides, message="a step is 0; expected other steps")
    attributes = dict(zip(("begin", "end", "axes", "strides"), known))
    return g.call("strided_slice", x, begin, end, strides, axes, **attributes)


def slice_of(
    g: Context, x: Value, starts: Sequence[Dim], ends: Sequence[Dim], axes: Sequence[int] | None, steps: Sequence[int] | None
) -> Value:
    count = len(starts)
    chosen = range(count) if axes is None else axes
    if len(ends) != count or len(chosen) != count or (steps is not None and len(steps) != count):
        raise g.invalid(f"got {count} starts, {len(ends)} ends, {len(chosen)} axes; expected equal numbers")
    places = tuple(g.axis(a, x.rank, "axes") for a in chosen)
    strides = (1,) * count if steps is None else tuple(steps)
    if not count:
        return x
    return g.call("strided_slice", x, begin=tuple(starts), end=tuple(ends), strides=strides, axes=places)
