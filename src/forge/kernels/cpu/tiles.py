"""Register tiles and blocks, chosen from the target.

A register tile is ``rows`` x ``vectors`` accumulators: each step of the reduction multiplies one scalar per row (broadcast) with
each of ``vectors`` vector registers. The cost model counts the cycles of one step on a core with two multiply-add units of
latency 4 and two load ports, which holds for every AVX2 and AVX-512 server core of the last ten years.
"""

from __future__ import annotations

from forge import dtypes, loops
from forge.target import Target

MAX_VECTORS = 4
LEAST_STEP_CYCLES = 5.0
"""Of a step with few accumulators: the latency, and some slack (8 accumulators reach 88 % of what 10 do)."""
LOAD_SHARE = 0.15
"""Of the time of a step's loads, what is not hidden (AVX2, 14 x 1 against 6 x 2: 80 and 94 % of the peak)."""
MOST_TILES_AHEAD = 64
"""Register tiles that share weights: of more, reading these from memory is a small part of the time."""
STACK_LIMIT = 768 << 10
"""Bytes of stack that one kernel may take; threads have several MiB."""


def accumulator_dtype(*operands: str) -> str:
    """The dtype in which products of these operand dtypes are summed."""
    if any(dtypes.is_float(d) for d in operands):
        return "float64" if "float64" in operands else "float32"
    return "int64" if any(dtypes.bits(d) == 64 for d in operands) else "int32"


def fits(rows: int, vectors: int, registers: int) -> bool:
    """Whether the accumulators, one step's vectors and one broadcast fit into the registers."""
    return rows * vectors + vectors + 1 <= registers


def step_cycles(rows: int, vectors: int) -> float:
    """Cycles of one reduction step of a tile. Loads run beside the arithmetic, but not entirely for free."""
    loads = (rows + vectors) / 2
    return max(rows * vectors / 2, loads, LEAST_STEP_CYCLES) + LOAD_SHARE * loads


def largest_rows(vectors: int, registers: int) -> int:
    """Most rows of a tile of ``vectors`` vectors that fit into the registers."""
    return max(1, (registers - 1 - vectors) // vectors)


def vector_lanes(width: int, target: Target, dtype: str) -> int:
    """Lanes of the widest vector that divides ``width`` elements evenly."""
    lanes = target.lanes(dtype)
    while width % lanes:
        lanes //= 2
    return lanes


def divisors(number: int, limit: int) -> list[int]:
    """Divisors of ``number`` up to ``limit``, largest first."""
    return [d for d in range(min(number, limit), 0, -1) if number % d == 0]


def rows_for(extent: int | None, vectors: int, registers: int, limit: int = 8) -> int:
    """Rows of the main tile over ``extent`` rows (None: known at run time only)."""
    most = min(largest_rows(vectors, registers), limit)
    if extent is None:
        return most
    return min(range(1, min(most, extent) + 1), key=lambda rows: (_rows_cost(extent, rows, vectors), -rows))


def product_tile(rows: int | None, columns: int | None, lanes: int, registers: int) -> tuple[int, int]:
    """(vectors, rows) of the main tile of a product of these sizes (None: known at run time only)."""
    candidates = [(vectors, rows_for(rows, vectors, registers)) for vectors in range(1, MAX_VECTORS + 1)]

    def cost(candidate: tuple[int, int]) -> float:
        vectors, tile_rows = candidate
        extent = 8 * tile_rows if rows is None else rows
        padding = 1.0 if columns is None else loops.round_up(columns, vectors * lanes) / columns
        return _rows_cost(extent, tile_rows, vectors) / (extent * vectors) * padding

    return min(candidates, key=cost)


def _rows_cost(extent: int, rows: int, vectors: int) -> float:
    """Cycles of a step over all rows; a remainder is a variant of its own, whose code costs a little."""
    full, rest = divmod(extent, rows)
    return full * step_cycles(rows, vectors) + (1.02 * step_cycles(rest, vectors) if rest else 0)


def unroll_for(tile_size: int, extent: int | None, budget: int = 32) -> int:
    """Reduction steps in one loop body: about ``budget`` multiply-adds, dividing ``extent`` where it can.

    In longer bodies the code generator gathers the loads of several steps at the top, where registers are few.
    """
    most = max(1, min(16, budget // tile_size))
    if extent is None:
        return min(most, 4)
    best = max(divisors(extent, most), default=1)
    return best if 2 * best >= min(most, extent) else most


def asks_ahead(count: int, weights: int, target: Target) -> bool:
    """Whether ``count`` register tiles that share ``weights`` bytes ask for those of the next ones; the caches must hold both."""
    return count <= MOST_TILES_AHEAD and weights <= bytes_ahead(target)


def bytes_ahead(target: Target) -> int:
    """Most bytes of weights that register tiles share while they ask for as many."""
    return target.l2_cache // 4


def even_blocks(extent: int, largest: int) -> int:
    """Size of blocks of at most ``largest`` that cover ``extent`` evenly."""
    count = -(-extent // max(1, largest))
    return -(-extent // count)
