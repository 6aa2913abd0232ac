"""Dot products of groups, as instructions add them: pairs of bfloat16, pairs of int16, fours of uint8 and int8.

Code generation writes out what a target has no instruction for. Pairs of float16, which only tile registers multiply, become
float32 where those do not.
"""

from __future__ import annotations

from forge import loops
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
        lanes, group = total.lanes, self.group
        if group.dtype == "bfloat16":
            return E.call("dot_bf16", total, a, b)
        if group.dtype == "float16":
            for left, right in zip(group.widened(a), group.widened(b)):
                total = loops.multiply_add(left, right, total)
            return total
        if group.dtype == "int16":
            return E.call("dot_s16", total, E.call("reinterpret", a, dtype="int16", lanes=2 * lanes), b)
        unsigned, signed = (b, a) if group.dtype == "int8" else (a, b)
        factors = (E.call("reinterpret", v, dtype=t, lanes=4 * lanes) for v, t in ((unsigned, "uint8"), (signed, "int8")))
        return E.call("dot_u7s8" if group.small else "dot_u8s8", total, *factors)
