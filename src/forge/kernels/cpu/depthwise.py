"""Kernel families ``depthwise_conv2d_nchwc`` and ``depthwise_conv3d_ncdhwc``: each channel has its own window.

Operands: data [N][C/c][H][W][c], weight [C/c][kh][kw][c]; result [N][C/c][OH][OW][c]. ``attrs``: strides, padding, dilation.
Data and weights of bytes: ``depthwise_bytes``. Of volumes, data are [N][C/c][D][H][W][c], the result is alike, and the weight
has taps [kd] before [kh].

Of m filters per channel, the weight and the result have m times as many channels as the data.

Vectors run over channels. A tile is a few neighbouring outputs of one row; each input column under it is loaded once per row of
taps and multiplied by all taps that meet it. Slices and rows of taps outside the data are left out by the bounds of their
loops, columns outside by building the first and the last tiles of a row separately. Where sizes are known at run time only, tiles
that are not inside ask of their first and last columns whether they are there, of as many as there is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu import depthwise_bytes, tiles
from forge.kernels.cpu.spatial import BlockedWindow, Image, SpatialAxis, UsedTaps, known_tiles, static_shape, window_of
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall, Reader, Variant, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq

# A multiply-add takes as long as this many in a kernel that reuses its operands.
MEMORY_FACTOR: Final = 3
# Outputs of a tile of rows whose length is known at run time only: networks make images of multiples of seven and of eight, and
# rows of eight are little longer in tiles of seven and four.
WIDTH: Final = 7
# Of LLVM's passes where calls share the code: below it, conditions between taps take a hundredth of the time.
SHARED_LEVEL: Final = 2

Taps = tuple[Expr, Expr]
"""The first tap, and the end of them."""


@dataclass(frozen=True, kw_only=True)
class DepthwisePlan:
    """``width`` outputs of one vector of channels are a tile."""

    window: BlockedWindow
    lanes: int
    dtype: str
    width: int


def variant(call: KernelCall) -> Variant | None:
    """Shares code between convolutions of floats over images or volumes of unknown sizes."""
    data, weight = call.readers
    if len(data.shape) == len(weight.shape) == 5 or _filters(call) > 1:
        return None
    window = _plan(call, None).window
    places = {(0, 1): 0, (1, 0): 0, (len(call.operands), 1): 0}
    return None if window.is_known else Variant("", (window.out_blocks,), places, ("channels", "in_channels", "groups"))


@kernel("depthwise_conv3d_ncdhwc", variant=variant)
@kernel("depthwise_conv2d_nchwc", variant=variant)
def depthwise_conv2d_nchwc(call: KernelCall) -> Function:
    """Depthwise convolution over blocked channels."""
    if _filters(call) > 1:
        call = replace(call, operands=(_repeated(call), call.operands[1]))
    return convolution(call)


def convolution(call: KernelCall, used: UsedTaps | None = None) -> Function:
    """Makes the convolution, whose windows begin where ``used`` says; windows of bytes, or of known sizes, begin together."""
    data, weight = call.readers
    if len(data.shape) == len(weight.shape) == 5:
        return depthwise_bytes.build(call)
    plan = _plan(call, used)
    window = plan.window
    blocks = call.numbers[0] if call.numbers else E.const(window.out_blocks)
    wanted = loops.ceildiv(E.const(depthwise_bytes.TASKS_PER_CORE * call.target.num_cores), blocks * window.image_count)
    row_blocks, row_block = window.height.parts(wanted)
    extents = [*window.images.values(), blocks, row_blocks]

    def task(index: Expr) -> Stmt:
        lets: list[Stmt] = []
        *places, number = loops.unravel(index, extents)
        volume, image, block, first = (loops.bound(x, lets) for x in (*places, number * row_block))
        rows = E.binary("min", row_block, window.height.positions - first)
        own = replace(plan, window=window.of_block(block, lets))
        return seq(lets, loops.serial("row", rows, lambda row: _row(own, (volume, image), block, row), first))

    taps = window.slices * window.height.kernel * window.width.kernel
    work = call.typical(row_block) * window.width.out * window.block * taps
    return call.function(loops.parallel(loops.product(extents), work * MEMORY_FACTOR, task), SHARED_LEVEL)


def _filters(call: KernelCall) -> int:
    """Filters of each channel of the data: one where calls of several numbers of channels share code."""
    return int(call.attrs.channels) // int(call.attrs.in_channels) if call.attrs.in_channels else 1


def _repeated(call: KernelCall) -> Reader:
    """The data with each channel as often as it has filters, in lanes side by side."""
    (data, weight), filters = call.readers, _filters(call)
    block = loops.known(data.shape[-1], f"{call.name}: the channel block")

    def read(indices: Sequence[Expr]) -> Expr:
        image, number, *place, lanes = indices
        assert isinstance(lanes, E.Ramp)
        own = E.ramp((number % filters * block + lanes.base) // filters, 1, max(1, lanes.lanes // filters))
        value = data.read([image, number // filters, *place, own])
        if value.lanes == 1:
            return E.broadcast(value, lanes.lanes)
        return E.call("shuffle", value, value, *(E.const(k // filters) for k in range(lanes.lanes)), lanes=lanes.lanes)

    return Reader((data.shape[0], weight.shape[0], *data.shape[2:]), data.dtype, read, None)


def _plan(call: KernelCall, used: UsedTaps | None) -> DepthwisePlan:
    rank = len(call.results[0].shape) - 1
    _, *taps, block = static_shape(call, call.operands[1], rank, "[C/c], taps, [c]")
    window = window_of(call, taps, used)
    if not block == window.block == window.out_block:
        raise CompileError(f"{call.name}: channel blocks of data, weight and result are {window.block}, {block} and "
                           f"{window.out_block}; expected equal ones")
    dtype = tiles.accumulator_dtype(window.data.dtype, window.weight.dtype)
    most = 8 if call.target.vector_registers >= 32 else 6
    width = min(window.width.out, most) if window.width.is_known else min(WIDTH, most)
    return DepthwisePlan(window=window, lanes=tiles.vector_lanes(block, call.target, dtype), dtype=dtype, width=width)


def _row(plan: DepthwisePlan, image: Image, block: Expr, row: Expr) -> Stmt:
    """One output row of one channel block."""
    lets = list[Stmt]()
    out_row = loops.bound(row, lets, "out_row")
    rows = _taps_inside(plan.window.height, out_row, lets)
    slices = _taps_inside(plan.window.depth, image[1], lets)

    def vector(index: Expr) -> Stmt:
        return _Row(plan, image, block, out_row, slices, rows, E.ramp(index * plan.lanes, 1, plan.lanes)).statement()

    return seq(lets, loops.serial("vector", plan.window.block // plan.lanes, vector))


def _taps_inside(axis: SpatialAxis, position: Expr, lets: list[Stmt]) -> Taps:
    """Bounds of the taps that lie on data at this position."""
    every = E.const(0), E.const(axis.kernel)
    return axis.taps_on_data(axis.start(position), lets, *every) if axis.padded else every


@dataclass(frozen=True)
class _Row:
    """Tiles of one output row of a vector of channels, whose ``slices`` and ``rows`` of taps lie on data."""

    plan: DepthwisePlan
    image: Image
    block: Expr
    row: Expr
    slices: Taps
    rows: Taps
    lanes: Expr

    def statement(self) -> Stmt:
        axis, width = self.plan.window.width, self.plan.width
        if not axis.is_known:
            return self._any_tiles()

        def is_inside(begin: int) -> bool:
            return axis.inside(begin, 0) and axis.inside(begin + width - 1, axis.kernel - 1)

        return known_tiles("tile", axis.out, width, is_inside, self._tile)

    def _any_tiles(self) -> Stmt:
        """Tiles of a row of any length: wide ones, then narrow ones. The last one repeats some outputs of the one before."""
        axis, width, narrow = self.plan.window.width, self.plan.width, self.plan.width // 2
        positions, parts = axis.positions, list[Stmt]()
        wide = E.select(positions >= width, loops.ceildiv(positions - narrow, width), E.const(0))
        wide = loops.bound(wide, parts, "wide")

        def one(number: Expr) -> Stmt:
            lets, first = loops.bind("first", E.binary("min", number * width, positions - width))
            if not axis.padded:
                return seq(lets, self._tile(first, width))
            column = axis.start(first)
            inside = E.logical_and(column >= 0, column + axis.span(width) <= axis.data)
            return seq(lets, loops.guard(inside, self._tile(first, width), self._tile(first, width, guarded=True)))

        def rest(number: Expr) -> Stmt:
            lets, first = loops.bind("first", E.binary("min", wide * width + number * narrow, positions - narrow))
            return seq(lets, self._tile(first, narrow, guarded=True))

        parts += [loops.serial("tile", wide, one), loops.serial("rest", loops.ceildiv(positions - wide * width, narrow), rest)]
        single = loops.serial("position", positions, lambda i: self._tile(i, 1, guarded=True))
        return loops.guard(positions >= narrow, seq(parts), single)

    def _tile(self, first: Expr, width: int, guarded: bool = False) -> Stmt:
        """``width`` neighbouring outputs; where ``guarded``, the first and last input columns under them may lie outside."""
        window, plan = self.plan.window, self.plan
        acc = Accumulators(RegisterTile(width, 1, plan.lanes, plan.dtype))
        columns = self._columns(first, width)

        def write(position: Expr, _: int) -> Stmt:
            return window.write(self.image, self.block, self.row, first + position, self.lanes, acc.get(position, 0))

        def of_slice(tap: Expr) -> Stmt:
            return loops.serial("tap_row", self.rows[1] - self.rows[0],
                                lambda row: self._tap_row(acc, tap, row, first, columns, guarded), self.rows[0])

        reduce = loops.serial("tap_slice", self.slices[1] - self.slices[0], of_slice, self.slices[0])
        return seq(acc.allocate(), acc.clear(), reduce, acc.each(write))

    def _columns(self, first: Expr, width: int) -> dict[int, list[tuple[int, int]]]:
        """Input columns under a tile (counted from its first tap), each with the (position, tap) pairs that read it.

        Of rows of known length, tiles that are not inside begin at a constant.
        """
        axis = self.plan.window.width
        begin = loops.static(first) if axis.is_known else None
        columns: dict[int, list[tuple[int, int]]] = {}
        for position in range(width):
            for tap in range(axis.kernel):
                if begin is None or axis.inside(begin + position, tap):
                    columns.setdefault(position * axis.stride + tap * axis.dilation, []).append((position, tap))
        return dict(sorted(columns.items()))

    def _tap_row(self, acc: Accumulators, tap_slice: Expr, tap: Expr, first: Expr, columns: dict[int, list[tuple[int, int]]],
                 guarded: bool) -> Stmt:
        """One row of taps: each input column once."""
        window, dtype = self.plan.window, self.plan.dtype
        height, width = window.height, window.width
        body: list[Stmt] = []
        h = loops.bound(self.row * height.stride + (tap * height.dilation - height.pad), body, "h")
        source = window.source(self.image, self.block * window.slices + tap_slice)
        weights: list[Expr] = []
        for k in range(width.kernel):
            taps = [tap_slice, tap, E.const(k)] if window.is_volume else [tap, E.const(k)]
            value = window.weight.read([self.block, *taps, self.lanes])
            weights.append(loops.bound(E.cast(value, dtype), body, f"weight{k}"))
        for column, meeting in columns.items():
            w = first * width.stride + (column - width.pad)
            updates: list[Stmt] = []
            inside = width.is_there(w, column, max(columns) + 1) if guarded else E.const(True, "bool")
            x = loops.bound(E.cast(window.data.read([*source, h, w, self.lanes]), dtype), updates, "x")
            updates += [acc.set(p, 0, loops.multiply_add(x, weights[k], acc.get(p, 0))) for p, k in meeting]
            body.append(loops.guard(inside, seq(updates)))
        return seq(body)
