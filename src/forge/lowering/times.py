"""Programs that report how long each of their kernels takes."""

from __future__ import annotations

import dataclasses

from forge.lowering.program import LoweredProgram
from forge.tir.expr import const
from forge.tir.library import TensorSpec
from forge.tir.stmt import Address, CallKernel, RunControl, Seq, Stmt, Timestamp, seq

TIMES = "forge.times"
"""Name of the output that is added: cycle counts (int64), one before everything and one after each item."""

_WORK = (CallKernel, RunControl)


def with_times(lowered: LoweredProgram) -> LoweredProgram:
    """Returns the program with one more output, `TIMES`: ``times[k + 1] - times[k]`` are the cycles of ``items[k]``.

    ``call f(..); call g(..)`` --> ``output1 = cycles; call f(..); output1+8 = cycles; call g(..); output1+16 = cycles``
    """
    program = lowered.program
    number = len(program.outputs)
    statements = program.entry.body if isinstance(program.entry, Seq) else (program.entry,)
    timed: list[Stmt] = [_timestamp(number, 0)]
    count = 0
    for statement in statements:
        timed.append(statement)
        if isinstance(statement, _WORK):
            count += 1
            timed.append(_timestamp(number, count))
    assert count == len(lowered.items)
    outputs = (*program.outputs, TensorSpec(TIMES, "int64", (const(count + 1),)))
    return dataclasses.replace(lowered, program=dataclasses.replace(program, entry=seq(timed), outputs=outputs))


def _timestamp(number: int, position: int) -> Timestamp:
    return Timestamp(Address(("output", number), const(8 * position)))
