"""Writes graphs of TensorFlow, without TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.frontends.tensorflow.messages import DTYPES, message_of

QUANTIZED = {"qint8": 11, "quint8": 12, "qint32": 13, "qint16": 15, "quint16": 16}
NUMBERS = {name: number for number, name in DTYPES.items() if number not in QUANTIZED.values()} | QUANTIZED
"""Element types as messages say them."""


PRODUCER = 2000
"""The version of what writes graphs: placeholders of early ones do not say whether they are scalars."""


class Sizes(tuple[int, ...]):
    """An attribute that is a shape; -1 is a size that is not known."""


class Graph:
    """A ``GraphDef`` that grows node by node."""

    def __init__(self) -> None:
        self.message = message_of("GraphDef")
        self.message.versions.producer = PRODUCER

    def node(self, op: str, inputs: Sequence[str] = (), name: str = "", **attributes: Any) -> str:
        """Adds a node. Attributes that name an element type are types; None leaves one out."""
        node = self.message.node.add(name=name or f"{op}_{len(self.message.node)}", op=op, input=list(inputs))
        for key, value in attributes.items():
            if value is not None:
                _set(node.attr[key], value)
        return node.name

    def placeholder(self, dtype: str, shape: Sequence[int], name: str = "") -> str:
        return self.node("Placeholder", name=name, dtype=dtype, shape=Sizes(shape))

    def constant(self, value: np.ndarray, dtype: str = "", name: str = "") -> str:
        dtype = dtype or ("string" if value.dtype.kind in "OUS" else dtypes.canonical(value.dtype))
        return self.node("Const", name=name, dtype=dtype, value=_Tensor(value, dtype))

    def data(self) -> bytes:
        return bytes(self.message.SerializeToString(deterministic=True))


class _Tensor:
    def __init__(self, value: np.ndarray, dtype: str) -> None:
        self.value, self.dtype = value, dtype

    def write(self, message: Any) -> None:
        message.dtype = NUMBERS[self.dtype]
        message.tensor_shape.SetInParent()
        for size in self.value.shape:
            message.tensor_shape.dim.add(size=size)
        if self.dtype == "string":
            message.string_val.extend(str(text).encode() for text in self.value.ravel())
        else:
            message.tensor_content = np.ascontiguousarray(self.value).tobytes()


def _set(message: Any, value: Any) -> None:
    match value:
        case bool():
            message.b = value
        case int():
            message.i = value
        case float():
            message.f = value
        case str() if value in NUMBERS:
            message.type = NUMBERS[value]
        case str():
            message.s = value.encode()
        case _Tensor():
            value.write(message.tensor)
        case Sizes():
            _shape(message.shape, value)
        case list() | tuple():
            _extend(message.list, value)
        case _:
            raise TypeError(f"{value!r} is not an attribute")


def _shape(message: Any, sizes: Sequence[int]) -> None:
    message.SetInParent()
    for size in sizes:
        message.dim.add(size=size)


def _extend(message: Any, values: Sequence[Any]) -> None:
    message.SetInParent()
    for value in values:
        match value:
            case bool():
                message.b.append(value)
            case int():
                message.i.append(value)
            case float():
                message.f.append(value)
            case str() if value in NUMBERS:
                message.type.append(NUMBERS[value])
            case Sizes():
                _shape(message.shape.add(), value)
            case _:
                message.s.append(value.encode())
