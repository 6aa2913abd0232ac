"""Types and arrays of the graph IR as ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from forge import dims, dtypes
from forge.errors import InvalidGraphError
from forge.frontends.onnx.tensors import element_code
from forge.ir.types import OptionalType, SequenceType, TensorType, Type, UnrankedType


def type_proto(type_: Type) -> onnx.TypeProto:
    """The type; symbolic sizes are named by their symbol or expression.

    Raises:
        InvalidGraphError: ONNX has no such type.
    """
    match type_:
        case TensorType():
            shape = [d if isinstance(d, int) else dims.symbol_name(d) or str(d) for d in type_.shape]
            return helper.make_tensor_type_proto(element_code(type_.dtype), shape)
        case UnrankedType():
            return helper.make_tensor_type_proto(element_code(type_.dtype), None)
        case SequenceType():
            return helper.make_sequence_type_proto(type_proto(type_.element))
        case OptionalType():
            return helper.make_optional_type_proto(type_proto(type_.element))
    raise InvalidGraphError(f"type {type_}: has no form in ONNX; expected tensors, sequences or optionals")


def header(name: str, array: np.ndarray) -> onnx.TensorProto:
    """A tensor without its contents."""
    return onnx.TensorProto(name=name, dims=array.shape, data_type=element_code(dtypes.canonical(array.dtype)))


def stored_bytes(array: np.ndarray) -> bytes | memoryview:
    """The contents as ``raw_data`` has them: little-endian, elements below a byte packed, the first one lowest."""
    bits = dtypes.bits(dtypes.canonical(array.dtype))
    if bits >= 8:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<") if array.dtype.isbuiltin == 1 else array.dtype)
        flat: Any = little.reshape(-1).view(np.uint8)
        return memoryview(flat)
    return _packed(array, bits)


def _packed(array: np.ndarray, bits: int) -> bytes:
    per_byte = 8 // bits
    codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
    padded[: codes.size] = codes
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    joined: np.ndarray = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1)
    return joined.astype(np.uint8).tobytes()


def tensor_proto(name: str, array: np.ndarray) -> onnx.TensorProto:
    """A tensor with its contents."""
    proto = header(name, array)
    if array.dtype == object:
        proto.string_data.extend(_text(s) for s in array.reshape(-1))
    else:
        proto.raw_data = bytes(stored_bytes(array))
    return proto


def _text(text: str) -> bytes:
    return str(text).encode("utf-8", errors="surrogateescape")
