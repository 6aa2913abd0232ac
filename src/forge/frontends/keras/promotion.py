"""Keras's promotion of element types, which is that of JAX."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from forge import dtypes
from forge.frontends.keras.context import Context
from forge.frontends.promotion import Promotion
from forge.ir.nodes import Value

_HALVES = ("bfloat16", "float16")
FLOAT = "float32"
"""What integers are computed in."""

KERAS = Promotion("Keras", MappingProxyType({
    "bool": ("uint8", "int8"),
    "uint8": ("uint16", "int16"), "uint16": ("uint32", "int32"), "uint32": ("uint64", "int64"), "uint64": _HALVES,
    "int8": ("int16",), "int16": ("int32",), "int32": ("int64",), "int64": _HALVES, **dict.fromkeys(_HALVES, ("float32",)),
    "float32": ("float64", "complex64"), "float64": ("complex128",), "complex64": ("complex128",),
}), ("bool", "int32", FLOAT, "complex64"))  # fmt: skip


def value(g: Context, given: Any) -> Value:
    """An argument as a value: one already, an array, or numbers of Python."""
    if isinstance(given, Value):
        return given
    if isinstance(given, np.ndarray):
        return g.constant(given)
    if isinstance(given, bool | int | float):
        return g.constant(given, KERAS.number(given))
    if isinstance(given, list | tuple) and any(isinstance(item, Value) for item in given):
        return g.call("stack", *together(g, *given), axis=0)
    array = np.asarray(given)
    if array.dtype.kind not in "biuf":
        raise g.invalid(f"got {given!r}; expected a tensor")
    return g.constant(array, FLOAT if array.dtype.kind == "f" else "int32" if array.dtype.kind in "iu" else "bool")


def together(g: Context, *given: Any) -> list[Value]:
    """Arguments as values of the type to which Keras brings them; numbers of Python yield to tensors."""
    kept = [item if isinstance(item, Value | bool | int | float) else value(g, item) for item in given]
    dtype = KERAS.of(*kept)
    return [g.cast(item, dtype) if isinstance(item, Value) else g.constant(item, dtype) for item in kept]


def real(g: Context, given: Any) -> Value:
    """An argument as floating-point numbers."""
    found = value(g, given)
    return found if dtypes.is_float(found.dtype) or dtypes.is_complex(found.dtype) else g.cast(found, FLOAT)
