"""Register tiles and blocks, chosen from the target.

A register tile is ``rows`` x ``vectors`` accumulators: each step of the reduction multiplies one scalar per row (broadcast) with
each of ``vectors`` vector registers. The cost model counts the cycles of one step.
"""

from __future__ import annotations

from typing import Final

from forge import dims, dtypes, loops
from forge.target import Target
from forge.target.costs import MachineModel

# Register tiles of matrix products have at most this many vectors in a row.
MAX_VECTORS: Final = 4
# Independent sums whose multiply-adds hide their latency: four cycles, two in each, on all processors of these years.
CHAINS: Final = 8
# Register tiles of matrix products have at most this many rows.
MAX_ROWS: Final = 8
# At most this many register tiles prefetch the weights that they share: for more, reading these is a small part of the time.
MAX_PREFETCH_TILES: Final = 64
# A narrower last column tile must save at least this part of the vectors, one in as many.
NARROW_SHARE: Final = 24
# Bytes that come from memory at once.
CACHE_LINE: Final = 64
# What products of float32 reach of the rate of multiply-adds.
MULTIPLY_ADD_SHARE: Final = 0.9
# One kernel may take this many bytes of stack; threads have several MiB.
STACK_LIMIT: Final = 768 << 10


def accumulator_dtype(*operands: str) -> str:
    """Returns the dtype in which products of these operand dtypes are summed."""
    if any(dtypes.is_float(d) for d in operands):
        return "float64" if "float64" in operands else "float32"
    return "int64" if any(dtypes.bits(d) == 64 for d in operands) else "int32"


def fits(rows: int, vectors: int, registers: int) -> bool:
    """Returns whether the accumulators, one step's vectors and one broadcast fit into the registers."""
    return rows * vectors + vectors + 1 <= registers


def step_cycles(rows: int, vectors: int, costs: MachineModel) -> float:
    """Cycles of one reduction step of a tile. Arithmetic hides most of the loads' time."""
    loads = (rows + vectors) / costs.loads
    return max(rows * vectors / costs.multiply_adds, loads, costs.least_step) + costs.exposed_loads * loads


def register_cycles(words: float, used: int, costs: MachineModel) -> float:
    """Returns cycles of ``words`` products of two words in tile registers, in whose rows ``used`` of 16 are used."""
    return words / (16 * used * costs.tile_rows * costs.tile_share)


def parts_are_faster(products: float, weights: int, used: int, parts: int, count: int, extra: float, target: Target) -> bool:
    """Returns whether ``products`` of float32 take fewer cycles as ``count`` products of parts each, by estimates.

    ``used`` is that of `register_cycles`; ``weights`` numbers are read, in parts or not; making parts of the data takes ``extra``
    cycles.
    """
    costs = target.costs
    tiled = count * register_cycles(products / 2, used, costs) + extra
    sums = products / (target.lanes("float32") * costs.multiply_adds * MULTIPLY_ADD_SHARE)
    return max(tiled, weights * 2 * parts / costs.memory_bytes) < max(sums, weights * 4 / costs.memory_bytes)


def largest_rows(vectors: int, registers: int) -> int:
    """Returns the most rows of a tile of ``vectors`` vectors that fit into the registers."""
    return max(1, (registers - 1 - vectors) // vectors)


def tails(size: int, vectors: int) -> list[int]:
    """Widths of tiles for a rest below ``size``, of which the first that is as wide computes it, smallest first.

    None has so few sums that multiply-adds wait for each other: a tile of one position may take as long as one of four.
    """
    widths = [-(-CHAINS // vectors)]
    while widths[-1] < size - 1:
        widths.append(2 * widths[-1])
    return [*widths[:-1], size - 1] if size > 1 else []


def vector_lanes(width: int, target: Target, dtype: str) -> int:
    """Lanes of the widest vector that divides ``width`` elements evenly."""
    lanes = target.lanes(dtype)
    while width % lanes:
        lanes //= 2
    return lanes


def computed_vectors(columns: int, vectors: int, lanes: int) -> int:
    """Vectors of a row that column tiles compute: the last tile is narrower where that saves enough to have code of its own."""
    whole, needed = -(-columns // (vectors * lanes)) * vectors, -(-columns // lanes)
    return needed if (whole - needed) * NARROW_SHARE >= whole else whole


def divisors(number: int, limit: int) -> list[int]:
    """Divisors of ``number`` up to ``limit``, largest first."""
    return [d for d in range(min(number, limit), 0, -1) if number % d == 0]


def rows_for(extent: int | None, vectors: int, registers: int, costs: MachineModel) -> int:
    """Rows of the main tile over ``extent`` rows (None: known at run time only)."""
    most = min(largest_rows(vectors, registers), MAX_ROWS)
    if extent is None:
        return most
    return min(range(1, min(most, extent) + 1), key=lambda rows: (_rows_cost(extent, rows, vectors, costs), -rows))


def product_tile(rows: int | None, columns: int | None, lanes: int, target: Target, others: int = 0) -> tuple[int, int]:
    """Returns (vectors, rows) of the main tile of a product of these sizes (None: known at run time only).

    A step needs ``others`` registers more than those for accumulators and what it multiplies.
    """
    registers, costs = target.vector_registers - others, target.costs
    candidates = [(vectors, rows_for(rows, vectors, registers, costs)) for vectors in range(1, MAX_VECTORS + 1)]

    def cost(candidate: tuple[int, int]) -> float:
        vectors, tile_rows = candidate
        extent = 8 * tile_rows if rows is None else rows
        width = vectors * lanes
        padding = 1 + width / 2 / dims.TYPICAL if columns is None else loops.round_up(columns, width) / columns
        return _rows_cost(extent, tile_rows, vectors, costs) / (extent * vectors) * padding

    return min(candidates, key=cost)


def _rows_cost(extent: int, rows: int, vectors: int, costs: MachineModel) -> float:
    """Cycles of a step over all rows; a remainder is a variant of its own, whose code costs a little."""
    full, rest = divmod(extent, rows)
    return full * step_cycles(rows, vectors, costs) + (1.02 * step_cycles(rest, vectors, costs) if rest else 0)


def unroll_for(tile_size: int, extent: int | None, budget: int = 32) -> int:
    """Returns the reduction steps in one loop body: about ``budget`` multiply-adds, dividing ``extent`` where it can.

    In longer bodies the code generator gathers the loads of several steps at the top, where registers are few.
    """
    most = max(1, min(16, budget // tile_size))
    if extent is None:
        return min(most, 4)
    best = max(divisors(extent, most), default=1)
    return best if 2 * best >= min(most, extent) else most


def prefetches(count: int, weights: int, target: Target) -> bool:
    """Returns whether ``count`` tiles that share ``weights`` bytes prefetch the next ones'; the caches must hold both."""
    return count <= MAX_PREFETCH_TILES and weights <= prefetch_bytes(target)


def prefetch_bytes(target: Target) -> int:
    """Returns the most bytes of weights that register tiles share while they prefetch as many."""
    return target.l2_cache // 4


def part_bytes(target: Target) -> int:
    """Returns the most bytes of weights that stay in the first-level cache beside the next ones and rows of the left operand."""
    return target.l1_cache * 3 // 8


def even_blocks(extent: int, largest: int) -> int:
    """Returns the size of blocks of at most ``largest`` that cover ``extent`` evenly."""
    count = -(-extent // max(1, largest))
    return -(-extent // count)
