"""Concatenation: one loop nest a part, which copies the part to its place. An empty part costs nothing.

In place, the first part lies where it belongs.
"""

from __future__ import annotations

from typing import Final

from forge.loops import places, product, static
from forge.loops.contract import KernelCall, Reader, Variant, kernel
from forge.schedule.injective import schedule_injective
from forge.schedule.stages import Stages
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, Stmt, seq

LONG: Final = 64
"""Elements from which on the places of a part that follow each other are worth vectors, whatever their number."""

FEW: Final = 16
"""Runs of such places that each is copied in several blocks below."""


def variant(call: KernelCall) -> Variant | None:
    """Shares code between parts in memory of any shapes where runs are long, and of any numbers along the axis otherwise."""
    axis = call.attrs.axis % len(call.results[0].shape)
    runs = call.typical(product(call.results[0].shape[:axis]))
    plain = not call.in_place and None not in (call.results[0].buffer, *(part.buffer for part in call.readers))
    if plain and runs < FEW and all(call.typical(product(part.shape[axis:])) >= LONG for part in call.readers):
        return Variant("", (), {}, ("axis",), joined=axis)
    extents = [static(part.shape[axis]) for part in call.readers]
    known = [extent for extent in extents if extent]
    if call.in_place or len(known) < len(extents) or any(part.buffer is None for part in call.readers):
        return None
    return Variant("", (*known, sum(known)), {(k, axis): k for k in range(len(known) + 1)})


@kernel("concatenate", complex_numbers=True, variant=variant)
def concatenate(call: KernelCall) -> Function:
    """``out[.., offset_p + i, ..] = part_p[.., i, ..]`` along ``attrs.axis``."""
    axis = 1 if call.attrs.axis is None else call.attrs.axis % len(call.results[0].shape)
    nests: list[Stmt] = []
    offset: Expr = E.const(0)
    for number, part in enumerate(call.readers):
        is_there = call.in_place and number == 0
        if not is_there and not any(E.is_const(extent, 0) for extent in part.shape):
            nests.append(_copy(call, part, axis, offset))
        offset = offset + part.shape[axis]
    return call.function(seq(*nests))


def _copy(call: KernelCall, part: Reader, axis: int, offset: Expr) -> Stmt:
    stages = Stages(call, [None] * len(call.operands))
    loops = stages.algebra.loops(part.shape)
    source = places(loops)
    target = [*source[:axis], source[axis] + offset, *source[axis + 1 :]]
    return schedule_injective(call, loops, call.results[0].write(target, part.read(source)), stages.algebra)
