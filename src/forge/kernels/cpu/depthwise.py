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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forge import loops
from forge.errors import CompileError
from forge.kernels.cpu import depthwise_bytes, tiles
from forge.kernels.cpu.spatial import BlockedWindow, Image, SpatialAxis, UsedTaps, static_shape, window_of
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall, Reader, Variant, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq

# The image is cut into about this many tasks per core.
TASKS_PER_CORE: Final = 4
# A multiply-add takes as long as this many in a kernel that reuses its operands.
MEMORY_FACTOR: Final = 3
# Outputs of a tile of rows whose length is known at run time only: networks make images of multiples of seven and of eight, and
# rows of eight are little longer in tiles of seven and four.
WIDTH: Final = 7
# Of LLVM's passes where calls share the code: below it, conditions between taps take a hundredth of the time.
SHARED_LEVEL: Final = 2

Taps = tuple[Expr, Expr]
"""The first tap, and the end of them."""
TileBuilder = Callable[[Expr, int, "int | Guarded | None"], Stmt]


@dataclass(frozen=True)
class DepthwisePlan:
    """``width`` outputs of one vector of channels are a tile; ``row_block`` rows of one channel block are a task.

    There are ``row_blocks`` tasks of each channel block of an image.
    """

    window: BlockedWindow
    blocks: Expr
    lanes: int
    dtype: str
    width: int
    row_blocks: Expr
    row_block: Expr


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
    """The convolution, whose windows begin where ``used`` says; windows of bytes, or of known sizes, begin together."""
    data, weight = call.readers
    if len(data.shape) == len(weight.shape) == 5:
        return depthwise_bytes.build(call)
    plan = _plan(call, used)
    window = plan.window
    extents = [*window.images.values(), plan.blocks, plan.row_blocks]

    def task(index: Expr) -> Stmt:
        lets: list[Stmt] = []
        *places, row_block = loops.unravel(index, extents)
        *image, block, first = (loops.bound(x, lets) for x in (*places, row_block * plan.row_block))
        rows = E.binary("min", plan.row_block, window.height.positions - first)
        own = replace(plan, window=window.of_block(block, lets))
        return seq(lets, loops.serial("row", rows, lambda row: _row(own, tuple(image), block, row), first))

    taps = window.slices * window.height.kernel * window.width.kernel
    work = call.typical(plan.row_block) * window.width.out * window.block * taps
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
    blocks = call.numbers[0] if call.numbers else E.const(window.out_blocks)
    wanted = loops.ceildiv(E.const(TASKS_PER_CORE * call.target.num_cores), blocks * window.image_count)
    row_blocks, row_block = window.height.parts(wanted)
    return DepthwisePlan(window, blocks, tiles.vector_lanes(block, call.target, dtype), dtype, width, row_blocks, row_block)


