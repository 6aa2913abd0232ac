"""Layouts: names for the order of axes, and the operator that moves a tensor from one to another.

A layout is text such as ``NCHW``, ``NCHW16c`` or ``OIHW16i16o``: a capital letter is an axis; a number and a small letter
is a block of that axis, so that index ``C * 16 + c`` is the channel. The last block of a letter runs fastest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from forge import dims, te
from forge.errors import TypeInferenceError
from forge.ops.core.inference import expect_rank, fail, require_equal
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Value


@dataclass(frozen=True)
class Layout:
    """A parsed layout. ``axes`` holds (letter, block): block 0 for a capital letter, its size for a small one."""

    text: str
    axes: tuple[tuple[str, int], ...]

    @property
    def letters(self) -> str:
        """The capital letters, in order."""
        return "".join(letter for letter, block in self.axes if not block)

    @property
    def rank(self) -> int:
        return len(self.axes)

    def index(self, letter: str) -> int:
        """Position of the unblocked axis ``letter``."""
        return self.axes.index((letter, 0))

    def block(self, letter: str) -> int:
        """Product of the blocks of ``letter``; 1 when it is not blocked."""
        return math.prod(size for name, size in self.axes if size and name.upper() == letter)

    def extent(self, letter: str, shape: Sequence[Dim]) -> Dim:
        """Elements of the logical axis ``letter`` of a tensor in this layout, padded lanes included."""
        return shape[self.index(letter)] * self.block(letter)

    def parts(self, letter: str) -> list[tuple[int, int]]:
        """(position, stride) of every axis that makes up the logical axis ``letter``."""
        found, stride = [], 1
        for position in reversed(range(self.rank)):
            name, size = self.axes[position]
            if size and name.upper() == letter:
                found.append((position, stride))
                stride *= size
        return [*found, (self.index(letter), stride)]


@lru_cache(maxsize=256)
def parse_layout(text: str) -> Layout:
    """Reads a layout.

    Raises:
        TypeInferenceError: not a layout: letters repeat, a block has no axis, or other text.
    """
    if not re.fullmatch(r"([A-Z]|[1-9][0-9]*[a-z])+", text):
        raise fail("layout", "text", repr(text), "letters such as 'NCHW' or 'NCHW16c'")
    axes = tuple((name, int(size or 0)) for size, name in re.findall(r"([0-9]*)([A-Za-z])", text))
    capitals = [name for name, size in axes if not size]
    if len(set(capitals)) != len(capitals) or any(size and name.upper() not in capitals for name, size in axes):
        raise fail("layout", "text", repr(text), "every capital letter once, and one for every block")
    return Layout(text, axes)


def unblocked(text: str, letters: str, op: str, what: str) -> str:
    """``text`` when it is a permutation of ``letters``.

    Raises:
        TypeInferenceError: it is not.
    """
    if sorted(text) != sorted(letters):
        raise fail(op, what, repr(text), f"a permutation of {letters!r}")
    return text


@dataclass(frozen=True)
class LayoutTransformAttrs:
    src_layout: str
    dst_layout: str
    channels: int | None = None


@register
class LayoutTransform(Op[LayoutTransformAttrs]):
    """The same elements in another layout: ``out[.., c // b, .., c % b] = data[.., c, ..]`` for a block ``b`` of C.

    Where the extent is not a multiple of the block, the lanes beyond it are zero here, but no operator may rely on that:
    after any computation they are undefined. ``channels`` is the true extent of the axis that ``src_layout`` blocks (None:
    all lanes count), so that going back drops the padded lanes.
    """

    name = "layout_transform"
    data = Operand(accepts="number or bool")
    kind = Kind.INJECTIVE
    is_transposition = True

    def infer(self, attrs: LayoutTransformAttrs, data: Value) -> TensorTypes:
        source, target = _layouts(attrs)
        expect_rank(self.name, data.tensor_type, "data", source.rank)
        for position, (_, block) in enumerate(source.axes):
            if block:
                require_equal(self.name, f"axis {position} in layout {source.text}", data.shape[position], block)
        extents = _logical_extents(source, data.shape, attrs.channels)
        shape = tuple(block or dims.ceildiv(extents[letter], target.block(letter)) for letter, block in target.axes)
        return [TensorType(shape, data.dtype)]

    def reference(self, attrs: LayoutTransformAttrs, data: Array) -> Arrays:
        source, target = _layouts(attrs)
        logical = _merge_blocks(data, source)
        for axis, letter in enumerate(source.letters):
            if attrs.channels is not None and source.block(letter) > 1:
                logical = np.take(logical, range(attrs.channels), axis)
        return [with_layout(logical, source.letters, target.text)]

    def lower(self, attrs: LayoutTransformAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        source, target = _layouts(attrs)
        extents = _logical_extents(source, data.shape, attrs.channels)

        def body(*axes: Expr) -> Expr:
            valid: Expr = te.const(True, "bool")
            logical: dict[str, Expr] = {}
            for letter in source.letters:
                at = _sum(axes[position] * stride for position, stride in target.parts(letter))
                extent = extents[letter]
                if not _divides(target.block(letter), extent):
                    valid = te.logical_and(valid, at < extent)
                    at = te.clamp(at, extent)
                logical[letter] = at
            indices = tuple(_part(logical, source, position) for position in range(source.rank))
            return te.select(valid, data[indices], te.const(0, data.dtype))

        return [te.compute(te.shape_of(results[0].shape), body, name="layout_transform")]


def _layouts(attrs: LayoutTransformAttrs) -> tuple[Layout, Layout]:
    source, target = parse_layout(attrs.src_layout), parse_layout(attrs.dst_layout)
    if sorted(source.letters) != sorted(target.letters):
        raise TypeInferenceError(f"layout_transform: dst_layout: got {attrs.dst_layout}; expected the axes of {attrs.src_layout}")
    return source, target


def _logical_extents(layout: Layout, shape: Sequence[Any], channels: int | None) -> dict[str, Any]:
    """Extents by letter, as the kind of ``shape``'s entries (dimensions or expressions)."""
    found: dict[str, Any] = {}
    for letter in layout.letters:
        padded: Any = layout.extent(letter, shape)
        found[letter] = padded
        if channels is not None and layout.block(letter) > 1:
            found[letter] = te.dim(channels) if isinstance(padded, Expr) else channels
    return found


def _divides(block: int, extent: Any) -> bool:
    value = getattr(extent, "value", extent)
    return block == 1 or (isinstance(value, int) and value % block == 0)


def _sum(terms: Iterable[Expr]) -> Expr:
    total: Expr = te.const(0)
    for term in terms:
        total = total + term
    return total


def _part(logical: dict[str, Expr], layout: Layout, position: int) -> Expr:
    """The index along axis ``position`` of ``layout`` of the element at ``logical``."""
    letter, block = layout.axes[position]
    stride = dict(layout.parts(letter.upper()))[position]
    index = logical[letter.upper()] // stride
    return index % block if block else index


def _merge_blocks(x: np.ndarray, layout: Layout) -> np.ndarray:
    """``x`` with one axis per capital letter, in the layout's order."""
    extents = [x.shape[layout.index(letter)] * layout.block(letter) for letter in layout.letters]
    return x.transpose(_stable(range(layout.rank), layout)).reshape(extents)


def _stable(positions: Iterable[int], layout: Layout) -> list[int]:
    """``positions`` letter by letter, the capital axis of each before its blocks."""
    return sorted(positions, key=lambda p: (layout.letters.index(layout.axes[p][0].upper()), layout.axes[p][1] != 0, p))


def with_layout(x: np.ndarray, letters: str, text: str) -> np.ndarray:
    """``x``, whose axes are ``letters``, in layout ``text``, with zeros where blocks go beyond an extent; else a view."""
    layout = parse_layout(text)
    pads = [(0, -extent % layout.block(letter)) for letter, extent in zip(letters, x.shape)]
    padded = np.pad(x, pads) if any(after for _, after in pads) else x
    shape: list[int] = []
    names: list[int] = []
    for letter, extent in zip(letters, padded.shape):
        positions = _stable((p for p, _ in layout.parts(letter)), layout)
        names += positions
        shape += [extent // layout.block(letter), *(layout.axes[p][1] for p in positions[1:])]
    return padded.reshape(shape).transpose(np.argsort(names))
