"""Element types: as onnxruntime writes them (``tensor(float)``), as ONNX numbers them, and as NumPy has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.errors import OptionError
from forge_runtime.arrays import numpy_dtype

Array = np.ndarray[Any, Any]

_DTYPES = (
    *("", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64", "uint32"),
    *("uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    *("uint4", "int4", "float4_e2m1fn", "float8_e8m0fnu", "uint2", "int2"),
)
"""At its ``onnx.TensorProto.DataType``, each element type as Forge calls it."""

_WORDS = {"float32": "float", "float64": "double", "float4_e2m1fn": "float4e2m1", "float8_e8m0fnu": "float8e8m0"}


def word(dtype: str) -> str:
    """What onnxruntime calls an element type of Forge."""
    return _WORDS.get(dtype, dtype.replace("_", ""))


def word_of_code(code: int) -> str:
    """What onnxruntime calls the element type that ONNX gives this number."""
    return word(_DTYPES[code]) if 0 < code < len(_DTYPES) else "undefined"


def name_of(array: Array) -> str:
    """The element type of an array as Forge calls it."""
    return "string" if array.dtype.kind in "OUST" else array.dtype.name


def code_of(array: Array) -> int:
    return _DTYPES.index(name_of(array))


def dtype_of(given: object, where: str) -> np.dtype[Any]:
    """The NumPy type of ``given``: such a type, its name, or ONNX's number.

    Raises:
        OptionError: it is none of these.
    """
    if isinstance(given, int) and 0 < given < len(_DTYPES):
        return numpy_dtype(_DTYPES[given])
    try:
        if given is None or isinstance(given, int):
            raise TypeError
        return np.dtype(given)  # type: ignore[call-overload, no-any-return]
    except TypeError as error:
        expected = "a type of NumPy such as numpy.float32, or a number of onnx.TensorProto.DataType"
        raise OptionError(f"{where}: element type; got {given!r}; expected {expected}") from error
