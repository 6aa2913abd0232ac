"""Sizes of blocks in packed layouts: what passes pack and kernels expect."""

from __future__ import annotations

from forge import dtypes
from forge.target.target import Target

_STEP_PENALTY = {1: 1.15, 2: 1.02, 3: 1.0}
"""Relative time of a step with so many vectors a row: few need more loads per multiply-add."""

_MEMORY_BYTES_PER_CYCLE = 7.0
"""Rate at which a core reads weights for the first time."""
_CACHE_BYTES_PER_CYCLE = 12.0
"""Rate at which it reads them again, from the outer caches."""
_TRANSFORM_CYCLES = 14.0
"""Per position of a patch and vector of channels, both transformations of Winograd."""
_FEW_ROWS = 1.0
"""Tiles whose time a register tile takes beside its multiply-adds."""
_WINOGRAD_SLACK = 1.1
"""The direct sum stays where the gain is less."""


def channel_block(target: Target, dtype: str = "float32") -> int:
    """Channels in the inner block of a blocked activation: one vector of what ``dtype`` is accumulated in."""
    return target.lanes("float64" if dtype == "float64" else "float32")


def dots_of_pairs(target: Target) -> bool:
    """Whether one instruction adds the products of pairs of bfloat16, so that weights are packed in pairs."""
    return target.has("avx512bf16") and target.has("avx512vl")


def dense_panel(target: Target, dtype: str, units: int, rows: int = 0, depth: int = 0) -> int:
    """Columns of one packed weight panel: a multiple of the vector's lanes with little padding; 0 rows: not known."""
    lanes = channel_block(target, dtype)

    def cost(vectors: int) -> tuple[float, int]:
        width = lanes * vectors
        return -(-units // width) * width * _STEP_PENALTY[vectors], -vectors

    best, *others = sorted(_STEP_PENALTY, key=cost)
    (vectors,) = target.choices.pick(dense_key(rows, depth, units, dtype), (best,), lambda: ((v,) for v in (best, *others)))
    return lanes * vectors


def dense_key(rows: int, depth: int, units: int, dtype: str) -> str:
    """What the choice of a panel depends on."""
    return f"dense panel {rows} x {depth} x {units} {dtype}"


def winograd_tile(
    target: Target, dtype: str, images: int, in_channels: int, out_channels: int, out_height: int, out_width: int
) -> int:
    """The m of the fastest F(m x m, 3x3) for a 3x3 convolution of stride 1; 0 where the direct sum is faster.

    A model of one core's cycles: multiply-adds; transformations, per position of a patch and vector of channels; and the weights,
    which come from memory once and from the outer caches again for each block of tiles that the second-level cache holds.
    In the Winograd domain bfloat16 is float32.
    """
    size, lanes = (images, in_channels, out_channels, out_height, out_width), channel_block(target)
    direct = 9 * images * in_channels * out_channels * out_height * out_width / (2 * lanes)
    if dtype == "bfloat16" and dots_of_pairs(target):
        direct /= 2
    costs = {0: max(direct, 9 * dtypes.itemsize(dtype) * in_channels * out_channels / _MEMORY_BYTES_PER_CYCLE)}
    for tile in (2, 4):
        costs[tile] = _winograd_cycles(target, tile, *size) * _WINOGRAD_SLACK
    if in_channels < lanes:
        return 0
    best, *others = sorted(costs, key=lambda tile: (costs[tile], tile))
    (tile,) = target.choices.pick(winograd_key(target, dtype, *size), (best,), lambda: ((t,) for t in (best, *others)))
    return tile


def winograd_key(target: Target, dtype: str, images: int, in_channels: int, out_channels: int, height: int, width: int) -> str:
    """What the choice of an algorithm for a 3x3 convolution depends on; output channels count with their padding."""
    lanes = channel_block(target)
    narrow = "" if dtype == "float32" else f" {dtype}"
    return f"winograd {images} x {in_channels} x {-(-out_channels // lanes) * lanes} x {height} x {width}{narrow}"


def _winograd_cycles(target: Target, tile: int, images: int, inner: int, outer: int, height: int, width: int) -> float:
    lanes, positions = channel_block(target), (tile + 2) ** 2
    tiles = images * -(-height // tile) * -(-width // tile)
    products = positions * tiles * inner * outer / (2 * lanes)
    transforms = _TRANSFORM_CYCLES * positions * tiles * (inner + outer) / (2 * lanes)
    held = max(1, target.l2_cache // 3 // (positions * 4 * (inner + 2 * lanes)))
    blocks = -(-tiles // held)
    few = 1 + _FEW_ROWS / min(held, tiles)
    weights = 4 * positions * inner * outer * (1 / _MEMORY_BYTES_PER_CYCLE + (blocks - 1) / _CACHE_BYTES_PER_CYCLE)
    return max(products * few, weights) + transforms
