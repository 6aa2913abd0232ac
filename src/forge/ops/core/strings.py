"""Elements of string tensors as Python strings, and as the bytes that compiled code reads."""

from __future__ import annotations

import re

import numpy as np

from forge.ir.graph import Graph
from forge.ir.nodes import CONSTANT
from forge.ops.core.signatures import Array, Builder

ESCAPED = re.compile("[\udc80-\udcff]")


def text_of(value: object) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else whole(str(value))


def whole(text: str) -> str:
    """``text`` in which bytes that are not UTF-8 by themselves, but are together, are the characters that they make."""
    if text.isascii() or not ESCAPED.search(text):
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def texts(data: Array) -> list[str]:
    """The elements as ``str``, in row-major order."""
    return [text_of(v) for v in data.reshape(-1).tolist()]


def packed(array: Array) -> Array:
    """The operand of ``string.unpack`` that stands for ``array``."""
    encoded = [text.encode("utf-8", "surrogateescape") for text in texts(array)]
    ends = np.cumsum([len(e) for e in encoded], dtype=np.int64)
    return np.frombuffer(ends.tobytes() + b"".join(encoded), np.uint8)


def unpack_string_constants(graph: Graph) -> None:
    """Puts ``string.unpack`` in the place of every string constant of ``graph``, not of its regions.

    Characters then lie in the weights, and addresses are found at run time:
    ``constant of ["ab", "c"]``  -->  ``string.unpack(constant of bytes, shape=(2,))``
    """
    for node in list(graph.nodes):
        if node.op_def is not CONSTANT or node.result.dtype != "string":
            continue
        builder, array = Builder(graph, before=node), node.attrs.value
        fresh = builder.call("string.unpack", builder.constant(packed(array)), shape=array.shape)
        graph.replace_uses(node.result, fresh)
        graph.remove(node)
