"""Loads from a table of 16 numbers by indices that are below 16 permute lanes; others gather. Both give the same.

Loads at places that lie in memory permute lanes where these are close to each other, and gather elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest

from forge.codegen.module import emit_module
from forge.target import Target
from forge.tir import expr as E
from forge.tir import stmt
from forge.tir.expr import Buffer
from tests.codegen.compiled import build
from tests.codegen.native import LEVELS, GuardedPage

SIZE = 64


def taken(lanes: int, mask: int, dtype: str = "float32", entries: int = 16) -> stmt.Function:
    """``out[i] = table[codes[i] & mask]``"""
    codes = Buffer("codes", "uint32", (E.const(SIZE),), writable=False)
    table = Buffer("table", dtype, (E.const(entries),), writable=False)
    out, i = Buffer("out", dtype, (E.const(SIZE),)), E.var("i")
    index = E.ramp(i * lanes, 1, lanes)
    place = E.cast(E.load(codes, index) & mask, E.INDEX)
    body = stmt.store(out, index, E.load(table, place))
    return stmt.Function("taken", (codes, table, out), (), stmt.loop(i, E.const(SIZE // lanes), body))


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize(("mask", "dtype", "entries"), [(15, "float32", 16), (7, "float32", 16), (31, "float32", 32),
                                                       (15, "int32", 16), (15, "float32", 32)])
def test_loads_from_small_tables(target: str, lanes: int, mask: int, dtype: str, entries: int) -> None:
    rng = np.random.default_rng(lanes)
    codes, table = rng.integers(0, 1 << 32, SIZE, dtype=np.uint32), (rng.standard_normal(entries) * 100).astype(dtype)
    out = np.zeros(SIZE, dtype)
    build(taken(lanes, mask, dtype, entries), target)(codes, table, out)
    np.testing.assert_array_equal(out, table[codes & mask])


@pytest.mark.parametrize(("cpu", "lanes", "instruction"), [
    ("x86-64-v4", 16, "avx512.permvar.sf.512"), ("x86-64-v3", 8, "avx2.permps"), ("x86-64-v2", 4, "gather"),
])
def test_instructions(cpu: str, lanes: int, instruction: str) -> None:
    assert instruction in emit_module([taken(lanes, 15)], Target.parse(f"llvm -mcpu={cpu}"))
    assert "perm" not in emit_module([taken(lanes, 31)], Target.parse(f"llvm -mcpu={cpu}"))


WHERE = {
    "one": np.full(SIZE, 99),
    "every second twice": np.arange(SIZE) // 2 + 100 - SIZE // 2,
    "all": np.arange(SIZE) + 100 - SIZE,
    "too far for a register": np.arange(SIZE) * 3 // 2 + 3,
    "backwards": 99 - np.arange(SIZE),
    "outside of the first and last lane": np.where(np.arange(SIZE) % 4 == 1, 99, 90),
    "before the first lane": np.where(np.arange(SIZE) % 4 == 2, 0, 99),
    "outside of the data": np.arange(SIZE) * 5 - 100,
}


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("case", WHERE)
def test_loads_at_places_in_memory(target: str, lanes: int, case: str) -> None:
    """Of the hundred elements that end at a page that cannot be read."""
    where, out = WHERE[case].astype(np.int64), np.zeros(SIZE, np.float32)
    data = GuardedPage().array(np.random.default_rng(0).standard_normal(100).astype(np.float32))
    build(placed(lanes), target)(where, data, out)
    np.testing.assert_array_equal(out, data[np.clip(where, 0, 99)])


def placed(lanes: int) -> stmt.Function:
    """``out[i] = data[max(min(where[i], 99), 0)]``"""
    where, out = Buffer("where", "int64", (E.const(SIZE),), writable=False), Buffer("out", "float32", (E.const(SIZE),))
    data, i = Buffer("data", "float32", (E.const(100),), writable=False), E.var("i")
    index = E.ramp(i * lanes, 1, lanes)
    place = E.binary("max", E.binary("min", E.load(where, index), E.const(99)), E.const(0))
    body = stmt.store(out, index, E.load(data, place))
    return stmt.Function("placed", (where, data, out), (), stmt.loop(i, E.const(SIZE // lanes), body))


@pytest.mark.parametrize(("cpu", "lanes", "instruction"), [
    ("x86-64-v4", 16, "avx512.permvar.sf.512"), ("x86-64-v3", 8, "avx2.permps"), ("x86-64-v3", 4, "avx.vpermilvar.ps"),
])
def test_places_in_memory_permute(cpu: str, lanes: int, instruction: str) -> None:
    assert instruction in emit_module([placed(lanes)], Target.parse(f"llvm -mcpu={cpu}"))
