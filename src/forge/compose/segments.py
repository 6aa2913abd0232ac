"""Reductions of the rows that have the same number, as TensorFlow and TFLite have them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from forge import dims, dtypes
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


def counted(g: Composer, kind: str, data: Value, ids: Value, count: Value) -> Value:
    """``count`` segments. Numbers below 0 are of none; one without rows has the least or greatest finite number, 0 or 1.

    Args:
        kind: "sum", "prod", "max" or "min".
        ids: numbers for the first dimensions of ``data``.
    """
    known = g.dims(count)
    if known is None:
        raise g.unsupported("the number of segments is computed at run time; expected a constant")
    rest = data.shape[ids.rank :]
    rows = g.reshape(data, (dims.product(ids.shape), *rest))
    init = None
    if kind in ("max", "min"):
        type_ = dtypes.numpy_dtype(data.dtype)
        limits = ml_dtypes.finfo(type_) if dtypes.is_float(data.dtype) else np.iinfo(type_)  # type: ignore[no-untyped-call]
        init = g.constant(limits.min if kind == "max" else limits.max, data.dtype)
    return g.call("segment_reduce", rows, g.reshape(ids, (-1,)), init, reduction=kind, num_segments=known[0])


def ascending(g: Composer, kind: str, data: Value, ids: Value, init: Value | None = None) -> Value:
    """As many segments as the last number, which is the largest one, says."""
    known = g.ints(ids)
    if known is not None:
        return g.call("segment_reduce", data, ids, init, reduction=kind, num_segments=known[-1] + 1 if known else 0)
    return g.call("segment_reduce", data, ids, init, last_and_one(g, ids), reduction=kind)


def last_and_one(g: Composer, ids: Value) -> Value:
    """How many segments there are of numbers that ascend; 0 where there are none."""
    least = g.constant([-1], ids.dtype)
    last = g.call("max", g.call("concatenate", least, ids, axis=0), axis=(0,))
    return g.call("add", g.cast(last, "int64"), g.constant(1, "int64"))
