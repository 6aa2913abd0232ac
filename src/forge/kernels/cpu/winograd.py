"""Kernel family ``conv2d_winograd_nchwc``: 3x3 convolution of stride 1 with four ninths or a quarter of the multiplications.

F(m x m, 3x3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), for m of 2 and 4: each m x m tile of
outputs is A^T ((G g G^T) * (B^T d B)) A over the patch d of (m + 2) x (m + 2) inputs under it, where * is taken element by
element and summed over channels.

Operands: data [N][C/c][H][W][c]; weight [O/o][16 or 36][I/i][i][o], the G g G^T of every filter by position; result
[N][O/o][OH][OW][o]. ``attrs``: padding, in_channels (strides and dilation are 1). Errors relative to the largest output are about
those of the direct sum for m = 2, and 1e-5 for m = 4.

A task is a block of tiles: their patches are transformed into a local array, position by position multiplied with the weights by
the register tiles of matrix products, and the sums of one group of output channels transformed back at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Final

from forge import dtypes, loops
from forge.errors import CompileError
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.gemm import Product, Rows
from forge.kernels.cpu.spatial import BlockedWindow, Convolution3x3, SpatialAxis, note_algorithm, static_shape, window_of
from forge.loops import RegisterTile
from forge.loops.contract import KernelCall, kernel
from forge.loops.pairs import Group
from forge.target import Target
from forge.target.blocking import channel_block
from forge.target.choices import LIMIT
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, Prefetch, Stmt, seq, store

IndexBody = Callable[[Expr], Stmt]
ReadSquare = Callable[[int, int], Expr]
WriteSquare = Callable[[int, Expr], Stmt]
Line = Callable[[Sequence[Expr]], list[Expr]]

# Register tiles have at most this many rows.
TILE_ROWS: Final = 14
# The weights of each block of output channels are prefetched this many bytes ahead of the multiply-adds.
PREFETCH_BYTES: Final = 4096
# Both transformations take this many cycles per position of a patch and vector of channels.
TRANSFORM_CYCLES: Final = 14.0
# A register tile takes as long outside its multiply-adds as the multiply-adds of this many tiles.
OVERHEAD_TILES: Final = 1.0


@dataclass(frozen=True)
class Scheme:
    """F(out x out, 3x3): the transformations of one line of inputs and of sums."""

    out: int
    input_line: Line
    output_line: Line

    @property
    def patch(self) -> int:
        return self.out + 2

    @property
    def positions(self) -> int:
        return self.patch**2


@dataclass(frozen=True)
class WinogradProblem:
    """What the choice of tasks depends on.

    ``vectors`` vectors of output channels, each of ``lanes`` sums of ``dtype``, are summed together. A step of a sum takes a
    ``unit`` of input channels. Images are padded with ``pad_value``. Patches and sums are transformed in ``transform_cycles`` per
    position and vector of channels; where tasks transform the weights that they take, this needs ``weight_cycles`` for those of a
    step and vector.
    """

    scheme: Scheme
    window: BlockedWindow
    target: Target
    in_channels: int
    in_stride: int
    in_lanes: int
    out_vectors: int
    vectors: int
    lanes: int
    dtype: str
    unit: Group
    pad_value: int = 0
    transform_cycles: float = TRANSFORM_CYCLES
    weight_cycles: float = 0.0

    @property
    def tiles_wide(self) -> int:
        return -(-self.window.width.out // self.scheme.out)

    @property
    def tile_count(self) -> int:
        return -(-self.window.height.out // self.scheme.out) * self.tiles_wide

    @property
    def is_known(self) -> bool:
        """Whether the number of tiles is known."""
        return self.window.height.is_known and self.window.width.is_known

    @property
    def wide(self) -> Expr:
        """Tiles in a row of them, as ``tiles_wide``, of the sizes that there are."""
        return loops.ceildiv(self.window.width.positions, self.scheme.out)

    @property
    def count(self) -> Expr:
        """Tiles of an image, as ``tile_count``, of the sizes that there are."""
        return loops.ceildiv(self.window.height.positions, self.scheme.out) * self.wide

    @property
    def element(self) -> str:
        """The dtype of transformed patches."""
        return self.unit.dtype

    @property
    def steps(self) -> int:
        return -(-self.in_channels // self.unit.size)

    def rows(self, block: int) -> int:
        """Rows of the register tiles that share out ``block`` tiles evenly."""
        registers = self.target.vector_registers - self.unit.registers
        return tiles.even_blocks(block, min(TILE_ROWS, tiles.largest_rows(self.vectors, registers)))


@dataclass(frozen=True)
class WinogradPlan(WinogradProblem):
    """``block`` tiles, and one of ``parts`` parts of the output channels, are a task; less of images of any size.

    Register tiles are rows of tiles by vectors of output channels.
    """

    block: int = 1
    parts: int = 1

    @property
    def tile(self) -> RegisterTile:
        return RegisterTile(self.rows(self.block), self.vectors, self.lanes, self.dtype)

    @property
    def blocks(self) -> tuple[Expr, Expr]:
        """How many blocks of tiles there are, and the tiles of one."""
        if self.is_known:
            return E.const(-(-self.tile_count // self.block)), E.const(self.block)
        count, rows = loops.ceildiv(self.count, self.block), self.tile.rows
        even = (self.count + (count - 1)) // E.binary("max", count, 1)
        return count, loops.ceildiv(even, rows) * rows

    @property
    def part_groups(self) -> int:
        """Groups of output channels in one part."""
        return self.out_vectors // self.vectors // self.parts


def estimate(convolution: Convolution3x3, scheme: Scheme, target: Target) -> float:
    """Cycles of one core: multiply-adds, transformations, and the weights.

    Weights come from memory once, and from the outer caches again for each block of tiles that the second-level cache holds.
    In the Winograd domain bfloat16 is float32.
    """
    lanes, positions, costs = channel_block(target), scheme.positions, target.costs
    inner, outer = convolution.in_channels, convolution.out_channels
    tiles = convolution.images * -(-convolution.height // scheme.out) * -(-convolution.width // scheme.out)
    products = positions * tiles * inner * outer / (costs.multiply_adds * lanes)
    transforms = TRANSFORM_CYCLES * positions * tiles * (inner + outer) / (2 * lanes)
    held = max(1, target.l2_cache // 3 // (positions * 4 * (inner + 2 * lanes)))
    few = 1 + OVERHEAD_TILES / min(held, tiles)
    blocks = -(-tiles // held)
    weights = 4 * positions * inner * outer * (1 / costs.memory_bytes + (blocks - 1) / costs.reread_bytes)
    return max(products * few, weights) + transforms


@kernel("conv2d_winograd_nchwc")
def conv2d_winograd_nchwc(call: KernelCall) -> Function:
    """3x3 convolution in the Winograd domain."""
    return in_tasks(call, plan_tasks(_problem(call), call.name), Task)


def in_tasks(call: KernelCall, plan: WinogradPlan, kind: type[Task]) -> Function:
    """The function of a plan, whose tasks are of this kind."""
    blocks, block = plan.blocks

    def task(index: Expr) -> Stmt:
        lets: list[Stmt] = []
        image = loops.bound(index // (blocks * plan.parts), lets, "image")
        first = loops.bound(index // plan.parts % blocks * block, lets, "first_tile")
        group = loops.bound(index % plan.parts * plan.part_groups, lets, "first_group")
        size = block if plan.is_known else loops.bound(E.binary("min", block, plan.count - first), lets, "tiles")
        return seq(lets, kind(plan, image, first, size, group).statement())

    work = plan.block * plan.scheme.positions * plan.in_channels * plan.out_vectors * plan.tile.lanes // plan.parts
    return call.function(loops.parallel(plan.window.batch * (blocks * plan.parts), work, task))


def _problem(call: KernelCall) -> WinogradProblem:
    out_blocks, positions, in_blocks, in_block, out_block = static_shape(
        call, call.operands[1], 5, "[O/o][16 or 36][I/i][i][o]")
    window = window_of(call, (3, 3))
    axes = (window.height, window.width)
    blocks, steps = (in_block, out_block), [(a.stride, a.dilation) for a in axes]
    scheme = SCHEMES.get(positions)
    if scheme is None or blocks != (window.block, window.out_block) or steps != [(1, 1), (1, 1)]:
        raise CompileError(f"{call.name}: Winograd convolution of {positions} positions, blocks {blocks}, strides and dilations "
                           f"{steps}; expected {' or '.join(map(str, SCHEMES))}, the blocks of data and result, and 1")
    dtype = tiles.accumulator_dtype(window.data.dtype, window.weight.dtype)
    lanes = tiles.vector_lanes(out_block, call.target, dtype)
    out_vectors = out_blocks * out_block // lanes
    padded = in_blocks * in_block
    # Rows of a multiple of 2 KiB would fall on the same few cache sets.
    stride = padded + (lanes if padded % 512 == 0 else 0)
    in_channels = int(call.attrs.in_channels or padded)
    note_algorithm(call, window, in_channels)
    return WinogradProblem(scheme, window, call.target, in_channels, stride, tiles.vector_lanes(in_block, call.target, dtype),
                           out_vectors, _group_vectors(out_vectors, out_block // lanes), lanes, dtype, Group(1, dtype))


def _group_vectors(out_vectors: int, per_block: int) -> int:
    """Vectors of output channels that are summed together: two or three, in whole blocks or whole parts of one."""
    fitting = [v for v in tiles.divisors(out_vectors, 3) if v % per_block == 0 or per_block % v == 0]
    return 2 if 2 in fitting else fitting[0]


def plan_tasks(problem: WinogradProblem, kernel: str) -> WinogradPlan:
    """Tiles of a task, whose patches and sums take half of the second-level cache, and parts of the output channels.

    Where there are few tiles, parts occupy the cores while each weight is read once. Tasks that transform weights take all of the
    cache: they do so less often.
    """
    p, target, positions = problem, problem.target, problem.scheme.positions
    count, size = p.tile_count, dtypes.itemsize(p.element)
    sums = p.vectors * p.lanes * dtypes.itemsize(p.dtype)
    room = min(target.l2_cache * (2 if p.weight_cycles else 1), tiles.STACK_LIMIT) // 2
    most = max(1, room // (positions * (p.in_stride * size + sums)))
    images = loops.static(p.window.batch) or 1
    change = positions * p.transform_cycles / 2
    steps = p.in_stride // p.unit.size
    weights = positions * p.in_stride * p.out_vectors * p.lanes * size / target.costs.shared_bytes

    def makespan(choice: tuple[int, int]) -> float:
        blocks, parts = choice
        block = -(-count // blocks)
        rows = p.rows(block)
        one_tile = steps * tiles.step_cycles(rows, p.vectors, target.costs) + target.costs.tile_overhead + rows * p.vectors
        products = positions * p.out_vectors // p.vectors * -(-block // rows) * one_tile
        transformed = steps * p.out_vectors * p.weight_cycles
        each = max(products, weights) if not transformed else products + transformed
        task = each / parts + block * change * (p.in_stride / p.lanes + p.out_vectors / parts)
        return -(-images * blocks * parts // target.num_cores) * task

    least = -(-count // most)
    choices = range(least, min(count, least + 8 * target.num_cores) + 1)
    divisions = sorted(tiles.divisors(p.out_vectors // p.vectors, target.num_cores))
    best, *others = nsmallest(LIMIT + 1, ((b, p) for p in divisions for b in choices), key=makespan)
    key = f"winograd tasks {images} {count} {positions} {p.in_stride} {p.out_vectors} {p.vectors} {p.lanes} {p.dtype}"
    blocks, parts = target.choices.pick(key, best, lambda: (best, *others), kernel)
    plan = WinogradPlan(**vars(problem), block=-(-count // blocks), parts=parts)
    return plan if plan.is_known else replace(plan, block=loops.round_up(plan.block, plan.tile.rows))


class Task:
    """Statements of one task, of ``size`` tiles; where their number is known, some of them may be past the last one."""

    def __init__(self, plan: WinogradPlan, image: Expr, first: Expr, size: Expr, first_group: Expr) -> None:
        self.plan = plan
        self.window = plan.window
        self.image = image
        self.first = first
        self.size = size
        self.first_group = first_group
        tile = plan.tile
        self.patches = loops.local("patches", plan.element, plan.scheme.positions * plan.block * plan.in_stride)
        self.sums = loops.local("sums", tile.dtype, plan.scheme.positions * plan.block * tile.vectors, tile.lanes)

    def statement(self) -> Stmt:
        def sums(number: Expr) -> Stmt:
            lets, group = loops.bind("group", self.first_group + number)
            return seq(lets, self.prepare(group), self._products(group), self._outputs(group))

        return seq(map(Allocate, self.buffers), loops.serial("tile", self.size, self._transform_tile),
                   loops.serial("number", self.plan.part_groups, sums))

    @property
    def buffers(self) -> list[Buffer]:
        """What is allocated on the stack."""
        return [self.patches, self.sums]

    def prepare(self, group: Expr) -> Stmt:
        """What comes before the products of a group of output channels."""
        return seq()

    def finish(self, value: Expr) -> Expr:
        """The result of transformed sums."""
        return value

    @property
    def _may_be_past(self) -> bool:
        return self.plan.is_known and self.plan.tile_count % self.plan.block != 0

    def _place(self, tile: Expr) -> tuple[list[Stmt], Expr, Expr]:
        """Row and column of a tile among all tiles; past the last one, that of the last."""
        plan = self.plan
        number = self.first + tile
        if self._may_be_past:
            number = E.binary("min", number, plan.tile_count - 1)
        lets_row, row = loops.bind("tile_row", number // plan.wide)
        lets_column, column = loops.bind("tile_column", number % plan.wide)
        return lets_row + lets_column, row, column

    def _transform_tile(self, tile: Expr) -> Stmt:
        """B^T d B of one patch, for all channels."""
        plan, window = self.plan, self.window
        lets, row, column = self._place(tile)
        lets_h, top = loops.bind("top", row * plan.scheme.out - window.height.pad)
        lets_w, left = loops.bind("left", column * plan.scheme.out - window.width.pad)
        vectors = window.block // plan.in_lanes
        inside = E.logical_and(E.logical_and(top >= 0, top <= window.height.data - plan.scheme.patch),
                               E.logical_and(left >= 0, left <= window.width.data - plan.scheme.patch))

        def channels(vector: Expr) -> Stmt:
            lets_block, block = loops.bind("block", vector // vectors)
            lanes = E.ramp(vector % vectors * plan.in_lanes, 1, plan.in_lanes)
            return seq(lets_block, self._transform_patch(tile, vector, top, left, block, lanes, inside))

        used = -(-plan.in_channels // plan.in_lanes)
        return seq(lets, lets_h, lets_w, loops.serial("vector", used, channels))

    def _transform_patch(self, tile: Expr, vector: Expr, top: Expr, left: Expr, block: Expr, lanes: Expr, inside: Expr) -> Stmt:
        """One vector of channels of one patch: read in place where all of it is data."""
        plan, window = self.plan, self.window
        border = loops.local("border", plan.element, plan.scheme.positions, plan.in_lanes)

        def data(y: Expr, x: Expr) -> Expr:
            return E.cast(window.data.read([self.image, block, top + y, left + x, lanes]), plan.element)

        def keep(position: int, value: Expr) -> Stmt:
            index = (tile + position * plan.block) * plan.in_stride + vector * plan.in_lanes
            return store(self.patches, E.ramp(index, 1, plan.in_lanes), value)

        def fill(y: Expr, x: Expr) -> Stmt:
            here = E.logical_and(_within(top + y, window.height.data), _within(left + x, window.width.data))
            at = y * plan.scheme.patch + x
            outside = E.const(plan.pad_value, plan.element, plan.in_lanes)
            return loops.guard(here, store(border, at, data(y, x)), store(border, at, outside))

        scheme = plan.scheme
        copied = loops.serial("y", scheme.patch, lambda y: loops.serial("x", scheme.patch, lambda x: fill(y, x)))
        bordered = square(scheme.patch, scheme.patch, lambda y, x: E.load(border, y * scheme.patch + x), scheme.input_line, keep)
        fast = square(scheme.patch, scheme.patch, lambda y, x: data(E.const(y), E.const(x)), scheme.input_line, keep)
        slow = seq(Allocate(border), copied, bordered)
        return loops.guard(inside, fast, slow)

    def _products(self, group: Expr) -> Stmt:
        """For every position: patches times weights."""
        plan = self.plan
        rows = Rows(E.const(0), self.size, loops.static(self.size), plan.block)

        def position(p: Expr) -> Stmt:
            product = Product(
                plan.tile, E.const(plan.steps),
                lambda row, k: plan.unit.load(self.patches, (row + p * plan.block) * plan.in_stride + k * plan.unit.size),
                lambda k, v: self.weight(p, group, k, v),
                lambda row, value: seq(store(self.sums, self._sum_index(p, row, v), value(v)) for v in range(plan.tile.vectors)),
                prefetch=lambda k: self.prefetch(p, group, k))
            return gemm.row_tiles(product, rows)

        return loops.serial("position", plan.scheme.positions, position)

    def _sum_index(self, position: Expr, row: Expr, vector: int) -> Expr:
        return (row + position * self.plan.block) * self.plan.tile.vectors + vector

    def channel(self, group: Expr, vector: int) -> tuple[Expr, Expr]:
        """Output block and channel inside it of a vector of a group."""
        plan = self.plan
        per_block = self.window.out_block // plan.tile.lanes
        number = group * plan.tile.vectors + vector
        return number // per_block, number % per_block * plan.tile.lanes

    def prefetch(self, position: Expr, group: Expr, k: Expr) -> Stmt:
        """Prefetches the weights that follow: those of the next position lie after those of this one."""
        weight = self.window.weight
        if weight.buffer is None:
            return seq()
        distance = PREFETCH_BYTES // (self.window.out_block * dtypes.itemsize(weight.dtype))
        return seq(Prefetch(weight.buffer, self._weight_place(position, group, k + distance, v))
                   for v in range(self.plan.tile.vectors))

    def _weight_place(self, position: Expr, group: Expr, k: Expr, vector: int) -> Expr:
        """Number of the first element of a vector in the weight's buffer; k may lie after the position's channels."""
        block, lane = self.channel(group, vector)
        buffer = self.window.weight.buffer
        assert buffer is not None
        _, positions, in_blocks, _, out_block = buffer.shape
        return ((block * positions + position) * (in_blocks * self.window.block) + k) * out_block + lane

    def weight(self, position: Expr, group: Expr, k: Expr, vector: int) -> Expr:
        block, lane = self.channel(group, vector)
        inner = self.window.block
        indices = [block, position, k // inner, k % inner, E.ramp(lane, 1, self.plan.tile.lanes)]
        weight = self.window.weight
        if weight.buffer is None:
            return E.cast(weight.read(indices), self.plan.tile.dtype)
        place = E.ramp(self._weight_place(position, group, k, vector), 1, self.plan.tile.lanes)
        return E.cast(E.load(weight.buffer, place), self.plan.tile.dtype)

    def _outputs(self, group: Expr) -> Stmt:
        """A^T m A of every tile, written where it lies on the result."""
        plan = self.plan

        def tile_outputs(tile: Expr) -> Stmt:
            lets, row, column = self._place(tile)
            vectors = seq(self._output_tile(group, tile, row, column, v) for v in range(plan.tile.vectors))
            written = loops.guard(self.first + tile < plan.tile_count, vectors) if self._may_be_past else vectors
            return seq(lets, written)

        return loops.serial("tile", self.size, tile_outputs)

    def _output_tile(self, group: Expr, tile: Expr, row: Expr, column: Expr, vector: int) -> Stmt:
        plan, window = self.plan, self.window
        out, patch = plan.scheme.out, plan.scheme.patch
        block, lane = self.channel(group, vector)
        lanes = E.ramp(lane, 1, plan.tile.lanes)
        finished = loops.local("outputs", plan.tile.dtype, out * out, plan.tile.lanes)

        def load(y: int, x: int) -> Expr:
            return E.load(self.sums, self._sum_index(E.const(y * patch + x), tile, vector))

        def write(y: Expr, x: Expr) -> Stmt:
            value = E.cast(self.finish(E.load(finished, y * out + x)), window.result.dtype)
            return window.result.write([self.image, block, row * out + y, column * out + x, lanes], value)

        transform = square(patch, out, load, plan.scheme.output_line, lambda at, value: store(finished, at, value))
        high, wide = _left(window.height, row, out), _left(window.width, column, out)
        return seq(Allocate(finished), transform, _each(high, out, "y", lambda y: _each(wide, out, "x", lambda x: write(y, x))))


def _within(index: Expr, extent: Expr) -> Expr:
    return E.logical_and(index >= 0, index < extent)


def _left(axis: SpatialAxis, tile: Expr, out: int) -> Expr:
    """Outputs of a tile that lie on the result."""
    return axis.rest(E.const(out), tile * out)


def _each(count: Expr, most: int, name: str, body: IndexBody) -> Stmt:
    """``body`` for each index below ``count``, which is at most ``most``."""
    known = loops.static(count)
    if known is not None:
        return loops.unroll(name, known, body)
    return loops.unroll(name, most, lambda i: loops.guard(i < count, body(i)))


def square(size: int, result: int, read: ReadSquare, line: Line, write: WriteSquare) -> Stmt:
    """The transformation ``line`` applied to the columns, then to the rows of a ``size`` x ``size`` square."""
    body: list[Stmt] = []
    columns = []
    for x in range(size):
        column = line([loops.bound(read(y, x), body) for y in range(size)])
        columns.append([loops.bound(value, body) for value in column])
    for y in range(result):
        body += [write(y * result + x, value) for x, value in enumerate(line([column[y] for column in columns]))]
    return seq(body)


def _scaled(factor: float, x: Expr, plus: Expr) -> Expr:
    return loops.multiply_add(E.const(factor, x.dtype, x.lanes), x, plus)


def _input_line_4(d: Sequence[Expr]) -> list[Expr]:
    """B^T d."""
    even, odd = _scaled(-4.0, d[2], d[4]), _scaled(-4.0, d[1], d[3])
    near, far = d[4] - d[2], d[3] - d[1]
    return [_scaled(4.0, d[0], _scaled(-5.0, d[2], d[4])), even + odd, even - odd,
            _scaled(2.0, far, near), _scaled(-2.0, far, near), _scaled(4.0, d[1], _scaled(-5.0, d[3], d[5]))]


def _output_line_4(m: Sequence[Expr]) -> list[Expr]:
    """A^T m."""
    sum12, difference12, sum34, difference34 = m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]
    return [m[0] + sum12 + sum34, _scaled(2.0, difference34, difference12), _scaled(4.0, sum34, sum12),
            _scaled(8.0, difference34, difference12) + m[5]]


def _input_line_2(d: Sequence[Expr]) -> list[Expr]:
    """B^T d."""
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _output_line_2(m: Sequence[Expr]) -> list[Expr]:
    """A^T m."""
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


SCHEME_2: Final = Scheme(2, _input_line_2, _output_line_2)
SCHEMES = {s.positions: s for s in (SCHEME_2, Scheme(4, _input_line_4, _output_line_4))}
"""By the number of positions of a patch."""
