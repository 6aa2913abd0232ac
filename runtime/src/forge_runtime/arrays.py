"""Element types and NumPy arrays at the border of native code.

Native code reads arrays through the buffer protocol. Types that only ``ml_dtypes`` knows (bfloat16, float8, four and
two bits) have no buffer format; they cross the border as views of unsigned integers of the same size.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from forge_runtime.errors import ArtifactError, InputError

Array = np.ndarray[Any, Any]

_PLAIN = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_EXTENDED = {
    "bfloat16": "uint16",
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), "uint8"),
    **dict.fromkeys(("float4_e2m1fn", "int2", "uint2", "int4", "uint4"), "uint8"),
}


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an element type.

    Raises:
        ArtifactError: the type is unknown, or needs the package ``ml_dtypes``, which is not installed.
    """
    if name in _PLAIN:
        return np.dtype(name)
    if name not in _EXTENDED:
        raise ArtifactError(f"model: unknown element type {name!r}; expected one of {', '.join((*_PLAIN, *_EXTENDED))}")
    try:
        import ml_dtypes
    except ImportError as error:
        raise ArtifactError(f"model: its element type {name} needs ml_dtypes; pip install ml_dtypes") from error
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def output_dtypes(name: str) -> tuple[np.dtype[Any], np.dtype[Any] | None]:
    """The dtype whose buffer holds ``name``, and the one to view it as afterwards (None: the same)."""
    if name in _EXTENDED:
        return np.dtype(_EXTENDED[name]), numpy_dtype(name)
    return numpy_dtype(name), None


def _as_array(obj: object, where: str) -> Array:
    """``obj`` as an array that shares its memory where the object allows it."""
    try:
        if isinstance(obj, np.ndarray):
            return np.asarray(obj)
        if hasattr(obj, "__dlpack__"):
            return np.from_dlpack(obj)
        if hasattr(obj, "__array__"):
            return np.asarray(obj)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{where}: cannot be read as an array: {error}") from error
    raise InputError(f"{where}: not an array; got {type(obj).__name__}; expected a NumPy array or an object with __dlpack__")


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.isnative else f"{dtype.name} of foreign byte order"


def _storage_view(array: Array, dtype: str) -> Array:
    return array.view(_EXTENDED[dtype]) if dtype in _EXTENDED else array


def adapt_input(obj: object, model: str, name: str, dtype: str) -> Array:
    """An array over the elements of ``obj`` whose buffer native code can read.

    Raises:
        InputError: ``obj`` is no array, or its dtype is not exactly ``dtype``: nothing is converted silently.
    """
    where = f"model '{model}': input '{name}'"
    array = _as_array(obj, where)
    if _dtype_name(array.dtype) != dtype:
        raise InputError(
            f"{where}: wrong dtype; got {_dtype_name(array.dtype)}; expected {dtype}; convert it, nothing is converted silently"
        )
    return _storage_view(array, dtype)


def check_output(given: object, model: str, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """The array to write an output into; ``-1`` in ``shape`` stands for a size known only after the run.

    Raises:
        InputError: not a writable C-contiguous array of that dtype and shape.
    """
    where = f"model '{model}': output '{name}'"
    if not isinstance(given, np.ndarray):
        raise InputError(f"{where}: got {type(given).__name__}; expected a NumPy array or None")
    if -1 in shape:
        raise InputError(f"{where}: its size depends on data, shape {list(shape)}; expected None: the runtime allocates it")
    if _dtype_name(given.dtype) != dtype or given.shape != shape:
        raise InputError(
            f"{where}: wrong array; got {_dtype_name(given.dtype)} {list(given.shape)}; expected {dtype} {list(shape)}"
        )
    if not (given.flags.c_contiguous and given.flags.writeable and given.flags.aligned):
        raise InputError(f"{where}: the array must be C-contiguous, aligned and writable; pass np.empty(shape, dtype)")
    return _storage_view(given, dtype)


def copy_contiguous(array: Array) -> Array:
    """An aligned C-contiguous copy."""
    return np.array(array, order="C", copy=True)


def from_memory(memory: Any, dtype: str, shape: tuple[int, ...]) -> Array:
    """An array over a buffer that native code allocated."""
    storage, view = output_dtypes(dtype)
    array: Array = np.ndarray(shape, storage, buffer=memory)
    return array if view is None else array.view(view)