def _row(plan: DepthwisePlan, image: Image, block: Expr, row: Expr) -> Stmt:
    """One output row of one channel block."""
    let_row, out_row = loops.bind("out_row", row)
    lets, rows = _taps_inside(plan.window.height, out_row)
    slices: Taps = (E.const(0), E.const(1))
    if plan.window.depth is not None:
        more, slices = _taps_inside(plan.window.depth, image[1])
        lets += more

    def vector(index: Expr) -> Stmt:
        def tile(first: Expr, width: int, border: int | Guarded | None) -> Stmt:
            lane = index * plan.lanes
            return _Tile(plan, image, block, out_row, lane, first, width, border).statement(slices, rows)

        if not plan.window.width.is_known:
            return _any_run(plan, tile)
        return seq(_run(plan, begin, end, tile) for begin, end in _runs(plan.window.width, plan.width))

    return seq(let_row, lets, loops.serial("vector", plan.window.block // plan.lanes, vector))


def _taps_inside(axis: SpatialAxis, position: Expr) -> tuple[list[Stmt], tuple[Expr, Expr]]:
    """Bounds of the taps that lie on data at this position."""
    if not axis.padded:
        return [], (E.const(0), E.const(axis.kernel))
    lets: list[Stmt] = []
    taps = axis.taps_on_data(position * axis.stride - axis.pad, lets, E.const(0), E.const(axis.kernel))
    return lets, taps


def _runs(axis: SpatialAxis, width: int) -> list[tuple[int, int]]:
    """Tiles of a row as ranges [begin, end) of positions: neighbouring whole tiles off the border share one range."""
    runs: list[tuple[int, int]] = []
    whole = axis.out - axis.out % width
    for begin in range(0, axis.out, width):
        end = min(begin + width, axis.out)
        inner = begin < whole and not _on_border(axis, begin, end)
        if inner and runs and not _on_border(axis, *runs[-1]) and runs[-1][1] == begin:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((begin, end))
    return runs


def _on_border(axis: SpatialAxis, begin: int, end: int) -> bool:
    return not (axis.inside(begin, 0) and axis.inside(end - 1, axis.kernel - 1))


def _run(plan: DepthwisePlan, begin: int, end: int, tile: TileBuilder) -> Stmt:
    if _on_border(plan.window.width, begin, end) or end - begin <= plan.width:
        return tile(E.const(begin), end - begin, begin)
    return loops.serial("tile", (end - begin) // plan.width, lambda i: tile(i * plan.width + begin, plan.width, None))


class Guarded:
    """Stands for the position of a tile whose first and last input columns may lie outside."""


def _any_run(plan: DepthwisePlan, tile: TileBuilder) -> Stmt:
    """Tiles of a row of any length: wide ones, then narrow ones. The last one computes some outputs of the one before again."""
    axis, width, narrow = plan.window.width, plan.width, plan.width // 2
    positions, parts = axis.positions, list[Stmt]()
    wide = E.select(positions >= width, loops.ceildiv(positions - narrow, width), E.const(0))
    wide = loops.bound(wide, parts, "wide")

    def one(number: Expr) -> Stmt:
        lets, first = loops.bind("first", E.binary("min", number * width, positions - width))
        if not axis.padded:
            return seq(lets, tile(first, width, None))
        column = first * axis.stride - axis.pad
        inside = E.logical_and(column >= 0, column + axis.span(width) <= axis.data)
        return seq(lets, loops.guard(inside, tile(first, width, None), tile(first, width, Guarded())))

    def rest(number: Expr) -> Stmt:
        lets, first = loops.bind("first", E.binary("min", wide * width + number * narrow, positions - narrow))
        return seq(lets, tile(first, narrow, Guarded()))

    parts += [loops.serial("tile", wide, one), loops.serial("rest", loops.ceildiv(positions - wide * width, narrow), rest)]
    single = loops.serial("position", positions, lambda i: tile(i, 1, Guarded()))
    return loops.guard(positions >= narrow, seq(parts), single)


class _Tile:
    """``width`` neighbouring outputs of one row; ``border`` is their static position where taps may lie outside."""

    def __init__(self, plan: DepthwisePlan, image: Image, block: Expr, row: Expr, lane: Expr, first: Expr, width: int,
                 border: int | Guarded | None) -> None:
        self.plan = plan
        self.window = plan.window
        self.image = image
        self.block = block
        self.row = row
        self.lanes = E.ramp(lane, 1, plan.lanes)
        self.first = first
        self.width = width
        self.border = border
        self.acc = Accumulators(RegisterTile(width, 1, plan.lanes, plan.dtype))

    def statement(self, slices: Taps, rows: Taps) -> Stmt:
        def of_slice(tap: Expr) -> Stmt:
            return loops.serial("tap_row", rows[1] - rows[0], lambda row: self._tap_row(tap, row), rows[0])

        reduce = loops.serial("tap_slice", slices[1] - slices[0], of_slice, slices[0])
        return seq(self.acc.allocate(), self.acc.clear(), reduce, self.acc.each(lambda p, _: self._write(p)))

    def _write(self, position: Expr) -> Stmt:
        value = loops.finished(self.acc.get(position, 0), self.window.result.dtype)
        return self.window.write(self.image, self.block, self.row, self.first + position, self.lanes, value)

    def _is_inside(self, column: int, columns: int, w: Expr) -> Expr:
        """Whether the input column at ``w`` is there."""
        inside: Expr = E.const(True, "bool")
        if isinstance(self.border, Guarded):
            before, past = self.window.width.may_be_outside(columns, column)
            inside = E.logical_and(w >= 0, inside) if before else inside
            inside = E.logical_and(w < self.window.width.data, inside) if past else inside
        return inside

    def _tap_row(self, tap_slice: Expr, tap: Expr) -> Stmt:
        """One row of taps: each input column once."""
        height, width = self.window.height, self.window.width
        body: list[Stmt] = []
        h = loops.bound(self.row * height.stride + (tap * height.dilation - height.pad), body, "h")
        source = self.window.source(self.image, self.block * self.window.slices + tap_slice)
        weights: list[Expr] = []
        for k in range(width.kernel):
            taps = [tap, E.const(k)] if self.window.depth is None else [tap_slice, tap, E.const(k)]
            value = self.window.weight.read([self.block, *taps, self.lanes])
            weights.append(loops.bound(E.cast(value, self.plan.dtype), body, f"weight{k}"))
        columns = self._columns()
        for column, meeting in columns.items():
            w = self.first * width.stride + (column - width.pad)
            updates: list[Stmt] = []
            inside = self._is_inside(column, max(columns) + 1, w)
            value = self.window.data.read([*source, h, w, self.lanes])
            x = loops.bound(E.cast(value, self.plan.dtype), updates, "x")
            updates += [self.acc.set(p, 0, loops.multiply_add(x, weights[k], self.acc.get(p, 0))) for p, k in meeting]
            body.append(loops.guard(inside, seq(updates)))
        return seq(body)

    def _columns(self) -> dict[int, list[tuple[int, int]]]:
        """Input columns under the tile (counted from its first tap), each with the (position, tap) pairs that read it."""
        axis = self.window.width
        columns: dict[int, list[tuple[int, int]]] = {}
        for position in range(self.width):
            for tap in range(axis.kernel):
                if not isinstance(self.border, int) or axis.inside(self.border + position, tap):
                    columns.setdefault(position * axis.stride + tap * axis.dilation, []).append((position, tap))
        return dict(sorted(columns.items()))
