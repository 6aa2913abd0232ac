"""Arrays that modules hold, which are read-only, and arrays as bytes and back, for files.

Bytes are little-endian and row-major; sub-byte elements take a byte each; strings are a JSON list.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from forge import dtypes
from forge.errors import InvalidGraphError


def held(value: Any) -> np.ndarray:
    """``value`` as modules hold it: in the machine's byte order, strings as objects, and not writable.

    It is a view where nothing has to be converted; the caller must not write to the array any more.

    Raises:
        TypeError: it has no element type of Forge.
    """
    array = np.asarray(value)
    array = np.asarray(array, dtypes.numpy_dtype(dtypes.canonical(array.dtype)))
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def checked(value: Any, where: str) -> np.ndarray:
    """`held`, for what may be no array at all.

    Raises:
        InvalidGraphError: it is not an array of one of Forge's element types; ``where`` begins the message.
    """
    try:
        array = held(value)
        if array.dtype == object and not all(isinstance(item, str) for item in array.flat):
            raise TypeError("an element is not a string")
    except (TypeError, ValueError) as error:
        problem = f"got {type(value).__name__}; expected an array of numbers or strings ({error})"
        raise InvalidGraphError(f"{where}: {problem}") from error
    return array


def taken_over(value: Any, where: str) -> np.ndarray:
    """`checked`, and copied unless the memory is read-only: the caller may keep writing to its array."""
    given = np.asarray(value) if isinstance(value, np.ndarray) or hasattr(value, "__array__") else value
    array = checked(given, where)
    owner: Any = given
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable and np.may_share_memory(owner, array):
            array = array.copy()
            array.flags.writeable = False
            break
        owner = owner.base
    return array


def identity(array: np.ndarray) -> Hashable:
    """A key that is equal for arrays over the same memory, while they live. Arrays of at most one byte have distinct keys."""
    if array.nbytes <= 1:  # Python has every string of one byte only once
        return id(array)
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def to_bytes(array: np.ndarray) -> bytes:
    """The contents of ``array``, without its dtype and shape."""
    if dtypes.canonical(array.dtype) == "string":
        return json.dumps([str(s) for s in array.ravel()]).encode()
    if array.dtype.kind in "iufc":
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(array).tobytes()


def from_bytes(data: bytes | memoryview, dtype: Any, shape: Any) -> np.ndarray:
    """The array whose ``to_bytes`` is ``data``; not writable.

    Raises:
        ValueError: the three do not fit each other.
    """
    if not isinstance(dtype, str) or dtype not in dtypes.NAMES:
        raise ValueError(f"got dtype {dtype!r}; expected one of {', '.join(dtypes.NAMES)}")
    if not isinstance(shape, list) or not all(type(d) is int and d >= 0 for d in shape):
        raise ValueError(f"got shape {shape!r}; expected a list of sizes")
    if dtype == "string":
        return _strings(data, shape)
    expected = math.prod(shape) * dtypes.itemsize(dtype)
    if len(data) != expected:
        raise ValueError(f"got {len(data)} bytes; expected {expected} for {dtype} of shape {shape}")
    raw = np.frombuffer(data, np.uint8)
    width = 1 if dtype == "bool" else dtypes.bits(dtype)
    if width < 8 and raw.size and int(raw.max()) >> width:
        raise ValueError(f"an element is not a {dtype}")
    return raw.view(dtypes.numpy_dtype(dtype)).reshape(shape)


def _strings(data: bytes | memoryview, shape: list[int]) -> np.ndarray:
    items = json.loads(bytes(data))
    if not isinstance(items, list) or len(items) != math.prod(shape) or not all(isinstance(s, str) for s in items):
        raise ValueError(f"strings do not fit shape {shape}")
    array = np.empty(len(items), object)
    array[:] = items
    array.flags.writeable = False
    return array.reshape(shape)
