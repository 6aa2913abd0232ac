"""Tasks of convolutions in the Winograd domain: which part of the work is one, and what it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Final

from forge import dtypes, loops
from forge.backend import Convolution3x3
from forge.kernels.cpu import tiles
from forge.kernels.cpu.gemm import MIDDLE_TILE_ROWS
from forge.kernels.cpu.spatial import WindowProblem
from forge.kernels.cpu.winograd_lines import SCHEMES, Scheme
from forge.loops import RegisterTile
from forge.target import Target
from forge.target.blocking import channel_block
from forge.target.choices import LIMIT
from forge.tir import expr as E
from forge.tir.expr import Expr

_Tasks = tuple[int, int, int]
"""(blocks of tiles of an image, parts of the output channels, slices of a task)"""

# Register tiles have at most this many rows.
TILE_ROWS: Final = 14
# A task has at most this many slices of a volume: of more, less is gained from patches that they share.
MAX_RUN: Final = 8
# Both transformations take this many cycles per position of a patch and vector of channels.
TRANSFORM_CYCLES: Final = 14.0
# The direct sum stays where the estimated gain is less than this factor.
MARGIN: Final = 1.1
# A register tile takes as long outside its multiply-adds as the multiply-adds of this many tiles.
OVERHEAD_TILES: Final = 1
# Fractions of a cycle in which work is counted: whole numbers, so that sizes that are known at run time give the same estimate.
PARTS: Final = 1024


@dataclass(frozen=True, kw_only=True)
class WinogradProblem(WindowProblem):
    """The facts that the choice of tasks depends on.

    Patches of a slice have ``in_padded`` input channels, of which ``in_channels`` are data, in vectors of ``in_lanes``.
    ``vectors`` vectors of output channels are summed together. Patches and sums are transformed in ``transform_cycles`` per
    position and vector of channels; where tasks transform the weights that they take, this needs ``weight_cycles`` for those of a
    step and vector.
    """

    scheme: Scheme
    in_channels: int
    in_padded: int
    in_lanes: int
    vectors: int
    transform_cycles: float = TRANSFORM_CYCLES
    weight_cycles: float = 0.0

    @property
    def tile_count(self) -> int:
        axes = self.window.height, self.window.width
        return self.scheme.tile_count([axis.out for axis in axes], [axis.dilation for axis in axes])

    @property
    def is_known(self) -> bool:
        """Whether the number of tiles is known."""
        return self.window.height.is_known and self.window.width.is_known

    @property
    def wide(self) -> Expr:
        """Tiles in a row of them, of the sizes that there are."""
        return self.scheme.tiles(self.window.width.positions, self.window.width.dilation)

    @property
    def count(self) -> Expr:
        """Tiles of an image, as ``tile_count``, of the sizes that there are."""
        return self.scheme.tiles(self.window.height.positions, self.window.height.dilation) * self.wide

    @property
    def element(self) -> str:
        """The dtype of transformed patches."""
        return self.unit.dtype

    @property
    def steps(self) -> int:
        """Steps of a sum: with zeros where there are channels of another slice after those of one."""
        slices = self.window.slices
        return -(-self.in_channels // self.unit.size) if slices == 1 else slices * self.in_padded // self.unit.size

    def in_stride(self, run: int) -> int:
        """Returns ``stride`` for tasks of ``run`` slices."""
        return _off_sets(self.window.depth.span(run) * self.in_padded, self.in_lanes, self.element, 2048)

    def rows(self, block: int) -> int:
        """Rows of the register tiles that share out ``block`` tiles evenly."""
        registers = self.target.vector_registers - self.unit.registers
        return tiles.even_blocks(block, min(TILE_ROWS, tiles.largest_rows(self.vectors, registers)))


@dataclass(frozen=True)
class Counts:
    """Numbers of a plan that code takes as they are, or as variables that each call of it sets."""

    in_padded: Expr
    block: Expr
    stride: Expr
    parts: Expr
    part_groups: Expr


@dataclass(frozen=True, kw_only=True)
class WinogradPlan(WinogradProblem):
    """A task: ``block`` tiles of ``run`` slices, one of ``parts`` parts of the output channels; less of images of any size.

    Register tiles are ``tile_rows`` tiles by vectors of output channels.
    """

    block: int = 1
    parts: int = 1
    run: int = 1
    tile_rows: int = 1
    shared: Counts | None = None

    @property
    def counts(self) -> Counts:
        """The numbers of this plan, or what code has instead that calls share."""
        numbers = (self.in_padded, self.block, self.stride, self.parts, self.part_groups)
        return self.shared or Counts(*map(E.const, numbers))

    @property
    def joint(self) -> bool:
        """Whether the sums of a position follow its patches in one array, so that a task takes what both do of any channels."""
        return self.element == self.dtype

    @property
    def patch_places(self) -> int:
        """Elements from position to position of transformed patches; in code that calls share, as many as any may need."""
        size = self.block * self.stride + (self._sums if self.joint else 0)
        if self.shared is not None:
            room = task_bytes(self) // dtypes.itemsize(self.element) // self.scheme.positions
            size = loops.round_up(max(room, size), self.in_lanes)
        return _off_sets(size, self.in_lanes, self.element, 1024)

    @property
    def sum_places(self) -> int:
        """Elements from position to position of sums."""
        return self.patch_places if self.joint else _off_sets(self._sums, self.lanes, self.dtype, 1024)

    @property
    def first_sum(self) -> Expr:
        """The element of the first sum."""
        return self.counts.block * self.counts.stride if self.joint else E.const(0)

    @property
    def _sums(self) -> int:
        """Sums of a position."""
        return self.run * self.block * self.vectors * self.lanes

    @property
    def stride(self) -> int:
        """Elements from tile to tile of transformed patches, of all slices under those of a task."""
        return self.in_stride(self.run)

    @property
    def tile(self) -> RegisterTile:
        return RegisterTile(self.tile_rows, self.vectors, self.lanes, self.dtype)

    @property
    def blocks(self) -> tuple[Expr, Expr]:
        """The number of blocks of tiles, and the tiles of one.

        Where their number is known at run time only, there are enough for all cores, each but the last of whole register tiles if
        there is room, or of few tiles.
        """
        if self.is_known:
            return E.const(-(-self.tile_count // self.block)), E.const(self.block)
        rows, counts = self.tile.rows, self.counts
        wanted = loops.ceildiv(E.const(self.target.num_cores), counts.parts * self.window.image_count)
        least = E.binary("min", wanted, loops.ceildiv(self.count, rows))
        count = E.binary("max", loops.ceildiv(self.count, counts.block), least)
        even = loops.ceildiv(self.count, E.binary("max", count, 1))
        whole = E.binary("min", loops.ceildiv(even, rows) * rows, counts.block)
        return count, E.select(even <= MIDDLE_TILE_ROWS, even, whole)

    @property
    def part_groups(self) -> int:
        """Groups of output channels in one part."""
        return self.out_vectors // self.vectors // self.parts

    @property
    def smaller(self) -> Iterator[WinogradPlan]:
        """Plans of smaller tiles with the same filters, of which those for them are the first positions; none of the smallest."""
        for scheme in (s for s in SCHEMES.values() if s.out < self.scheme.out):
            plan = replace(self, scheme=scheme, tile_rows=self.rows(TILE_ROWS * TILE_ROWS))
            yield replace(plan, block=max(1, most_tiles(plan, self.run)))

    @property
    def work(self) -> Expr:
        """The multiply-adds of a task, of the sizes at run time."""
        window, counts = self.window, self.counts
        passes = loops.ceildiv(self.count, counts.block) * window.depth.blocks(self.run)[0] * window.batch
        outer = counts.parts * counts.part_groups * (self.vectors * self.lanes)
        computed = self.count * (window.depth.positions * window.batch)
        return work_of(self.scheme, computed, passes, (counts.in_padded, window.slices, outer), self.target)


def work_of(scheme: Scheme, tiles: Expr, passes: Expr, channels: tuple[Expr, int, Expr], target: Target) -> Expr:
    """Estimates the time that one core needs for ``tiles`` if it reads the weights ``passes`` times, in fractions of a cycle.

    ``channels`` are those of a slice of data, the slices that are summed, and those of the result. Weights come from wherever
    they were left, and from the outer caches again for each other pass.
    """
    lanes, costs, (inner, slices, outer) = channel_block(target), target.costs, channels
    products = (tiles + OVERHEAD_TILES * passes) * round(PARTS / (costs.multiply_adds * lanes))
    weights = (passes - 1) * round(4 * PARTS / costs.streamed_bytes) + round(4 * PARTS / costs.reread_bytes)
    changes = tiles * (inner + outer) * round(TRANSFORM_CYCLES * PARTS / (2 * lanes))
    return (E.binary("max", products, weights) * (inner * slices * outer) + changes) * scheme.positions


def estimate(convolution: Convolution3x3, scheme: Scheme, target: Target) -> float:
    """Cycles of one core, which passes over the weights for each block of tiles that the second-level cache holds.

    In the Winograd domain bfloat16 is float32.
    """
    lanes, inner, slices = channel_block(target), convolution.in_channels, convolution.slices
    tiles = convolution.images * scheme.tile_count((convolution.height, convolution.width), convolution.dilation)
    held = max(1, _room(target) // (scheme.positions * 4 * (inner + 2 * lanes)))
    channels = E.const(inner // slices), slices, E.const(convolution.out_channels)
    return loops.known(work_of(scheme, E.const(tiles), E.const(-(-tiles // held)), channels, target), "cycles") / PARTS


def _off_sets(size: int, lanes: int, dtype: str, period: int) -> int:
    """``size``, or a vector more: rows of a multiple of ``period`` bytes would fall on the same few cache sets."""
    return size + (lanes if size * dtypes.itemsize(dtype) % period == 0 else 0)


def task_bytes(problem: WinogradProblem) -> int:
    """Returns the bytes that patches and sums of a task may take: most of the second-level cache; weights pass through the rest.

    Tasks that transform weights take all of the cache, but need stack for weights, too.
    """
    target = problem.target
    if problem.weight_cycles:
        return min(target.l2_cache, tiles.STACK_LIMIT // 2)
    return _room(target)


def _room(target: Target) -> int:
    return min(target.l2_cache * 3 // 4, tiles.STACK_LIMIT)


def plan_tasks(problem: WinogradProblem, kernel: str = "") -> WinogradPlan:
    """Tiles of a task, whose patches and sums take ``task_bytes``, and parts of the output channels.

    Where there are few tiles, parts occupy the cores while each weight is read once.
    """
    p, target, positions, depth = problem, problem.target, problem.scheme.positions, problem.window.depth
    count, size = p.tile_count, dtypes.itemsize(p.element)
    change = positions * p.transform_cycles / 2
    steps = p.window.slices * p.in_padded // p.unit.size
    weights = positions * steps * p.unit.size * p.out_vectors * p.lanes * size / target.costs.shared_bytes

    def makespan(choice: _Tasks) -> float:
        blocks, parts, run = choice
        block = -(-count // blocks)
        rows = p.rows(block)
        one_tile = steps * tiles.step_cycles(rows, p.vectors, target.costs) + target.costs.tile_overhead + rows * p.vectors
        products = run * positions * p.out_vectors // p.vectors * -(-block // rows) * one_tile
        transformed = steps * p.out_vectors * p.weight_cycles
        each = max(products, weights) if not transformed else products + transformed
        changed = depth.span(run) * p.in_padded / p.lanes + run * p.out_vectors / parts
        task = each / parts + block * change * changed
        return -(-images // run * blocks * parts // target.num_cores) * task

    def choices() -> Iterator[_Tasks]:
        for run in range(1, min(MAX_RUN, depth.out) + 1):
            least = -(-count // max(1, most_tiles(p, run)))
            if run == 1 or most_tiles(p, run):
                blocks = range(least, min(count, least + 8 * target.num_cores) + 1)
                yield from ((b, parts, run) for parts in divisions for b in blocks)

    images = p.window.image_count
    divisions = sorted(tiles.divisors(p.out_vectors // p.vectors, target.num_cores))
    best, *others = nsmallest(LIMIT + 1, choices(), key=makespan)
    key = f"winograd tasks {images} {count} {positions} {p.in_padded} {p.out_vectors} {p.vectors} {p.lanes} {p.dtype}"
    key += f" {depth.kernel},{depth.stride} {depth.out}" if p.window.is_volume else ""
    blocks, parts, run = target.choices.pick(key, best, lambda: (best, *others), kernel)
    block = -(-count // blocks)
    if not p.is_known:
        rows, limit = p.rows(TILE_ROWS * TILE_ROWS), max(1, most_tiles(p, run))
        block = limit // rows * rows or limit
    return WinogradPlan(**vars(problem), block=block, parts=parts, run=run, tile_rows=p.rows(block))


def most_tiles(problem: WinogradProblem, run: int) -> int:
    """Tiles of a task of ``run`` slices; 0 where there is no room for one."""
    sums = run * problem.vectors * problem.lanes * dtypes.itemsize(problem.dtype)
    each = problem.in_stride(run) * dtypes.itemsize(problem.element) + sums
    return task_bytes(problem) // (problem.scheme.positions * each)
