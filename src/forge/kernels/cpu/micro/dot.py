"""Dot products of groups, as instructions add them: pairs of bfloat16, pairs of int16, fours of uint8 and int8.

Code generation writes out what a target has no instruction for.
"""

from __future__ import annotations

from forge.kernels.cpu.micro.outer import OuterProduct
from forge.loops.dots import Group
from forge.target.isa import Isa
from forge.tir import expr as E
from forge.tir.expr import Expr


class DotProduct(OuterProduct):
    """Multiplies groups of 32 bits, and adds the products of each."""

    @staticmethod
    def fits(group: Group, isa: Isa) -> bool:
        return group.word == "uint32"

    def multiply_add(self, a: Expr, b: Expr, total: Expr) -> Expr:
        lanes = total.lanes
        if total.dtype == "float32":
            return E.call("dot_bf16", total, a, b)
        if b.dtype == "int16":
            return E.call("dot_s16", total, E.call("reinterpret", a, dtype="int16", lanes=2 * lanes), b)
        factors = (E.call("reinterpret", v, dtype=t, lanes=4 * lanes) for v, t in ((a, "uint8"), (b, "int8")))
        return E.call("dot_u8s8", total, *factors)
