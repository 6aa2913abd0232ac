"""Types and shapes of HDF5 data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.frontends.keras.hdf5_bytes import Hdf5Bytes

_INTEGER, _FLOAT, _STRING, _OPAQUE, _ENUM, _VARIABLE = 0, 1, 3, 5, 8, 9
MAX_RANK = 32
MAX_ELEMENTS = 1 << 40


@dataclass(frozen=True)
class ElementType:
    """A type of elements.

    Attributes:
        dtype: as NumPy reads them.
        is_variable: texts of any length, elsewhere in the file.
    """

    dtype: np.dtype
    is_variable: bool = False


def element_type(file: Hdf5Bytes, position: int) -> ElementType:
    """The type that a message at ``position`` describes."""
    head = file.integer(position, 1)
    kind, bits, size = head & 15, file.integer(position + 1, 3), file.integer(position + 4, 4)
    order = ">" if bits & 1 else "<"
    if kind == _INTEGER and size in (1, 2, 4, 8):
        return ElementType(np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}"))
    if kind == _FLOAT:
        return ElementType(_float_type(file, position, size, order))
    if kind == _STRING and 0 < size < 1 << 31:
        return ElementType(np.dtype(f"S{size}"))
    if kind == _OPAQUE and size == 2:  # an attribute of the array says that they are of bfloat16
        return ElementType(np.dtype("V2"))
    if kind == _ENUM and size == 1:  # bools
        return ElementType(np.dtype("bool"))
    if kind == _VARIABLE and bits & 15 == 1 and size == 8 + file.offset_size:
        return ElementType(np.dtype(f"V{size}"), True)
    file.refuse(f"got elements of {size} bytes and HDF5's class {kind}")


def _float_type(file: Hdf5Bytes, position: int, size: int, order: str) -> np.dtype:
    exponent = file.integer(position + 13, 1)
    if (size, exponent) == (2, 8) and order == "<":
        return dtypes.numpy_dtype("bfloat16")
    if (size, exponent) in ((2, 5), (4, 8), (8, 11)):
        return np.dtype(f"{order}f{size}")
    file.refuse(f"got floating-point numbers of {size} bytes with exponents of {exponent} bits")


def shape(file: Hdf5Bytes, position: int) -> tuple[int, ...]:
    """The sizes that a message at ``position`` describes."""
    version, rank = file.integer(position, 1), file.integer(position + 1, 1)
    if version not in (1, 2) or rank > MAX_RANK:
        file.damaged(f"got a shape of version {version} and rank {rank}")
    if version == 2 and file.integer(position + 3, 1) == 2:
        return (0,)
    first = position + (8 if version == 1 else 4)
    sizes = tuple(file.length(first + k * file.length_size) for k in range(rank))
    if math.prod(size or 1 for size in sizes) > MAX_ELEMENTS:
        file.damaged(f"got the sizes {sizes}")
    return sizes
