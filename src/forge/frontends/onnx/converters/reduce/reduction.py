"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

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
        axes = None if axes is None or axes.shape == (0,) else axes
        if axes is None and noop_with_empty_axes:
            return reduce(g, x, None, None)
        known = g.ints(axes)
        return reduce(g, x, {"axis": known, "keepdims": bool(keepdims)}, axes if known is None else None)

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
