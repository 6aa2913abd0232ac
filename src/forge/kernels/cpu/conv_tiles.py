"""Convolutions in tile registers: positions of the result are the rows of a product, and taps and channels its depth.

A task copies the input under it, with padding. There a row of taps of a block of channels is neighbouring words, and so is a step
of the product; of one tap, all blocks of channels lie side by side at each position. Where windows move by one, positions are
counted through all rows of the copy: those between the end of one row of the result and the next are computed, and not written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from forge import dtypes, loops
from forge.backend import Convolution3x3, DirectConvolution
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.conv_plan import ConvPlan, ConvProblem, patch_limit
from forge.kernels.cpu.gemm import Ahead, Product, Rows, RowValue
from forge.kernels.cpu.micro import MIN_WORDS, PartsProduct, TileProduct, micro_kernel, step_words
from forge.kernels.cpu.micro.parts import PRODUCTS, halves, is_usual
from forge.loops import Accumulators, RegisterTile
from forge.target import Target
from forge.target.blocking import channel_block
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import TILE_ROWS, Stmt, seq, store

if TYPE_CHECKING:
    from forge.kernels.cpu.conv2d import Task

# A task has at least this many positions of a row.
MIN_COLUMNS: Final = 2 * TILE_ROWS
# A task has at most this many, and about that many rows, where the size of the image is known at run time only.
MOST_COLUMNS: Final = 1024
FEW_ROWS: Final = 8
# A core has about this many tasks.
TASKS_PER_CORE: Final = 2
# Cycles in which parts of one number of the input are made and checked, where some tasks make those of others once more.
COPY_CYCLES: Final = 2.0


def plan_in_tiles(problem: ConvProblem) -> ConvPlan | None:
    """Returns a plan in tile registers; None where there are none, or a step or the input of a row of tasks does not fit."""
    window, target = problem.window, problem.target
    height, width = window.height, window.width
    usual = not window.is_volume and window.used is None
    if not usual or problem.in_block * problem.unit.size != window.block or problem.lanes != window.out_block:
        return None
    words = step_words(_run(problem))
    if not isinstance(micro_kernel(problem.unit, target, tiles=True), TileProduct) or words < MIN_WORDS:
        return None
    vectors = 2 if problem.out_vectors % 2 == 0 else 1
    groups = problem.out_vectors // vectors
    wanted = -(-TASKS_PER_CORE * target.num_cores // window.image_count)
    row_block, column_block = _block(problem, wanted) if window.is_known else _room(problem)
    if row_block == 0:
        return None
    parts = -(-wanted // (-(-height.out // row_block) * -(-width.out // column_block)))
    return ConvPlan(
        **vars(problem) | {"staged": True}, tile_height=1, tile_width=1, vectors=vectors, row_block=row_block,
        column_block=column_block, groups=tiles.divisors(groups, max(1, groups // parts))[0], chunk=problem.in_blocks,
        words=words)


def _block(problem: ConvProblem, wanted: int) -> tuple[int, int]:
    """Rows and columns of a task, of which there are ``wanted`` if that can be: whole rows, or a part of one; 0: too large."""
    height, width = problem.window.height, problem.window.width
    rows = max((rows for rows in range(1, height.out + 1) if _fits(problem, rows, width.out)), default=0)
    if rows:
        return tiles.even_blocks(height.out, min(rows, -(-height.out // wanted))), width.out
    columns = next((columns for columns in range(width.out, MIN_COLUMNS - 1, -1) if _fits(problem, 1, columns)), 0)
    return min(columns, 1), tiles.even_blocks(width.out, max(1, columns))


def _room(problem: ConvProblem) -> tuple[int, int]:
    """The most rows and columns of a task, where sizes are known at run time only; 0: too large."""
    height, width = problem.window.height, problem.window.width
    most_rows = min(height.out, FEW_ROWS) if height.is_known else FEW_ROWS if not width.is_known else MOST_COLUMNS
    most = min(width.out, MOST_COLUMNS) if width.is_known else MOST_COLUMNS
    least = min(most, MIN_COLUMNS)
    rows = next((rows for rows in range(most_rows, 0, -1) if _fits(problem, rows, least)), 0)
    return rows, next((columns for columns in range(most, least, -1) if _fits(problem, rows, columns)), least)


def _fits(problem: ConvProblem, rows: int, columns: int) -> bool:
    return problem.patch_bytes(rows, columns, problem.in_blocks) <= patch_limit(problem.target)


def _run(problem: ConvProblem) -> int:
    """Groups of a position's sum that are neighbours in the copy: of all channels, of a row of taps, or of one tap."""
    width = problem.window.width
    if is_interleaved(problem):
        return problem.in_blocks * problem.in_block
    return problem.in_block * (width.kernel if width.dilation == 1 else 1)


