"""Geometry of 2-D windows over blocked activations [N][C/c][H][W][c]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forge import loops
from forge.errors import CompileError
from forge.loops.contract import KernelCall, Reader, Writer
from forge.target import Target
from forge.target.blocking import channel_block
from forge.tir.expr import Expr


def pair(value: Any) -> tuple[int, int]:
    """A (height, width) attribute, which may be one number for both."""
    if isinstance(value, int):
        return value, value
    height, width = (value[0], value[0]) if len(value) == 1 else value
    return int(height), int(width)


def padding(value: Any) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) from Relay's one, two or four numbers."""
    values = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if len(values) == 4:
        return values
    top, left = pair(values)
    return top, left, top, left


@dataclass(frozen=True)
class SpatialAxis:
    """One spatial axis of a window operator: ``out`` positions of ``kernel`` taps over ``extent`` elements."""

    extent: int
    out: int
    kernel: int
    stride: int
    dilation: int
    before: int

    def span(self, outputs: int) -> int:
        """Elements under ``outputs`` neighbouring positions."""
        return (outputs - 1) * self.stride + self.reach

    @property
    def reach(self) -> int:
        """Elements under one position."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def padded(self) -> bool:
        """Whether some position reaches outside the data."""
        return self.before > 0 or self.span(self.out) - self.before > self.extent

    def inside(self, position: int, tap: int) -> bool:
        """Whether this tap of this position lies on data."""
        return 0 <= position * self.stride - self.before + tap * self.dilation < self.extent


@dataclass(frozen=True)
class BlockedWindow:
    """Operands, result and geometry of a convolution over blocked data."""

    data: Reader
    weight: Reader
    result: Writer
    batch: Expr
    height: SpatialAxis
    width: SpatialAxis
    block: int
    out_block: int

    @property
    def padded(self) -> bool:
        return self.height.padded or self.width.padded


def window_of(call: KernelCall, kernel: Sequence[int]) -> BlockedWindow:
    """Reads geometry from the operands' shapes and the operator's attributes.

    Raises:
        CompileError: operands are missing, not 5-D, or their spatial extents are symbolic.
    """
    data, weight, result = call.operands[0], call.operands[1], call.results[0]
    if data is None or weight is None or len(data.shape) != 5:
        raise CompileError(f"{call.name}: blocked convolution; expected data [N][C/c][H][W][c] and a packed weight")
    sizes = [loops.static(extent) for extent in (*data.shape[2:], *result.shape[2:])]
    if None in sizes:
        raise CompileError(f"{call.name}: blocked convolution; got symbolic spatial extents; expected static ones; "
                           "keep the plain layout for symbolic images")
    h, w, block, out_h, out_w, out_block = (int(s) for s in sizes if s is not None)
    strides, dilation, pads = pair(call.attrs.strides), pair(call.attrs.dilation), padding(call.attrs.padding)
    return BlockedWindow(data, weight, result, data.shape[0],
                  SpatialAxis(h, out_h, kernel[0], strides[0], dilation[0], pads[0]),
                  SpatialAxis(w, out_w, kernel[1], strides[1], dilation[1], pads[1]), block, out_block)


@dataclass(frozen=True)
class Convolution3x3:
    """A 3x3 convolution of stride 1: what the choice of its algorithm depends on. ``height`` and ``width`` are the result's."""

    dtype: str
    images: int
    in_channels: int
    out_channels: int
    height: int
    width: int

    def key(self, target: Target) -> str:
        """The name of the choice; output channels count with their padding."""
        lanes = channel_block(target)
        narrow = "" if self.dtype == "float32" else f" {self.dtype}"
        outer = -(-self.out_channels // lanes) * lanes
        return f"winograd {self.images} x {self.in_channels} x {outer} x {self.height} x {self.width}{narrow}"


def note_algorithm(call: KernelCall, window: BlockedWindow, in_channels: int) -> None:
    """Notes for the tuner that this kernel was chosen among several algorithms, if it is a 3x3 convolution of stride 1."""
    axes = (window.height, window.width)
    if [(a.kernel, a.stride, a.dilation) for a in axes] == [(3, 1, 1)] * 2:
        images, blocks = loops.static(window.batch) or 1, loops.static(window.result.shape[1]) or 1
        sizes = (images, in_channels, blocks * window.out_block, window.height.out, window.width.out)
        call.target.choices.note(Convolution3x3(window.data.dtype, *sizes).key(call.target), call.name)


def static_shape(call: KernelCall, reader: Reader | None, rank: int, what: str) -> list[int]:
    """The extents of a packed operand.

    Raises:
        CompileError: it is absent, of another rank, or has symbolic extents.
    """
    extents = [] if reader is None else [loops.static(extent) for extent in reader.shape]
    known = [extent for extent in extents if extent is not None]
    if len(known) != rank or len(extents) != rank:
        raise CompileError(f"{call.name}: packed weight has shape {extents}; expected {what}, all extents static")
    return known
