"""Real numbers as bytes: rounded, with a zero point and between bounds, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from forge.codegen.module import emit_module
from forge.target import Target
from forge.tir import expr as tir
from forge.tir import interpret as interp
from forge.tir import stmt
from forge.tir.expr import Buffer, Expr
from tests.codegen.compiled import build
from tests.codegen.native import LEVELS

EDGES = [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, 254.5, 255.0, 255.5, 256.0, -7.5, -8.5, 3e9, -3e9, 1e38,
         2.0**31, -(2.0**31), 247.5, 248.5]
NUMBERS = np.concatenate([EDGES, np.random.default_rng(3).uniform(-300, 300, 42)]).astype(np.float32)


def function(lanes: int, zero: float | str | None, low: int, high: int, rounds: bool = True) -> stmt.Function:
    """``uint8(clip(round(x) + zero))`` of 64 numbers; ``zero``: "read": from memory, where it is known to be whole."""
    x, y = Buffer("x", "float32", (tir.const(64),), writable=False), Buffer("y", "uint8", (tir.const(64),))
    z = Buffer("z", "float32", (tir.const(1),), writable=False, whole=True)

    def number(at: Expr) -> Expr:
        value = tir.load(x, tir.ramp(at, 1, lanes))
        value = tir.call("round", value) if rounds else value
        if zero is not None:
            value = value + (tir.load(z, 0) if isinstance(zero, str) else zero)
        return tir.cast(tir.binary("min", tir.binary("max", value, float(low)), float(high)), "uint8")

    k = tir.var("k")
    body = stmt.loop(k, 64 // lanes, stmt.store(y, tir.ramp(k * lanes, 1, lanes), number(k * lanes)), "serial")
    return stmt.Function("narrow", (x, z, y), (), body)


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize(("zero", "low", "high", "rounds"), [
    (None, 0, 255, True), (8.0, 0, 255, True), ("read", 0, 255, True), ("read", 0, 200, True), (255.0, 0, 255, True),
    (8.0, 3, 255, True), (0.5, 0, 255, True), (-3.0, 0, 255, True), (None, 0, 255, False), (8.0, 0, 99, False),
])
def test_as_the_interpreter_has_it(target: str, lanes: int, zero: float | str | None, low: int, high: int, rounds: bool) -> None:
    made = function(lanes, zero, low, high, rounds)
    got, want = np.full(64, 77, np.uint8), np.full(64, 77, np.uint8)
    shift = np.array([8.0], np.float32)
    build(made, target)(NUMBERS, shift, got)
    interp.run(made, [NUMBERS, shift, want])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("cpu", "lanes", "conversion"), [
    ("x86-64", 4, "sse2.cvtps2dq"), ("x86-64-v3", 8, "avx.cvt.ps2dq.256"), ("x86-64-v4", 16, "avx512.mask.cvtps2dq.512"),
])
def test_the_conversion_rounds(cpu: str, lanes: int, conversion: str) -> None:
    text = emit_module([function(lanes, 8.0, 0, 255)], Target.parse(f"llvm -mcpu={cpu}"))
    assert conversion in text and "roundeven" not in text
