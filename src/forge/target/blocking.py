"""Sizes of blocks in packed layouts: what passes pack and kernels expect."""

from __future__ import annotations

from forge.target.target import Target

_STEP_PENALTY = {1: 1.15, 2: 1.02, 3: 1.0}
"""Relative time of a step with so many vectors a row: few need more loads per multiply-add."""


def channel_block(target: Target, dtype: str = "float32") -> int:
    """Channels in the inner block of a blocked activation: one vector of what ``dtype`` is accumulated in."""
    return target.lanes("float64" if dtype == "float64" else "float32")


def dense_panel(target: Target, dtype: str, units: int) -> int:
    """Columns of one packed weight panel for ``units`` outputs: a multiple of the vector's lanes with little padding."""
    lanes = channel_block(target, dtype)

    def cost(vectors: int) -> tuple[float, int]:
        width = lanes * vectors
        return -(-units // width) * width * _STEP_PENALTY[vectors], -vectors

    return lanes * min(_STEP_PENALTY, key=cost)


def prefers_winograd(target: Target, in_channels: int, out_height: int, out_width: int) -> bool:
    """Whether a 3x3 convolution of stride 1 is faster in the Winograd domain, F(4x4, 3x3).

    It is where a core's second-level cache holds enough transformed tiles to make good use of each weight, of which there are
    four times as many, and where tiles cover the image without much waste. *Measured* with 1 MiB: 3 times as fast as the direct
    sum with 64 and 128 channels, 2.4 with 256, equal with 384.
    """
    tiles = -(-out_height // 4) * -(-out_width // 4)
    tile_bytes = 36 * 4 * (in_channels + 2 * channel_block(target))
    covered = 16 * tiles <= 1.6 * out_height * out_width
    return in_channels >= 16 and tiles >= 9 and covered and target.l2_cache // 2 >= 6 * tile_bytes
