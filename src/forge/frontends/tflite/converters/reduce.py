"""Reductions."""

from __future__ import annotations

import math

from forge import dims
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import converts, moves
from forge.ir.nodes import Value

_REDUCTIONS = {
    "SUM": "sum", "MEAN": "mean", "REDUCE_PROD": "prod", "REDUCE_MAX": "max", "REDUCE_MIN": "min", "REDUCE_ANY": "any",
    "REDUCE_ALL": "all",
}


def _reduced(g: Context, x: Value, axes: Value, keep_dims: bool) -> Value:
    found = g.axes_of(axes, x.rank, "axes")
    return g.call(_REDUCTIONS[g.operator.name], x, axis=found, keepdims=keep_dims) if found else x


@converts("SUM", "MEAN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")
def reduction(g: Context, x: Value, axes: Value, *, keep_dims: bool = False) -> Value:
    if g.operator.name == "MEAN":
        sizes = [x.shape[axis] for axis in g.axes_of(axes, x.rank, "axes")]
        quantized.fixed_point(g, 0, count=math.prod(sizes) if dims.is_static(*sizes) else 1)
    return _reduced(g, x, axes, keep_dims)


@converts("REDUCE_MAX", "REDUCE_MIN")
@moves
def extreme(g: Context, x: Value, axes: Value, *, keep_dims: bool = False) -> Value:
    return _reduced(g, x, axes, keep_dims)


@converts("ARG_MAX", "ARG_MIN")
@moves
def arg_extreme(g: Context, x: Value, axis: Value, *, output_type: str = "float32") -> Value:
    (place,) = g.required_ints(axis, "axis")
    op = "argmax" if g.operator.name == "ARG_MAX" else "argmin"
    return g.cast(g.call(op, x, axis=(g.axis(place, x.rank),)), g.result().dtype)