def estimate(convolution: Convolution3x3, target: Target) -> float:
    """Returns cycles of one core, as `conv_plan.estimate` does; infinity where there are no tile registers for it."""
    words = step_words((3 if convolution.dilation[1] == 1 else 1) * channel_block(target) // 2)
    if convolution.dtype not in target.isa.tiles or convolution.slices > 1 or words < MIN_WORDS:
        return math.inf
    channels = convolution.in_channels * convolution.out_channels
    products = 9 * convolution.images * channels * convolution.height * convolution.width
    cycles = tiles.register_cycles(products / 2, words, target.costs)
    return max(cycles, 9 * dtypes.itemsize(convolution.dtype) * channels / target.costs.memory_bytes)


def parts_are_faster(convolution: DirectConvolution, parts: int, target: Target) -> bool:
    """Returns whether products of parts take fewer cycles than multiply-adds, by estimates, and can be computed at all."""
    c, block = convolution, channel_block(target)
    channels = -(-c.in_channels // block) * block
    run = channels if c.kernel == (1, 1) else block * (c.kernel[1] if c.dilation[1] == 1 else 1)
    words = step_words(run // 2)
    down, across = ((taps - 1) * dilation + 1 for taps, dilation in zip(c.kernel, c.dilation))
    copied = down * ((MIN_COLUMNS - 1) * c.strides[1] + across) * channels * 2 * parts
    if c.in_channels < block or words < MIN_WORDS or copied > patch_limit(target):
        return False
    weights = channels * c.out_channels * math.prod(c.kernel)
    products = weights * c.images * c.height * c.width
    inputs = c.images * channels * c.height * c.width * math.prod(c.strides)
    return tiles.parts_are_faster(products, weights, words, parts, len(PRODUCTS[parts]), COPY_CYCLES * inputs, target)


def is_interleaved(problem: ConvProblem) -> bool:
    """Returns whether the copy has all channels of a position side by side."""
    return problem.window.height.kernel == problem.window.width.kernel == 1


def all_tiles(task: Task) -> Stmt:
    """Computes all groups of output channels of a task."""
    plan, window, source = task.plan, task.window, task.source
    height, width, unit = window.height, window.width, plan.unit
    micro, depth = _micro(task), task.counts.in_blocks * (plan.in_block * height.kernel * width.kernel)
    parts = _run(plan) // plan.words
    taps = width.kernel if width.dilation > 1 else 1
    is_flat = height.stride == width.stride == 1 < plan.row_block
    pitch = source.pitch * width.stride
    lets = list[Stmt]()
    across = loops.bound(width.span(task.block[1]), lets, "across")
    row_of = _divider(across, lets)
    tile = RegisterTile(2 * TILE_ROWS, plan.vectors, plan.lanes, plan.dtype)

    def group(number: Expr) -> Stmt:
        following = _following(task, number, depth)

        def right(k: Expr, v: int) -> Expr:
            block, _ = task.channel(number, v)
            return task.weights((block * depth + k) * window.out_block)

        def rows(first: Expr, count: Expr) -> Stmt:
            """``count`` positions from the first one of row ``first`` of the task on."""

            def left(position: Expr, k: Expr) -> Expr:
                if is_interleaved(plan):
                    place = source.place(E.const(0), first * height.stride, k)
                else:
                    step = k // plan.words
                    row = first * height.stride + step // (parts * taps) % height.kernel * height.dilation
                    column = step // parts % taps * width.dilation
                    place = source.place(step // (parts * taps * height.kernel), row,
                                         column * plan.in_block + step % parts * plan.words)
                return unit.load(source.buffer, place + position * pitch)

            def finish(position: Expr, value: RowValue) -> Stmt:
                if not is_flat:
                    return seq(task.write(number, first, position, v, value(v)) for v in range(plan.vectors))
                row = row_of(position)
                column = position - row * across
                written = seq(task.write(number, row, column, v, value(v)) for v in range(plan.vectors))
                return loops.guard(column < task.columns, written)

            known = loops.static(count)
            product = Product(tile, depth, left, right, micro, finish, ahead=following)
            return gemm.row_tiles(product, Rows(E.const(0), count, known, known or 1))

        if is_flat:
            bound, count = loops.bind("count", (task.rows - 1) * across + task.columns)
            return seq(bound, rows(E.const(0), count))
        return loops.serial("row", task.rows, lambda row: rows(row, task.columns))

    computed = loops.serial("group", task.counts.groups, group)
    if plan.parts > 1:
        unusual = Accumulators(RegisterTile(1, 1, tiles.vector_lanes(window.block, plan.target, "float32"), "int32"), "max")
        computed = seq(unusual.start(), _find_unusual(task, unusual),
                       loops.guard(unusual.total().eq(0), computed, by_multiply_adds(task)))
    return seq(_zeros(task), lets, computed)


def _micro(task: Task) -> TileProduct:
    """What multiplies registers, or all parts of them."""
    plan = task.plan
    if plan.parts == 1:
        return TileProduct(plan.unit, words=plan.words, columns=plan.lanes)
    return PartsProduct(plan.unit, words=plan.words, columns=plan.lanes, parts=plan.parts, left_part=plan.patch_size,
                        right_part=_weight_part(task) * plan.unit.size)


def _following(task: Task, group: Expr, depth: Expr) -> Ahead | None:
    """The weights of the next group, which lie side by side."""
    weight, step = task.window.weight.buffer, task.window.out_block * task.plan.unit.size
    if weight is None:
        return None
    size, part = task.plan.vectors * step, _weight_part(task) * task.plan.unit.size
    return Ahead(weight, task.channel(group + 1, 0)[0] * depth * step, depth, size, size, task.plan.parts, part)


def _divider(divisor: Expr, lets: list[Stmt]) -> Callable[[Expr], Expr]:
    """Returns what divides numbers up to 2^32 / ``divisor`` by it: by a multiplication where it is not known."""
    if loops.static(divisor) is not None:
        return lambda number: number // divisor
    factor = loops.bound(loops.ceildiv(E.const(1 << 32), divisor), lets, "factor")
    return lambda number: E.binary("shr", number * factor, 32)


def _weight_part(task: Task) -> Expr:
    """Groups of a part of the weights."""
    plan, height, width = task.plan, task.window.height, task.window.width
    units = task.counts.group_blocks * task.counts.groups * (plan.vectors * plan.lanes)
    return units * task.counts.in_blocks * (plan.in_block * height.kernel * width.kernel)


def _find_unusual(task: Task, unusual: Accumulators) -> Stmt:
    """Sets ``unusual`` to 1 where there are numbers of which parts may not be made; neighbours are lanes of all blocks."""
    window, source, lanes = task.window, task.source, unusual.tile.lanes
    largest = Accumulators(RegisterTile(1, 1, lanes, "float32"), "max")

    def position(h: Expr, w: Expr) -> Stmt:
        lets, base = loops.bind("place", h * source.row_stride + w * source.pitch)

        def lane(first: Expr) -> Stmt:
            def block(number: Expr) -> Stmt:
                bits = E.load(source.buffer, E.ramp(base + source.block(number) + first, 1, lanes))
                number_of = E.call("reinterpret", E.binary("shl", E.cast(bits, "uint32"), 16), dtype="float32")
                return largest.step(0, E.call("abs", number_of))

            zero, one = (E.broadcast(E.const(v, "int32"), lanes) for v in (0, 1))
            return seq(largest.start(), loops.serial("block", task.counts.in_blocks, block),
                       unusual.step(0, E.select(is_usual(largest.get(0, 0)), zero, one)))

        return seq(lets, [lane(E.const(first)) for first in range(0, window.block, lanes)])

    return _each_position(task, position)


def by_multiply_adds(task: Task) -> Stmt:
    """Computes all positions of a task with the weight that the parts add up to."""
    plan, window = task.plan, task.window
    height, width, size, sums = window.height, window.width, plan.unit.size, Accumulators(
        RegisterTile(1, plan.vectors, plan.lanes, "float32"))
    channels = plan.in_channels * size if plan.shared is None else task.counts.in_blocks * window.block

    def position(group: Expr, row: Expr, column: Expr) -> Stmt:
        first_h, first_w = height.start(task.first_row + row), width.start(task.first_column + column)

        def step(block: Expr, tap: Expr, across: Expr, k: Expr) -> Stmt:
            h, w, lets = first_h + tap * height.dilation, first_w + across * width.dilation, list[Stmt]()
            numbers = list[Expr]()
            for i in range(size):
                x = window.data.read([*window.source(task.image, block), h, w, k * size + i], None)
                is_there = (block * plan.in_block + k) * size + i < channels
                x = E.select(is_there, E.cast(x, "float32"), E.const(0, "float32"))
                numbers.append(loops.bound(E.broadcast(x, plan.lanes), lets, "x"))
            for v in range(plan.vectors):
                place = task.weight_place(group, block, tap, across * plan.in_block + k, v)
                words = [loops.bound(task.weights(place + part * _weight_part(task)), lets, "w") for part in range(plan.parts)]
                total = sums.get(0, v)
                for number, factor in zip(numbers, halves(words)):
                    total = loops.multiply_add(number, factor, total)
                lets.append(sums.set(0, v, total))
            return loops.guard(E.logical_and(height.holds(h), width.holds(w)), seq(lets))

        summed = loops.serial("block", task.counts.in_blocks, lambda block: loops.serial(
            "tap", E.const(height.kernel), lambda tap: loops.serial("across", E.const(width.kernel), lambda across: loops.serial(
                "k", E.const(plan.in_block), lambda k: step(block, tap, across, k)))))
        return seq(sums.start(), summed, [task.write(group, row, column, v, sums.get(0, v)) for v in range(plan.vectors)])

    return loops.serial("group", task.counts.groups, lambda group: loops.serial("row", task.rows, lambda row: loops.serial(
        "column", task.columns, lambda column: position(group, row, column))))


def _each_position(task: Task, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
    """Runs ``body(h, w)`` for all positions of the copy."""
    return loops.serial("h", task.window.height.span(task.rows), lambda h: loops.serial(
        "w", task.window.width.span(task.columns), lambda w: body(h, w)))


def _zeros(task: Task) -> Stmt:
    """Clears what the last block has beyond the channels: 0 times what is there may be NaN."""
    plan, window, source = task.plan, task.window, task.source
    used = (plan.in_channels - (plan.in_blocks - 1) * plan.in_block) * plan.unit.size
    if used == window.block or not dtypes.is_float(plan.unit.dtype):
        return seq()
    lanes, dtype = plan.target.lanes(plan.unit.copied), plan.unit.copied
    last = source.block(E.const(plan.in_blocks - 1))

    def position(h: Expr, w: Expr) -> Stmt:
        lets, base = loops.bind("unused", last + h * source.row_stride + w * source.pitch + used)
        return seq(lets, loops.each_vector(E.const(window.block - used), lanes, lambda x, mask: seq(store(
            source.buffer, base + part * plan.patch_size + x, E.const(0, dtype, x.lanes), mask) for part in range(plan.parts))))

    return _each_position(task, position)
