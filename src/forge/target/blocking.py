"""Sizes of blocks in packed layouts: what passes pack and kernels expect."""

from __future__ import annotations

from forge.target.target import Target


def channel_block(target: Target, dtype: str = "float32") -> int:
    """Channels in the inner block of a blocked activation: one vector of what ``dtype`` is accumulated in."""
    return target.lanes("float64" if dtype == "float64" else "float32")


def byte_group(target: Target) -> int:
    """How many products of bytes a step of a sum adds, by which weights of int8 are packed.

    Four where an instruction adds those of uint8 and int8; elsewhere two, of bytes that are made 16 bits wide.
    """
    dot = target.isa.dot("uint8", "int8")
    return 2 if dot is None else dot.group


def integer_group(target: Target, data: str) -> int:
    """The size of groups in which weights of int8 are packed for data of this type: two for int16, on all targets."""
    return byte_group(target) if data == "uint8" else 2


def dots_of_pairs(target: Target) -> bool:
    """Whether weights of bfloat16 are packed in pairs, whose products one instruction adds.

    They are where that multiplies more numbers in a cycle than multiply-adds of float32 do.
    """
    dot, costs = target.isa.dot("bfloat16", "bfloat16"), target.costs
    return dot is not None and dot.group * costs.bfloat16_dots > costs.multiply_adds
