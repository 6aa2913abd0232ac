"""A made-up instruction for products: it adds eight bytes, or four bfloat16, that words of 64 bits hold. Emulated.

All that a new instruction needs: rows of the instruction set, and this file.
"""

from __future__ import annotations

from forge.kernels.cpu.micro import OuterProduct
from forge.loops.dots import Group
from forge.target.isa import Dot, Isa
from forge.tir import expr as E
from forge.tir.expr import Expr

ROWS = (Dot("uint8", "int8", "int32", 8), Dot("bfloat16", "bfloat16", "float32", 4))


class OctetProduct(OuterProduct):
    """Multiplies words of 64 bits."""

    @staticmethod
    def fits(group: Group, isa: Isa) -> bool:
        return group.word == "uint64" and set(ROWS) <= set(isa.dots)

    def multiply_add(self, a: Expr, b: Expr, total: Expr) -> Expr:
        if total.dtype == "float32":
            for k in range(4):
                total = E.call("fma", _float(a, k), _float(b, k), total)
            return total
        for k in range(8):
            total = total + E.cast(_byte(a, k), "int32") * E.cast(E.call("reinterpret", _byte(b, k), dtype="int8"), "int32")
        return total


def _float(words: Expr, number: int) -> Expr:
    half = E.cast(E.binary("shr", words, 16 * number) & 0xFFFF, "uint32")
    return E.call("reinterpret", E.binary("shl", half, 16), dtype="float32")


def _byte(words: Expr, number: int) -> Expr:
    return E.cast(E.binary("shr", words, 8 * number) & 0xFF, "uint8")
