"""PyTorch's promotion of element types."""

from __future__ import annotations

from types import MappingProxyType

from forge.frontends.promotion import Promotion

_FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
_HALVES = ("float16", "bfloat16")

TORCH = Promotion("PyTorch", MappingProxyType({
    "bool": ("uint8", "int8"),
    "uint8": ("uint16", "int16"), "uint16": ("uint32", "int32"), "uint32": ("uint64", "int64"), "uint64": ("int64",),
    "int8": ("int16",), "int16": ("int32",), "int32": ("int64",), "int64": _FLOAT8,
    **dict.fromkeys(_FLOAT8, _HALVES), **dict.fromkeys(_HALVES, ("float32",)),
    "float32": ("float64", "complex64"), "float64": ("complex128",), "complex64": ("complex128",),
}), ("bool", "int64", "float32", "complex64"), scalars_yield=True)  # fmt: skip
"""Also of unsigned types and floats of 8 bits, which torch promotes only together with some others."""
