"""Sizes of blocks in packed layouts: what passes pack and kernels expect."""

from __future__ import annotations

from forge import dtypes
from forge.target.target import Target


def channel_block(target: Target, dtype: str = "float32") -> int:
    """Channels in the inner block of a blocked activation: one vector of what ``dtype`` is accumulated in."""
    return target.lanes("float64" if dtype == "float64" else "float32")


def group_size(target: Target, data: str, weight: str, tiles: bool = True) -> int:
    """Returns how many neighbouring products of ``data`` and ``weight`` one step of a sum adds; weights are packed by it.

    As many as an instruction adds; in tile registers, as many as 32 bits hold. Bytes without one, and int8 by int16, are
    multiplied in pairs that are made 16 bits wide.
    bfloat16 is, where that multiplies more numbers in a cycle than multiply-adds of float32 do; otherwise one at a time.
    ``tiles``: whether tile registers may multiply this product, which nothing else does with pairs of float16.
    """
    dot = target.isa.dot(data, weight)
    multiplied = (data, weight) == ("uint8", "int8") or data == weight and dtypes.is_float(data)
    if data in target.isa.tiles and multiplied and (tiles or dot is not None):
        return 4 if weight == "int8" else 2
    if weight == "int8":
        return 2 if dot is None else dot.group
    return dot.group if dot is not None and product_rate(target, data, dot.group) > product_rate(target, data, 1) else 1


def product_rate(target: Target, dtype: str, group: int) -> float:
    """Returns how many products a cycle adds in each lane of a vector: of ``dtype`` in groups of this size, 1: of float32."""
    costs = target.costs
    if group == 1:
        return costs.multiply_adds
    return 16 * group * costs.tile_rows * costs.tile_share if dtype in target.isa.tiles else group * costs.bfloat16_dots
