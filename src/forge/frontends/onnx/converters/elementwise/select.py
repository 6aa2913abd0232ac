"""Where and Clip."""

from __future__ import annotations

import numpy as np

from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

converts("Where", since=9)(forwarding("where", 3))


def _is_one_float(array: np.ndarray) -> bool:
    """Whether an array is one number which an attribute, a float64, can hold: large integers may not be."""
    return array.size == 1 and (array.dtype.kind not in "iu" or float(array.item()) == array.item())


@converts("Clip", since=1)
def clip_1(g: Context, x: Value, *, max: float = 3.4028235e38, min: float = -3.4028235e38) -> Value:  # noqa: A002
    return g.call("clip", x, a_min=min, a_max=max)


@converts("Clip", since=11)
def clip(g: Context, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    if low is None and high is None:
        return x
    bounds = [None if v is None else g.array(v) for v in (low, high)]
    known = [b is None or _is_one_float(b) for b in bounds]
    if all(k and (b is not None or v is None) for k, b, v in zip(known, bounds, (low, high))):
        a_min, a_max = (None if b is None else b.reshape(()).item() for b in bounds)
        return g.call("clip", x, a_min=a_min, a_max=a_max)
    low, high = (None if v is None else g.reshape(v, ()) for v in (low, high))
    return g.call("clip", x, low, high, a_min=None, a_max=None)
