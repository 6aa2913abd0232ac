"""Sequences (lists) and optionals (a value or None) at the border of native code.

They cross it as a handle: the address of a table of tensors, and its length (``forge_sequence``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forge_runtime import arrays
from forge_runtime.arrays import HANDLE, Array
from forge_runtime.errors import InputError

OBJECTS = ("sequence", "optional")

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    *("float8_e8m0fnu", "float4_e2m1fn", "int2", "uint2", "int4", "uint4", "string", "sequence", "optional"),
)
"""``forge_dtype``."""

_MAX_RANK = 8
_TENSOR = np.dtype([("data", "u8"), ("dtype", "i4"), ("ndim", "i4"), ("shape", "i8", (_MAX_RANK,)), ("capacity", "i8")])
"""``forge_tensor``."""


class _Kept(np.ndarray[Any, Any]):
    """An array that keeps what it points to alive."""

    kept: Any


def adapt_value(obj: object, model: str, name: str, dtype: str, detach: bool = False) -> Array:
    """What native code reads for an input: an array, or the handle of a sequence or an optional.

    Args:
        detach: tensors may require gradients.

    Raises:
        InputError: ``obj`` is no such value.
    """
    if detach:
        obj = _detached(obj)
    if dtype not in OBJECTS:
        return arrays.adapt_input(obj, model, name, dtype)
    where = f"model '{model}': input '{name}'"
    if dtype == "optional":
        return _handle([] if obj is None else [obj], where)
    if not isinstance(obj, list | tuple):
        raise InputError(f"{where}: got {type(obj).__name__}; expected a list of arrays")
    return _handle(obj, where)


def _detached(obj: Any) -> Any:
    """A tensor of torch, or a list of them, without gradients; anything else as it is."""
    if isinstance(obj, list | tuple):
        return [_detached(value) for value in obj]
    return obj.detach() if getattr(obj, "requires_grad", False) is True else obj


def _handle(values: list[Any] | tuple[Any, ...], where: str) -> Array:
    table = np.zeros(len(values), _TENSOR)
    kept = [_element(value, f"{where}, element {k}") for k, value in enumerate(values)]
    for row, (dtype, array) in zip(table, kept, strict=True):
        row["data"], row["dtype"], row["ndim"] = array.ctypes.data, DTYPES.index(dtype), array.ndim
        row["shape"][: array.ndim] = array.shape
        row["capacity"] = array.nbytes
    handle = np.zeros(3, np.int64)
    if values:
        handle[:2] = table.ctypes.data, len(values)
    result = np.ndarray.__new__(_Kept, (), HANDLE, handle)
    result.kept = table, kept
    return result


def _element(value: object, where: str) -> tuple[str, Array]:
    """The element's dtype and a contiguous array of what native code reads for it."""
    if isinstance(value, list | tuple):
        return "sequence", _handle(value, where)
    array = arrays.as_array(value, where)
    if array.ndim > _MAX_RANK:
        raise InputError(f"{where}: got {array.ndim} dimensions; expected at most {_MAX_RANK}")
    dtype = "string" if array.dtype.kind in "OUT" else array.dtype.name
    if dtype not in DTYPES:
        raise InputError(f"{where}: wrong dtype; got {dtype}; expected one of {', '.join(DTYPES[:-2])}")
    adapted = arrays.adapt_element(array, where, dtype)
    return dtype, adapted if adapted.flags.c_contiguous and adapted.flags.aligned else arrays.copy_contiguous(adapted)


def value_from_memory(memory: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """An output in memory that native code allocated: an array, a list, or the value of an optional (None: empty)."""
    if dtype not in OBJECTS:
        return arrays.from_memory(memory, dtype, shape)
    return _Reader(memory).values(0, dtype)


class _Reader:
    """Values in a block whose addresses point into it. Arrays share its memory."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._base = np.frombuffer(memory, np.uint8).ctypes.data

    def values(self, offset: int, dtype: str) -> Any:
        address, length = np.frombuffer(self._memory, np.int64, 2, offset).tolist()
        table: Array = np.frombuffer(self._memory, _TENSOR, length, address - self._base) if length else np.empty(0, _TENSOR)
        found = [self._value(row) for row in table]
        if dtype == "sequence":
            return found
        return found[0] if found else None

    def _value(self, row: Any) -> Any:
        offset, dtype = int(row["data"]) - self._base, DTYPES[int(row["dtype"])]
        if dtype in OBJECTS:
            return self.values(offset, dtype)
        shape = tuple(row["shape"][: row["ndim"]].tolist())
        return arrays.from_memory(memoryview(self._memory)[offset : offset + int(row["capacity"])], dtype, shape)
