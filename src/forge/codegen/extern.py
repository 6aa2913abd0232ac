"""Calls of the user's functions: their arguments as ``forge/extern.h`` has them, tensors as DLPack does."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from forge import external
from forge.codegen.expressions import ExpressionEmitter
from forge.codegen.llvm import IRBuilder
from forge.errors import CompileError
from forge.tir import stmt
from forge.tir.expr import Const

if TYPE_CHECKING:
    from forge.codegen.module import ModuleEmitter

_TENSOR = "{ ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }"  # DLTensor


def call(module: ModuleEmitter, b: IRBuilder, e: ExpressionEmitter, s: stmt.CallExtern) -> str:
    """The status that the function returns."""
    count = len(s.arguments)
    values, kinds = (b.value(f"alloca [{count} x {kind}], align 8") for kind in ("i64", "i32"))
    for k, argument in enumerate(s.arguments):
        kind, value = _argument(module, b, e, argument)
        _store(b, f"i64 {value}", values, f"[{count} x i64]", k)
        _store(b, f"i32 {kind}", kinds, f"[{count} x i32]", k)
    symbol = f"@{external.LINKED}{s.name}"
    module.add_once(symbol, f"declare i32 {symbol}(ptr, ptr, i32)")
    return b.value(f"call i32 {symbol}(ptr {values}, ptr {kinds}, i32 {count})")


def message(module: ModuleEmitter, b: IRBuilder, s: stmt.CallExtern, status: str) -> str:
    """The text for a ``status`` other than 0."""
    size, place = len(s.place.encode()) + len(s.name) + 100, s.place.replace("%", "%%")
    chosen = module.message(external.failure(s.name, "%d", place))
    for known in external.PROBLEMS:
        is_this = b.value(f"icmp eq i32 {status}, {known}")
        chosen = b.value(f"select i1 {is_this}, ptr {module.message(external.failure(s.name, known, place))}, ptr {chosen}")
    module.add_once("@snprintf", "declare i32 @snprintf(ptr, i64, ptr, ...)")
    text = b.value(f"alloca [{size} x i8]")
    b.effect(f"call i32 (ptr, i64, ptr, ...) @snprintf(ptr {text}, i64 {size}, ptr {chosen}, i32 {status})")
    return text


def _argument(module: ModuleEmitter, b: IRBuilder, e: ExpressionEmitter, a: stmt.ExternArgument) -> tuple[int, str]:
    """What kind it is, and its 64 bits."""
    if isinstance(a, stmt.ExternTensor):
        return external.TENSOR, b.value(f"ptrtoint ptr {_tensor(b, e, a)} to i64")
    if isinstance(a, str):
        return external.TEXT, b.value(f"ptrtoint ptr {module.message(a)} to i64")
    if isinstance(a, Const) and a.dtype == "float64":
        (bits,) = struct.unpack("<q", struct.pack("<d", a.value))
        return external.NUMBER, str(bits)
    return external.INTEGER, e.text(a).split(" ", 1)[1]


def _tensor(b: IRBuilder, e: ExpressionEmitter, t: stmt.ExternTensor) -> str:
    rank = max(len(t.shape), 1)
    shape = b.value(f"alloca [{rank} x i64], align 8")
    for axis, extent in enumerate(t.shape):
        _store(b, e.text(extent), shape, f"[{rank} x i64]", axis)
    described = external.dlpack_type(t.dtype)
    if described is None:
        raise CompileError(f"codegen: a function of the user's got {t.dtype}; expected an element type of DLPack")
    code, bits = described
    tensor = b.value(f"alloca {_TENSOR}, align 8")
    fields = (f"ptr {e.pointers[t.buffer]}", f"i32 {external.CPU}", "i32 0", f"i32 {len(t.shape)}", f"i8 {code}", f"i8 {bits}",
              "i16 1", f"ptr {shape}", "ptr null", "i64 0")  # fmt: skip
    for number, value in enumerate(fields):
        _store(b, value, tensor, _TENSOR, number)
    return tensor


def _store(b: IRBuilder, value: str, base: str, kind: str, number: int) -> None:
    at = b.value(f"getelementptr inbounds {kind}, ptr {base}, i64 0, i32 {number}")
    b.effect(f"store {value}, ptr {at}")
