"""Sizes of blocks in packed layouts: what passes pack and kernels expect."""

from __future__ import annotations

from forge.target.target import Target


def channel_block(target: Target, dtype: str = "float32") -> int:
    """Channels in the inner block of a blocked activation: one vector of what ``dtype`` is accumulated in."""
    return target.lanes("float64" if dtype == "float64" else "float32")


def dots_of_pairs(target: Target) -> bool:
    """Whether one instruction adds the products of pairs of bfloat16, so that weights are packed in pairs."""
    return target.has("avx512bf16") and target.has("avx512vl")
