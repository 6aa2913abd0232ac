"""Micro-kernels: how a register tile adds up products. One file is one way of multiplying.

A new instruction for products is a row of its instruction set (``forge.target.isa``), by which weights are packed, and a file
here, whose class is registered. Matrix products, convolutions, attention and recurrent layers take whatever `micro_kernel` gives.
"""

from __future__ import annotations

from forge.kernels.cpu.micro.dot import DotProduct
from forge.kernels.cpu.micro.outer import Left, OuterProduct, Right, no_statement
from forge.kernels.cpu.micro.parts import PartsProduct
from forge.kernels.cpu.micro.tile import COLUMNS, MIN_WORDS, TileProduct, step_words
from forge.loops.dots import Group
from forge.target import Target

_KINDS: list[type[OuterProduct]] = [TileProduct, DotProduct, OuterProduct]


def register(kind: type[OuterProduct]) -> type[OuterProduct]:
    """Adds a micro-kernel, which goes before those that are there."""
    _KINDS.insert(0, kind)
    return kind


def micro_kernel(group: Group, target: Target, tiles: bool = False) -> OuterProduct:
    """Returns the micro-kernel that multiplies such groups on ``target``, in tile registers only where the caller can."""
    return next(kind for kind in _KINDS if (tiles or not kind.in_tiles) and kind.fits(group, target.isa))(group)


__all__ = [
    "COLUMNS", "MIN_WORDS", "DotProduct", "Left", "OuterProduct", "PartsProduct", "Right", "TileProduct", "micro_kernel",
    "no_statement", "register", "step_words"]
