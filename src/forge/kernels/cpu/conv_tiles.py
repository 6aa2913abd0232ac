"""Convolutions in tile registers: positions of the result are the rows of a product, and taps and channels its depth.

A task copies the input under it, with padding. There a row of taps of a block of channels is neighbouring words, and so is a step
of the product; of one tap, all blocks of channels lie side by side at each position. Where windows move by one, positions are
counted through all rows of the copy: those between the end of one row of the result and the next are computed, and not written.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from forge import dtypes, loops
from forge.backend import Convolution3x3
from forge.kernels.cpu import gemm, tiles
from forge.kernels.cpu.conv_plan import ConvPlan, ConvProblem, patch_limit
from forge.kernels.cpu.gemm import Product, Rows, RowValue
from forge.kernels.cpu.micro import COLUMNS, TileProduct, micro_kernel
from forge.loops import RegisterTile
from forge.target import Target
from forge.target.blocking import channel_block
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import TILE_ROWS, Stmt, seq

if TYPE_CHECKING:
    from forge.kernels.cpu.conv2d import Task

# A step has at least this many words of a row of the left operand: fewer leave most of the multipliers idle.
MIN_WORDS: Final = 8
# A core has about this many tasks.
TASKS_PER_CORE: Final = 2


def plan_in_tiles(problem: ConvProblem) -> ConvPlan | None:
    """Returns a plan in tile registers; None where there are none, or a step or the input of a row of tasks does not fit."""
    window, target = problem.window, problem.target
    height, width = window.height, window.width
    whole = problem.in_channels == problem.in_blocks * problem.in_block or problem.unit.dtype != "bfloat16"
    usual = window.is_known and not window.is_volume and window.used is None and (width.dilation == 1 or width.kernel == 1)
    if not usual or not whole or problem.in_block * problem.unit.size != window.block or problem.lanes != window.out_block:
        return None
    run = problem.in_blocks * problem.in_block if is_interleaved(problem) else width.kernel * problem.in_block
    words = step_words(run)
    if not isinstance(micro_kernel(problem.unit, target, tiles=True), TileProduct) or words < MIN_WORDS:
        return None
    vectors = 2 if problem.out_vectors % 2 == 0 else 1
    groups = problem.out_vectors // vectors
    fitting = [rows for rows in range(1, height.out + 1)
               if problem.patch_bytes(rows, width.out, problem.in_blocks) <= patch_limit(problem)]
    if not fitting:
        return None
    wanted = -(-TASKS_PER_CORE * target.num_cores // window.image_count)
    row_block = tiles.even_blocks(height.out, min(fitting[-1], -(-height.out // wanted)))
    parts = -(-wanted // -(-height.out // row_block))
    return ConvPlan(
        **vars(problem) | {"staged": True}, tile_height=1, tile_width=width.out, vectors=vectors, row_block=row_block,
        column_block=width.out, groups=tiles.divisors(groups, max(1, groups // parts))[0], chunk=problem.in_blocks, words=words)


def estimate(convolution: Convolution3x3, target: Target) -> float:
    """Cycles of one core, as of `conv_plan.estimate`; infinity where there are no tile registers for it."""
    words = step_words(3 * channel_block(target) // 2)
    if convolution.dtype not in target.isa.tiles or convolution.slices > 1 or words < MIN_WORDS or convolution.dilation[1] > 1:
        return math.inf
    channels = convolution.in_channels * convolution.out_channels
    products = 9 * convolution.images * channels * convolution.height * convolution.width
    cycles = tiles.register_cycles(products / 2, words, target.costs)
    return max(cycles, 9 * dtypes.itemsize(convolution.dtype) * channels / target.costs.memory_bytes)


def step_words(run: int) -> int:
    """Returns how many of ``run`` neighbouring words a step takes."""
    return tiles.divisors(run, COLUMNS)[0]


def is_interleaved(problem: ConvProblem) -> bool:
    """Whether the copy has all channels of a position side by side."""
    return problem.window.height.kernel == problem.window.width.kernel == 1


def all_tiles(task: Task) -> Stmt:
    """Computes all groups of output channels of a task."""
    plan, window, source = task.plan, task.window, task.source
    height, width, unit = window.height, window.width, plan.unit
    micro = TileProduct(unit, words=plan.words, columns=plan.lanes)
    depth = plan.in_blocks * plan.in_block * height.kernel * width.kernel
    parts = width.kernel * plan.in_block // plan.words
    is_flat = height.stride == width.stride == 1
    pitch = source.pitch * width.stride
    across = loops.known(width.span(task.columns), "conv2d: the width of a copy") if is_flat else 0
    tile = RegisterTile(2 * TILE_ROWS, plan.vectors, plan.lanes, plan.dtype)

    def group(number: Expr) -> Stmt:
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
                    row = first * height.stride + step // parts % height.kernel * height.dilation
                    place = source.place(step // (parts * height.kernel), row, step % parts * plan.words)
                return unit.load(source.buffer, place + position * pitch)

            def finish(position: Expr, value: RowValue) -> Stmt:
                row, column = (position // across, position % across) if is_flat else (first, position)
                written = seq(task.write(number, row, column, v, value(v)) for v in range(plan.vectors))
                return loops.guard(column < task.columns, written) if is_flat else written

            known = loops.static(count)
            product = Product(tile, E.const(depth), left, right, micro, finish)
            return gemm.row_tiles(product, Rows(E.const(0), count, known, known or 1))

        if is_flat:
            return rows(E.const(0), (task.rows - 1) * across + task.columns)
        return loops.serial("row", task.rows, lambda row: rows(row, task.columns))

    return loops.serial("group", task.counts.groups, group)
