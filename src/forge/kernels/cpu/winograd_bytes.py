"""3x3 convolutions of bytes with four ninths of the multiplications, and the same integers.

F(2x2, 3x3) (``winograd``) in whole numbers: with 2 G in the place of G, weights are whole, and sums are four times the result.
Transformed data of uint8 take 11 bits with their sign, weights of int8 12: pairs of them are multiplied as int16 and summed in
int32. What overflows on the way does so modulo 2^32, so that the result is exact if four times it fits.

Weights stay as the direct sum reads them, a quarter of the size of transformed ones. Each task transforms those of a group of
output channels when it comes to them, which takes as long as the products of two tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from forge import loops
from forge.kernels.cpu import winograd, winograd_lines
from forge.kernels.cpu.conv_plan import ConvProblem
from forge.kernels.cpu.spatial import convolution_of, winograd_key
from forge.kernels.cpu.tiles import CACHE_LINE, STACK_LIMIT
from forge.kernels.cpu.winograd_plan import MARGIN, WinogradProblem, plan_tasks
from forge.loops.contract import KernelCall
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Function, Stmt, seq, store

# Four times a sum over more input channels may not fit into int32.
MAX_CHANNELS: Final = (1 << 31) // (4 * 9 * 255 * 128)
# Both transformations of additions alone take this many cycles per position of a patch and vector of channels.
TRANSFORM_CYCLES: Final = 4.0
# Transforming the weights of a pair of input channels and a vector of output channels takes this many cycles.
WEIGHT_CYCLES: Final = 21.0


def is_faster(problem: ConvProblem, kernel: str) -> bool:
    """Returns whether this algorithm applies to a convolution, and is estimated or measured to be faster than the direct sum."""
    window, target = problem.window, problem.target
    axes, channels = (window.height, window.width), problem.in_channels * problem.unit.size
    if window.is_volume or any((a.kernel, a.stride, a.dilation) != (3, 1, 1) for a in axes):
        return False
    if problem.unit.dtype != "int16" or window.data.dtype != "uint8":
        return False  # transformed data of int16 do not fit into 16 bits
    blocked = window.block == problem.in_block * problem.unit.size and window.out_block == problem.lanes
    if window.data.buffer is None or not blocked or channels > MAX_CHANNELS or not _vectors(problem):
        return False
    default = 2 if _cycles(problem) * MARGIN < 9 * _products(problem, window.height.out * window.width.out) else 0
    key = winograd_key(convolution_of(window, channels), target)
    return target.choices.pick(key, (default,), lambda: ((0,), (2,)), kernel) == (2,)


def build(call: KernelCall, problem: ConvProblem) -> Function:
    """Makes the kernel of a convolution for which ``is_faster`` holds."""
    window = problem.window
    wanted = WinogradProblem(
        window=window, target=problem.target, dtype=problem.dtype, unit=problem.unit, pad_value=problem.pad_value,
        scheme=winograd_lines.WHOLE_SCHEME_2, in_channels=problem.in_channels * problem.unit.size,
        in_padded=problem.in_blocks * window.block, in_lanes=window.block, vectors=_vectors(problem),
        transform_cycles=TRANSFORM_CYCLES, weight_cycles=WEIGHT_CYCLES)
    return winograd.in_tasks(call, [plan_tasks(wanted, call.name)], _Task)


def _vectors(problem: ConvProblem) -> int:
    """Vectors of output channels that are summed together; 0 where their transformed weights take more than half of the stack."""
    size = winograd_lines.WHOLE_SCHEME_2.positions * problem.in_channels * problem.lanes * 4
    return next((v for v in (2, 1) if problem.out_vectors % v == 0 and v * size <= STACK_LIMIT // 2), 0)


def _products(problem: ConvProblem, places: int) -> float:
    """Cycles of the products of one position of all patches, or one tap of all outputs."""
    return problem.in_channels * problem.out_vectors * places * problem.window.image_count / problem.target.costs.multiply_adds


def _cycles(problem: ConvProblem) -> float:
    """Cycles of the products and all transformations."""
    scheme, steps, vectors = winograd_lines.WHOLE_SCHEME_2, problem.in_channels, problem.out_vectors
    tiles = scheme.tile_count((problem.window.height.out, problem.window.width.out), (1, 1))
    changes = TRANSFORM_CYCLES / 2 * scheme.positions * tiles * problem.window.image_count
    return (scheme.positions * _products(problem, tiles) + changes * (steps * problem.unit.size / problem.window.block + vectors)
            + WEIGHT_CYCLES * steps * vectors)


def _filter_line(g: Sequence[Expr]) -> list[Expr]:
    """2 G g."""
    ends = g[0] + g[2]
    return [g[0] + g[0], ends + g[1], g[2] + g[2], ends - g[1]]


class _Task(winograd.Task):
    """Statements of one task, which transforms weights too."""

    def __init__(self, choice: winograd.Choice, *where: Any) -> None:
        super().__init__(choice, *where)
        plan = self.plan
        # Positions are a cache line more than a power of two apart: their stores would fall on the same few cache sets.
        self.stride = plan.steps * plan.vectors + CACHE_LINE // (4 * plan.lanes)
        self.weights = loops.local("weights", plan.element, plan.scheme.positions * self.stride, plan.unit.size * plan.lanes)

    @property
    def buffers(self) -> list[Buffer]:
        return [*super().buffers, self.weights]

    def prepare(self, group: Expr) -> Stmt:
        """Transforms the weights of a group of output channels."""
        return loops.serial("k", self.plan.steps, lambda k: seq(
            self._transform_weights(group, k, vector) for vector in range(self.plan.vectors)))

    def _transform_weights(self, group: Expr, k: Expr, vector: int) -> Stmt:
        """2 G g (2 G)^T of a pair of input channels."""
        plan, window = self.plan, self.window
        weight = window.weight.memory
        block, lane = self.channel(group, vector)
        _, in_blocks, _, _, steps, out_block, _ = (loops.known(extent, "conv2d_nchwc: the weight") for extent in weight.shape)

        def tap(y: int, x: int) -> Expr:
            place = (((block * in_blocks + k // steps) * 9 + (y * 3 + x)) * steps + k % steps) * out_block + lane
            return plan.unit.weights(weight, place * plan.unit.size, plan.lanes)

        return winograd_lines.square(3, plan.scheme.patch, tap, _filter_line, lambda y, x, value: store(
            self.weights, self._weight_index(winograd_lines.place(y, x), k, vector), value))

    def _weight_index(self, position: Expr, k: Expr, vector: int) -> Expr:
        return position * self.stride + k * self.plan.vectors + vector

    def weight(self, position: Expr, group: Expr, k: Expr, vector: int) -> Expr:
        return E.load(self.weights, self._weight_index(position, k, vector))

    def prefetch(self, position: Expr, group: Expr, k: Expr) -> Stmt:
        """Nothing: transformed weights are in a cache."""
        return seq()

    def finish(self, value: Expr) -> Expr:
        return E.binary("shr", value, 2)
