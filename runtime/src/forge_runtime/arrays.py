"""Element types and NumPy arrays at the border of native code.

Native code reads arrays through the buffer protocol, and tensors of other libraries through DLPack. Types that only ``ml_dtypes``
knows (bfloat16, float8, four and two bits) have no buffer format; they cross the border as views of unsigned integers of the same
size. Strings cross it as pairs of address and number of bytes, with their UTF-8 characters after the pairs.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from forge_runtime import _native
from forge_runtime.errors import ArtifactError, InputError
from forge_runtime.tensors import Tensor, unpack

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


_STRING = np.dtype("V16")
"""An element of a tensor of strings: the address of its UTF-8 bytes and their number."""

HANDLE = np.dtype("V24")
"""A sequence or an optional: ``forge_sequence``."""

_OBJECTS = {"string": _STRING, "sequence": HANDLE, "optional": HANDLE}


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an element type.

    Raises:
        ArtifactError: the type is unknown, or needs the package ``ml_dtypes``, which is not installed.
    """
    if name in _PLAIN:
        return np.dtype(name)
    if name == "string":
        return np.dtype(object)
    if name not in _EXTENDED:
        raise ArtifactError(f"model: unknown element type {name!r}; expected one of {', '.join((*_PLAIN, *_EXTENDED, 'string'))}")
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
    return _OBJECTS[name] if name in _OBJECTS else numpy_dtype(name), None


_DEVICES = {
    2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 12: "extension", 14: "oneapi", 15: "webgpu",
    16: "hexagon", 17: "maia", 18: "trainium",
}
"""Names of DLPack's types of devices whose memory the CPU cannot read."""


def as_array(obj: object, where: str) -> Array:
    """``obj`` as an array that shares its memory where the object allows it.

    Raises:
        InputError: not an array, on another device than the CPU, or not the elements that its memory holds.
    """
    if isinstance(obj, np.ndarray):
        return np.asarray(obj)
    if hasattr(obj, "__dlpack__"):
        return _borrowed(obj, where)
    if hasattr(obj, "__array__"):
        return _converted(obj, where)
    raise InputError(f"{where}: not an array; got {type(obj).__name__}; expected a NumPy array or an object with __dlpack__")


def _borrowed(obj: Any, where: str) -> Array:
    """An array over the memory of a tensor; what its library does not give by DLPack, such as strings, comes as ``__array__``."""
    try:
        memory, name, packed_shape = _native.borrow(obj)
    except BufferError as error:
        refusal = _refusal(obj, where)
        if refusal is None and hasattr(obj, "__array__"):
            return _converted(obj, where)
        raise refusal or InputError(f"{where}: cannot be read as an array: {error}; got {type(obj).__name__}") from error
    return _viewed(memory, name) if packed_shape is None else unpack(memory, numpy_dtype(name), packed_shape)


def _viewed(memory: Any, dtype: str) -> Array:
    array = np.asarray(memory)
    return array.view(numpy_dtype(dtype)) if dtype in _EXTENDED else array


def _converted(obj: Any, where: str) -> Array:
    try:
        return np.asarray(obj)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{where}: cannot be read as an array: {error}") from error


def _refusal(obj: Any, where: str) -> InputError | None:
    """Why a tensor is not taken, with what to do; None where its ``__array__`` may be asked for."""
    if getattr(obj, "requires_grad", False) is True:
        return InputError(f"{where}: gradients do not pass through a model; got requires_grad=True; pass tensor.detach()")
    for question, repair in (("is_neg", "resolve_neg"), ("is_conj", "resolve_conj")):
        if hasattr(obj, question) and getattr(obj, question)():
            return InputError(f"{where}: a view whose memory holds other numbers; got {question}()=True; pass tensor.{repair}()")
    device = _device_of(obj)
    if device is None:
        return None
    repair = "tensor.cpu()" if hasattr(obj, "cpu") else "a copy in memory of the CPU"
    return InputError(f"{where}: its memory is on another device; got {device}; expected cpu; pass {repair}")


def _device_of(obj: Any) -> str | None:
    """The name of a device whose memory the CPU cannot read; None for the CPU, or where the object does not say."""
    try:
        kind, number = obj.__dlpack_device__()
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        named = str(getattr(obj, "device", "cpu"))
        return None if "cpu" in named.lower() else named
    return f"{_DEVICES[int(kind)]}:{int(number)}" if int(kind) in _DEVICES else None


def dtype_name(dtype: np.dtype[Any]) -> str:
    """As messages have it."""
    return dtype.name if dtype.isnative else f"{dtype.name} of foreign byte order"


def _storage_view(array: Array, dtype: str) -> Array:
    return array.view(_EXTENDED[dtype]) if dtype in _EXTENDED else array


def adapt_input(obj: object, model: str, name: str, dtype: str) -> Array:
    """An array over the elements of ``obj`` whose buffer native code can read.

    Raises:
        InputError: ``obj`` is not an array, or its dtype is not exactly ``dtype``: nothing is converted silently.
    """
    where = f"model '{model}': input '{name}'"
    return adapt_element(obj if dtype == "string" else as_array(obj, where), where, dtype)


