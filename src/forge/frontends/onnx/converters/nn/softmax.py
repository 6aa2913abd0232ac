"""Softmax, its logarithm, and Hardmax."""

from __future__ import annotations

from collections.abc import Callable

from forge import dims
from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


def _flattened_softmax(op: str) -> Callable[..., Value]:
    """Before opset 13: over all axes from ``axis`` on together."""

    def convert(g: Context, x: Value, *, axis: int = 1) -> Value:
        first = g.axis(axis, x.rank)
        if first == x.rank - 1:
            return g.call(op, x, axis=-1)
        rows, columns = dims.product(x.shape[:first]), dims.product(x.shape[first:])
        return g.reshape(g.call(op, g.reshape(x, (rows, columns)), axis=-1), x.shape)

    return convert


for _name, _op in (("Softmax", "nn.softmax"), ("LogSoftmax", "nn.log_softmax")):
    converts(_name, since=1)(_flattened_softmax(_op))
    converts(_name, since=13)(forwarding(_op, axis=-1))


def hard_maximum(g: Context, x: Value, axis: int) -> Value:
    """1 at the first largest element along ``axis``, 0 elsewhere."""
    axis = g.axis(axis, x.rank)
    first = g.call("argmax", x, axis=(axis,), keepdims=True)
    along = [1] * x.rank
    along[axis] = x.shape[axis]
    bounds = (g.constant(v, first.dtype) for v in (0, 1))
    start, step = bounds
    stop = g.extent(x, axis, first.dtype)
    positions = g.reshape(g.call("arange", start, stop, step, dtype=first.dtype), along)
    return g.cast(g.call("equal", positions, first), x.dtype)


@converts("Hardmax", since=1)
def hardmax_1(g: Context, x: Value, *, axis: int = 1) -> Value:
    first = g.axis(axis, x.rank)
    flat = g.reshape(x, (dims.product(x.shape[:first]), dims.product(x.shape[first:])))
    return g.reshape(hard_maximum(g, flat, -1), x.shape)


converts("Hardmax", since=13)(forwarding(hard_maximum, axis=-1))
