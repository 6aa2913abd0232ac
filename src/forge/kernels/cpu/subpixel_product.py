"""Kernel family ``subpixel_product``: products whose columns are pixels of a larger image, in the usual layout.

Operands: data [N][I][H][W], weight [I][O r s]; result [N][O][H r][W s]. ``attrs``: ``phases``, which are (r, s).

Vectors run along rows of the data. A register tile has a few rows of pixels of the result, each with all s phases, whose vectors
are interleaved in registers, so that the result is written once, in whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable

from forge import loops
from forge.kernels.cpu import tiles
from forge.kernels.cpu.micro import micro_kernel
from forge.loops import Accumulators, RegisterTile
from forge.loops.contract import KernelCall, kernel
from forge.loops.dots import Group
from forge.schedule.interleave import interleave
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq


@kernel("subpixel_product")
def subpixel_product(call: KernelCall) -> Function:
    """Transposed convolution whose windows lie side by side."""
    data, weight = call.readers
    batch, _, height, width = data.shape
    result, known = call.results[0], loops.static(width)
    lanes = min(call.target.lanes("float32"), loops.next_power_of_two(known or call.target.lanes("float32")))
    depth, columns = (loops.known(extent, f"{call.name}: the weight") for extent in weight.shape)
    high, wide = map(int, call.attrs.phases)
    lines, vectors = _tile(columns // wide, wide, call.target)
    extents = [batch, height, E.const(columns // wide // lines)]

    def task(index: Expr) -> Stmt:
        lets: list[Stmt] = []
        image, row, group = (loops.bound(place, lets) for place in loops.unravel(index, extents))

        def tile(at: Expr, count: int, partial: bool) -> Stmt:
            """Columns of ``count`` vectors from ``at``, of which not all are there where it is ``partial``."""
            acc = Accumulators(RegisterTile(lines * wide, count, lanes, "float32"))

            def inside(vector: int, size: int) -> Expr | None:
                return loops.tail_mask(E.const(vector * lanes), (width - at) * size, lanes) if partial else None

            parts: list[Stmt] = []
            for line in range(lines):
                channel, phase = (group * lines + line) // high, (group * lines + line) % high
                for v in range(count):
                    pixels = [acc.get(line * wide + k, v) for k in range(wide)]
                    for number, vector in enumerate(interleave(pixels, parts) if lanes > 1 else pixels, v * wide):
                        place = E.ramp(at * wide + number * lanes, 1, lanes)
                        value = loops.finished(vector, result.dtype)
                        parts.append(result.write([image, channel, row * high + phase, place], value, inside(number, wide)))
            unroll = tiles.unroll_for(lines * wide * count, depth)
            products = micro_kernel(Group(1, "float32"), call.target).steps(
                acc, lambda column, channel: weight.read([channel, group * (lines * wide) + column]),
                lambda channel, v: data.read([image, channel, row, E.ramp(at + v * lanes, 1, lanes)], inside(v, 1)),
                depth, unroll)
            return seq(acc.start(), products, parts)

        return seq(lets, _cover(width, lanes, vectors, tile))

    work = depth * lines * wide * call.typical(width)
    return call.function(loops.parallel(loops.product(extents), work, task))


def _cover(width: Expr, lanes: int, vectors: int, tile: Callable[[Expr, int, bool], Stmt]) -> Stmt:
    """Tiles over a row: whole ones, and one of fewer vectors for the rest; of a width known at run time only, of half or all."""
    step, known = lanes * vectors, loops.static(width)
    begin = width // step * step
    whole = loops.serial("tile", width // step, lambda number: tile(number * step, vectors, False))
    if known is not None:
        rest = known % step
        return seq(whole, tile(begin, -(-rest // lanes), rest % lanes != 0)) if rest else whole
    half = -(-vectors // 2)
    last = loops.guard(width - begin <= half * lanes, tile(begin, half, True), tile(begin, vectors, True))
    return seq(whole, loops.guard(begin < width, last if half < vectors else tile(begin, vectors, True)))


def _tile(lines: int, phases: int, target: Target) -> tuple[int, int]:
    """Rows of pixels and vectors of a register tile, for ``lines`` rows of pixels of all channels."""
    fitting = [(rows, vectors) for rows in tiles.divisors(lines, tiles.MAX_ROWS) for vectors in range(1, tiles.MAX_VECTORS + 1)
               if rows * vectors == 1 or tiles.fits(rows * phases, vectors, target.vector_registers)]
    return min(fitting, key=lambda tile: tiles.step_cycles(tile[0] * phases, tile[1], target.costs) / (tile[0] * tile[1]))
