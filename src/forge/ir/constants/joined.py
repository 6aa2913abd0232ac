"""Constants of several arrays one after the other, which are joined where somebody asks for the array, and not before.

So the packed form of a large weight is a view of it and one small array, for what has to be filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dtypes
from forge.ir.arrays import held
from forge.ir.builder import Builder
from forge.ir.nodes import CONSTANT, ConstantAttrs, Node, Value
from forge.ir.types import TensorType


class JoinedAttrs(ConstantAttrs):
    """A constant that is ``parts``, joined along their first axis."""

    def __init__(self, parts: Sequence[np.ndarray]) -> None:
        object.__setattr__(self, "parts", tuple(map(held, parts)))

    parts: tuple[np.ndarray, ...]

    @property
    def value(self) -> np.ndarray:
        """The array, made anew each time."""
        return held(np.concatenate(self.parts))


def joined(builder: Builder, parts: Sequence[np.ndarray], name: str = "") -> Value:
    """A constant of ``parts``, which are of one type but for the first extent, joined along that axis."""
    if len(parts) == 1:
        return builder.constant(parts[0], name=name)
    attrs = JoinedAttrs(parts)
    shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
    types = [TensorType(shape, dtypes.canonical(parts[0].dtype))]
    return builder.insert(Node(CONSTANT, [], attrs, types, name=name, location=builder.location, result_names=[name])).result


def parts_of(value: Value) -> tuple[np.ndarray, ...]:
    """The arrays that a constant is made of, in row-major order; none where ``value`` is not constant."""
    attrs = None if value.producer is None else value.producer.attrs
    if isinstance(attrs, JoinedAttrs):
        return attrs.parts
    return (attrs.value,) if isinstance(attrs, ConstantAttrs) else ()


def is_constant(value: Value) -> bool:
    return value.producer is not None and value.producer.op_def is CONSTANT
