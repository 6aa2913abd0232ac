"""ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Callable

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


def _argument(op: str) -> Callable[..., Value]:
    def convert(g: Context, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
        found = g.call(op, x, axis=(axis,), keepdims=bool(keepdims), select_last_index=bool(select_last_index))
        return g.cast(found, "int64")

    return convert


for _name, _op in (("ArgMax", "argmax"), ("ArgMin", "argmin")):
    converts(_name, introduced={"select_last_index": 12})(_argument(_op))
