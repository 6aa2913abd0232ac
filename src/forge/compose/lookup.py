"""Tables of keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dtypes
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


def mapped(g: Composer, x: Value, keys: np.ndarray, values: np.ndarray, default: Any) -> Value:
    """The value of the last key that equals each element; the default where there is none.

    Raises:
        OpAttributeInvalid: keys and elements are of different types.
    """
    if dtypes.canonical(keys.dtype) != x.dtype:
        raise g.invalid(f"got {x.dtype} elements and {dtypes.canonical(keys.dtype)} keys; expected equal types")
    last = {key: position for position, key in enumerate(keys.tolist())}
    chosen = values[list(last.values())]
    table = g.constant(np.concatenate([chosen, np.array([default], values.dtype)]))
    return g.call("take", table, _places(g, x, keys[list(last.values())]), axis=0)


def _places(g: Composer, x: Value, keys: np.ndarray) -> Value:
    """Positions of elements among different keys; the number of keys for others."""
    if x.dtype == "string":
        return g.call("string.lookup", x, g.constant(keys.astype(object)))
    if not len(keys):
        return g.call("zeros_like", g.cast(x, "int64"))
    order = np.argsort(keys, kind="stable")
    ascending = g.constant(keys[order])
    place = g.call("searchsorted", ascending, x)
    found = g.call("take", ascending, place, axis=0)
    hit = g.call("equal", found, x)
    if dtypes.is_float(x.dtype):
        hit = g.call("logical_or", hit, g.call("logical_and", g.call("isnan", found), g.call("isnan", x)))
    positions = g.call("take", g.constant(order.astype(np.int64)), place, axis=0)
    return g.call("where", hit, positions, g.constant(len(keys), "int64"))
