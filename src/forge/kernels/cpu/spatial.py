"""Geometry of 2-D windows over blocked activations [N][C/c][H][W][c]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forge import loops
from forge.dims import Dim
from forge.errors import CompileError
from forge.loops.contract import KernelCall, Reader, Writer
from forge.target import Target
from forge.target.blocking import channel_block
from forge.tir import expr as E
from forge.tir.expr import Expr, ExprLike


def pair(value: Any) -> tuple[int, int]:
    """A (height, width) attribute, which may be one number for both."""
    if isinstance(value, int):
        return value, value
    height, width = (value[0], value[0]) if len(value) == 1 else value
    return int(height), int(width)


def padding(value: Any) -> tuple[Dim, Dim, Dim, Dim]:
    """(top, left, bottom, right) from Relay's one, two or four numbers."""
    values = value if isinstance(value, tuple) else (value,)
    if len(values) == 4:
        return values
    top, left = values * 2 if len(values) == 1 else values
    return top, left, top, left


@dataclass(frozen=True)
class SpatialAxis:
    """One spatial axis of a window operator: ``out`` positions of ``kernel`` taps over ``extent`` elements.

    Plans are made for these numbers, which are typical ones where sizes are known at run time only; code is right for what the
    expressions ``positions``, ``data`` and ``pad`` are then. ``padded``: some position may reach outside the data.
    """

    extent: int
    out: int
    kernel: int
    stride: int
    dilation: int
    before: int
    positions: Expr
    data: Expr
    pad: Expr
    padded: bool

    @property
    def is_known(self) -> bool:
        """Whether all sizes are numbers."""
        return all(loops.static(size) is not None for size in (self.positions, self.data, self.pad))

    def span(self, outputs: int) -> int:
        """Elements under ``outputs`` neighbouring positions."""
        return (outputs - 1) * self.stride + self.reach

    def spanned(self, outputs: Expr) -> Expr:
        """As ``span``."""
        return (outputs - 1) * self.stride + self.reach

    @property
    def reach(self) -> int:
        """Elements under one position."""
        return (self.kernel - 1) * self.dilation + 1

    def inside(self, position: int, tap: int) -> bool:
        """Whether this tap of this position lies on data, where sizes are known."""
        return 0 <= position * self.stride - self.before + tap * self.dilation < self.extent

    def blocks(self, size: ExprLike, tile: int = 1) -> tuple[Expr, Expr]:
        """How many blocks of at most ``size`` positions there are, and the positions of one.

        Where sizes are known at run time only, blocks are even, in whole tiles; ``size`` must be whole tiles, too.
        """
        if self.is_known and isinstance(size, int):
            return E.const(-(-self.out // size)), E.const(size)
        count = (self.positions + (E.as_expr(size) - 1)) // size
        even = (self.positions + (count - 1)) // E.binary("max", count, 1)
        return count, loops.ceildiv(even, tile) * tile

    def parts(self, count: int) -> tuple[Expr, Expr]:
        """The number of even parts of the positions, about ``count`` or as many as there are, and the positions of one."""
        wanted = E.binary("max", E.binary("min", E.const(count), self.positions), 1)
        block = (self.positions + (wanted - 1)) // wanted
        return (self.positions + (block - 1)) // E.binary("max", block, 1), block

    def rest(self, block: Expr, first: Expr) -> Expr:
        """Positions of the block of ``block`` positions that begins at ``first``."""
        size = loops.static(block)
        if self.is_known and size is not None and self.out % size == 0:
            return block
        return E.binary("min", block, self.positions - first)


@dataclass(frozen=True)
class UsedTaps:
    """Which taps are not zero: those of a weight, the same ones of ``blocks`` neighbouring blocks of output channels, or of data.

    ``rows`` and ``columns``: the first tap of a block of output channels, and the end of its taps. ``has_block``: whether it has
    any for a block of data; ``has_data``: whether that block is not zero in an image.
    """

    blocks: int
    rows: Callable[[Expr], tuple[Expr, Expr]] | None = None
    columns: Callable[[Expr], tuple[Expr, Expr]] | None = None
    has_block: Callable[[Expr, Expr], Expr] = lambda out_block, block: E.const(True, "bool")
    has_data: Callable[[Sequence[Expr], Expr], Expr] = lambda image, block: E.const(True, "bool")


@dataclass(frozen=True)
class BlockedWindow:
    """Operands, result and geometry of a convolution over blocked data; ``images``: the extents whose product is ``batch``."""

    data: Reader
    weight: Reader
    result: Writer
    batch: Expr
    height: SpatialAxis
    width: SpatialAxis
    block: int
    out_block: int
    images: tuple[Expr, ...]
    used: UsedTaps | None = None

    @property
    def padded(self) -> bool:
        return self.height.padded or self.width.padded


def window_of(call: KernelCall, kernel: Sequence[int]) -> BlockedWindow:
    """Reads geometry from the operands' shapes and the operator's attributes.

    Raises:
        CompileError: operands are missing, or the data are not 5-D, or more for images with several indices.
    """
    data, weight, result = call.operands[0], call.operands[1], call.results[0]
    if data is None or weight is None or len(data.shape) < 5:
        raise CompileError(f"{call.name}: blocked convolution; expected data [N][C/c][H][W][c] and a packed weight")
    block, out_block = (loops.known(r.shape[-1], f"{call.name}: the channel block") for r in (data, result))
    strides, dilation, pads = pair(call.attrs.strides), pair(call.attrs.dilation), padding(call.attrs.padding)

    def axis(k: int) -> SpatialAxis:
        extent, positions, pad = data.shape[k - 3], result.shape[k - 3], call.dim(pads[k])
        sizes = [call.typical(e) for e in (extent, positions, pad)]
        out = sizes[1] if loops.static(positions) is not None else max(1, sizes[1])
        found = SpatialAxis(sizes[0], out, kernel[k], strides[k], dilation[k], sizes[2], positions, extent, pad, False)
        if found.is_known:
            padded = found.before > 0 or found.span(found.out) - found.before > found.extent
        else:
            padded = not all(isinstance(p, int) and p <= 0 for p in (pads[k], pads[k + 2]))
        return replace(found, padded=padded)

    images = data.shape[:-4]
    return BlockedWindow(data, weight, result, loops.product(images), axis(0), axis(1), block, out_block, images)


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
