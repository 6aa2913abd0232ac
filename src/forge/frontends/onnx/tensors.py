"""ONNX element types, tensors, types and attributes as NumPy arrays, Forge types and Python values."""

from __future__ import annotations

import math
import mmap
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.model_files import data_file
from forge.frontends.onnx import inline
from forge.ir.types import OptionalType, SequenceType, TensorType, Type, UnrankedType

MAX_SPARSE_BYTES, MAX_SPARSE_GROWTH = 1 << 28, 4096
"""A sparse tensor may be so large when it is dense, or so many times the bytes of its values."""

_ELEMENT_TYPES = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT8E8M0": "float8_e8m0fnu",
    "FLOAT4E2M1": "float4_e2m1fn",
    "BOOL": "bool",
    "STRING": "string",
    "COMPLEX64": "complex64",
    "COMPLEX128": "complex128",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (2, 4, 8, 16, 32, 64)},
}


def element_dtype(code: int, where: str = "tensor") -> str:
    """The Forge dtype of an ``onnx.TensorProto.DataType``.

    Raises:
        ImportModelError: the code is undefined, or an element type that Forge lacks.
    """
    if code in onnx.TensorProto.DataType.values():
        name = onnx.TensorProto.DataType.Name(code)
        if name in _ELEMENT_TYPES:
            return _ELEMENT_TYPES[name]
    else:
        name = str(code)
    raise ImportModelError(f"{where}: unsupported element type; got {name}; expected one of {', '.join(_ELEMENT_TYPES)}")


def element_code(dtype: str) -> int:
    """The ``onnx.TensorProto.DataType`` of a Forge dtype."""
    name = next(n for n, d in _ELEMENT_TYPES.items() if d == dtype)
    return int(onnx.TensorProto.DataType.Value(name))


class TensorReader:
    """Reads tensors of one model. External data comes from ``folders``; without any it is refused.

    ``model``: the bytes of the model, in which ``inline`` has left contents.
    """

    def __init__(self, folders: tuple[Path, ...] = (), model: bytes | memoryview = b"") -> None:
        self.folders = folders
        self._model = np.frombuffer(model, np.uint8)
        self._maps: dict[Path, np.ndarray] = {}

    def array(self, tensor: onnx.TensorProto) -> np.ndarray:
        """The contents; read-only where they are memory-mapped or live in the message.

        Raises:
            ImportModelError: shape, element type and stored bytes do not fit together, or external data is out of reach.
        """
        where = f"tensor {tensor.name!r}"
        dtype = element_dtype(tensor.data_type, where)
        if any(d < 0 for d in tensor.dims):
            raise ImportModelError(f"{where}: negative dimension; got {list(tensor.dims)}; expected sizes; re-export the model")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            found = inline.place(tensor)
            return self._external(tensor, dtype, where) if found is None else self._inline(tensor, dtype, where, *found)
        try:
            return np.asarray(numpy_helper.to_array(tensor))
        except (ValueError, TypeError, OverflowError, MemoryError) as error:
            raise ImportModelError(
                f"{where}: contents do not fit; got shape {list(tensor.dims)} of {dtype} with {len(tensor.raw_data)} raw "
                f"bytes ({error}); the file is damaged: export or download it again"
            ) from error

    def sparse_array(self, sparse: onnx.SparseTensorProto) -> np.ndarray:
        """A sparse tensor as a dense array."""
        where = f"sparse tensor {sparse.values.name!r}"
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        shape = tuple(sparse.dims)
        count = math.prod(shape)
        limit = max(MAX_SPARSE_BYTES, MAX_SPARSE_GROWTH * values.nbytes)
        if not shape or any(d < 0 for d in shape) or count * max(1, values.itemsize) > limit:
            raise ImportModelError(f"{where}: got shape {list(shape)}; expected at most {limit} bytes when dense")
        if indices.dtype != np.int64 or values.ndim != 1 or indices.shape not in ((len(values),), (len(values), len(shape))):
            raise ImportModelError(
                f"{where}: got values of shape {list(values.shape)} and {indices.dtype} indices of shape {list(indices.shape)}; "
                f"expected int64 indices of shape {[values.size]} or {[values.size, len(shape)]}; the file is damaged"
            )
        sizes = np.array(shape if indices.ndim == 2 else [count], np.int64)
        rows = indices.reshape(len(values), len(sizes))
        if ((rows < 0) | (rows >= sizes)).any():
            raise ImportModelError(f"{where}: an index is outside of shape {list(shape)}; the file is damaged")
        dense = np.zeros(count, values.dtype)
        dense[np.ravel_multi_index(tuple(rows.T), tuple(sizes)) if len(rows) else []] = values
        return dense.reshape(shape)

    def _external(self, tensor: onnx.TensorProto, dtype: str, where: str) -> np.ndarray:
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        path = data_file(location, self.folders, where)
        offset, length = (_number(entries.get(key, "0"), key, where) for key in ("offset", "length"))
        count = math.prod(tensor.dims)
        needed = _stored_bytes(dtype, count, where)
        if "length" in entries and length != needed:
            raise ImportModelError(
                f"{where}: external data: got {length} bytes; expected {needed} for {list(tensor.dims)} of {dtype}"
            )
        size = path.stat().st_size
        if offset + needed > size:
            raise ImportModelError(
                f"{where}: external data: got a file of {size} bytes ({location}); expected at least {offset + needed}; "
                "it is truncated: copy it again"
            )
        return _contents(tensor, dtype, self._mapped(path)[offset : offset + needed])

    def _inline(self, tensor: onnx.TensorProto, dtype: str, where: str, offset: int, length: int) -> np.ndarray:
        needed = _stored_bytes(dtype, math.prod(tensor.dims), where)
        if length != needed or offset + length > len(self._model):
            raise ImportModelError(
                f"{where}: contents do not fit; got shape {list(tensor.dims)} of {dtype} with {length} raw bytes; expected "
                f"{needed}; the file is damaged: export or download it again"
            )
        return _contents(tensor, dtype, self._model[offset : offset + length])

    def _mapped(self, path: Path) -> np.ndarray:
        if path not in self._maps:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            self._maps[path] = np.frombuffer(mapped, np.uint8)
        return self._maps[path]


