"""Estimates of sums of products in narrow types."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forge.target import Target
from forge.target.precision import Contraction, conversion_cycles, speedup

AVX2, PAIRS, SSE2 = (Target.parse(f"llvm -mcpu={cpu}") for cpu in ("haswell", "cooperlake", "x86-64"))
LARGE = 1 << 30


def product(rows: int, depth: int, columns: int, weights: int = LARGE) -> Contraction:
    return Contraction(rows * depth * columns, rows * depth, depth * columns, rows * columns, depth, weights)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_one_row_waits_for_half_of_the_bytes(dtype: str) -> None:
    assert speedup(product(1, 4096, 4096), dtype, AVX2) == pytest.approx(2.0, rel=0.01)
    assert speedup(product(1, 4096, 4096, weights=1000), dtype, AVX2) < 0.5
    assert speedup(product(1, 4096, 4096, weights=0), dtype, AVX2) < 0.5
    assert speedup(product(256, 1024, 1024), dtype, AVX2) < 0.8


def test_pairs_take_half_of_the_time_and_borders_some() -> None:
    assert speedup(product(256, 1024, 1024), "bfloat16", PAIRS) == pytest.approx(2.0, rel=0.02)
    assert speedup(product(256, 8, 1024), "bfloat16", PAIRS) < 1 < speedup(product(256, 8, 1024), "bfloat16", PAIRS, between=True)
    assert speedup(product(256, 1023, 1024), "bfloat16", PAIRS) < 1


def test_tile_registers_take_float16_of_many_rows_only() -> None:
    target = Target.parse("llvm -mcpu=graniterapids")
    rows = product(256, 1024, 1024)
    assert speedup(rows, "float16", target) == pytest.approx(speedup(rows, "bfloat16", target), rel=0.1)
    assert speedup(rows, "float16", target) > 2 > 1 > speedup(replace(rows, tiles=False), "float16", target)
    assert speedup(product(1, 1024, 1024, weights=1000), "float16", target) < 1


def test_fewer_products_are_those_of_float32() -> None:
    sums = product(256, 1024, 1024)
    assert speedup(sums, "bfloat16", PAIRS, fewer=1.0) < 1 <= speedup(sums, "bfloat16", PAIRS, between=True, fewer=1.0)
    assert speedup(sums, "float16", AVX2, between=True, fewer=1.0) < 0.1


def test_conversions_of_several_instructions_take_longer() -> None:
    assert conversion_cycles("bfloat16", PAIRS)[1] < conversion_cycles("bfloat16", AVX2)[1]
    assert conversion_cycles("float16", AVX2)[0] < conversion_cycles("float16", SSE2)[0]


def test_no_products_gain_nothing() -> None:
    assert speedup(product(0, 8, 8), "bfloat16", PAIRS) < 1
