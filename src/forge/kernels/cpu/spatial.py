"""Geometry of windows over blocked activations: images [N][C/c][H][W][c], volumes [N][C/c][D][H][W][c].

To kernels the slices of a volume are images, and the slices under one of the result are blocks of channels. An image is a volume
of one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from forge import loops
from forge.backend import Convolution3x3
from forge.errors import CompileError
from forge.kernels.cpu import tiles
from forge.loops.contract import KernelCall, Reader, Writer
from forge.loops.dots import Group
from forge.target import Target
from forge.target.blocking import channel_block
from forge.tir import expr as E
from forge.tir.expr import Expr, ExprLike
from forge.tir.stmt import Stmt, seq

Count = TypeVar("Count", int, Expr)


def clamp(x: Expr, low: Expr, high: Expr) -> Expr:
    """Moves ``x`` into the range from ``low`` to ``high``."""
    return E.binary("max", E.binary("min", x, high), low)


def each_axis(value: Any, count: int) -> tuple[Any, ...]:
    """Returns the ``count`` numbers of an attribute of spatial axes, which may be one for all, or one for both sides of each."""
    values = value if isinstance(value, tuple) else (value,)
    return values * (count // len(values))


@dataclass(frozen=True, kw_only=True)
class SpatialAxis:
    """A spatial axis of a window operator: ``out`` positions of ``kernel`` taps over ``extent`` elements.

    Plans are made for these numbers, which are typical ones where sizes are known at run time only; code is right for what the
    expressions ``positions``, ``data`` and ``pad`` are then. ``padded``: some position may reach outside the data. ``shift``: by
    how many elements windows of some output channels begin later. ``ahead`` and ``after``: by how many elements positions reach
    before the data and past them at most, None: by any number.
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
    padded: bool = False
    shift: int = 0
    ahead: int | None = None
    after: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether all sizes are numbers."""
        return all(loops.static(size) is not None for size in (self.positions, self.data, self.pad))

    def span(self, outputs: Count) -> Count:
        """Elements under ``outputs`` neighbouring positions."""
        return (outputs - 1) * self.stride + self.reach

    @property
    def reach(self) -> int:
        """Elements under one position of all output channels."""
        return (self.kernel - 1) * self.dilation + 1 + self.shift

    def inside(self, position: int, tap: int) -> bool:
        """Returns whether this tap of this position lies on data, where sizes are known."""
        return 0 <= position * self.stride - self.before + tap * self.dilation < self.extent

    def start(self, position: Expr) -> Expr:
        """Returns the element under the first tap of a position."""
        return position * self.stride - self.pad

    def holds(self, index: Expr) -> Expr:
        """Tells whether an element lies on data."""
        return E.logical_and(index >= 0, index < self.data)

    def is_there(self, index: Expr, number: int, count: int) -> Expr:
        """Tells whether element ``number`` of ``count`` under neighbouring positions lies on data; asks only what may differ."""
        inside: Expr = E.const(True, "bool") if self.ahead is not None and number >= self.ahead else index >= 0
        may_be_past = self.after is None or count - number <= self.after
        return E.logical_and(index < self.data, inside) if may_be_past else inside

    def taps_on_data(self, start: Expr, lets: list[Stmt], first: Expr, end: Expr) -> tuple[Expr, Expr]:
        """Returns the taps from ``first`` to ``end`` that lie on data at the position that begins at ``start``."""
        last = loops.ceildiv(self.data - start, self.dilation)
        return (loops.bound(E.binary("max", first, loops.ceildiv(E.const(0) - start, self.dilation)), lets, "first_tap"),
                loops.bound(E.binary("min", end, last), lets, "last_tap"))

    def blocks(self, size: ExprLike, tile: int = 1) -> tuple[Expr, Expr]:
        """Returns the number of blocks of at most ``size`` positions, and the positions of one.

        Where sizes are known at run time only, blocks are even, in whole tiles; ``size`` must be whole tiles, too.
        """
        if self.is_known and isinstance(size, int):
            return E.const(-(-self.out // size)), E.const(size)
        count = loops.ceildiv(self.positions, E.as_expr(size))
        even = loops.ceildiv(self.positions, count)
        return count, loops.ceildiv(even, tile) * tile

    def parts(self, count: ExprLike) -> tuple[Expr, Expr]:
        """Returns the number of even parts of the positions, ``count`` or as many as there are, and the positions of one."""
        wanted = E.binary("max", E.binary("min", E.as_expr(count), self.positions), 1)
        block = loops.ceildiv(self.positions, wanted)
        return loops.ceildiv(self.positions, block), block

    def rest(self, block: Expr, first: Expr) -> Expr:
        """Positions of the block of ``block`` positions that begins at ``first``."""
        size = loops.static(block)
        if self.is_known and size is not None and self.out % size == 0:
            return block
        return E.binary("min", block, self.positions - first)


def known_tiles(name: str, count: int, size: int, is_inside: Callable[[int], bool], tile: Callable[[Expr, int], Stmt]) -> Stmt:
    """Covers ``count`` positions with tiles of ``size``, the last one maybe smaller: ``tile(first, size)``.

    Neighbouring whole tiles that are inside share a loop; others begin at a constant. ``is_inside`` is asked of whole tiles.
    """
    runs: list[range] = []
    for begin in range(0, count, size):
        end = min(begin + size, count)
        joins = runs and end - begin == size and is_inside(begin) and is_inside(runs[-1].start)
        runs.append(range(runs.pop().start if joins else begin, end))

    def run(positions: range) -> Stmt:
        if len(positions) <= size:
            return tile(E.const(positions.start), len(positions))
        return loops.serial(name, len(positions) // size, lambda number: tile(number * size + positions.start, size))

    return seq(map(run, runs))


WRITTEN_OUT: Final = 8
"""Vector operations of an epilogue, from the sum to what is stored, that is written out for every sum of a tile."""

Image = tuple[Expr, Expr]
"""The number of a volume of the result, and of its slice; of images, the latter is 0."""

ONE_SLICE: Final = SpatialAxis(
    extent=1, out=1, kernel=1, stride=1, dilation=1, before=0, positions=E.const(1), data=E.const(1), pad=E.const(0))
"""The depth of images."""


@dataclass(frozen=True)
class UsedTaps:
    """The taps of a weight that are not zero: the same ones of ``blocks`` neighbouring blocks of output channels.

    ``row_shift`` and ``column_shift``: by how many elements the windows of a block of output channels begin later, at most
    ``shifts``. ``rows`` and ``columns``: its first tap, and the end of its taps. ``has_block``: whether it has any for a block of
    data.
    """

    blocks: int
    shifts: tuple[int, ...] = (0, 0)
    row_shift: Callable[[Expr], Expr] | None = None
    column_shift: Callable[[Expr], Expr] | None = None
    rows: Callable[[Expr], tuple[Expr, Expr]] | None = None
    columns: Callable[[Expr], tuple[Expr, Expr]] | None = None
    has_block: Callable[[Expr, Expr], Expr] = lambda out_block, block: E.const(True, "bool")


@dataclass(frozen=True, kw_only=True)
class BlockedWindow:
    """Operands, result and geometry of a convolution over blocked data.

    Of volumes, tap t along the ``depth`` of the block b of channels is block ``b * slices + t``. ``out_blocks`` of channels of
    ``out_block`` are those of a typical call, where calls of other numbers share code.
    """

    data: Reader
    weight: Reader
    result: Writer
    batch: Expr
    depth: SpatialAxis
    height: SpatialAxis
    width: SpatialAxis
    block: int
    out_block: int
    out_blocks: int
    used: UsedTaps | None = None

    @property
    def is_volume(self) -> bool:
        return len(self.data.shape) > 5

    @property
    def is_known(self) -> bool:
        """Whether the sizes of all axes are numbers."""
        return self.depth.is_known and self.height.is_known and self.width.is_known

    @property
    def images(self) -> dict[str, Expr]:
        """The extents of all numbers of an image."""
        return {"volume" if self.is_volume else "image": self.batch, "slice": self.depth.positions}

    @property
    def image_count(self) -> int:
        """Images, for plans."""
        return (loops.static(self.batch) or 1) * self.depth.out

    @property
    def slices(self) -> int:
        """Slices of data under an image of the result."""
        return self.depth.kernel

    def of_block(self, block: Expr, lets: list[Stmt]) -> BlockedWindow:
        """Returns the window of a block of output channels that begins later: it has less padding before the data."""

        def less(axis: SpatialAxis, shift: Callable[[Expr], Expr] | None) -> SpatialAxis:
            return axis if shift is None else replace(axis, pad=loops.bound(axis.pad - shift(block), lets, "pad"))

        used = self.used or UsedTaps(0)
        return replace(self, height=less(self.height, used.row_shift), width=less(self.width, used.column_shift))

    def slice_of(self, image: Image, block: Expr) -> Expr:
        """Returns the slice of data under an image of a volume that is its block of channels; outside of all, where padded."""
        return image[1] * self.depth.stride + block % self.slices * self.depth.dilation - self.depth.pad

    def has_slice(self, image: Image, block: Expr) -> Expr:
        """Returns whether a block of channels of an image is data, and not padding."""
        return self.depth.holds(self.slice_of(image, block)) if self.depth.padded else E.const(True, "bool")

    def source(self, image: Image, block: Expr) -> list[Expr]:
        """Returns the indices of a block of channels of an image in data."""
        return self.indices(image[0], block // self.slices, self.slice_of(image, block))

    def indices(self, volume: Expr, block: Expr, number: Expr) -> list[Expr]:
        """Returns the first indices of data or the result: those of a block of channels of a slice."""
        return [volume, block, number] if self.is_volume else [volume, block]

    def write(self, image: Image, block: Expr, row: Expr, column: Expr, lanes: Expr, value: Expr) -> Stmt:
        """Writes a vector of finished sums, as `Writer.write` does."""
        value = loops.finished(value, self.result.dtype)
        return self.result.write([*self.indices(image[0], block, image[1]), row, column, lanes], value)


@dataclass(frozen=True, kw_only=True)
class WindowProblem:
    """The facts that the choice of a plan for a convolution depends on.

    Sums of ``dtype`` take a ``unit`` of input channels in a step. Data are padded with ``pad_value``.
    """

    window: BlockedWindow
    target: Target
    dtype: str
    unit: Group
    pad_value: int = 0

    @property
    def lanes(self) -> int:
        """Output channels of a vector."""
        return tiles.vector_lanes(self.window.out_block, self.target, self.dtype)

    @property
    def out_vectors(self) -> int:
        return self.window.out_blocks * self.window.out_block // self.lanes


def window_of(call: KernelCall, kernel: Sequence[int], used: UsedTaps | None = None) -> BlockedWindow:
    """Reads geometry from the operands' shapes and the operator's attributes.

    Raises:
        CompileError: operands are missing, or have not an axis for each of ``kernel``.
    """
    data, weight, result, axes = call.operands[0], call.operands[1], call.results[0], len(kernel)
    if data is None or weight is None or len(data.shape) != axes + 3:
        raise CompileError(f"{call.name}: blocked convolution; expected data [N][C/c][H][W][c] and a packed weight")
    block, out_block = (loops.known(r.shape[-1], f"{call.name}: the channel block") for r in (data, result))
    strides, dilation = each_axis(call.attrs.strides, axes), each_axis(call.attrs.dilation, axes)
    pads, shifts = each_axis(call.attrs.padding, 2 * axes), (*(0,) * (axes - 2), *(used or UsedTaps(0)).shifts)

    def axis(k: int) -> SpatialAxis:
        extent, positions, pad = data.shape[2 + k], result.shape[2 + k], call.dim(pads[k])
        sizes = [call.typical(e) for e in (extent, positions, pad)]
        out = sizes[1] if loops.static(positions) is not None else max(1, sizes[1])
        # Windows that begin later are as many fewer.
        ahead, after = (max(0, p) if isinstance(p, int) else None for p in (pads[k], pads[k + axes]))
        found = SpatialAxis(
            extent=sizes[0], out=out, kernel=kernel[k], stride=strides[k], dilation=dilation[k], before=sizes[2],
            positions=positions, data=extent, pad=pad, shift=shifts[k], ahead=ahead, after=after)
        if found.is_known:
            padded = found.before > 0 or found.span(found.out) - found.before > found.extent
        else:
            padded = not all(isinstance(p, int) and p <= 0 for p in (pads[k], pads[k + axes]))
        return replace(found, padded=padded)

    depth, height, width = [ONE_SLICE, *map(axis, range(axes))][-3:]
    return BlockedWindow(
        data=data, weight=weight, result=result, batch=data.shape[0], depth=depth, height=height, width=width, block=block,
        out_block=out_block, out_blocks=call.typical(result.shape[1]), used=used)


def winograd_key(convolution: Convolution3x3, target: Target) -> str:
    """Returns the name of the choice of an algorithm; output channels count with their padding."""
    c, lanes = convolution, channel_block(target)
    narrow = "" if c.dtype == "float32" else f" {c.dtype}"
    narrow += f" of {c.slices} slices" if c.slices > 1 else ""
    narrow += "" if c.dilation == (1, 1) else f" dilated {c.dilation[0]},{c.dilation[1]}"
    outer = -(-c.out_channels // lanes) * lanes
    return f"winograd {c.images} x {c.in_channels} x {outer} x {c.height} x {c.width}{narrow}"


def convolution_of(window: BlockedWindow, in_channels: int) -> Convolution3x3:
    """Returns what the choice of an algorithm for a 3x3 convolution depends on."""
    sizes = (window.image_count, in_channels, window.out_blocks * window.out_block, window.height.out, window.width.out)
    return Convolution3x3(window.data.dtype, *sizes, window.slices, (window.height.dilation, window.width.dilation))


def note_algorithm(call: KernelCall, window: BlockedWindow, in_channels: int) -> None:
    """Notes for the tuner that this kernel was chosen among several algorithms, if it is a 3x3 convolution of stride 1."""
    if all((axis.kernel, axis.stride) == (3, 1) for axis in (window.height, window.width)):
        call.target.choices.note(winograd_key(convolution_of(window, in_channels), call.target), call.name)


def static_shape(call: KernelCall, reader: Reader | None, rank: int, what: str) -> list[int]:
    """Returns the extents of a packed operand; those of a typical call, of code that calls share.

    Raises:
        CompileError: it is absent, of another rank, or has symbolic extents.
    """
    shape = () if reader is None else reader.shape
    extents = [call.typical(extent) if call.numbers else loops.static(extent) for extent in shape]
    known = [extent for extent in extents if extent is not None]
    if len(known) != rank or len(extents) != rank:
        raise CompileError(f"{call.name}: packed weight has shape {extents}; expected {what}, all extents static")
    return known
