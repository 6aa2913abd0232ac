"""Casts of floats that an integer type does not have."""

from __future__ import annotations

from forge import dtypes
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.elementwise.select import Clip

_WIDER = {"uint8": "int32", "int8": "int32", "uint16": "int32", "int16": "int32", "uint32": "int64", "uint64": "int64"}
"""Integers to which floats are made first, where all of these have the low bits that count."""


def wrapped(g: Composer, value: Value, dtype: str) -> Value:
    """Floats as integers of type ``dtype`` that keep the low bits of what the type does not have: -1.0 is 255 as uint8.

    So do PyTorch and onnxruntime on x86-64; the operator ``cast`` saturates.
    """
    wide = _WIDER.get(dtype)
    if wide is None or _is_between(value, *dtypes.integer_range(dtype)):
        return g.call("cast", value, dtype=dtype)
    low = g.call("cast", g.call("cast", value, dtype=wide), dtype=dtype)
    if dtype != "uint64":
        return low
    is_negative = g.call("less", value, g.scalar(0.0, value))
    return g.call("where", is_negative, low, g.call("cast", value, dtype=dtype))


def _is_between(value: Value, low: int, high: int) -> bool:
    """Whether a floating-point value is clipped to numbers from ``low`` to ``high``."""
    clip = Clip.of(value.producer)
    if clip is None or clip.min is not None or clip.max is not None or clip.attrs.a_min is None or clip.attrs.a_max is None:
        return False
    return low <= clip.attrs.a_min <= clip.attrs.a_max <= high
