"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


def _reduction(op: str, before: str = "", after: str = "") -> Callable[..., Value]:
    """A reduction between two elementwise steps; over no axes at all, only these steps are done."""

    def convert(g: Context, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
        name = {"max": "any", "min": "all"}.get(op, op) if x.dtype == "bool" else op
        axes = None if axes is None or axes.shape == (0,) else axes
        if before == "square":
            x = g.call("multiply", x, x)
        elif before:
            x = g.call(before, x)
        if axes is not None or not noop_with_empty_axes:
            known = g.ints(axes)
            x = g.call(name, x, axes if known is None else None, axis=known, keepdims=bool(keepdims))
        return g.call(after, x) if after else x

    return convert


_REDUCTIONS = {
    "ReduceL1": _reduction("sum", before="abs"),
    "ReduceL2": _reduction("sum", before="square", after="sqrt"),
    "ReduceLogSum": _reduction("sum", after="log"),
    "ReduceLogSumExp": _reduction("logsumexp"),
    "ReduceMax": _reduction("max"),
    "ReduceMean": _reduction("mean"),
    "ReduceMin": _reduction("min"),
    "ReduceProd": _reduction("prod"),
    "ReduceSum": _reduction("sum"),
    "ReduceSumSquare": _reduction("sum", before="square"),
}
for _name, _function in _REDUCTIONS.items():
    _since = 13 if _name == "ReduceSum" else 18
    converts(_name, introduced={"noop_with_empty_axes": _since}, attribute_before={"axes": _since})(_function)


def _argument(op: str) -> Callable[..., Value]:
    def convert(g: Context, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
        found = g.call(op, x, axis=(axis,), keepdims=bool(keepdims), select_last_index=bool(select_last_index))
        return g.cast(found, "int64")

    return convert


for _name, _op in (("ArgMax", "argmax"), ("ArgMin", "argmin")):
    converts(_name, introduced={"select_last_index": 12})(_argument(_op))
