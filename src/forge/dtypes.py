"""Element types: canonical names, NumPy equivalents, ranges.

A dtype is a string everywhere in Forge, one of ``NAMES``. ``bfloat16``, the float8 family, ``float4_e2m1fn`` and the
sub-byte integers are NumPy types through ``ml_dtypes``. ``string`` is Unicode text (NumPy object arrays of ``str``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

DType = str

_INT_BITS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)}
_FLOAT_BITS = {
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float4_e2m1fn": 4,
}
_COMPLEX_BITS = {"complex64": 64, "complex128": 128}
_COMPLEX_PARTS = {"complex64": "float32", "complex128": "float64"}
_BITS = {"bool": 8, **_INT_BITS, **_FLOAT_BITS, **_COMPLEX_BITS}

STRING_SIZE = 16

NAMES: tuple[str, ...] = (*_BITS, "string")

_finfo: Any = ml_dtypes.finfo

_ALIASES = {
    "float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64", "bool_": "bool",
    "uint1": "bool", "str": "string", "object": "string", "bf16": "bfloat16", "f16": "float16", "f32": "float32",
    "f64": "float64",
}  # fmt: skip

# What a long chain of roundings is computed in where that costs little; numbers of 64 bits have none wider.
WIDER = {"float32": "float64", "complex64": "complex128"}


def canonical(dtype: Any) -> DType:
    """The canonical name of a dtype given as a name, alias, NumPy dtype or scalar type.

    Raises:
        TypeError: it names no element type of Forge.
    """
    name = _ALIASES.get(dtype, dtype) if isinstance(dtype, str) else _numpy_name(dtype)
    if name not in NAMES:
        raise TypeError(f"unknown dtype {dtype!r}; expected one of: {', '.join(NAMES)}")
    return name


def _numpy_name(dtype: Any) -> str:
    if dtype is None:  # which NumPy takes for float64
        return "None"
    return _described(np.dtype(dtype))


@cache
def _described(dtype: np.dtype[Any]) -> str:
    """The name; NumPy makes the text anew each time, and every constant asks."""
    return "string" if dtype.kind in "UOT" else dtype.name


@cache
def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that holds elements of ``dtype``, one element an item.

    Raises:
        TypeError: ``dtype`` is not one of ``NAMES``.
    """
    if dtype not in NAMES:
        raise TypeError(f"unknown dtype {dtype!r}; expected one of: {', '.join(NAMES)}")
    if dtype == "string":
        return np.dtype(object)
    scalar: type[Any] = getattr(np, dtype) if hasattr(np, dtype) else getattr(ml_dtypes, dtype)
    return np.dtype(scalar)


def is_integer(dtype: DType) -> bool:
    """Signed or unsigned integer; bool is not one."""
    return dtype in _INT_BITS


def is_signed(dtype: DType) -> bool:
    return dtype.startswith("int") and dtype in _INT_BITS


def is_unsigned(dtype: DType) -> bool:
    return dtype.startswith("uint")


def is_float(dtype: DType) -> bool:
    return dtype in _FLOAT_BITS


def is_complex(dtype: DType) -> bool:
    return dtype in _COMPLEX_BITS


def part(dtype: DType) -> DType:
    """The float type of the real and the imaginary part of a complex type."""
    return _COMPLEX_PARTS[dtype]


def complex_of(dtype: DType) -> DType:
    """The complex type whose parts have a float type; narrow floats give complex64, as in NumPy."""
    return "complex128" if dtype == "float64" else "complex64"


def bits(dtype: DType) -> int:
    """Bits of one element as stored by NumPy for types of a byte and more; of the value for sub-byte types."""
    if dtype not in _BITS:
        raise TypeError(f"{dtype} has no fixed size")
    return _BITS[dtype]


def itemsize(dtype: DType) -> int:
    """Bytes of one element in memory of compiled code (sub-byte types take a byte each, as in NumPy).

    A string is the address of its UTF-8 bytes and their number.
    """
    return STRING_SIZE if dtype == "string" else max(1, bits(dtype) // 8)


def alignment(dtype: DType) -> int:
    """Bytes that the address of an element is a multiple of."""
    return min(8, itemsize(dtype))


def integer_range(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    width = _INT_BITS[dtype]
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed(dtype) else (0, (1 << width) - 1)


def wrap_int(value: int, dtype: DType) -> int:
    """``value`` modulo two to the number of bits, in the range of ``dtype``."""
    low, high = integer_range(dtype)
    return (value - low) % (high - low + 1) + low


@cache
def represents(target: DType, source: DType) -> bool:
    """Whether every value of ``source`` is one of ``target``, infinities, NaN and signs of zeros too; False where unsure."""
    if source == target:
        return True
    if target == "float8_e8m0fnu" or is_complex(source) or is_complex(target) or "string" in (source, target):
        return False
    if is_float(source):
        return target in ("float32", "float64") and _float_contains(target, source)
    low, high = (0, 1) if source == "bool" else integer_range(source)
    if is_integer(target):
        return integer_range(target)[0] <= low and high <= integer_range(target)[1]
    return is_float(target) and _float_holds_integers(target, max(-low - 1, high))


def _float_contains(target: DType, source: DType) -> bool:
    wide, narrow = _finfo(numpy_dtype(target)), _finfo(numpy_dtype(source))
    return bool(wide.nmant >= narrow.nmant and wide.bits > narrow.bits)


def _float_holds_integers(target: DType, largest: int) -> bool:
    info = _finfo(numpy_dtype(target))
    return largest < 1 << (int(info.nmant) + 1) and largest + 1 <= float(info.max)


CLASSES: dict[str, Callable[[str], bool]] = {
    "any": lambda d: True,
    "bool": lambda d: d == "bool",
    "integer": is_integer,
    "float": is_float,
    "numeric": lambda d: is_integer(d) or is_float(d),
    "integer or bool": lambda d: is_integer(d) or d == "bool",
    "numeric or bool": lambda d: is_integer(d) or is_float(d) or d == "bool",
    "complex": is_complex,
    "numeric or complex": lambda d: is_integer(d) or is_float(d) or is_complex(d),
    "number or bool": lambda d: d != "string",
    "float or complex": lambda d: is_float(d) or is_complex(d),
    "index": lambda d: d in ("int32", "int64", "uint8", "int8", "int16", "uint16", "uint32", "uint64"),
}
"""Classes of element types, by what operators say that they accept."""


def belongs(dtype: str, accepted: str) -> bool:
    """Whether ``dtype`` is one of the ``members`` of ``accepted``."""
    return dtype in members(accepted)


@cache
def members(accepted: str) -> frozenset[str]:
    """The types of a class of ``CLASSES``, or those that are named, as in "int32 or int64"."""
    known = CLASSES.get(accepted)
    return frozenset(accepted.split(" or ")) if known is None else frozenset(filter(known, NAMES))
