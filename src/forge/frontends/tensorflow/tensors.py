"""Constants of TensorFlow's models as arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import ImportModelError
from forge.frontends.tensorflow.messages import dtype_of

MAX_BYTES = 1 << 33
"""Of one tensor."""
_FIELDS = {
    "float32": "float_val", "float64": "double_val", "int32": "int_val", "uint8": "int_val", "int16": "int_val",
    "int8": "int_val", "uint16": "int_val", "int4": "int_val", "uint4": "int_val", "complex64": "scomplex_val",
    "int64": "int64_val", "bool": "bool_val", "bfloat16": "half_val", "float16": "half_val", "complex128": "dcomplex_val",
    "uint32": "uint32_val", "uint64": "uint64_val", "string": "string_val",
}


def array_of(tensor: Any) -> np.ndarray:
    """The contents of a ``TensorProto``.

    Raises:
        ImportModelError: it has too few elements, or too many, or is of a type that has none.
    """
    dtype = dtype_of(tensor.dtype)
    if tensor.tensor_shape.unknown_rank or any(d.size < 0 for d in tensor.tensor_shape.dim):
        raise ImportModelError("a constant has sizes that are not known; the model is invalid")
    shape = tuple(d.size for d in tensor.tensor_shape.dim)
    count = math.prod(shape)
    if dtype in ("resource", "variant"):
        raise ImportModelError(f"got a constant of {dtype}; expected numbers or texts")
    kind = object if dtype == "string" else dtypes.numpy_dtype(dtype)
    if count * np.dtype(kind).itemsize > MAX_BYTES:
        raise ImportModelError(f"got a constant of sizes {shape}; expected at most {MAX_BYTES} bytes; the model is damaged")
    if tensor.tensor_content and dtype != "string":
        return from_bytes(tensor.tensor_content, dtype, shape)
    if dtype in ("float8_e5m2", "float8_e4m3fn"):
        return from_bytes(tensor.float8_val, dtype, shape)
    given = _values(tensor, dtype)
    if len(given) > count or not len(given) and count and dtype == "string":
        raise ImportModelError(f"a constant has {len(given)} elements for sizes {shape}; the model is invalid")
    if len(given) == count:
        return given.reshape(shape)
    # The last element stands for all that follow, zero where there is none.
    if len(given) <= 1:
        value = given[0] if len(given) else np.zeros((), kind)[()]
        return np.broadcast_to(np.array(value, kind), shape)
    return np.concatenate([given, np.full(count - len(given), given[-1], kind)]).reshape(shape)


def _values(tensor: Any, dtype: str) -> np.ndarray:
    values = getattr(tensor, _FIELDS[dtype])
    if dtype == "string":
        found = np.empty(len(values), object)
        found[:] = [_decoded(value) for value in values]
        return found
    if dtype in ("float16", "bfloat16"):
        return np.array(values, np.int64).astype(np.uint16).view(dtypes.numpy_dtype(dtype))
    if dtype in ("complex64", "complex128"):
        parts = np.array(values, np.float32 if dtype == "complex64" else np.float64)
        if len(parts) % 2:
            raise ImportModelError("a complex constant has an odd number of parts; the model is invalid")
        return parts.view(dtype)
    wide = np.array(values) if len(values) else np.zeros(0, np.int64)
    return wide.astype(dtypes.numpy_dtype(dtype))


def _decoded(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ImportModelError("a constant has a text that is not UTF-8; expected texts of that encoding") from error


def from_bytes(data: bytes | memoryview, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array of its elements in little-endian order.

    Raises:
        ImportModelError: there are not as many.
    """
    kind = dtypes.numpy_dtype(dtype)
    wanted = math.prod(shape) * kind.itemsize
    if len(data) != wanted:
        raise ImportModelError(
            f"a tensor of {dtype} with sizes {shape} has {len(data)} bytes; expected {wanted}; the model is damaged")
    return np.frombuffer(data, kind).reshape(shape)
