"""Elements that text writes as numbers: ``<[[1, 2], [3, 4]]>``, or ``<0.5>`` for all."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from forge.frontends.stablehlo import elements
from forge.frontends.stablehlo.module import TensorType

if TYPE_CHECKING:
    from forge.frontends.stablehlo.text.attributes import AttributeReader

_ITEM = re.compile(
    r"\s*+(?:([\[\](),>])|(-?0x[0-9a-fA-F]{1,32}+|-?\d{1,400}+(?:\.\d{0,400}+(?:[eE][-+]?\d{1,6}+)?)?)|(true|false))")
_CONSTANTS = {"true": "1", "false": "0"}


@dataclass
class Literal:
    """What the text says.

    Attributes:
        numbers: the elements, row by row; of complex numbers both parts.
        shape: of the lists that they are in; None for one that all elements are.
        depth: how many lists each element is in.
        pairs: whether they are complex, ``(1.0, 2.0)``.
    """

    numbers: list[str] = field(default_factory=list)
    shape: list[int] | None = None
    depth: int | None = None
    pairs: bool = False

    def array(self, tensor: TensorType, reader: AttributeReader) -> np.ndarray[Any, Any]:
        """The elements as those of a tensor."""
        shape = elements.static_shape(tensor, reader.fail)
        if self.shape is not None and tuple(self.shape) != shape and not (0 in shape and not self.numbers):
            reader.fail(f"got elements in lists of shape {tuple(self.shape)}; expected {shape}, as the type says")
        is_complex = tensor.dtype.startswith("complex")
        if self.pairs != is_complex and self.numbers:
            reader.fail(f"got elements of a tensor of {tensor.dtype}; expected pairs for complex numbers, and for these alone")
        is_splat = self.shape is None and bool(self.numbers)
        expected = (1 if is_splat else math.prod(shape)) * (2 if is_complex else 1)
        if len(self.numbers) != expected:
            reader.fail(f"got {len(self.numbers)} numbers; expected {expected} for elements of {tensor.dtype}, shape {shape}")
        values = self._values(tensor.dtype, reader)
        return np.broadcast_to(values.reshape(()), shape) if is_splat else values.reshape(shape)

    def _values(self, dtype: str, reader: AttributeReader) -> np.ndarray[Any, Any]:
        if dtype.startswith("complex"):
            parts = self._real("float32" if dtype == "complex64" else "float64", reader)
            return parts.view(elements.numpy_type(dtype))
        return self._real(dtype, reader)

    def _real(self, dtype: str, reader: AttributeReader) -> np.ndarray[Any, Any]:
        if "int" in dtype or dtype == "bool":
            if any("." in number for number in self.numbers):
                reader.fail(f"got a float among elements of {dtype}; expected integers")
            return elements.from_numbers([int(n, 16) if "x" in n else int(n) for n in self.numbers], dtype, reader.fail)
        if not any("x" in number for number in self.numbers):
            return elements.from_numbers([float(number) for number in self.numbers], dtype, reader.fail)
        bits = [(index, int(number, 16)) for index, number in enumerate(self.numbers) if "x" in number]
        values = elements.from_numbers([0.0 if "x" in number else float(number) for number in self.numbers], dtype, reader.fail)
        values[[index for index, _ in bits]] = elements.from_bits([value for _, value in bits], dtype, reader.fail)
        return values


def literal(reader: AttributeReader) -> Literal:
    """The elements that the reader is at the ``<`` of."""
    found = Literal()
    counts: list[int] = []
    sizes: dict[int, int] = {}
    place, after_comma = reader.stop, False
    while True:
        item = _ITEM.match(reader.text, place)
        if item is None:
            reader.jump(place)
            reader.unexpected("an element")
        place = item.end()
        mark = item[1]
        if mark == "[":
            counts.append(0)
            if len(counts) > 32:
                reader.fail("got lists nested more than 32 deep")
        elif mark == "]":
            _close(reader, counts, sizes)
        elif mark == ">":
            break
        elif mark == "(":
            found.pairs = True
        elif mark is None:
            found.numbers.append(_CONSTANTS.get(item[0].strip(), item[0].strip()))
            _count(reader, found, counts)
        after_comma = mark == ","
    if counts or after_comma:
        reader.jump(place - 1)
        reader.unexpected("']' or an element")
    reader.jump(place)
    if sizes:
        found.shape = [sizes[depth] for depth in range(max(sizes) + 1)]
    return found


def _count(reader: AttributeReader, found: Literal, counts: list[int]) -> None:
    """One number more in the innermost list; two are one element of complex ones."""
    if found.depth not in (None, len(counts)):
        reader.fail("got elements and lists side by side; expected all elements equally deep")
    found.depth = len(counts)
    if counts and not (found.pairs and len(found.numbers) % 2):
        counts[-1] += 1


def _close(reader: AttributeReader, counts: list[int], sizes: dict[int, int]) -> None:
    if not counts:
        reader.fail("got dense elements with a ']' too many")
    size = counts.pop()
    if sizes.setdefault(len(counts), size) != size:
        reader.fail(f"got lists of {size} and of {sizes[len(counts)]} elements; expected the same everywhere")
    if counts:
        counts[-1] += 1
