"""Operations on tile registers: AMX's instructions, or calls of functions with the same operands that stand in for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge.codegen.memory import MemoryAccess
from forge.errors import CompileError
from forge.tir import expr as tir
from forge.tir import stmt

if TYPE_CHECKING:
    from forge.codegen.functions import FunctionEmitter

_TYPES = {"configure": "ptr", "release": "", "zero": "i8", "load": "i8, ptr, i64", "store": "i8, ptr, i64"}
_PALETTE = 1
_FIRST_WIDTH, _FIRST_ROWS = 16, 48
"""Where the configuration has the bytes of rows (16 bits each), and the numbers of rows (8 bits each)."""


def emit(f: FunctionEmitter, s: stmt.Tiles) -> None:
    """Emits an operation.

    Raises:
        CompileError: the target has no tile registers.
    """
    row = f.e.native(f"tiles_{s.operation}")
    if row is None:
        raise CompileError(f"codegen: {f.symbol}: {s.operation!r} of tile registers; the target has none")
    types = _TYPES.get(s.operation, "i8, i8, i8")
    if not row.intrinsic.startswith("llvm."):
        f.module.add_once(f"@{row.intrinsic}", f"declare void @{row.intrinsic}({types})")
    operands = _operands(f, s)
    f.builder.effect(f"call void @{row.intrinsic}({', '.join(operands)})")


def _operands(f: FunctionEmitter, s: stmt.Tiles) -> list[str]:
    numbers = [f"i8 {number}" for number in s.numbers]
    if s.operation == "configure":
        return [f"ptr {_configuration(f, s)}"]
    if s.buffer is None:
        return numbers
    access = MemoryAccess(f.e, s.buffer, s.values[0], None)
    stride = s.values[1] * (s.buffer.lanes * access.size)
    return [*numbers, f"ptr {access.address()}", f.e.text(tir.cast(stride, tir.INDEX))]


def _configuration(f: FunctionEmitter, s: stmt.Tiles) -> str:
    """The 64 bytes that say what shapes the registers have."""
    b = f.builder
    memory = b.alloca("[64 x i8]", 64)
    b.effect(f"store [64 x i8] zeroinitializer, ptr {memory}, align 64")
    fields: list[tuple[int, str, tir.Expr]] = [(0, "i8", tir.const(_PALETTE, "int8"))]
    for number, (rows, size) in enumerate(zip(s.values[::2], s.values[1::2])):
        fields += [(_FIRST_WIDTH + 2 * number, "i16", tir.cast(size, "int16")),
                   (_FIRST_ROWS + number, "i8", tir.cast(rows, "int8"))]
    for offset, kind, value in fields:
        pointer = b.pure(f"getelementptr i8, ptr {memory}, i64 {offset}")
        b.effect(f"store {f.e.text(value)}, ptr {pointer}, align {2 if kind == 'i16' else 1}")
    return memory
