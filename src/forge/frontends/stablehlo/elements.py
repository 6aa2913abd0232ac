"""Dense elements: NumPy arrays of the bytes and numbers that files hold. Sizes are checked before anything is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from forge.frontends.stablehlo.module import TensorType
from forge.frontends.stablehlo.spelling import Fail

MAX_ELEMENTS = 1 << 40
"""Of one array: a splat has as many without having their memory."""


def numpy_type(dtype: str) -> np.dtype[Any]:
    """The NumPy type of elements; ``ml_dtypes`` has more of them than Forge computes with."""
    kind: np.dtype[Any] = np.dtype(getattr(np, dtype, None) or getattr(ml_dtypes, dtype))
    return kind


def static_shape(tensor: TensorType, fail: Fail) -> tuple[int, ...]:
    """The shape of an array, all of whose sizes have to be known."""
    shape = tuple(size for size in tensor.shape if size is not None)
    if len(shape) < len(tensor.shape):
        fail(f"got elements of a tensor whose shape is {tensor.shape}; expected one whose sizes are all known")
    if math.prod(shape) > MAX_ELEMENTS or len(shape) > 32:
        fail(f"got elements of shape {shape}; expected at most {MAX_ELEMENTS} of them, of rank 32")
    return shape


def from_bytes(raw: bytes | memoryview, tensor: TensorType, fail: Fail) -> np.ndarray[Any, Any]:
    """The elements of a tensor, of little-endian bytes: all of them, or the one that all are."""
    shape = static_shape(tensor, fail)
    count = math.prod(shape)
    dtype = numpy_type(tensor.dtype)
    if tensor.dtype == "bool":
        return _booleans(raw, shape, count, fail)
    if len(raw) == count * dtype.itemsize:
        return _little(raw, dtype, count).reshape(shape)
    if len(raw) == dtype.itemsize:
        return np.broadcast_to(_little(raw, dtype, 1).reshape(()), shape)
    fail(f"got {len(raw)} bytes of elements; expected {count} x {dtype.itemsize} for {tensor.dtype} of shape {shape}, or of one")


def _little(raw: bytes | memoryview, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = np.frombuffer(raw, dtype.newbyteorder("<") if dtype.itemsize > 1 else dtype, count)
    return found


def _booleans(raw: bytes | memoryview, shape: tuple[int, ...], count: int, fail: Fail) -> np.ndarray[Any, Any]:
    """Booleans are a bit each, from the lowest, or a byte each; all bits set or none in one byte are a splat."""
    data = np.frombuffer(raw, np.uint8)
    if len(data) == 1 and (count > 8 or data[0] in (0x00, 0xFF)):
        return np.broadcast_to(data.reshape(()) != 0, shape)
    if len(data) == (count + 7) // 8:
        bits = np.unpackbits(data, count=count, bitorder="little")
        return bits.view(np.bool_).reshape(shape)
    if len(data) == count:
        return np.not_equal(data, 0).reshape(shape)
    fail(f"got {len(data)} bytes of booleans; expected {(count + 7) // 8} or {count} for shape {shape}, or one")


def from_bits(bits: Sequence[int], dtype: str, fail: Fail) -> np.ndarray[Any, Any]:
    """Elements that are given by their bits."""
    kind = numpy_type(dtype)
    if any(not 0 <= value < 1 << (8 * kind.itemsize) for value in bits):
        fail(f"got bits {max(bits):#x} of a {dtype}; expected at most {8 * kind.itemsize} bits")
    return np.array(bits, np.dtype(f"u{kind.itemsize}")).view(kind)


def from_numbers(values: Sequence[Any], dtype: str, fail: Fail) -> np.ndarray[Any, Any]:
    """Elements that are given as numbers: those of integers, with their sign or without one."""
    kind = numpy_type(dtype)
    if dtype == "bool":
        return np.array([bool(value) for value in values], bool)
    if "int" not in dtype:
        with np.errstate(over="ignore"):
            return np.array(values, np.float64).astype(kind)
    bits = int(dtype.partition("int")[2])
    if any(isinstance(value, float) or not -(1 << (bits - 1)) <= value < 1 << bits for value in values):
        fail(f"got an element that is not of {dtype}; expected integers of {bits} bits")
    low, span = (0 if dtype.startswith("u") else -(1 << (bits - 1))), 1 << bits
    holder = np.dtype(f"{'u' if low == 0 else 'i'}{max(bits // 8, 1)}")
    return np.array([(value - low) % span + low for value in values], holder).astype(kind)
