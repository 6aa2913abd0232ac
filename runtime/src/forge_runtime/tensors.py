"""``Tensor``: a NumPy array that other libraries can take over, whatever its element type."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from forge_runtime import _native
from forge_runtime.errors import ExchangeError

Array = np.ndarray[Any, Any]

_CPU: tuple[Literal[1], Literal[0]] = (1, 0)
_IS_COPIED = 2
_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
"""Element types of less than a byte: DLPack packs them, the first element into the lowest bits."""


class Tensor(np.ndarray[Any, Any]):
    """A NumPy array whose ``__dlpack__`` knows all element types of models; NumPy's knows no bfloat16 and no float8.

    Outputs of such types are tensors: ``torch.from_dlpack(run(x))`` needs no copy. ``array.view(Tensor)`` makes one of any other
    array, over the same memory.
    """

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule, by the rules of the Python array API standard.

        Elements of less than a byte are packed, which copies them.

        Raises:
            ExchangeError: the memory cannot be lent as asked for, or the element type has no place in DLPack.
        """
        versioned = max_version is not None and max_version[0] >= 1
        bits = _BITS.get(self.dtype.name)
        self._check(stream, dl_device)
        if not (self.flags.writeable or versioned or copy):
            raise ExchangeError("tensor: read-only, which a consumer of DLPack before version 1 does not see; pass copy=True")
        if bits and copy is False:
            raise ExchangeError(f"tensor: {self.dtype.name} is packed for DLPack; got copy=False; expected None or True")
        memory = _pack(self, bits) if bits else _storage(np.array(self, order="C", copy=True) if copy else np.asarray(self))
        try:
            return _native.lend(
                memory, self.dtype.name, self.shape if bits else None, _IS_COPIED if bits or copy else 0, versioned
            )
        except BufferError as error:
            raise ExchangeError(f"tensor: {error}; got {self.dtype} {list(self.shape)}") from error

    def _check(self, stream: object, device: tuple[int, int] | None) -> None:
        if stream is not None:
            raise ExchangeError(f"tensor: stream; got {stream!r}; expected None, memory of the CPU has no streams")
        if device is not None and tuple(device) != _CPU:
            raise ExchangeError(f"tensor: device; got {tuple(device)}; expected {_CPU}, the CPU; let the other library copy it")
        if not self.dtype.isnative:
            raise ExchangeError(f"tensor: byte order; got {self.dtype.str}; expected this machine's; convert it with astype")

    def __dlpack_device__(self) -> tuple[Literal[1], Literal[0]]:
        """The CPU."""
        return _CPU


def _storage(array: Array) -> Array:
    """The array, or what has its memory and a buffer: types of other packages have none."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _pack(array: Array, bits: int) -> Array:
    """Bytes with the elements in row-major order."""
    plain = np.ascontiguousarray(array).reshape(-1)
    integers = plain.view(np.uint8) if _is_float(plain.dtype) else plain.astype(np.int8).view(np.uint8)
    padded = np.zeros((-(-plain.size * bits // 8), 8 // bits), np.uint8)
    padded.reshape(-1)[: plain.size] = integers & (1 << bits) - 1
    packed: Array = np.bitwise_or.reduce(padded << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    return packed


def unpack(memory: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The elements that ``Tensor.__dlpack__`` and other libraries have packed, one a byte."""
    bits = _BITS[dtype.name]
    parts = np.frombuffer(memory, np.uint8)[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)
    values: Array = parts.reshape(-1)[: math.prod(shape)].reshape(shape) & np.uint8((1 << bits) - 1)
    if _is_float(dtype):
        return values.view(dtype)
    sign = 1 << bits - 1 if dtype.name.startswith("int") else 0
    return ((values ^ np.uint8(sign)).astype(np.int8) - np.int8(sign)).astype(dtype)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.name.startswith("float")
