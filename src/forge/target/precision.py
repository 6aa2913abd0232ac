"""Whether sums of products take less time in a narrow type than in float32, by the rates of a core.

Where the target multiplies groups of numbers, there are fewer multiplications; else these become float32 where they are read, and
what is gained is that weights which come from memory, or far caches, have half of the bytes. Numbers that were computed in
float32 are rounded first, and results may be read in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from forge import dtypes
from forge.target.blocking import channel_block, group_size, product_rate
from forge.target.target import Target

# As many conversions take as long as one that is made of several instructions.
UNSUPPORTED: Final = 4
# The last caches of some cores are as much faster than what cost models assume of most.
CACHE_SLACK: Final = 1.5
# Rows of register tiles, which share the weights that they make float32.
TILE_ROWS: Final = 6


@dataclass(frozen=True)
class Contraction:
    """Sums of products: what their time depends on. All numbers are of typical sizes.

    Attributes:
        products: of all sums.
        left, right, result: elements of the data, of the weight and of the results.
        depth: neighbouring products of a sum that may be in one group; 0: there are none, as of depthwise convolutions.
        weights: bytes of all weights of the model in float32; 0: the right operand is computed.
        tiles: whether tile registers may multiply them.
    """

    products: int
    left: int
    right: int
    result: int
    depth: int
    weights: int
    tiles: bool = field(default=True, kw_only=True)


def speedup(c: Contraction, dtype: str, target: Target, between: bool = False, fewer: float = math.inf) -> float:
    """Returns the time in float32 over that in ``dtype``.

    ``between``: data are in ``dtype`` already, and so are results where they are read. ``fewer``: the cycles of an algorithm with
    fewer products, which are of float32 in both types but float16, that has none.
    """
    if dtype == "bfloat16" and target.costs.narrows_all:
        return product_rate(target, dtype, group_size(target, dtype, dtype)) / product_rate(target, dtype, 1)
    widened, narrowed = conversion_cycles(dtype, target)
    read = c.left * widened
    rounded = c.left + (0 if c.weights else c.right) + c.result
    borders = 0.0 if between else rounded * narrowed + c.result * widened
    narrow, wide = cycles(c, dtype, target), cycles(c, "float32", target)
    if dtype == "bfloat16":
        narrow = min(narrow, fewer + read)
    return (min(wide, fewer) + (read if between else 0)) / max(1.0, narrow + borders)


def conversion_cycles(dtype: str, target: Target) -> tuple[float, float]:
    """Returns the cycles in which one number of ``dtype`` becomes float32, and in which float32 is rounded to it."""
    one = 1 / (target.costs.conversions * channel_block(target))
    if dtype == "float16":
        return (one, one) if target.isa.halves else (UNSUPPORTED**2 * one,) * 2
    return one, one * (1 if target.isa.dot(dtype, dtype) else UNSUPPORTED)


def cycles(c: Contraction, dtype: str, target: Target) -> float:
    """Returns the cycles of products of ``dtype``, or of reading the weight where that takes longer."""
    costs, group = target.costs, group_size(target, dtype, dtype, c.tiles and c.products > c.right)
    whole = c.depth % group == 0 or dtype in target.isa.tiles  # whose kernels fill groups up
    group = group if c.depth and whole else 1
    products = c.products / (product_rate(target, dtype, group) * channel_block(target))
    if dtype != "float32" and group == 1:
        shared = min(TILE_ROWS, max(1, c.products // max(1, c.right)))
        products += (c.left + (c.products / shared if c.depth else 0)) * conversion_cycles(dtype, target)[0]
    if c.weights <= target.l2_cache:
        return products
    streamed = costs.streamed_bytes * CACHE_SLACK if c.weights <= target.l3_cache else costs.memory_bytes
    return max(products, min(c.right, c.products) * dtypes.itemsize(dtype) / streamed)
