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
