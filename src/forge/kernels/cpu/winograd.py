"""Kernel family ``conv2d_winograd_nchwc``: 3x3 convolution of stride 1 with a quarter of the multiplications.

F(4x4, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015): each 4x4 tile of outputs is
A^T ((G g G^T) * (B^T d B)) A over the 6x6 patch d of inputs under it, where * is taken element by element and summed over
channels.

Operands: data [N][C/c][H][W][c]; weight [36][O/o][I/i][i][o], the G g G^T of every filter by position; result
[N][O/o][OH][OW][o]. ``attrs``: padding, in_channels (strides and dilation are 1). The error is some ten times that of the direct
sum, 1e-5 of the largest output.

A task is a block of tiles: their patches are transformed into a local array, position by position multiplied with the weights by
the register tiles of matrix products, and the sums of one group of output channels transformed back at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge import dtypes
from forge.errors import CompileError
from forge.kernels.contract import KernelCall, kernel
from forge.kernels.cpu import gemm, micro, tiles
from forge.kernels.cpu.gemm import Product, Rows
from forge.kernels.cpu.spatial import Window, static_shape, window_of
from forge.kernels.cpu.tiles import RegisterTile
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Allocate, Function, Stmt, seq, store

IndexBody = Callable[[Expr], Stmt]
ReadSquare = Callable[[int, int], Expr]
WriteSquare = Callable[[int, Expr], Stmt]
Line = Callable[[Sequence[Expr]], list[Expr]]

OUT, PATCH = 4, 6
POSITIONS = PATCH * PATCH
TILE_ROWS = 14
WEIGHT_BYTES_PER_CYCLE = 10.0
"""Rate at which a core reads weights that other tasks have left in the outer caches."""
TILE_OVERHEAD = 24.0
"""Cycles of a register tile outside its reduction, but for one per accumulator."""
TRANSFORM_CYCLES = 14.0
"""Per position of a patch and vector of channels, both transformations."""


@dataclass(frozen=True)
class WinogradPlan:
    """``block`` tiles are a task; register tiles are rows of tiles by vectors of output channels."""

    window: Window
    target: Target
    in_channels: int
    in_stride: int
    in_lanes: int
    out_vectors: int
    tile: RegisterTile
    block: int

    @property
    def tiles_high(self) -> int:
        return -(-self.window.height.out // OUT)

    @property
    def tiles_wide(self) -> int:
        return -(-self.window.width.out // OUT)

    @property
    def tile_count(self) -> int:
        return self.tiles_high * self.tiles_wide

    @property
    def groups(self) -> int:
        return self.out_vectors // self.tile.vectors


@kernel("conv2d_winograd_nchwc")
def conv2d_winograd_nchwc(call: KernelCall) -> Function:
    """3x3 convolution in the Winograd domain."""
    plan = _plan(call)
    blocks = -(-plan.tile_count // plan.block)

    def task(index: Expr) -> Stmt:
        lets_image, image = micro.bind("image", index // blocks)
        lets_first, first = micro.bind("first_tile", index % blocks * plan.block)
        return seq(lets_image, lets_first, _Task(plan, image, first).statement())

    work = plan.block * POSITIONS * plan.in_channels * plan.out_vectors * plan.tile.lanes
    return call.function(micro.parallel(plan.window.batch * blocks, work, task))


def _plan(call: KernelCall) -> WinogradPlan:
    positions, out_blocks, in_blocks, in_block, out_block = static_shape(
        call, call.operands[1], 5, "[36][O/o][I/i][i][o]")
    window = window_of(call, (3, 3))
    axes = (window.height, window.width)
    blocks, steps = (in_block, out_block), [(a.stride, a.dilation) for a in axes]
    if positions != POSITIONS or blocks != (window.block, window.out_block) or steps != [(1, 1), (1, 1)]:
        raise CompileError(f"{call.name}: Winograd convolution of {positions} positions, blocks {blocks}, strides and dilations "
                           f"{steps}; expected {POSITIONS}, the blocks of data and result, and 1")
    dtype = tiles.accumulator_dtype(window.data.dtype, window.weight.dtype)
    lanes = tiles.vector_lanes(out_block, call.target, dtype)
    out_vectors = out_blocks * out_block // lanes
    padded = in_blocks * in_block
    stride = padded + (lanes if padded % 512 == 0 else 0)
    vectors = _group_vectors(out_vectors, out_block // lanes)
    block = _tile_block(window, call.target, stride, out_vectors, vectors, lanes, dtype)
    rows = _tile_rows(block, vectors, call.target)
    return WinogradPlan(window, call.target, int(call.attrs.in_channels or padded), stride,
                        tiles.vector_lanes(in_block, call.target, dtype), out_vectors,
                        RegisterTile(rows, vectors, lanes, dtype), block)


def _group_vectors(out_vectors: int, per_block: int) -> int:
    """Vectors of output channels that are summed together: two or three, in whole blocks or whole parts of one."""
    fitting = [v for v in tiles.divisors(out_vectors, 3) if v % per_block == 0 or per_block % v == 0]
    return 2 if 2 in fitting else fitting[0]


def _tile_block(window: Window, target: Target, stride: int, out_vectors: int, vectors: int, lanes: int, dtype: str) -> int:
    """Tiles of a task: their patches and sums take half of the second-level cache."""
    count = -(-window.height.out // OUT) * -(-window.width.out // OUT)
    size = dtypes.itemsize(dtype)
    most = max(1, min(target.l2_cache, tiles.STACK_LIMIT) // 2 // (POSITIONS * (stride + vectors * lanes) * size))
    images = micro.static(window.batch) or 1
    transforms = POSITIONS * TRANSFORM_CYCLES * (stride / lanes + out_vectors) / 2
    weights = POSITIONS * stride * out_vectors * lanes * size / WEIGHT_BYTES_PER_CYCLE

    def makespan(blocks: int) -> float:
        block = -(-count // blocks)
        rows = _tile_rows(block, vectors, target)
        one_tile = stride * tiles.step_cycles(rows, vectors) + TILE_OVERHEAD + rows * vectors
        products = POSITIONS * out_vectors // vectors * -(-block // rows) * one_tile
        return -(-images * blocks // target.num_cores) * (max(products, weights) + block * transforms)

    least = -(-count // most)
    blocks = min(range(least, min(count, least + 8 * target.num_cores) + 1), key=makespan)
    return -(-count // blocks)


def _tile_rows(block: int, vectors: int, target: Target) -> int:
    """Rows of the register tiles that share out ``block`` tiles evenly."""
    return tiles.even_blocks(block, min(TILE_ROWS, tiles.largest_rows(vectors, target.vector_registers)))


class _Task:
    """Statements of one task."""

    def __init__(self, plan: WinogradPlan, image: Expr, first: Expr) -> None:
        self.plan = plan
        self.window = plan.window
        self.image = image
        self.first = first
        tile = plan.tile
        self.patches = micro.local("patches", tile.dtype, POSITIONS * plan.block * plan.in_stride)
        self.sums = micro.local("sums", tile.dtype, POSITIONS * plan.block * tile.vectors, tile.lanes)

    def statement(self) -> Stmt:
        return seq(Allocate(self.patches), Allocate(self.sums), micro.serial("tile", self.plan.block, self._transform_tile),
                   micro.serial("group", self.plan.groups, lambda group: seq(self._products(group), self._outputs(group))))

    def _place(self, tile: Expr) -> tuple[list[Stmt], Expr, Expr]:
        """Row and column of a tile among all tiles; past the last one, that of the last."""
        plan = self.plan
        number = self.first + tile
        if plan.tile_count % plan.block:
            number = E.binary("min", number, plan.tile_count - 1)
        lets_row, row = micro.bind("tile_row", number // plan.tiles_wide)
        lets_column, column = micro.bind("tile_column", number % plan.tiles_wide)
        return lets_row + lets_column, row, column

    def _transform_tile(self, tile: Expr) -> Stmt:
        """B^T d B of one patch, for all channels."""
        plan, window = self.plan, self.window
        lets, row, column = self._place(tile)
        lets_h, top = micro.bind("top", row * OUT - window.height.before)
        lets_w, left = micro.bind("left", column * OUT - window.width.before)
        vectors = window.block // plan.in_lanes
        inside = E.logical_and(E.logical_and(top >= 0, top <= window.height.extent - PATCH),
                               E.logical_and(left >= 0, left <= window.width.extent - PATCH))

        def channels(vector: Expr) -> Stmt:
            lets_block, block = micro.bind("block", vector // vectors)
            lanes = E.ramp(vector % vectors * plan.in_lanes, 1, plan.in_lanes)
            return seq(lets_block, self._transform_patch(tile, vector, top, left, block, lanes, inside))

        used = -(-plan.in_channels // plan.in_lanes)
        return seq(lets, lets_h, lets_w, micro.serial("vector", used, channels))

    def _transform_patch(self, tile: Expr, vector: Expr, top: Expr, left: Expr, block: Expr, lanes: Expr, inside: Expr) -> Stmt:
        """One vector of channels of one patch: read in place where all of it is data."""
        plan, window = self.plan, self.window
        border = micro.local("border", plan.tile.dtype, POSITIONS, plan.in_lanes)

        def data(y: Expr, x: Expr) -> Expr:
            return E.cast(window.data.read([self.image, block, top + y, left + x, lanes]), plan.tile.dtype)

        def keep(position: int, value: Expr) -> Stmt:
            index = (tile + position * plan.block) * plan.in_stride + vector * plan.in_lanes
            return store(self.patches, E.ramp(index, 1, plan.in_lanes), value)

        def fill(y: Expr, x: Expr) -> Stmt:
            here = E.logical_and(_within(top + y, window.height.extent), _within(left + x, window.width.extent))
            at = y * PATCH + x
            zero = E.const(0, plan.tile.dtype, plan.in_lanes)
            return micro.guarded(here, store(border, at, data(y, x)), store(border, at, zero))

        slow = seq(Allocate(border), micro.serial("y", PATCH, lambda y: micro.serial("x", PATCH, lambda x: fill(y, x))),
                   _square(PATCH, PATCH, lambda y, x: E.load(border, y * PATCH + x), _input_line, keep))
        fast = _square(PATCH, PATCH, lambda y, x: data(E.const(y), E.const(x)), _input_line, keep)
        return micro.guarded(inside, fast, slow)

    def _products(self, group: Expr) -> Stmt:
        """For every position: patches times weights."""
        plan = self.plan
        rows = Rows(E.const(0), E.const(plan.block), plan.block, plan.block)

        def position(p: Expr) -> Stmt:
            product = Product(
                plan.tile, E.const(plan.in_channels),
                lambda row, k: E.load(self.patches, (row + p * plan.block) * plan.in_stride + k),
                lambda k, v: self._weight(p, group, k, v),
                lambda row, value: seq(store(self.sums, self._sum_index(p, row, v), value(v)) for v in range(plan.tile.vectors)))
            return gemm.row_tiles(product, rows)

        return micro.serial("position", POSITIONS, position)

    def _sum_index(self, position: Expr, row: Expr, vector: int) -> Expr:
        return (row + position * self.plan.block) * self.plan.tile.vectors + vector

    def _channel(self, group: Expr, vector: int) -> tuple[Expr, Expr]:
        """Output block and channel inside it of a vector of a group."""
        plan = self.plan
        per_block = self.window.out_block // plan.tile.lanes
        number = group * plan.tile.vectors + vector
        return number // per_block, number % per_block * plan.tile.lanes

    def _weight(self, position: Expr, group: Expr, k: Expr, vector: int) -> Expr:
        block, lane = self._channel(group, vector)
        inner = self.window.block
        indices = [position, block, k // inner, k % inner, E.ramp(lane, 1, self.plan.tile.lanes)]
        weight = self.window.weight
        if weight.buffer is None:
            return E.cast(weight.read(indices), self.plan.tile.dtype)
        _, out_blocks, in_blocks, _, out_block = weight.buffer.shape
        flat = ((position * out_blocks + block) * (in_blocks * inner) + k) * out_block + indices[-1]
        return E.cast(E.load(weight.buffer, flat), self.plan.tile.dtype)

    def _outputs(self, group: Expr) -> Stmt:
        """A^T m A of every tile, written where it lies on the result."""
        plan = self.plan

        def tile_outputs(tile: Expr) -> Stmt:
            lets, row, column = self._place(tile)
            vectors = seq(self._output_tile(group, tile, row, column, v) for v in range(plan.tile.vectors))
            written = vectors if plan.tile_count % plan.block == 0 else micro.guarded(
                self.first + tile < plan.tile_count, vectors)
            return seq(lets, written)

        return micro.serial("tile", plan.block, tile_outputs)

    def _output_tile(self, group: Expr, tile: Expr, row: Expr, column: Expr, vector: int) -> Stmt:
        plan, window = self.plan, self.window
        block, lane = self._channel(group, vector)
        lanes = E.ramp(lane, 1, plan.tile.lanes)
        finished = micro.local("outputs", plan.tile.dtype, OUT * OUT, plan.tile.lanes)

        def load(y: int, x: int) -> Expr:
            return E.load(self.sums, self._sum_index(E.const(y * PATCH + x), tile, vector))

        def write(y: Expr, x: Expr) -> Stmt:
            value = E.cast(E.load(finished, y * OUT + x), window.result.dtype)
            return window.result.write([self.image, block, row * OUT + y, column * OUT + x, lanes], value)

        transform = _square(PATCH, OUT, load, _output_line, lambda at, value: store(finished, at, value))
        high, wide = (_left(window.height.out, row), _left(window.width.out, column))
        return seq(Allocate(finished), transform, _each(high, "y", lambda y: _each(wide, "x", lambda x: write(y, x))))


def _within(index: Expr, extent: int) -> Expr:
    return E.logical_and(index >= 0, index < extent)


def _left(extent: int, tile: Expr) -> Expr:
    """Outputs of a tile that lie on the result."""
    return E.const(OUT) if extent % OUT == 0 else E.binary("min", E.const(OUT), E.const(extent) - tile * OUT)


def _each(count: Expr, name: str, body: IndexBody) -> Stmt:
    """``body`` for each index below ``count``, which is at most ``OUT``."""
    known = micro.static(count)
    if known is not None:
        return micro.unrolled(name, known, body)
    return micro.unrolled(name, OUT, lambda i: micro.guarded(i < count, body(i)))


def _square(size: int, result: int, read: ReadSquare, line: Line, write: WriteSquare) -> Stmt:
    """The transformation ``line`` applied to the columns, then to the rows of a ``size`` x ``size`` square."""
    body: list[Stmt] = []
    columns = [_kept(body, line([_keep(body, read(y, x)) for y in range(size)])) for x in range(size)]
    for y in range(result):
        body += [write(y * result + x, value) for x, value in enumerate(line([column[y] for column in columns]))]
    return seq(body)


def _keep(body: list[Stmt], value: Expr) -> Expr:
    lets, variable = micro.bind("w", value)
    body.extend(lets)
    return variable


def _kept(body: list[Stmt], values: Sequence[Expr]) -> list[Expr]:
    return [_keep(body, value) for value in values]


def _input_line(d: Sequence[Expr]) -> list[Expr]:
    """B^T d."""
    def scaled(factor: float, x: Expr, plus: Expr) -> Expr:
        return micro.multiply_add(E.const(factor, x.dtype, x.lanes), x, plus)

    even, odd = scaled(-4.0, d[2], d[4]), scaled(-4.0, d[1], d[3])
    near, far = d[4] - d[2], d[3] - d[1]
    return [scaled(4.0, d[0], scaled(-5.0, d[2], d[4])), even + odd, even - odd,
            scaled(2.0, far, near), scaled(-2.0, far, near), scaled(4.0, d[1], scaled(-5.0, d[3], d[5]))]


def _output_line(m: Sequence[Expr]) -> list[Expr]:
    """A^T m."""
    def scaled(factor: float, x: Expr, plus: Expr) -> Expr:
        return micro.multiply_add(E.const(factor, x.dtype, x.lanes), x, plus)

    sum12, difference12, sum34, difference34 = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return [m[0] + sum12 + sum34, scaled(2.0, difference34, difference12), scaled(4.0, sum34, sum12),
            scaled(8.0, difference34, difference12) + m[5]]
