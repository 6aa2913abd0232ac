"""Conditions that hold, or the run fails."""

from __future__ import annotations

from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Var
from forge.tir.stmt import STATUS_VALUE, Fail, Function, If, Let, seq


@kernel("check")
def check(call: KernelCall) -> Function:
    """Family of ``check``: operand condition, of rank 0; attribute message."""
    held = Var("bool", 1, "held")
    return call.function(seq(
        Let(held, call.readers[0].read(())),
        If(E.logical_not(held), Fail(STATUS_VALUE, f"{call.operator}: {call.attrs.message}")),
        call.results[0].write((), held)))
