"""The bits of elements."""

from __future__ import annotations

import numpy as np

from forge import dims, dtypes
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


def bitcast(g: Composer, value: Value, dtype: str) -> Value:
    """The bytes of ``value`` as elements of ``dtype``; where these have another width, the last axis is longer or shorter."""
    if dtypes.is_complex(value.dtype):
        parts = g.call("stack", g.call("complex.real", value), g.call("complex.imag", value), axis=value.rank)
        value = g.reshape(parts, (*value.shape[:-1], value.shape[-1] * 2)) if value.rank else parts
    if dtypes.is_complex(dtype):
        pairs = bitcast(g, value, dtypes.part(dtype))
        pairs = g.reshape(pairs, (*pairs.shape[:-1], dims.floordiv(pairs.shape[-1], 2), 2))
        return g.call("complex.make", *(g.call("take", pairs, g.constant(k, "int64"), axis=pairs.rank - 1) for k in (0, 1)))
    old, new = (f"uint{max(8, dtypes.bits(name))}" for name in (value.dtype, dtype))
    words = g.call("cast", value, dtype=old) if value.dtype == "bool" else g.call("reinterpret", value, dtype=old)
    if old != new:
        few, many = sorted((dtypes.bits(old), dtypes.bits(new)))
        shifts = g.constant(np.arange(0, many, few), max(old, new, key=dtypes.bits))
        if dtypes.bits(new) == few:
            spread = g.call("logical_right_shift", g.call("expand_dims", words, axis=words.rank), shifts)
            words = g.reshape(g.call("cast", spread, dtype=new), (*words.shape[:-1], words.shape[-1] * (many // few)))
        else:
            groups = g.reshape(words, (*words.shape[:-1], dims.floordiv(words.shape[-1], many // few), many // few))
            words = g.call("sum", g.call("left_shift", g.call("cast", groups, dtype=new), shifts), axis=(words.rank,))
    return g.call("not_equal", words, g.scalar(0, words)) if dtype == "bool" else g.call("reinterpret", words, dtype=dtype)


def bitcast_elements(g: Composer, value: Value, dtype: str) -> Value:
    """`bitcast` where an element of another width is several along a new last axis, or stands for all along the last one."""
    width, wanted = (dtypes.itemsize(name) for name in (value.dtype, dtype))
    if width < wanted:
        if not dims.equal(value.shape[-1] if value.rank else 1, wanted // width):
            raise g.invalid(f"got {value.type} as {dtype}; expected {wanted // width} elements along the last axis")
        return g.call("squeeze", bitcast(g, value, dtype), axis=(value.rank - 1,))
    return bitcast(g, g.call("expand_dims", value, axis=value.rank) if width > wanted else value, dtype)
