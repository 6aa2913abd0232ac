"""Which kernel computes an operator, and how its weights are packed: what passes ask of the CPU's backend.

Kernel families estimate what they take; a measured choice (``Target.choices``) goes before an estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from forge import loops
from forge.backend import Convolution3x3, DirectConvolution
from forge.kernels.cpu import conv_plan, conv_tiles, dense, dense_parts, tiles, winograd_plan
from forge.kernels.cpu.micro import COLUMNS
from forge.kernels.cpu.spatial import winograd_key
from forge.kernels.cpu.winograd_lines import SCHEMES
from forge.target import Target, blocking, precision
from forge.target.precision import Contraction

# Relative time of a step with this many vectors in a row: fewer need more loads per multiply-add.
_STEP_PENALTY: Final = {1: 1.15, 2: 1.02, 3: 1.0}
# That of products of bytes in pairs, which need a register before they are added: three vectors leave room for few rows.
_PAIR_PENALTY: Final = {1: 1.15, 2: 1.0, 3: 1.1}
# Sums of this many products of 8 bits by 12 bits fit into 32 bits.
_MAX_IN_PAIRS: Final = 4096


@dataclass(frozen=True)
class CpuLayouts:
    """`forge.backend.Layouts` of one target."""

    target: Target

    def channel_block(self, dtype: str = "float32") -> int:
        return blocking.channel_block(self.target, dtype)

    def group_size(self, data: str, weight: str, tiles: bool = True) -> int:
        return blocking.group_size(self.target, data, weight, tiles)

    def filled_group(self, dtype: str) -> int:
        """Returns what a word holds where tile registers multiply such numbers."""
        return self.group_size(dtype, dtype) if dtype in self.target.isa.tiles else 1

    def dense_panel(self, dtype: str, units: int, rows: int = 0, depth: int = 0) -> int:
        """Returns a multiple of the vector's lanes with little padding."""
        lanes = self.channel_block(dtype)
        if dtype in self.target.isa.tiles:
            return COLUMNS if units <= COLUMNS else 2 * COLUMNS
        penalty = _PAIR_PENALTY if dtype in ("uint8", "int16") and self.group_size(dtype, "int8") == 2 else _STEP_PENALTY

        def cost(vectors: int) -> tuple[float, int]:
            return tiles.computed_vectors(units, vectors, lanes) * penalty[vectors], -vectors

        best, *others = sorted((v for v in penalty if v == 1 or (v - 1) * lanes < units), key=cost)
        key = dense.panel_key(rows, depth, units, dtype)
        (vectors,) = self.target.choices.pick(key, (best,), lambda: ((v,) for v in (best, *others)))
        return lanes * vectors

    def multiplies_parts(self, units: int, rows: int, depth: int, parts: int) -> bool | None:
        """Estimates both, where tile registers multiply bfloat16. Few rows wait for weights, of which parts have more bytes."""
        if "bfloat16" not in self.target.isa.tiles:
            return None
        return dense_parts.is_faster(units, rows, depth, parts, self.target)

    def convolves_parts(self, convolution: DirectConvolution, parts: int) -> bool | None:
        """Estimates both, where tile registers multiply bfloat16."""
        if "bfloat16" not in self.target.isa.tiles:
            return None
        return conv_tiles.parts_are_faster(convolution, parts, self.target)

    def blocks_panel(self, units: int) -> int:
        """Returns up to four vectors, which one row reads side by side."""
        lanes = self.target.lanes("float32")
        return lanes * min(4, loops.next_power_of_two(-(-units // lanes)))

    def recurrent_panel(self, hidden: int) -> int:
        """Returns up to eight vectors, with little padding of each gate."""
        lanes = self.target.lanes("float32")
        return lanes * min(8, loops.next_power_of_two(-(-hidden // lanes)))

    def recurrent_steps(self, hidden: int, group: int) -> int:
        """Returns as many as tile registers of equally many words take, where there are any."""
        steps = -(-hidden // group)
        words = tiles.even_blocks(steps, COLUMNS) if group > 1 and self.target.isa.tiles else 1
        return loops.round_up(steps, words)

    def recurrent_group(self, dtype: str, hidden: int, dynamic: bool) -> int:
        """Returns one where sums of pairs of 8 by 12 bits might not fit into 32 bits."""
        group = min(self.group_size("uint8", "int8"), 4)  # states are whole vectors, which may have four lanes
        fits = dynamic or group > 2 or hidden <= _MAX_IN_PAIRS
        return group if dtype != "float64" and fits else 1

    def permutes_tables(self) -> bool:
        """Returns whether tables are permuted in registers: in short vectors, codes take longer than reading float32."""
        lanes = self.target.lanes("float32")
        return lanes >= 8 and lanes in self.target.isa.permuted_lanes

    def winograd_tile(self, convolution: Convolution3x3) -> int:
        """Estimates direct sums and each of Winograd's schemes."""
        target = self.target
        if convolution.in_channels // convolution.slices < self.channel_block():
            return 0
        direct = min(conv_plan.estimate(convolution, target), conv_tiles.estimate(convolution, target))
        cycles = {0: direct, **self.winograd_cycles(convolution)}
        best, *others = sorted(cycles, key=lambda tile: (cycles[tile], tile))
        key = winograd_key(convolution, target)
        (tile,) = target.choices.pick(key, (best,), lambda: ((t,) for t in (best, *others)))
        return tile

    def speedup(self, sums: Contraction, dtype: str, between: bool, window: Convolution3x3 | None) -> float:
        fewer = math.inf
        if window is not None and window.in_channels >= self.channel_block():
            fewer = min(self.winograd_cycles(window).values())
        return precision.speedup(sums, dtype, self.target, between, fewer)

    def winograd_cycles(self, convolution: Convolution3x3) -> dict[int, float]:
        """Returns the cycles of each of Winograd's schemes, with a margin."""
        schemes = SCHEMES.values()
        return {s.out: winograd_plan.estimate(convolution, s, self.target) * winograd_plan.MARGIN for s in schemes}
