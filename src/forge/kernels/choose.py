"""Which kernel computes an operator, and how its weights are packed: what passes ask before they rewrite a graph.

Kernel families estimate what they take; a measured choice (``Target.choices``) goes before an estimate.
"""

from __future__ import annotations

from typing import Final

from forge import loops
from forge.kernels.cpu import conv_plan, dense, tiles, winograd_plan
from forge.kernels.cpu.spatial import Convolution3x3
from forge.kernels.cpu.winograd_lines import SCHEMES
from forge.target import Target
from forge.target.blocking import byte_group, channel_block, integer_group

# Relative time of a step with this many vectors in a row: fewer need more loads per multiply-add.
_STEP_PENALTY: Final = {1: 1.15, 2: 1.02, 3: 1.0}
# That of products of bytes in pairs, which need a register before they are added: three vectors leave room for few rows.
_PAIR_PENALTY: Final = {1: 1.15, 2: 1.0, 3: 1.1}
# Sums of so many products of 8 bits with 12 bits fit into 32 bits.
_MOST_IN_PAIRS: Final = 4096
# The direct sum stays where the estimated gain of Winograd's algorithm is less than this factor.
_WINOGRAD_MARGIN: Final = 1.1


def dense_panel(target: Target, dtype: str, units: int, rows: int = 0, depth: int = 0) -> int:
    """Columns of one packed weight panel: a multiple of the vector's lanes with little padding; 0 rows: not known."""
    lanes = channel_block(target, dtype)
    penalty = _PAIR_PENALTY if dtype in ("uint8", "int16") and integer_group(target, dtype) == 2 else _STEP_PENALTY

    def cost(vectors: int) -> tuple[float, int]:
        return tiles.computed_vectors(units, vectors, lanes) * penalty[vectors], -vectors

    best, *others = sorted((v for v in penalty if v == 1 or (v - 1) * lanes < units), key=cost)
    key = dense.panel_key(rows, depth, units, dtype)
    (vectors,) = target.choices.pick(key, (best,), lambda: ((v,) for v in (best, *others)))
    return lanes * vectors


def blocks_panel(target: Target, units: int) -> int:
    """Columns of one panel of weights of few bits: up to four vectors, which one row reads side by side."""
    lanes = target.lanes("float32")
    return lanes * min(4, loops.next_power_of_two(-(-units // lanes)))


def recurrent_panel(target: Target, hidden: int) -> int:
    """Columns of one panel of a recurrent layer's codes: up to eight vectors, with little padding of each gate."""
    lanes = target.lanes("float32")
    return lanes * min(8, loops.next_power_of_two(-(-hidden // lanes)))


def recurrent_group(target: Target, dtype: str, hidden: int, dynamic: bool) -> int:
    """Neighbours along the depth of a recurrent layer's codes that lie together; 1: they are multiplied as real numbers."""
    group = byte_group(target)
    fits = dynamic or group == 4 or hidden <= _MOST_IN_PAIRS
    return group if dtype != "float64" and fits else 1


def permutes_tables(target: Target) -> bool:
    """Whether codes of 4 bits become numbers of a table in registers: one by one they take longer than to read float32."""
    return target.lanes("float32") in target.isa.permuted_lanes and target.lanes("float32") >= 8


def winograd_tile(target: Target, convolution: Convolution3x3) -> int:
    """The m of the fastest F(m x m, 3x3); 0 where the direct sum is faster."""
    if convolution.in_channels // convolution.slices < channel_block(target):
        return 0
    cycles = {s.out: winograd_plan.estimate(convolution, s, target) * _WINOGRAD_MARGIN for s in SCHEMES.values()}
    cycles[0] = conv_plan.estimate(convolution, target)
    best, *others = sorted(cycles, key=lambda tile: (cycles[tile], tile))
    (tile,) = target.choices.pick(convolution.key(target), (best,), lambda: ((t,) for t in (best, *others)))
    return tile


__all__ = [
    "Convolution3x3", "blocks_panel", "dense_panel", "permutes_tables", "recurrent_group", "recurrent_panel", "winograd_tile",
]
