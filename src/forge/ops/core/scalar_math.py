"""NumPy meanings of scalar arithmetic in its corner cases, shared by the operators' references.

Integer division and modulo by zero give 0, INT_MIN / -1 wraps, a shift by at least the width gives 0 (the sign for a
signed right shift), float to integer saturates with NaN -> 0. Narrow floats (16 bits and less) are computed in
float32 and rounded once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import ExecutionError
from forge.tir import evaluate

Array = np.ndarray[Any, Any]


def is_narrow_float(array: Array) -> bool:
    """Whether the elements are floats of 16 bits or less."""
    name = dtypes.canonical(array.dtype)
    return dtypes.is_float(name) and dtypes.bits(name) <= 16


def widen(array: Array) -> Array:
    """``array`` with narrow floats as float32."""
    return array.astype(np.float32) if is_narrow_float(array) else array


def widen_all(array: Array) -> Array:
    """``array`` with narrow floats as float32, complex64 as complex128."""
    return array.astype(np.complex128) if array.dtype == np.complex64 else widen(array)


def widest(array: Array) -> Array:
    """``array`` with floats as float64 and complex numbers as complex128, for sums of many terms."""
    if np.iscomplexobj(array):
        return array.astype(np.complex128)
    return array.astype(np.float64) if dtypes.is_float(dtypes.canonical(array.dtype)) else array


def is_integer(array: Array) -> bool:
    return dtypes.is_integer(dtypes.canonical(array.dtype))


def convert(array: Array, dtype: str, saturate: bool = True) -> Array:
    """Numeric conversion. To integers: from floats saturating, NaN -> 0, else wrapping. To float8: ``saturate`` maps
    overflow to the largest finite value. To bool: not equal to 0. Complex to real: the real part.
    """
    target = dtypes.numpy_dtype(dtype)
    source = dtypes.canonical(array.dtype)
    if source == dtype:
        return array
    if "string" in (source, dtype):
        return _convert_string(array, source, dtype, saturate)
    if dtype == "bool":
        return np.asarray(widen(array) != 0)
    if dtypes.is_complex(source) and not dtypes.is_complex(dtype):
        return convert(np.asarray(array.real), dtype, saturate)
    if dtypes.is_integer(dtype):
        return _to_integer(array, source, dtype)
    if is_tiny_float(dtype):
        return _to_tiny_float(array, dtype, saturate)
    return widen(array).astype(target)


def _to_integer(array: Array, source: str, dtype: str) -> Array:
    low, high = dtypes.integer_range(dtype)
    if dtypes.is_float(source):
        wide = array.astype(np.float64)
        whole = [0 if math.isnan(v) else low if v <= low else high if v >= high else int(v) for v in wide.ravel().tolist()]
        return np.array(whole, dtype=object).reshape(array.shape).astype(_storage(dtype)).astype(dtypes.numpy_dtype(dtype))
    if source == "bool":
        return array.astype(np.int8).astype(dtypes.numpy_dtype(dtype))
    bits = array.astype(np.int64) if dtypes.is_signed(source) else array.astype(np.uint64).view(np.int64)
    if dtypes.bits(dtype) >= 8:
        return bits.astype(dtypes.numpy_dtype(dtype))
    return ((bits - low) % (high - low + 1) + low).astype(np.int8).astype(dtypes.numpy_dtype(dtype))


def _storage(dtype: str) -> type[np.generic]:
    if dtypes.bits(dtype) < 8:
        return np.int8
    return dtypes.numpy_dtype(dtype).type


def is_tiny_float(dtype: str) -> bool:
    """Whether elements are floats of 8 bits or less."""
    return dtypes.is_float(dtype) and dtypes.bits(dtype) <= 8


def largest_finite(dtype: str) -> float:
    """The largest finite value of a float type."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtypes.numpy_dtype(dtype)).max)  # type: ignore[no-untyped-call]


def _to_tiny_float(array: Array, dtype: str, saturate: bool) -> Array:
    target = dtypes.numpy_dtype(dtype)
    wide = array.astype(np.float32)
    if not saturate:
        return wide.astype(target)
    limit = largest_finite(dtype)
    return np.clip(wide, -limit, limit).astype(target)


_INTEGER = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]+)")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE | re.ASCII)
_LONGEST_FLOAT, _LONGEST_INTEGER = 1023, 20


