"""Operators that write by index."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.index.gather import index_vectors_first
from forge.frontends.onnx.registry import converts

_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@converts("Scatter", since=9, lacks=("reduction",))
@converts("ScatterElements", since=11, introduced={"reduction": 16})
def scatter_elements(g: Context, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    kind = _reduction(g, reduction)
    return g.call("scatter_elements", x, indices, updates, axis=g.axis(axis, x.rank), reduction=kind)


@converts("ScatterND", since=11, introduced={"reduction": 16})
def scatter_nd(g: Context, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    return g.call("scatter_nd", x, index_vectors_first(g, indices), updates, mode=_reduction(g, reduction))


def _reduction(g: Context, name: str) -> str:
    if name not in _REDUCTIONS:
        raise g.invalid(f"attribute 'reduction': got {name!r}; expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]