def adapt_element(obj: Any, where: str, dtype: str) -> Array:
    """``adapt_input`` of an array (for strings, of anything)."""
    if dtype == "string":
        return _elements(_as_strings(obj, where), where)
    if dtype_name(obj.dtype) != dtype:
        raise InputError(
            f"{where}: wrong dtype; got {dtype_name(obj.dtype)}; expected {dtype}; convert it, nothing is converted silently"
        )
    return _storage_view(obj, dtype)


def check_output(given: object, model: str, name: str, dtype: str, shape: tuple[int, ...]) -> Array:
    """The array to write an output into; ``-1`` in ``shape`` stands for a size known only after the run.

    Raises:
        InputError: not a writable C-contiguous array of that dtype and shape.
    """
    where = f"model '{model}': output '{name}'"
    if dtype in _OBJECTS:
        raise InputError(f"{where}: {dtype}s are not written in place; expected None: the runtime allocates them")
    if -1 in shape:
        raise InputError(f"{where}: its size depends on data, shape {list(shape)}; expected None: the runtime allocates it")
    array = _target(given, where)
    if dtype_name(array.dtype) != dtype or array.shape != shape:
        raise InputError(
            f"{where}: wrong array; got {dtype_name(array.dtype)} {list(array.shape)}; expected {dtype} {list(shape)}"
        )
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        raise InputError(
            f"{where}: the array must be C-contiguous, aligned and writable, which tensors of jax and tensorflow are not; "
            "pass np.empty(shape, dtype) or torch.empty(shape, dtype=dtype)"
        )
    return _storage_view(array, dtype)


def _target(given: object, where: str) -> Array:
    """An array over the memory of what an output is written into: never a copy."""
    if isinstance(given, np.ndarray):
        return given
    if not hasattr(given, "__dlpack__"):
        raise InputError(f"{where}: got {type(given).__name__}; expected a NumPy array, an object with __dlpack__, or None")
    try:
        memory, name, packed_shape = _native.borrow(given)
    except BufferError as error:
        raise _refusal(given, where) or InputError(f"{where}: cannot be written: {error}; got {type(given).__name__}") from error
    if packed_shape is not None:
        raise InputError(f"{where}: several elements a byte; got {type(given).__name__} of {name}; pass np.empty(shape, dtype)")
    return _viewed(memory, name)


def copy_contiguous(array: Array) -> Array:
    """An aligned C-contiguous copy."""
    return np.array(array, order="C", copy=True)


def from_memory(memory: Any, dtype: str, shape: tuple[int, ...]) -> Array:
    """An array over a buffer that native code allocated."""
    if dtype == "string":
        return _strings(memory, shape)
    storage, view = output_dtypes(dtype)
    array: Array = np.ndarray(shape, storage, buffer=memory)
    return array if view is None else array.view(view, Tensor)


def _as_strings(obj: object, where: str) -> Array:
    """``obj`` as an array of ``str`` or ``bytes``."""
    array = np.asarray(obj) if isinstance(obj, np.ndarray | list | tuple | str) else as_array(obj, where)
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind != "O":
        raise InputError(
            f"{where}: wrong dtype; got {dtype_name(array.dtype)}; expected strings: dtype object, str or StringDType"
        )
    return array


def _elements(array: Array, where: str) -> Array:
    """Elements as native code has them, in front of their characters in one block of memory."""
    characters, sizes = _characters(array.reshape(-1).tolist(), where)
    start = 16 * len(sizes)
    ends = np.cumsum([start, *sizes], dtype=np.int64)
    block = np.empty(max(16, start + len(characters)), np.uint8)
    table = block[:start].view(np.int64).reshape(-1, 2)
    table[:, 0] = block.ctypes.data + ends[:-1]
    table[:, 1] = sizes
    block[start : start + len(characters)] = np.frombuffer(characters, np.uint8)
    return np.ndarray(array.shape, _STRING, buffer=block)


def _characters(values: list[Any], where: str) -> tuple[bytes, list[int]]:
    """The UTF-8 bytes of all values, and the number of each."""
    if all(type(value) is str for value in values):
        joined = "".join(values)
        if joined.isascii():
            return joined.encode(), list(map(len, values))
    encoded = [_encoded(value, where) for value in values]
    return b"".join(encoded), list(map(len, encoded))


def _encoded(value: object, where: str) -> bytes:
    """UTF-8; what ``_strings`` made of a byte that is none becomes that byte again."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise InputError(f"{where}: wrong element; got {type(value).__name__}; expected str or bytes")
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: got {value!r}, which is not text ({error.reason}); expected characters of Unicode") from error


def _strings(memory: Any, shape: tuple[int, ...]) -> Array:
    """Copies of the strings in memory whose characters follow the elements; a byte that is not UTF-8 becomes a lone surrogate."""
    count = math.prod(shape)
    table = np.frombuffer(memory, np.int64, 2 * count).reshape(-1, 2)
    ends = np.cumsum(table[:, 1]).tolist()
    characters = bytes(memoryview(memory)[16 * count : 16 * count + (ends[-1] if count else 0)])
    spans = zip([0, *ends[:-1]], ends, strict=False)
    result = np.empty(count, object)
    if characters.isascii():
        text = characters.decode("ascii")
        result[:] = [text[begin:end] for begin, end in spans]
    else:
        result[:] = [characters[begin:end].decode("utf-8", "surrogateescape") for begin, end in spans]
    return result.reshape(shape)
