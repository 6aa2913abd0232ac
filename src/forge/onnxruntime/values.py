"""``OrtValue``: a tensor in the CPU's memory, a list of such, or nothing."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge.errors import OptionError
from forge.onnxruntime.devices import check_device
from forge.onnxruntime.elements import Array, code_of, dtype_of, name_of, word
from forge.onnxruntime.errors import InvalidArgument, Refusing, RuntimeException


class OrtValue(Refusing):
    """What calls take and give: an array, whose memory it shares; a list of arrays; or None, an empty optional.

    Args:
        ortvalue: such a value.
        numpy_obj: kept alive with it.
    """

    REFUSED = dict.fromkeys(("as_sparse_tensor", "ort_value_from_sparse_tensor"), "Forge has dense tensors only; pass arrays")

    def __init__(self, ortvalue: Any, numpy_obj: object = None) -> None:
        self._value = ortvalue
        self._kept = numpy_obj

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Array, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """Over the memory of an array.

        Raises:
            RuntimeException: another device than the CPU; OptionError: not an array.
        """
        check_device("OrtValue.ortvalue_from_numpy", device_type, device_id)
        if not isinstance(numpy_obj, np.ndarray):
            raise OptionError(f"OrtValue.ortvalue_from_numpy: got {type(numpy_obj).__name__}; expected a NumPy array")
        return cls(numpy_obj)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Array, onnx_element_type: int) -> OrtValue:
        """Over the memory of an array, read as another element type of the same size: bfloat16 in uint16, say."""
        dtype = dtype_of(onnx_element_type, "OrtValue.ortvalue_from_numpy_with_onnx_type")
        if dtype.itemsize != data.itemsize:
            where = "OrtValue.ortvalue_from_numpy_with_onnx_type"
            raise InvalidArgument(f"{where}: got {data.dtype} for {dtype}; expected elements of {dtype.itemsize} bytes")
        return cls(data.view(dtype))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: object, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A new tensor, whose contents are undefined."""
        check_device("OrtValue.ortvalue_from_shape_and_type", device_type, device_id)
        return cls(np.empty(tuple(shape), dtype_of(element_type, "OrtValue.ortvalue_from_shape_and_type")))

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """Over the memory of a tensor of another library."""
        array = np.from_dlpack(data)
        return cls(array.view(np.bool_) if is_bool_tensor and array.dtype == np.uint8 else array)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.numpy().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)
        return array.copy() if copy else array

    def numpy(self) -> Array:
        """The array itself.

        Raises:
            RuntimeException: it holds a list, or nothing.
        """
        if not isinstance(self._value, np.ndarray):
            raise RuntimeException(f"OrtValue.numpy: got {self.data_type()}; expected a tensor")
        return self._value

    def update_inplace(self, data: Array) -> None:
        """Copies ``data`` into the memory of the tensor.

        Raises:
            InvalidArgument: it has another shape or element type.
        """
        array = self.numpy()
        if data.shape != array.shape or data.dtype != array.dtype:
            raise InvalidArgument(f"OrtValue.update_inplace: got {data.dtype} {list(data.shape)}; "
                                  f"expected {array.dtype} {list(array.shape)}")
        np.copyto(array, data)

    def shape(self) -> list[int]:
        return list(self.numpy().shape)

    def data_type(self) -> str:
        """As in ``tensor(float)``."""
        return _data_type(self._value)

    def element_type(self) -> int:
        """The number of ``onnx.TensorProto.DataType``."""
        return code_of(self.numpy())

    def data_ptr(self) -> int:
        return int(self.numpy().ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        return int(self.numpy().nbytes)

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return self._value is not None

    def is_tensor(self) -> bool:
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list | tuple)

    def is_sparse_tensor(self) -> bool:
        """False: Forge has none."""
        return False


def content(value: object) -> Any:
    """What an `OrtValue` holds; anything else itself."""
    return value._value if isinstance(value, OrtValue) else value


def _data_type(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"tensor({word(name_of(value))})"
    if isinstance(value, list | tuple):
        return f"seq({_data_type(value[0]) if value else 'tensor(undefined)'})"
    return "optional"


def array_at(address: int, dtype: np.dtype[Any], shape: Sequence[int]) -> Array:
    """An array over memory that somebody else owns."""
    size = dtype.itemsize * math.prod(shape)
    buffer: Any = (ctypes.c_char * size).from_address(address) if size else b""
    array: Array = np.ndarray(tuple(shape), dtype, buffer=buffer)
    return array
