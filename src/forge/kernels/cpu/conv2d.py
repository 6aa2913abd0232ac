"""Kernel families ``conv2d_nchwc`` and ``conv3d_ncdhwc``: direct convolution over blocked channels.

Operands: data [N][C/c][H][W][c], weight [O/o][I/i][kh][kw][i][o]; result [N][O/o][OH][OW][o]. ``attrs``: strides, padding,
dilation, pad_value, in_channels (the true number; lanes of the last block past it are never used, but for integers, whose
weights are zero there). The block i of the weight is c, or less where there is one input block. The weight may be in groups of
input channels, [O/o][I/i][kh][kw][i/g][o][g], pairs of bfloat16 or float16, pairs of int8 (data of int16 or uint8) or fours of it
(uint8): a step of the reduction then takes a group. Of volumes, data are [N][C/c][D][H][W][c], the result is alike, and the
weight has taps [kd] before [kh].

A register tile covers output positions and vectors of output channels; each step broadcasts one input element per position.
Accumulators stay in registers over all taps and channels. Padding costs a copy of the input under a task into a padded patch,
one or two per cent of the arithmetic, and leaves the inner loops without a branch; it also applies a prologue once per element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu import conv_tiles, tiles, winograd_bytes
from forge.kernels.cpu.conv_plan import ConvPlan, ConvProblem, Counts, plan_convolution, tail_widths
from forge.kernels.cpu.micro import micro_kernel
from forge.kernels.cpu.micro.parts import store_parts
from forge.kernels.cpu.spatial import (
    WRITTEN_OUT,
    Image,
    SpatialAxis,
    UsedTaps,
    clamp,
    each_axis,
    note_algorithm,
    static_shape,
    window_of,
)
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall, Variant, kernel
from forge.loops.dots import Group
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.stmt import Allocate, Function, Prefetch, Stmt, seq, store

# A register tile prefetches what it reads of the next channel block where there are at least this many: with large images the
# processor does not follow from block to block. 1x1 convolutions of ResNet-50 run 1.07 to 1.2 times as fast.
MANY_BLOCKS: Final = 4


def variant(call: KernelCall) -> Variant | None:
    """Shares code between direct convolutions of whole blocks of channels over images or volumes of unknown sizes."""
    problem = _problem(call, None)
    window, channels = problem.window, problem.in_blocks * problem.in_block
    whole = problem.in_channels == channels and problem.in_block * problem.unit.size == window.block
    if window.is_known or not whole or winograd_bytes.is_faster(problem, call.operator):
        return None
    plan = _shared(_plan(problem))
    if plan.parts > 1 and not plan.words:
        return None
    blocks = plan.in_blocks // window.slices, window.out_blocks
    numbers = (*blocks, plan.chunk, plan.groups, plan.group_blocks, plan.row_block, plan.column_block)
    rest = plan.out_vectors % plan.vectors
    shape = (plan.tile_height, plan.tile_width, plan.vectors, rest, plan.staged, plan.prefetches, _runs_ahead(plan), plan.words)
    sizes = (plan.chunks > 1 and plan.partial_size, plan.staged and plan.patch_size)
    fixed = (plan.row_block if window.height.is_known else 0, plan.column_block if window.width.is_known else 0)
    first = 1 if plan.parts > 1 else 0
    extents = {(0, 1): 0, (1, first): 1, (1, first + 1): 0, (len(call.operands), 1): 1}
    return Variant(f"{shape} {sizes} {fixed}", numbers, extents, ("channels", "in_channels"))


def _plan(problem: ConvProblem, kernel: str = "") -> ConvPlan:
    return conv_tiles.plan_in_tiles(problem) or plan_convolution(problem, kernel)


def _shared(plan: ConvPlan, numbers: Sequence[Expr] = (E.const(1),) * 7) -> ConvPlan:
    """``plan`` of code that calls with other numbers share."""
    in_blocks, _, chunk, *others = numbers
    in_blocks = in_blocks * plan.window.slices
    return replace(plan, shared=Counts(in_blocks, in_blocks if plan.chunks == 1 else chunk, *others))


@kernel("conv2d_parts_nchwc", variant=variant)
@kernel("conv3d_ncdhwc", variant=variant)
@kernel("conv2d_nchwc", variant=variant)
def conv2d_nchwc(call: KernelCall) -> Function:
    """Direct convolution over blocked channels; of bytes, fewer products where that is faster."""
    return convolution(call)


def convolution(call: KernelCall, used: UsedTaps | None = None) -> Function:
    """Makes the convolution, without the taps that are not ``used``."""
    problem = _problem(call, used)
    if used is None and winograd_bytes.is_faster(problem, call.name):
        return winograd_bytes.build(call, problem)
    plan = _plan(problem, call.name)
    if call.numbers:
        plan = _shared(plan, call.numbers)
    window = plan.window
    if used is None:
        note_algorithm(call, window, plan.in_channels * plan.unit.size)
    (rows, row_block), (columns, column_block) = plan.blocks
    counts, rest = plan.counts, plan.rest
    group_blocks = counts.group_blocks if rest is None else counts.group_blocks + 1
    extents = {**window.images, "row_block": rows, "column_block": columns, "group_block": group_blocks}

    def task(index: Expr) -> Stmt:
        lets, (volume, number, row, column, group) = loops.bound_indices(index, extents)
        place = (row * row_block, row_block, column * column_block, column_block)
        computed = Task(plan, (volume, number), *place, group).statement()
        if rest is not None:
            last = Task(rest, (volume, number), *place, E.const(0)).statement()
            computed = loops.guard(group < counts.group_blocks, computed, last)
        return seq(lets, computed)

    taps = window.height.kernel * window.width.kernel
    channels = E.const(plan.in_channels) if plan.shared is None else counts.in_blocks * plan.in_block
    work = counts.row_block * counts.column_block * counts.groups * channels * (plan.vectors * plan.lanes * taps)
    return call.function(loops.parallel(loops.product(list(extents.values())), work, task))


def _problem(call: KernelCall, used: UsedTaps | None) -> ConvProblem:
    call = _joined(call)
    data, weight = call.operands[:2]
    axes = 2 if data is None else len(data.shape) - 3
    rank = axes + 4 if weight is None else max(axes + 4, min(axes + 6, len(weight.shape)))
    wanted = "[O/o][I/i], taps, [i][o] or [O/o][I/i], taps, [i/g][o][g], or parts of that"
    shape = static_shape(call, weight, rank, wanted)
    parts = shape.pop(0) if rank == axes + 6 else 1
    _, in_blocks, *rest = shape
    taps, (in_steps, out_block, *group) = rest[:axes], rest[axes:]
    in_block = in_steps * (group[0] if group else 1)
    window = window_of(call, taps, used)
    if in_block != window.block and in_blocks > 1 or out_block != window.out_block:
        raise CompileError(f"{call.name}: weight blocks i={in_block}, o={out_block}; expected those of data and result, "
                           f"{window.block} and {window.out_block}")
    dtype = tiles.accumulator_dtype(window.data.dtype, window.weight.dtype)
    in_channels = int(call.attrs.in_channels or in_blocks * in_block)
    unit, pad_value = Group.of(window.weight.dtype, in_block // in_steps, dtype), int(call.attrs.pad_value)
    ready = window.data.buffer is not None and window.data.dtype == unit.dtype
    fills = window.height.padded or window.width.padded or pad_value != 0 and window.depth.padded
    return ConvProblem(
        window=window, target=call.target, dtype=dtype, unit=unit, pad_value=pad_value, in_block=in_steps,
        in_channels=-(-in_channels // unit.size) * window.slices, in_blocks=in_blocks * window.slices, staged=fills or not ready,
        parts=parts)


def _joined(call: KernelCall) -> KernelCall:
    """A convolution of one tap without stride as one of rows, where sizes are unknown: fewer tiles are not whole."""
    data, weight, result = *call.operands[:2], call.results[0]
    if data is None or data.buffer is None or weight is None or not result.joins or len(data.shape) < 5:
        return call
    inner, axes = slice(2, len(data.shape) - 1), len(data.shape) - 3
    moves = (*each_axis(call.attrs.strides, axes), *(1 if p == 0 else 0 for p in each_axis(call.attrs.padding, 2 * axes)))
    if {loops.static(d) for d in weight.shape[inner]} | set(moves) != {1} or None not in map(loops.static, data.shape[inner]):
        return call

    def shape(old: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return *old[:2], *[E.const(1)] * (axes - 1), loops.product(list(old[inner])), old[-1]

    operands = replace(data, shape=shape(data.shape)), *call.operands[1:]
    return replace(call, operands=operands, results=(replace(result, shape=shape(result.shape)), *call.results[1:]))


@dataclass(frozen=True)
class _Source:
    """Input of a task: step x of row r of channel block b is at ``base + block(b) + r * row_stride + x * unit.size``.

    Positions of a row are ``pitch`` numbers apart.
    """

    buffer: Buffer
    base: Expr
    block: Callable[[Expr], Expr]
    row_stride: Expr
    unit: Group
    pitch: ExprLike

    def place(self, block: Expr, row: Expr, x: Expr) -> Expr:
        return self.base + self.block(block) + row * self.row_stride + x * self.unit.size


class Task:
    """Statements of one task."""

    def __init__(self, plan: ConvPlan, image: Image, first_row: Expr, rows: Expr, first_column: Expr, columns: Expr,
                 group_block: Expr) -> None:
        self.plan = plan
        self.window = plan.window
        self.image = image
        self.bindings: list[Stmt] = []
        self.first_row, self.rows = self._positions(self.window.height, first_row, rows)
        self.first_column, self.columns = self._positions(self.window.width, first_column, columns)
        self.counts = plan.counts
        self.first_group = group_block * self.counts.groups
        self.block = (rows, columns) if plan.is_packed else (E.const(plan.row_block), E.const(plan.column_block))
        self.columns_on_data = self._columns_on_data() if plan.skips_columns else None
        self.partial = loops.local("partial", plan.dtype, plan.partial_size, plan.lanes)
        self.source = self._patch() if plan.staged else self._direct_source()

    def _positions(self, axis: SpatialAxis, first: Expr, count: Expr) -> tuple[Expr, Expr]:
        """The first position of the task along an axis, and how many it has."""
        if axis.is_known:
            return first, axis.rest(count, first)
        first = loops.bound(first, self.bindings, "first")
        return first, loops.bound(axis.rest(count, first), self.bindings, "count")

    def _columns_on_data(self) -> tuple[Expr, Expr]:
        """The first column of taps and the end of those that lie on data at any position of the task."""
        axis, lets = self.window.width, self.bindings
        begin = axis.start(self.first_column)
        first = axis.taps_on_data(begin + (self.columns - 1) * axis.stride, lets, E.const(0), E.const(axis.kernel))[0]
        return first, axis.taps_on_data(begin, lets, first, E.const(axis.kernel))[1]

    def statement(self) -> Stmt:
        plan, counts = self.plan, self.counts
        if plan.parts > 1 and not plan.words:
            return seq(self.bindings, conv_tiles.by_multiply_adds(self))
        if not plan.staged:
            return seq(self.bindings, self._all_tiles(E.const(0)))

        def chunk(index: Expr) -> Stmt:
            lets, first_block = loops.bind("first_block", index * counts.chunk)
            return seq(lets, self._copy(first_block), self._all_tiles(first_block))

        patch = Allocate(self.source.buffer)
        if plan.chunks == 1:
            return seq(self.bindings, patch, chunk(E.const(0)))
        zero, used = E.const(0, plan.dtype, plan.lanes), counts.groups * counts.row_block * counts.column_block * plan.vectors
        clear = loops.serial("p", used, lambda i: store(self.partial, i, zero))
        summed = loops.serial("chunk", counts.in_blocks // counts.chunk, chunk)
        return seq(self.bindings, patch, Allocate(self.partial), clear, summed, self._write_partial())

    def _patch(self) -> _Source:
        height, width = (axis.span(size) for axis, size in zip((self.window.height, self.window.width), self.block))
        size = self.window.block
        pitch: ExprLike = size
        if self.plan.words and conv_tiles.is_interleaved(self.plan):
            pitch = size * self.plan.in_blocks if self.plan.shared is None else size * self.counts.in_blocks
        row_stride = loops.bound(width * pitch, self.bindings, "row_stride")
        block_stride = loops.bound(height * row_stride, self.bindings, "block_stride") if pitch == size else E.const(size)
        patch = loops.local("patch", self.plan.unit.copied, self.plan.patch_size * self.plan.parts)
        return _Source(patch, E.const(0), lambda block: block * block_stride, row_stride, self.plan.unit, pitch)

    def _direct_source(self) -> _Source:
        window = self.window
        row_stride = loops.bound(window.width.data * window.block, self.bindings, "row_stride")
        image_stride = loops.bound(window.height.data * row_stride, self.bindings, "image_stride")
        block_stride, slices = loops.bound(window.depth.data * image_stride, self.bindings, "block_stride"), window.slices
        first = window.slice_of(self.image, E.const(0)) * image_stride
        tap_stride = image_stride * window.depth.dilation
        base = (self.image[0] * window.data.shape[1] * block_stride + first
                + self.first_row * (window.height.stride * row_stride) + self.first_column * (window.width.stride * window.block))
        return _Source(window.data.memory, base, lambda block: block // slices * block_stride + block % slices * tap_stride,
                       row_stride, self.plan.unit, window.block)

    def _copy(self, first_block: Expr) -> Stmt:
        """Fills the patch with the input of a chunk of channel blocks, padding where there is none."""
        window, source, zero = self.window, self.source, E.const(0)
        first_h, first_w = window.height.start(self.first_row), window.width.start(self.first_column)
        height, width = (axis.span(block if axis.is_known else count) for axis, block, count in zip(
            (window.height, window.width), self.block, (self.rows, self.columns)))
        low, high = clamp(zero - first_w, zero, width), clamp(window.width.data - first_w, zero, width)

        def padding(base: Expr, begin: Expr, end: Expr) -> Stmt:
            dtype = self.plan.copied
            return self._fill(base, begin, end, lambda x, _: E.const(self.plan.pad_value, dtype, x.lanes))

        def row(block: Expr, r: Expr) -> Stmt:
            lets, base = loops.bind("patch_row", source.block(block) + r * source.row_stride)
            h = first_h + r
            copied = self._copy_row(base, first_block + block, h, first_w, low, high)
            data = seq(padding(base, zero, low), copied, padding(base, high, width))
            inside = window.height.holds(h)
            if not self.plan.skips_slices:
                inside = E.logical_and(inside, window.has_slice(self.image, first_block + block))
            return seq(lets, loops.guard(inside, data, padding(base, zero, width)))

        return loops.serial("block", self.counts.chunk, lambda block: self.where_data(
            first_block + block, loops.serial("r", height, lambda r: row(block, r))))

    def where_data(self, block: Expr, body: Stmt) -> Stmt:
        """Does ``body`` for a block of channels, but for one of a slice of padding, which adds nothing."""
        return loops.guard(self.window.has_slice(self.image, block), body) if self.plan.skips_slices else body

    def _fill(self, base: Expr, begin: Expr, end: Expr, value: Callable[[Expr, Expr | None], Expr]) -> Stmt:
        """Columns [begin, end) of the row of the patch at ``base``, as ``value(indices, mask)`` gives them."""
        size, source, lanes = self.window.block, self.source, self.plan.target.lanes(self.plan.copied)
        if E.is_const(end - begin, 0):
            return seq()
        if source.pitch != size:
            return loops.serial("w", end - begin, lambda w: loops.each_vector(size, lanes, lambda x, mask: self._keep(
                base + (begin + w) * source.pitch + x, value(w * size + x, mask), mask)))
        return loops.each_vector((end - begin) * size, lanes, lambda x, mask: self._keep(
            base + begin * size + x, value(x, mask), mask))

    def _keep(self, place: Expr, value: Expr, mask: Expr | None) -> Stmt:
        """Stores a vector of the copy."""
        plan, buffer = self.plan, self.source.buffer
        if plan.parts == 1:
            return store(buffer, place, value, mask)
        return store_parts(buffer, place, value, mask, plan.unit, plan.parts, plan.patch_size)

    def _copy_row(self, base: Expr, block: Expr, h: Expr, first_w: Expr, low: Expr, high: Expr) -> Stmt:
        """Columns [low, high) of one row of the patch, from the data."""
        data, size, source, plan = self.window.data, self.window.block, self.window.source(self.image, block), self.plan
        copy = plan.unit.copy if plan.parts == 1 else partial(E.cast, dtype=plan.copied)
        buffer = data.buffer
        if buffer is not None:
            start = buffer.offset(*source, h, first_w + low, 0)
            return self._fill(base, low, high, lambda x, mask: copy(E.load(buffer, start + x, mask)))
        lanes = tiles.vector_lanes(size, self.plan.target, self.plan.dtype)

        def column(w: Expr) -> Stmt:
            return loops.each_vector(size, lanes, lambda lane, mask: self._keep(
                base + w * self.source.pitch + lane, copy(data.read([*source, h, first_w + w, lane], mask)), mask))

        return loops.serial("w", high - low, column, low)

    def _all_tiles(self, first_block: Expr) -> Stmt:
        plan, window = self.plan, self.window
        if plan.words:
            return conv_tiles.all_tiles(self)
        return loops.serial("group", self.counts.groups, lambda group: _cover(
            "row_tile", self.rows, window.height, plan.tile_height, plan, lambda row, height, _: _cover(
                "column_tile", self.columns, window.width, plan.tile_width, plan,
                lambda column, width, used: _Tile(self, first_block, group, row, height, column, width, used).statement())))

    def partial_index(self, group: Expr, row: Expr, column: Expr, vector: int) -> Expr:
        rows, columns = self.block
        return ((group * rows + row) * columns + column) * self.plan.vectors + vector

    def _write_partial(self) -> Stmt:
        """Hands the finished sums of all chunks to the writer."""

        def position(group: Expr, row: Expr, column: Expr) -> Stmt:
            return seq(self.write(group, row, column, v, E.load(self.partial, self.partial_index(group, row, column, v)))
                       for v in range(self.plan.vectors))

        return loops.serial("group", self.counts.groups, lambda group: loops.serial(
            "row", self.rows, lambda row: loops.serial("column", self.columns, lambda column: position(group, row, column))))

    def channel(self, group: Expr, vector: int) -> tuple[Expr, Expr]:
        """Returns the output block, and the channel inside it, of a vector of a (task-local) group."""
        plan, per_block = self.plan, self.window.out_block // self.plan.lanes
        absolute = self.first_group + group
        if plan.vectors % per_block == 0:
            block = absolute * (plan.vectors // per_block) + vector // per_block + plan.first_block
            return block, E.const(vector % per_block * plan.lanes)
        per_group = per_block // plan.vectors
        return absolute // per_group, (absolute % per_group * plan.vectors + vector) * plan.lanes

    def weight(self, group: Expr, block: Expr, tap: Expr, k: Expr, vector: int) -> Expr:
        """Weights of a vector of output channels; ``k`` counts columns of taps and channels together."""
        return self.weights(self.weight_place(group, block, tap, k, vector))

    def weights(self, first: Expr) -> Expr:
        """Loads a vector of weights, from group ``first`` on."""
        plan = self.plan
        return plan.unit.weights(self.window.weight.memory, first * plan.unit.size, plan.lanes)

    def weight_place(self, group: Expr, block: Expr, tap: Expr, k: Expr, vector: int) -> Expr:
        """Returns the number of the first column of a vector of weights, in steps of a ``unit`` of channels."""
        plan, window = self.plan, self.window
        out_block, lane = self.channel(group, vector)
        row = (out_block * self.counts.in_blocks + block) * window.height.kernel + tap
        return (row * (window.width.kernel * plan.in_block) + k) * window.out_block + lane

    def prefetch(self, group: Expr, block: Expr, tap: Expr, k: Expr) -> Stmt:
        """Prefetches the weights of the next group; after the last one, those of the next chunk."""
        plan, counts, weight = self.plan, self.counts, self.window.weight.buffer
        if weight is None or not plan.prefetches:
            return seq()
        following, place = group + 1, block
        if plan.chunks > 1:
            place = block + following // counts.groups * counts.chunk
            following = following % counts.groups + place // counts.in_blocks * counts.groups
            place = place % counts.in_blocks
        size = plan.unit.size
        return seq(Prefetch(weight, self.weight_place(following, place, tap, k, v) * size) for v in range(plan.vectors))

    def write(self, group: Expr, row: Expr, column: Expr, vector: int, value: Expr) -> Stmt:
        block, lane = self.channel(group, vector)
        lanes = E.ramp(lane, 1, self.plan.lanes)
        return self.window.write(self.image, block, self.first_row + row, self.first_column + column, lanes, value)


class _Tile:
    """One register tile at local position (row, column) of a task, of which ``used`` columns are there, if not all.

    The others are read from wherever a copy has room, or are the last one once more, and not written.
    """

    def __init__(self, task: Task, first_block: Expr, group: Expr, row: Expr, height: int, column: Expr, width: int,
                 used: Expr | None) -> None:
        self.task = task
        self.plan = task.plan
        self.window = window = task.window
        self.first_block = first_block
        self.group = group
        self.row = row
        self.height = height
        self.column = column
        self.width = width
        self.used = used
        self.acc = Accumulators(RegisterTile(height * width, self.plan.vectors, self.plan.lanes, self.plan.dtype))
        self.taps, self.out_block = window.used or UsedTaps(0), task.channel(group, 0)[0]
        self.row_shift, column_shift = (E.const(0) if shift is None else shift(self.out_block)
                                        for shift in (self.taps.row_shift, self.taps.column_shift))
        self.bindings: list[Stmt] = []
        self.source_row = loops.bound(row * window.height.stride + self.row_shift, self.bindings, "source_row")
        source_x = (column * window.width.stride + column_shift) * self.plan.block
        self.source_x = loops.bound(source_x, self.bindings, "source_x")

    def statement(self) -> Stmt:
        acc, partial = self.acc, self.task.partial
        if self.plan.chunks == 1:
            begin, finish = acc.clear(), self._finish()
        else:
            begin = acc.each(lambda p, v: acc.set(p, v, E.load(partial, self._partial_index(p, v))))
            finish = acc.each(lambda p, v: self._if_used(p, store(partial, self._partial_index(p, v), acc.get(p, v))))
        return seq(acc.allocate(), self.bindings, begin, self._reduction(), finish)

    def _if_used(self, position: Expr, statement: Stmt) -> Stmt:
        return statement if self.used is None else loops.guard(position % self.width < self.used, statement)

    def _column(self, position: Expr) -> Expr:
        """The column of a position, or the last one that is there."""
        column = position % self.width
        return column if self.used is None else E.binary("min", column, self.used - 1)

    def _partial_index(self, position: Expr, vector: int) -> Expr:
        row, column = self.row + position // self.width, self.column + self._column(position)
        return self.task.partial_index(self.group, row, column, vector)

    def _element(self, block: Expr, tap: Expr, x: Expr, position: Expr) -> Expr:
        """What position ``position`` multiplies at element ``x`` of a row of taps."""
        plan, height, width, source = self.plan, self.window.height, self.window.width, self.task.source
        i, j = position // self.width, position % self.width if plan.staged else self._column(position)
        place = source.place(block, self.source_row + i * height.stride + tap * height.dilation,
                             self.source_x + j * (width.stride * plan.block) + x)
        return plan.unit.load(source.buffer, place)

    def _finish(self) -> Stmt:
        """Hands the sums of a register tile to the writer: written out, or in a loop where that makes much code of each."""
        acc, width = self.acc, self.width

        def write(i: Expr, j: Expr, vector: int, value: Expr) -> Stmt:
            return self.task.write(self.group, self.row + i, self.column + j, vector, value)

        one = write(E.const(0), E.const(0), 0, acc.get(0, 0))
        if self.height * width == 1 or loops.statement_cost(one) <= WRITTEN_OUT:
            return acc.each(lambda p, v: self._if_used(p, write(p // width, p % width, v, acc.get(p, v))))
        vectors = self.plan.vectors
        sums = loops.local("sums", acc.tile.dtype, self.height * width * vectors, self.plan.lanes)

        def position(i: Expr, j: Expr) -> Stmt:
            first = (i * width + j) * vectors
            return seq(write(i, j, v, E.load(sums, first + v)) for v in range(vectors))

        kept = acc.each(lambda p, v: store(sums, p * vectors + v, acc.get(p, v)))
        columns = width if self.used is None else self.used
        written = loops.serial("i", self.height, lambda i: loops.serial("j", columns, lambda j: position(i, j)))
        return seq(Allocate(sums), kept, written)

    def _prefetch_input(self, block: Expr) -> Stmt:
        """Prefetches what the tile reads of a channel block, whose rows lie far from those of the block before."""
        window, source = self.window, self.task.source
        if not _runs_ahead(self.plan):
            return seq()
        line = tiles.CACHE_LINE // dtypes.itemsize(window.data.dtype)
        size = ((self.width - 1) * window.width.stride + 1) * window.block
        begin = source.place(block, self.source_row, self.source_x)
        return seq(Prefetch(source.buffer, begin + i * window.height.stride * source.row_stride + offset)
                   for i in range(self.height) for offset in range(0, size, line))

    def _reduction(self) -> Stmt:
        """All taps and channels of the chunk of blocks."""
        plan, task, axis, first_block = self.plan, self.task, self.window.height, self.first_block
        slices = self.window.slices
        whole, rest = divmod(plan.in_channels // slices, plan.in_block)
        full_blocks = E.const(whole * slices) if rest else task.counts.in_blocks
        left = full_blocks - first_block
        count = E.binary("min", task.counts.chunk, left) if rest or plan.chunks > 1 else full_blocks

        lets: list[Stmt] = []
        used = self.taps
        first_row, end_row = (E.const(0), E.const(axis.kernel)) if used.rows is None else (
            loops.bound(tap, lets, "tap") for tap in used.rows(self.out_block))
        if plan.skips_rows and self.height == 1:
            start = (task.first_row + self.row) * axis.stride + self.row_shift - axis.pad
            first_row, end_row = axis.taps_on_data(start, lets, first_row, end_row)
        columns = task.columns_on_data if used.columns is None else [
            loops.bound(tap, lets, "tap") for tap in used.columns(self.out_block)]

        def taps(block: Expr, channels: int) -> Stmt:
            rows = loops.serial(
                "tap_row", end_row - first_row, lambda tap: self._tap_row(block, tap, channels, columns), first_row)
            has_taps = used.has_block(self.out_block, first_block + block)
            return task.where_data(first_block + block, loops.guard(has_taps, seq(self._prefetch_input(block + 1), rows)))

        body = seq(lets, loops.serial("in_block", count, lambda block: taps(block, plan.in_block)) if whole else seq())
        if rest == 0:
            return body
        if slices == 1:
            return seq(body, loops.guard(left < plan.chunk, taps(left, rest)))
        last = E.binary("max", left, 0)
        return seq(body, loops.serial("last_block", plan.chunk - last, lambda block: taps(block, rest), last))

    def _tap_row(self, block: Expr, tap: Expr, channels: int, columns: Sequence[Expr] | None) -> Stmt:
        """One row of taps. Undilated taps of whole blocks are neighbours in input and weight: one loop over both.

        ``columns``: the first tap and the end of those that are used, if not all.
        """
        plan, task, width, group, in_block = self.plan, self.task, self.window.width, self.group, self.first_block + block

        def steps(x: Expr, first: Expr, count: int, unroll: int) -> Stmt:
            """``count`` steps, from number x of the data and ``first`` of the weights on."""
            return micro_kernel(plan.unit, plan.target).steps(
                self.acc, lambda row, k: self._element(block, tap, x + k, row),
                lambda k, v: task.weight(group, in_block, tap, first + k, v), count, unroll,
                lambda k: task.prefetch(group, in_block, tap, first + k))

        are_neighbours = width.dilation == 1 and channels == plan.in_block == plan.block
        if columns is None and (width.kernel == 1 or are_neighbours):
            extent = width.kernel * channels
            return steps(E.const(0), E.const(0), extent, tiles.unroll_for(self.acc.tile.rows * plan.vectors, extent))
        unroll = tiles.unroll_for(self.acc.tile.rows * plan.vectors, channels)
        if columns is not None and are_neighbours and channels % unroll == 0:
            part = channels // unroll
            return loops.serial("part", (columns[1] - columns[0]) * part,
                                lambda i: steps(i * unroll, i * unroll, unroll, unroll), columns[0] * part)
        shift = width.dilation * plan.block
        first, end = (E.const(0), E.const(width.kernel)) if columns is None else columns
        return loops.serial("tap", end - first, lambda t: steps(t * shift, t * plan.in_block, channels, unroll), first)


def _runs_ahead(plan: ConvPlan) -> bool:
    """Whether tiles prefetch what they read of the next channel block."""
    return not plan.staged and (plan.in_blocks >= MANY_BLOCKS or plan.shared is not None)


def _cover(name: str, count: Expr, axis: SpatialAxis, tile: int, plan: ConvPlan, body: Callable[[Expr, int, Expr | None], Stmt]
           ) -> Stmt:
    """``body(first, size, used)`` over ``count`` positions of an axis in tiles; only its last block may leave a rest."""
    if not axis.is_known:
        parts, widths = list[Stmt](), tail_widths(plan.unit, tile, plan.vectors, plan.most_positions(plan.vectors))
        more = max(widths, default=tile) - tile
        whole = count // tile
        if more:
            is_longer = E.logical_and(count > tile, E.logical_and((count % tile).ne(0), count % tile <= more))
            whole = loops.bound(whole - E.select(is_longer, E.const(1), E.const(0)), parts, "whole")
        parts.append(loops.serial(name, whole, lambda i: body(i * tile, tile, None)))
        left = loops.bound(count - whole * tile, parts, "left")
        rest = seq()
        for size in reversed(widths):
            own = body(count - left, size, left)
            rest = own if size == widths[-1] else loops.guard(left <= size, own, rest)
        return seq(parts, loops.guard(left > 0, rest))
    left_over = axis.out % tile
    full = loops.serial(name, count // tile, lambda i: body(i * tile, tile, None)) if axis.out >= tile else seq()
    if left_over == 0:
        return full
    return seq(full, loops.guard((count % tile).ne(0), body(count - left_over, left_over, None)))
