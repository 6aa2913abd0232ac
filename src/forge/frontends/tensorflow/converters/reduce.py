"""Reductions."""

from __future__ import annotations

import math

from forge.compose.axes import part
from forge.compose.linalg import conjugate
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

_OPS = {"All": "all", "Any": "any", "Max": "max", "Mean": "mean", "Min": "min", "Prod": "prod", "Sum": "sum"}


@converts(*_OPS)
def reduction(g: Context, x: Value, axis: Value, *, keep_dims: bool = False) -> Value:
    axes = g.axes_of(axis, x.rank)
    return g.call(_OPS[g.node.op], x, axis=axes, keepdims=keep_dims) if axes else x


@converts("EuclideanNorm")
def euclidean_norm(g: Context, x: Value, axis: Value, *, keep_dims: bool = False) -> Value:
    axes = g.axes_of(axis, x.rank)
    squares = g.call("multiply", x, conjugate(g, x))
    return g.call("sqrt", g.call("sum", squares, axis=axes, keepdims=keep_dims) if axes else squares)


@converts("L2Loss")
def l2_loss(g: Context, x: Value) -> Value:
    total = g.call("sum", g.call("multiply", x, x), axis=tuple(range(x.rank)))
    return g.call("multiply", total, g.scalar(0.5, x))


@converts("ArgMax", "ArgMin")
def arg_extreme(g: Context, x: Value, dimension: Value, *, output_type: str = "int64") -> Value:
    axis = g.axis(g.one_int(dimension, "dimension"), x.rank)
    x = g.cast(x, "uint8") if x.dtype == "bool" else x
    return g.cast(g.call("argmax" if g.node.op == "ArgMax" else "argmin", x, axis=axis), output_type)


@converts("Cumsum", "Cumprod", "CumulativeLogsumexp")
def cumulative(g: Context, x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    place = g.axis(g.one_int(axis, "axis"), x.rank)
    data = g.call("reverse", x, axis=place) if reverse else x
    if g.node.op == "CumulativeLogsumexp":
        found = g.call("logcumsumexp", data, axis=place)
        found = _one_later(g, found, place) if exclusive else found
    else:
        found = g.call("cumsum" if g.node.op == "Cumsum" else "cumprod", data, axis=place, exclusive=exclusive)
    return g.call("reverse", found, axis=place) if reverse else found


def _one_later(g: Context, x: Value, axis: int) -> Value:
    """``x`` with the logarithm of 0 at the front and without its last element along ``axis``."""
    lowest = g.constant(-math.inf, x.dtype)
    widths = tuple((int(k == axis), 0) for k in range(x.rank))
    return part(g, g.call("nn.pad", x, lowest, pad_width=widths), axis, 0, x.shape[axis])
