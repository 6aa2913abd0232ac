"""Calls of C routines of the runtime: where they may stand, and how they are found."""

from __future__ import annotations

import numpy as np
import pytest

from forge.codegen.compile import compile_modules
from forge.codegen.jit import JitLibrary, routines
from forge.codegen.module import emit_module
from forge.errors import CompileError
from forge.target import Target
from forge.tir import expr as E
from forge.tir import visit
from forge.tir.expr import Buffer
from forge.tir.printer import print_function
from forge.tir.stmt import CallRoutine, Function, Stmt, loop, seq, store
from forge_runtime import include_directory, routine_addresses
from tests.codegen.compiled import build

DATA, OUT = Buffer("data", "string", (E.const(2),), writable=False), Buffer("out", "bool", (E.const(2),))
N = E.var("n")


def comparing(body: Stmt) -> Function:
    return Function("compare", (DATA, OUT), (N,), body)


CALL = CallRoutine("forge_string_equal", (DATA, DATA, OUT), (N, E.const(1)))


def test_a_kernel_calls_a_routine() -> None:
    run = build(comparing(seq(CALL, store(OUT, 0, E.const(True, "bool")))))
    out = np.array([True, True])
    empty = np.zeros((2, 2), np.int64)
    run._call(empty.ctypes.data, out.ctypes.data, 2, 0)  # type: ignore[attr-defined]
    assert out.tolist() == [True, False]


def test_its_text_and_what_it_uses() -> None:
    function = comparing(CALL)
    assert "routine forge_string_equal(data, data, out, n, 1)" in print_function(function)
    assert visit.free_names(CALL) == ([N], [DATA, OUT])


def test_it_stands_outside_of_parallel_loops() -> None:
    function = comparing(loop(E.var("i"), N, CALL, "parallel"))
    with pytest.raises(CompileError, match="routine 'forge_string_equal' is called inside a parallel loop; expected it outside"):
        emit_module([function], Target.parse("llvm"))


def test_an_unknown_routine_is_named() -> None:
    target = Target.parse("llvm")
    text = emit_module([comparing(CallRoutine("forge_no_such", (DATA,)))], target)
    codes = compile_modules([("k", text)], target)
    with pytest.raises(CompileError, match="forge_no_such"):
        JitLibrary(codes, ["forge_kernel_compare"])


def test_only_what_is_needed_is_looked_up() -> None:
    assert list(routines({"forge_string_equal", "memcpy"})) == ["forge_string_equal"]


def test_every_declared_routine_is_listed() -> None:
    lines = (include_directory() / "forge_strings.h").read_text().splitlines()
    declared = {line.split()[1].split("(")[0] for line in lines if line.startswith("FORGE_ROUTINE ")}
    assert len(declared) > 10 and declared - {"forge_string_no_memory"} <= set(routine_addresses())
