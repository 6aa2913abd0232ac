"""Tiles and blocks of a blocked convolution: which register tile, which part of the work is one task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import nsmallest
from typing import Final

from forge import dtypes, loops
from forge.backend import Convolution3x3
from forge.kernels.cpu import tiles
from forge.kernels.cpu.spatial import SpatialAxis, WindowProblem
from forge.loops import product, round_up
from forge.loops.dots import Group
from forge.target import Target
from forge.target.blocking import channel_block, group_size
from forge.target.choices import LIMIT
from forge.tir import expr as E
from forge.tir.expr import Expr, ExprLike

_Plan = tuple[int, int, int, int, int, int, int]
"""(height, width, vectors) of a register tile; (row_block, column_block, groups, chunk) of a task."""

# Register tiles cover at most this many rows of the image.
MAX_TILE_ROWS: Final = 4
# Tiles along an axis whose size is known at run time only are chosen for at least this many positions.
MIN_TYPICAL: Final = 28
# Register tiles have at most this many vectors of output channels.
MAX_VECTORS: Final = 6
# A rest of vectors that are less than a group has code of its own, and is a task of its own: the others must save this part.
REST_CODE: Final = 0.05
# Extents of images in networks.
LIKELY: Final = (7, 8, 14, 16, 20, 28, 32, 40, 56, 64, 80)
# Parts of a row have at least as many positions as this many kernels span: they copy few elements twice.
LONG_PART: Final = 8
# Register tiles for sizes known at run time only are chosen for at least this many steps, so that most layers share their code.
TYPICAL_STEPS: Final = 256
# A chunk of channel blocks has at least this many reduction steps: they pay for storing and reloading partial sums.
MIN_STEPS: Final = 128
# Rows of taps on padding are left out where they are at least this part of all of known sizes, one in as many.
PADDING_SHARE: Final = 50


@dataclass(frozen=True, kw_only=True)
class ConvProblem(WindowProblem):
    """The facts that the choice of a plan depends on.

    ``in_channels`` and ``in_block`` count steps of the reduction, those of all slices together. Where ``staged``, a task copies
    the input under it into a local patch: of float32 with weights in ``parts``, as many parts of it.
    """

    in_channels: int
    in_block: int
    in_blocks: int
    staged: bool
    parts: int = 1

    @property
    def copied(self) -> str:
        """The dtype of the input as a copy takes it."""
        return self.unit.copied if self.parts == 1 else "float32"

    @property
    def skips_slices(self) -> bool:
        """Whether slices of padding are left out of the sums."""
        return self.window.depth.padded and self.pad_value == 0

    @property
    def skips_rows(self) -> bool:
        """Whether register tiles of one row leave out the rows of taps that lie on padding."""
        axis = self.window.height
        if not axis.padded or self.pad_value != 0 or axis.kernel == 1:
            return False
        outside = sum(not axis.inside(position, tap) for position in range(axis.out) for tap in range(axis.kernel))
        return not axis.is_known or outside * PADDING_SHARE >= axis.out * axis.kernel

    @property
    def skips_columns(self) -> bool:
        """Whether a task leaves out the columns of taps that lie on padding at all its positions, as of a very narrow image."""
        axis = self.window.width
        return not axis.is_known and axis.padded and self.pad_value == 0 and axis.kernel > 3 and self.window.used is None

    def most_positions(self, vectors: int) -> int:
        """Returns the most output positions that a register tile has."""
        return tiles.largest_rows(vectors, self.target.vector_registers - self.unit.registers)

    @property
    def joined(self) -> bool:
        """Whether the positions of an image are one row, as without neighbours they may be."""
        return self.window.height.out == 1 and self.window.width.kernel == 1

    @property
    def steps(self) -> int:
        """Reduction steps of one output."""
        return self.in_channels * self.window.height.kernel * self.window.width.kernel

    @property
    def key(self) -> str:
        """Names all that the fastest plan depends on, other than the target."""
        axes = (self.window.height, self.window.width)
        extent, out, kernel = ("x".join(str(getattr(a, name)) for a in axes) for name in ("extent", "out", "kernel"))
        steps = " ".join(f"{a.stride},{a.dilation},{a.before}" for a in axes)
        blocks = f"{self.in_block}x{self.in_blocks}x{self.window.block}x{self.unit.size} {self.out_vectors}x{self.lanes}"
        copied = " copied" if self.staged else ""
        copied += f" of {self.window.slices} slices" if self.window.is_volume else ""
        copied += " of any size" if not self.window.is_known else ""
        copied += f" taps of {self.window.used.blocks} blocks" if self.window.used is not None else ""
        data = f"{self.window.image_count}x{self.in_channels}x{extent}"
        return f"conv2d {data} {kernel} to {out}, {steps}; {blocks} {self.dtype}{copied}"

    def weight_bytes(self, vectors: int) -> int:
        """Counts the bytes of the weights of a group of vectors of output channels."""
        return vectors * self.lanes * self.steps * self.unit.size * dtypes.itemsize(self.window.weight.dtype)

    def sum_bytes(self, positions: int, vectors: int) -> int:
        """Counts the bytes of the sums of ``positions`` of a group of vectors of output channels."""
        return positions * vectors * self.lanes * dtypes.itemsize(self.dtype)

    def patch_bytes(self, rows: int, columns: int, blocks: int) -> int:
        """Counts the bytes of input that ``rows`` x ``columns`` outputs read; of a copy, all between them too."""
        axes = ((self.window.height, rows), (self.window.width, columns))
        area = math.prod(axis.span(n) if self.staged else min(axis.span(n), n * axis.kernel) for axis, n in axes)
        return area * blocks * self.window.block * dtypes.itemsize(self.unit.copied) * self.parts


@dataclass(frozen=True)
class Counts:
    """Numbers of a plan that code takes as they are, or as variables that each call of it sets.

    ``in_blocks`` of channels, with those of all slices, ``chunk`` of them at a time; ``group_blocks`` parts of the output
    channels of ``groups`` groups; ``row_block`` x ``column_block`` positions of a task.
    """

    in_blocks: Expr
    chunk: Expr
    groups: Expr
    group_blocks: Expr
    row_block: Expr
    column_block: Expr


@dataclass(frozen=True, kw_only=True)
class ConvPlan(ConvProblem):
    """The tiles, tasks and copies by which one convolution is computed.

    A register tile is ``tile_height`` x ``tile_width`` output positions by ``vectors`` vectors of output channels. A task is
    ``row_block`` x ``column_block`` positions by ``groups`` groups of ``vectors`` vectors, ``chunk`` channel blocks at a time.
    The first group begins after ``first_block`` blocks of output channels.
    """

    tile_height: int
    tile_width: int
    vectors: int
    row_block: int
    column_block: int
    groups: int
    chunk: int
    shared: Counts | None = None
    first_block: ExprLike = 0
    words: int = 0
    """Groups of the depth that tile registers multiply in a step; 0: there are none."""

    @property
    def rest(self) -> ConvPlan | None:
        """The plan of the vectors of output channels that are too few for a group, where there are some."""
        vectors, per_block = self.out_vectors % self.vectors, self.window.out_block // self.lanes
        if not vectors:
            return None
        counts = self.counts
        shared = self.shared and replace(self.shared, groups=E.const(1), group_blocks=E.const(1))
        return replace(self, vectors=vectors, groups=1, shared=shared,
                       first_block=counts.group_blocks * counts.groups * (self.vectors // per_block))

    @property
    def counts(self) -> Counts:
        """The numbers of this plan, or what code has instead that calls share."""
        numbers = (self.in_blocks, self.chunk, self.groups, self.group_blocks, self.row_block, self.column_block)
        return self.shared or Counts(*map(E.const, numbers))

    @property
    def block(self) -> int:
        """Steps of one position of a channel block of the data."""
        return self.window.block // self.unit.size

    @property
    def blocks(self) -> tuple[tuple[Expr, Expr], tuple[Expr, Expr]]:
        """The number of tasks along the height, and the rows of one; along the width, and the columns.

        Where both are known at run time only, a task has more rows the fewer columns there are: it reads all weights. Where
        some are, none has more than its share of the cores.
        """
        height, width, room = self.window.height, self.window.width, self.counts
        others = product([*self.window.images.values(), room.group_blocks])
        if not self.has_room:
            rows, row_block = height.blocks(self.row_block if height.is_known else room.row_block, self.tile_height)
            most: ExprLike = self.column_block
            if not width.is_known:
                share = loops.ceildiv(self._share(width, others * rows), self.tile_width) * self.tile_width
                most = E.binary("min", room.column_block, share)
            return (rows, row_block), width.blocks(most, self.tile_width)
        columns, column_block = width.blocks(room.column_block, self.tile_width)
        used = E.binary("max", column_block, 1)
        span = height.span(room.row_block) * width.span(room.column_block) // width.span(used)
        most = E.binary("min", room.row_block * room.column_block // used, (span - height.reach) // height.stride + 1)
        share = self._share(height, others * columns)
        return height.blocks(E.binary("min", most, share), self.tile_height), (columns, column_block)

    def _share(self, axis: SpatialAxis, others: Expr) -> Expr:
        """Most positions along an axis with which all cores have a task, where each has ``others``."""
        others = E.binary("max", others, 1)
        parts = (others + (self.target.num_cores - 1)) // others
        return E.binary("max", (axis.positions + (parts - 1)) // parts, 1)

    @property
    def has_room(self) -> bool:
        """Whether the shape of blocks is known at run time only: they take the room of ``row_block`` x ``column_block``."""
        return not self.window.height.is_known and not self.window.width.is_known

    @property
    def is_packed(self) -> bool:
        """Whether rows and blocks of a copy of the input follow each other as closely as those of the task at hand allow."""
        return self.has_room or self.shared is not None or self.words > 0 and not self.window.is_known

    @property
    def group_blocks(self) -> int:
        return self.out_vectors // self.vectors // self.groups

    @property
    def chunks(self) -> int:
        return self.in_blocks // self.chunk

    @property
    def prefetches(self) -> bool:
        """Whether the tiles of a task prefetch weights; there may be few of them where sizes are known at run time only."""
        shared = self.weight_bytes(self.vectors) // self.chunks
        if not self.window.is_known:
            return shared <= tiles.prefetch_bytes(self.target)
        count = -(-self.row_block // self.tile_height) * -(-self.column_block // self.tile_width)
        return tiles.prefetches(count, shared, self.target)

    @property
    def patch_size(self) -> int:
        """Elements of a copy of the input, or of a chunk of it; of code that calls share, as many as any may need."""
        height, width = self.window.height.span(self.row_block), self.window.width.span(self.column_block)
        beyond = 0 if self.window.width.is_known else (self.tile_width - 1) * self.window.width.stride * self.window.block
        needed = self.chunk * height * width * self.window.block + beyond
        room = 0 if self.shared is None else patch_limit(self.target) // (dtypes.itemsize(self.unit.copied) * self.parts)
        return max(room, needed)

    @property
    def partial_size(self) -> int:
        """Vectors of sums that are kept from chunk to chunk; of code that calls share, as many as any may need."""
        needed = self.groups * self.row_block * self.column_block * self.vectors
        room = 0 if self.shared is None else patch_limit(self.target) // self.sum_bytes(1, 1)
        return max(room, needed)


def estimate(convolution: Convolution3x3, target: Target) -> float:
    """Cycles of one core: the multiply-adds, or the weights where reading them from memory takes longer."""
    channels = convolution.in_channels * convolution.out_channels
    products = 9 * convolution.images * channels * convolution.height * convolution.width
    cycles = products / (target.costs.multiply_adds * channel_block(target))
    if convolution.dtype == "bfloat16":
        cycles /= group_size(target, "bfloat16", "bfloat16")
    return max(cycles, 9 * dtypes.itemsize(convolution.dtype) * channels / target.costs.memory_bytes)


def plan_convolution(problem: ConvProblem, kernel: str = "") -> ConvPlan:
    """Chooses the plan that was measured to be the fastest, or the cheapest by the cost model."""
    tile = min(_tiles(problem), key=lambda tile: _tile_cost(problem, *tile))
    default = (*tile, *_choose_task(problem, *tile))
    height, width, vectors, row_block, column_block, groups, chunk = problem.target.choices.pick(
        problem.key, default, lambda: _alternatives(problem), kernel)
    if not problem.window.height.is_known:
        row_block = round_up(row_block, height)
    if not problem.window.width.is_known:
        column_block = round_up(column_block, width)
    return ConvPlan(
        **vars(problem), tile_height=height, tile_width=width, vectors=vectors, row_block=row_block, column_block=column_block,
        groups=groups, chunk=chunk)


def _alternatives(problem: ConvProblem) -> Iterator[_Plan]:
    """The best tiles, each with its best task, then other tasks for the best tile."""
    best = nsmallest(LIMIT // 2 + 1, _tiles(problem), key=lambda tile: _tile_cost(problem, *tile))
    yield from ((*tile, *_choose_task(problem, *tile)) for tile in best)
    tile = best[0]
    tasks = nsmallest(LIMIT // 2 + 1, _tasks(problem, *tile), key=lambda task: _makespan(problem, tile[2], *task))
    yield from ((*tile, *task, _chunk(problem, tile[2], math.prod(task))) for task in tasks[1:])


def _tiles(problem: ConvProblem) -> Iterator[tuple[int, int, int]]:
    """Candidate (height, width, vectors) that fit into the registers."""
    registers = problem.target.vector_registers - problem.unit.registers
    per_block, used = problem.window.out_block // problem.lanes, problem.window.used
    alike = problem.out_vectors if used is None else used.blocks * per_block
    # Layers over images of unknown sizes share code more often where none has a rest.
    whole = used is not None or not problem.window.is_known and len(tiles.divisors(alike, MAX_VECTORS)) > 1
    for vectors in range(min(alike, MAX_VECTORS), 0, -1):
        if vectors % per_block and per_block % vectors or alike % vectors and (whole or vectors % per_block):
            continue
        for height in range(1, min(MAX_TILE_ROWS if problem.window.height.is_known else 1, problem.window.height.out) + 1):
            for width in range(1, min(registers, _assumed(problem.window.width)) + 1):
                if height * width == 1 or tiles.fits(height * width, vectors, registers):
                    yield height, width, vectors


def _assumed(axis: SpatialAxis) -> int:
    """Positions for which tiles are chosen."""
    return axis.out if axis.is_known else max(axis.out, MIN_TYPICAL)


def tail_widths(unit: Group, size: int, vectors: int, most: int = 0) -> list[int]:
    """Returns `tiles.tails`, and two more that pay for their code.

    Dot products of bytes are few enough per position for one between the widest two. One is wider than ``size``, of at most
    ``most`` positions: it takes the last whole tile, too, so that no tile has only one or two, of three vectors and more.
    """
    widths = tiles.tails(size, vectors)
    between, longer = 3 * size // 4, min(most, size + max(1, size // 4))
    if unit.size > 1 and len(widths) > 1 and widths[-2] < between < widths[-1]:
        widths.insert(-1, between)
    return [*widths, longer] if vectors > 2 and len(widths) > 1 and longer > size else widths


def _pieces(axis: SpatialAxis, size: int, vectors: int, problem: ConvProblem) -> list[tuple[float, int]]:
    """How many pieces of which sizes cover an axis in tiles of ``size``; of extents known at run time only, likely ones."""
    if axis.is_known:
        full, rest = divmod(axis.out, size)
        return [(full, size), (1, rest)]
    tails = tail_widths(problem.unit, size, vectors, problem.most_positions(vectors))
    return _likely_pieces(_assumed(axis), size, tuple(tails), problem.joined)


@lru_cache(4096)
def _likely_pieces(assumed: int, size: int, tails: Sequence[int], joined: bool) -> list[tuple[float, int]]:
    found = dict[int, float]()
    for positions in (*(extent * extent if joined else extent for extent in LIKELY), assumed):
        share = assumed / positions / (len(LIKELY) + 1)
        full, rest = divmod(positions, size)
        if full and 0 < rest <= max(tails, default=size) - size:
            full, rest = full - 1, rest + size
        found[size] = found.get(size, 0) + full * share
        if rest:
            tail = next(width for width in tails if rest <= width)
            found[tail] = found.get(tail, 0) + share
    return [(count, width) for width, count in found.items()]


def _tile_cost(problem: ConvProblem, height: int, width: int, vectors: int) -> float:
    """Cycles of all outputs of an image; each tile shape is code, which costs a little too."""
    axes = ((problem.window.height, height), (problem.window.width, width))
    rows, columns = (_pieces(axis, size, vectors, problem) for axis, size in axes)
    shapes = [(n * m, h * w) for n, h in rows for m, w in columns]
    used = [(count, rows) for count, rows in shapes if count * rows]
    groups, rest = divmod(problem.out_vectors, vectors)
    parts = [(groups, vectors), (1, rest)] if rest else [(groups, vectors)]
    cycles = sum(n * count * _one_tile(problem, rows, own) for n, own in parts for count, rows in used)
    return cycles * (1 + 0.01 * len(used) + 0.005 * (height - 1) + (REST_CODE if rest else 0))


def _one_tile(problem: ConvProblem, rows: int, vectors: int) -> float:
    costs = problem.target.costs
    step_bytes = vectors * problem.lanes * problem.unit.size * dtypes.itemsize(problem.window.weight.dtype)
    weight_stream = step_bytes / costs.streamed_bytes
    steps = problem.steps if problem.window.is_known else max(problem.steps, TYPICAL_STEPS)
    return steps * max(tiles.step_cycles(rows, vectors, costs), weight_stream) + costs.tile_overhead + rows * vectors


def _choose_task(problem: ConvProblem, height: int, width: int, vectors: int) -> tuple[int, int, int, int]:
    """(row_block, column_block, groups, chunk) of a task."""
    fitting = _tasks(problem, height, width, vectors)
    if fitting:
        task = min(fitting, key=lambda task: _makespan(problem, vectors, *task))
        return *task, _chunk(problem, vectors, math.prod(task))
    if not problem.staged:
        return height, problem.window.width.out, problem.out_vectors // vectors, problem.in_blocks
    return _narrow_task(problem, height, width, vectors)


def _chunk(problem: ConvProblem, vectors: int, positions: int) -> int:
    """Channel blocks that a task takes at a time, so that weights of theirs and the next ones stay in the second-level cache.

    All of them, where that is so anyway, or partial sums of ``positions`` in all groups of a task would need the cache, or more
    than their half of the stack.
    """
    weights, partial = problem.weight_bytes(vectors), problem.sum_bytes(positions, vectors)
    most = tiles.prefetch_bytes(problem.target)
    if not problem.staged or weights <= most or partial > min(most, tiles.STACK_LIMIT // 2):
        return problem.in_blocks
    chunk = tiles.divisors(problem.in_blocks, max(1, most * problem.in_blocks // weights))[0]
    return chunk if problem.steps * chunk >= MIN_STEPS * problem.in_blocks else problem.in_blocks


def patch_limit(target: Target) -> int:
    """Returns the most bytes of input under a task."""
    return min(target.l2_cache, tiles.STACK_LIMIT) // 2


def _tasks(problem: ConvProblem, height: int, width: int, vectors: int) -> list[tuple[int, int, int]]:
    """Candidate (rows, columns, groups) of tasks whose input fits into the cache: whole rows, or long parts of few."""
    groups, window = problem.out_vectors // vectors, problem.window
    wholes = [(rows, window.width.out) for rows in _even_parts(window.height.out, height)]
    parts = [(height, columns) for columns in _even_parts(window.width.out, width) if columns >= LONG_PART * window.width.reach]
    fitting = next((found for shapes in (wholes, parts) if (found := [
        shape for shape in shapes if problem.patch_bytes(*shape, problem.in_blocks) <= patch_limit(problem.target)])), [])
    return [(*shape, count) for shape in fitting for count in tiles.divisors(groups, groups)]


def _even_parts(out: int, tile: int) -> list[int]:
    """Positions along an axis that share a task: whole tiles, evenly spread."""
    count = -(-out // tile)
    return sorted({min(out, tiles.even_blocks(count, parts) * tile) for parts in range(1, count + 1)})


def _makespan(problem: ConvProblem, vectors: int, rows: int, columns: int, groups: int) -> float:
    """Cycles until the last core has finished."""
    window, cores, costs = problem.window, problem.target.num_cores, problem.target.costs
    places = -(-window.height.out // rows) * -(-window.width.out // columns)
    tasks = window.image_count * places * problem.out_vectors / vectors / groups
    compute = rows * columns * groups * vectors * problem.steps / costs.multiply_adds
    copied = problem.patch_bytes(rows, columns, problem.in_blocks) / (problem.target.vector_bits / 8)
    task = compute + costs.task_overhead + (costs.copy * copied if problem.staged else 0)
    return -(-tasks // cores) * task


def _narrow_task(problem: ConvProblem, height: int, width: int, vectors: int) -> tuple[int, int, int, int]:
    """A task of one row of tiles whose input, or whose share of the channels, fits, and whose partial sums fit next to it."""
    limit, columns = patch_limit(problem.target), problem.window.width.out
    chunks = tiles.divisors(problem.in_blocks, problem.in_blocks)
    chunk = next((count for count in chunks if problem.patch_bytes(height, columns, count) <= limit), None)
    if chunk is None:
        chunk, columns = 1, width
        while problem.patch_bytes(height, 2 * columns, 1) <= limit:
            columns *= 2
    most = max(1, limit // problem.sum_bytes(height * columns, vectors))
    return height, columns, tiles.divisors(problem.out_vectors // vectors, most)[0], chunk