def _convert_string(array: Array, source: str, dtype: str, saturate: bool) -> Array:
    flat = array.ravel().tolist()
    if dtype == "string":
        result = np.empty(len(flat), dtype=object)
        result[:] = [_text(v, source) for v in flat]
        return result.reshape(array.shape)
    texts = [v.decode("utf-8", "surrogateescape") if isinstance(v, bytes) else str(v) for v in flat]
    if dtypes.is_integer(dtype):
        return np.array([parse_integer(v, dtype) for v in texts], dtypes.numpy_dtype(dtype)).reshape(array.shape)
    return convert(np.array([parse_float(v) for v in texts], np.float64).reshape(array.shape), dtype, saturate)


def parse_integer(text: str, dtype: str) -> int:
    """The integer that ``text`` is: a sign and decimal digits.

    Raises:
        ExecutionError: it is none, or out of the range of ``dtype``.
    """
    low, high = dtypes.integer_range(dtype)
    match = _INTEGER.fullmatch(text)
    if match is None or len(match["digits"]) > _LONGEST_INTEGER or not low <= int(match["sign"] + match["digits"]) <= high:
        raise ExecutionError(f"cast: the string {text[:40]!r} is not an integer of the type asked for; expected {low} to {high}")
    return int(match["sign"] + match["digits"])


def parse_float(text: str) -> float:
    """The number that ``text`` is: decimal, with or without exponent, or inf, infinity or nan.

    Raises:
        ExecutionError: it is none, or has too many characters.
    """
    if len(text) > _LONGEST_FLOAT or not _FLOAT.fullmatch(text):
        raise ExecutionError(f"cast: the string {text[:40]!r} is not a number of fewer than {_LONGEST_FLOAT + 1} characters")
    return float(text)


def float_text(value: float, digits: int) -> str:
    """At most so many significant digits, without trailing zeros; exponents as C has them."""
    return f"{value:.{digits}g}"


def _text(value: Any, source: str) -> str:
    if dtypes.is_float(source):
        return float_text(float(value), 8 if dtypes.bits(source) <= 32 else 17)
    return str(value)


def _integer(function: Callable[[int, int], int], a: Array, b: Array) -> Array:
    """``function`` of Python integers on every element, wrapped to the dtype."""
    dtype = dtypes.canonical(a.dtype)
    wrapped = np.frompyfunc(lambda x, y: dtypes.wrap_int(function(int(x), int(y)), dtype), 2, 1)
    return np.asarray(wrapped(a, b), dtype=object).astype(a.dtype)


def truncated_quotient(a: int, b: int) -> int:
    """``a / b`` rounded toward 0; 0 where ``b`` is 0."""
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def trunc_divide(a: Array, b: Array) -> Array:
    return _integer(truncated_quotient, a, b) if is_integer(a) else np.trunc(a / b)


def divide(a: Array, b: Array) -> Array:
    return _integer(truncated_quotient, a, b) if is_integer(a) else evaluate.divide(a, b)


def floor_divide(a: Array, b: Array) -> Array:
    return _integer(lambda x, y: x // y if y else 0, a, b) if is_integer(a) else np.floor_divide(a, b)


def floor_mod(a: Array, b: Array) -> Array:
    return _integer(lambda x, y: x % y if y else 0, a, b) if is_integer(a) else np.mod(a, b)


def trunc_mod(a: Array, b: Array) -> Array:
    return _integer(lambda x, y: x - y * truncated_quotient(x, y) if y else 0, a, b) if is_integer(a) else np.fmod(a, b)


def power(a: Array, b: Array) -> Array:
    """Integers wrap; a negative exponent gives 0, but for the bases 1 and -1."""
    return _integer(_whole_power, a, b) if is_integer(a) else np.power(a, b)


def _whole_power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return (a if b % 2 else 1) if abs(a) == 1 else 0


def left_shift(a: Array, b: Array) -> Array:
    width = dtypes.bits(dtypes.canonical(a.dtype))
    return _integer(lambda x, y: x << y if 0 <= y < width else 0, a, b)


def right_shift(a: Array, b: Array) -> Array:
    width = dtypes.bits(dtypes.canonical(a.dtype))
    return _integer(lambda x, y: x >> (y if 0 <= y < width else width), a, b)


_ERF = np.frompyfunc(math.erf, 1, 1)
_ERFC = np.frompyfunc(math.erfc, 1, 1)


def erf(x: Array) -> Array:
    return np.asarray(_ERF(x.astype(np.float64)), dtype=np.float64).astype(x.dtype)


def erfc(x: Array) -> Array:
    return np.asarray(_ERFC(x.astype(np.float64)), dtype=np.float64).astype(x.dtype)


def sigmoid(x: Array) -> Array:
    if np.iscomplexobj(x):
        return np.asarray(1 / (1 + np.exp(-x)))
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def softplus(x: Array) -> Array:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)