def _number(text: str, key: str, where: str) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    raise ImportModelError(f"{where}: external data {key}: got {text!r}; expected a number of bytes")


def _stored_bytes(dtype: str, count: int, where: str) -> int:
    if dtype == "string":
        raise ImportModelError(f"{where}: strings in external data are not part of the format; expected them in the model file")
    return (count * dtypes.bits(dtype) + 7) // 8


def _contents(tensor: onnx.TensorProto, dtype: str, data: np.ndarray) -> np.ndarray:
    """``data``, as many bytes as the tensor has, as an array that shares their memory, if elements are whole bytes."""
    shape = tuple(tensor.dims)
    if dtypes.bits(dtype) < 8:
        copy = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.tobytes())
        return np.asarray(numpy_helper.to_array(copy))
    return data.view(dtypes.numpy_dtype(dtype)).reshape(shape) if len(data) else np.empty(shape, dtypes.numpy_dtype(dtype))


def dimension_labels(proto: onnx.TypeProto) -> Iterator[str]:
    """The texts of dimensions in a declared type, those of elements included."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        yield from (d.dim_param for d in proto.tensor_type.shape.dim)
    elif kind in ("sequence_type", "optional_type"):
        yield from dimension_labels(getattr(proto, kind).elem_type)


def declared_type(proto: onnx.TypeProto, name_dim: Callable[[int, onnx.TensorShapeProto.Dimension], Dim], where: str) -> Type:
    """The type that a model declares; ``name_dim`` gives the dimension of an axis.

    Raises:
        ImportModelError: it is a map, a sparse tensor or nothing.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        dtype = element_dtype(proto.tensor_type.elem_type, where)
        if not proto.tensor_type.HasField("shape"):
            return UnrankedType(dtype)
        return TensorType(tuple(name_dim(i, d) for i, d in enumerate(proto.tensor_type.shape.dim)), dtype)
    if kind == "sequence_type":
        return SequenceType(declared_type(proto.sequence_type.elem_type, name_dim, where))
    if kind == "optional_type":
        return OptionalType(declared_type(proto.optional_type.elem_type, name_dim, where))
    raise ImportModelError(f"{where}: got type {kind or 'undefined'}; expected a tensor, a sequence or an optional")


def anonymous_dim(_axis: int, proto: onnx.TensorShapeProto.Dimension) -> Dim:
    """A declared size, else a fresh symbol."""
    return int(proto.dim_value) if proto.HasField("dim_value") else dims.fresh("d")


def attribute_value(proto: onnx.AttributeProto, reader: TensorReader, exact: bool = False) -> Any:
    """An attribute as a Python value: number, str, array, GraphProto, TypeProto, or a tuple of them.

    A float is the shortest decimal of the stored single-precision number; that number itself if ``exact``.
    """
    kind = onnx.AttributeProto.AttributeType.Name(proto.type)
    if kind not in _VALUES:
        raise ImportModelError(f"attribute {proto.name!r}: got kind {kind}; expected a number, text, tensor, type or graph")
    return _VALUES[kind](proto, reader, float if exact else shortest_float)


def shortest_float(value: float) -> float:
    """The shortest decimal that names the same single-precision number."""
    return float(str(np.float32(value)))


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="surrogateescape")


_VALUES: dict[str, Callable[[onnx.AttributeProto, TensorReader, Callable[[float], float]], Any]] = {
    "INT": lambda proto, reader, as_float: int(proto.i),
    "FLOAT": lambda proto, reader, as_float: as_float(proto.f),
    "STRING": lambda proto, reader, as_float: _text(proto.s),
    "INTS": lambda proto, reader, as_float: tuple(proto.ints),
    "FLOATS": lambda proto, reader, as_float: tuple(as_float(f) for f in proto.floats),
    "STRINGS": lambda proto, reader, as_float: tuple(_text(s) for s in proto.strings),
    "TENSOR": lambda proto, reader, as_float: reader.array(proto.t),
    "TENSORS": lambda proto, reader, as_float: tuple(reader.array(t) for t in proto.tensors),
    "SPARSE_TENSOR": lambda proto, reader, as_float: reader.sparse_array(proto.sparse_tensor),
    "GRAPH": lambda proto, reader, as_float: proto.g,
    "TYPE_PROTO": lambda proto, reader, as_float: proto.tp,
}
"""How attributes of each kind are read."""
