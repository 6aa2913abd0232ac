"""A producer of DLPack in ctypes, independent of NumPy's and of ours, that can be wrong in every way."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

CODES = {
    "bool": (6, 8), "float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16),
    **{f"int{bits}": (0, bits) for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (2, 4, 8, 16, 32, 64)},
    "complex64": (5, 64), "complex128": (5, 128), "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8), "float8_e8m0fnu": (14, 8), "float4_e2m1fn": (17, 4),
}
"""Of each element type its code and number of bits (dlpack.h)."""

READ_ONLY, IS_COPIED, PADDED = 1, 2, 4


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Unversioned(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
NAMES = {True: b"dltensor_versioned", False: b"dltensor"}

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Producer:
    """Lends ``array``; counts the calls of its methods and of the deleter.

    Args:
        dtype: the element type that is declared; by default the array's.
        versioned: the kind of capsule.
        strides: False declares none (NULL).
        fields: other values for fields of the structures.
    """

    def __init__(
        self,
        array: Any,
        dtype: str | None = None,
        *,
        versioned: bool = True,
        strides: bool = True,
        flags: int = 0,
        version: tuple[int, int] = (1, 0),
        **fields: Any,
    ) -> None:
        self.array, self.versioned = array, versioned
        self.asked, self.deleted = 0, 0
        self.device = (fields.pop("device_type", 1), fields.pop("device_id", 0))
        code, bits = CODES[dtype or array.dtype.name]
        steps = [step // array.itemsize for step in array.strides]
        self.sizes = (ctypes.c_int64 * max(1, 2 * array.ndim))(*array.shape, *steps)
        first = ctypes.cast(self.sizes, ctypes.POINTER(ctypes.c_int64))
        second = ctypes.cast(ctypes.addressof(self.sizes) + 8 * array.ndim, ctypes.POINTER(ctypes.c_int64)) if strides else None
        values = {"data": array.ctypes.data, "ndim": array.ndim, "code": code, "bits": bits, "lanes": 1, **fields}
        values = {"shape": first, "strides": second, "device_type": self.device[0], "device_id": self.device[1], **values}
        tensor = DLTensor(**values)
        self.deleter = DELETER(self.delete)
        address = ctypes.cast(self.deleter, ctypes.c_void_p)
        self.managed: Any
        if versioned:
            self.managed = Versioned(*version, None, address, flags, tensor)
        else:
            self.managed = Unversioned(tensor, None, address)

    def delete(self, managed: int) -> None:
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> Any:
        assert max_version is not None and max_version[0] == 1
        self.asked += 1
        return new_capsule(ctypes.addressof(self.managed), NAMES[self.versioned], None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class OldProducer(Producer):
    """One from before version 1: its method takes no version."""

    def __init__(self, array: Any, **options: Any) -> None:
        super().__init__(array, versioned=False, **options)

    def __dlpack__(self) -> Any:  # type: ignore[override]
        self.asked += 1
        return new_capsule(ctypes.addressof(self.managed), NAMES[False], None)


class Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        *((name, ctypes.c_void_p) for name in ("previous", "allocate", "from_object", "to_object", "view", "stream")),
    ]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
def view_of(producer: Any, out: Any) -> int:
    producer.viewed += 1
    out[0] = producer.managed.tensor
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
def managed_of(producer: Any, out: Any) -> int:
    producer.asked += 1
    out[0] = ctypes.addressof(producer.managed)
    return 0


EXCHANGE_NAME = b"dlpack_exchange_api"
"""A capsule keeps no copy of its name."""

EXCHANGE = Exchange(1, 3, from_object=ctypes.cast(managed_of, ctypes.c_void_p), view=ctypes.cast(view_of, ctypes.c_void_p))


class ExchangeProducer(Producer):
    """One whose type has the table of C functions of DLPack 1.3."""

    __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(EXCHANGE), EXCHANGE_NAME, None)
    viewed = 0

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("the table was there")


def lent(capsule: Any, versioned: bool = True) -> Any:
    """The structure in a capsule that nobody has taken."""
    kind = Versioned if versioned else Unversioned
    return kind.from_address(capsule_pointer(capsule, NAMES[versioned]))


def elements(tensor: DLTensor) -> list[int]:
    """The elements as unsigned integers, read one by one where the strides say they are."""
    shape, strides = tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim]
    kind = {8: ctypes.c_uint8, 16: ctypes.c_uint16, 32: ctypes.c_uint32, 64: ctypes.c_uint64}[tensor.bits]
    size = tensor.bits // 8
    return [
        kind.from_address(tensor.data + tensor.byte_offset + size * sum(i * s for i, s in zip(index, strides))).value
        for index in np.ndindex(*shape)
    ]
