"""Reductions, softmax and its relatives."""

from __future__ import annotations

from collections.abc import Callable

from forge import dims
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

Reduce = Callable[[Context, Value, dict[str, object] | None, Value | None], Value]


def _reduce(op: str, before: str = "", after: str = "") -> Reduce:
    """A reduction between two elementwise steps; without attributes only these steps are done."""

    def apply(g: Context, x: Value, attributes: dict[str, object] | None, axes: Value | None) -> Value:
        name = {"max": "any", "min": "all"}.get(op, op) if x.dtype == "bool" else op
        if before == "square":
            x = g.call("multiply", x, x)
        elif before:
            x = g.call(before, x)
        reduced = x if attributes is None else g.call(name, x, axes, **attributes)
        return g.call(after, reduced) if after else reduced

    return apply


_REDUCTIONS = {
    "ReduceL1": (_reduce("sum", before="abs"), 18),
    "ReduceL2": (_reduce("sum", before="square", after="sqrt"), 18),
    "ReduceLogSum": (_reduce("sum", after="log"), 18),
    "ReduceLogSumExp": (_reduce("logsumexp"), 18),
    "ReduceMax": (_reduce("max"), 18),
    "ReduceMean": (_reduce("mean"), 18),
    "ReduceMin": (_reduce("min"), 18),
    "ReduceProd": (_reduce("prod"), 18),
    "ReduceSum": (_reduce("sum"), 13),
    "ReduceSumSquare": (_reduce("sum", before="square"), 18),
}


def _with_attribute(reduce: Reduce) -> Callable[..., Value]:
    def convert(g: Context, x: Value, *, axes: tuple[int, ...] | None = None, keepdims: int = 1) -> Value:
        return reduce(g, x, {"axis": axes or None, "keepdims": bool(keepdims)}, None)

    return convert


def _with_operand(reduce: Reduce) -> Callable[..., Value]:
    def convert(g: Context, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
        keep = {"keepdims": bool(keepdims)}
        empty = axes is None or axes.shape == (0,)
        if empty and noop_with_empty_axes:
            return reduce(g, x, None, None)
        if empty:
            return reduce(g, x, {"axis": None, **keep}, None)
        known = g.ints(axes)
        if known is not None:
            return reduce(g, x, {"axis": known, **keep}, None)
        return reduce(g, x, {"axis": None, **keep}, axes)

    return convert


for _name, (_function, _operand_since) in _REDUCTIONS.items():
    converts(_name, since=1)(_with_attribute(_function))
    converts(_name, since=_operand_since)(_with_operand(_function))


def _argument(op: str) -> Callable[..., Value]:
    def convert(g: Context, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
        found = g.call(op, x, axis=(axis,), keepdims=bool(keepdims), select_last_index=bool(select_last_index))
        return g.cast(found, "int64")

    return convert


for _name, _op in (("ArgMax", "argmax"), ("ArgMin", "argmin")):
    converts(_name, introduced={"select_last_index": 12})(_argument(_op))


def _softmax(op: str) -> Callable[..., Value]:
    def convert(g: Context, x: Value, *, axis: int = -1) -> Value:
        return g.call(op, x, axis=axis)

    return convert


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
    converts(_name, since=13)(_softmax(_op))


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


@converts("Hardmax", since=13)
def hardmax(g: Context, x: Value, *, axis: int = -1) -> Value:
    return hard_maximum(g, x, axis)
