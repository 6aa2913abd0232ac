"""Random integer and boolean expressions: compiled code against the interpreter, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from forge import dtypes
from forge.tir import expr as tir
from forge.tir.expr import Expr
from tests.codegen.native import assert_identical, interpret_map, map_function, run_map

TYPES = ("bool", "int8", "uint16", "int32", "uint32", "int64", "uint64")
OPS = ("add", "sub", "mul", "truncdiv", "truncmod", "floordiv", "floormod", "min", "max", "and", "or", "xor", "shl", "shr")


class Generator:
    """Expressions over given leaves; everything is drawn from one seed."""

    def __init__(self, seed: int, leaves: tuple[Expr, ...]) -> None:
        self.rng = np.random.default_rng(seed)
        self.leaves = leaves

    def draw(self, dtype: str, depth: int) -> Expr:
        if depth == 0 or self.rng.random() < 0.1:
            return self._leaf(dtype)
        return self._condition(depth) if dtype == "bool" else self._number(dtype, depth)

    def _leaf(self, dtype: str) -> Expr:
        if self.rng.random() < 0.3:
            return tir.const(int(self.rng.integers(-9, 10)), dtype, self.leaves[0].lanes)
        return tir.cast(self.leaves[self.rng.integers(len(self.leaves))], dtype)

    def _condition(self, depth: int) -> Expr:
        if self.rng.random() < 0.3:
            op = self.rng.choice(["and", "or", "xor"])
            return tir.binary(str(op), self.draw("bool", depth - 1), self.draw("bool", depth - 1))
        dtype = str(self.rng.choice(TYPES[1:]))
        op = str(self.rng.choice(sorted(tir.COMPARE_OPS)))
        return tir.compare(op, self.draw(dtype, depth - 1), self.draw(dtype, depth - 1))

    def _number(self, dtype: str, depth: int) -> Expr:
        choice = self.rng.random()
        if choice < 0.15:
            return tir.select(self.draw("bool", depth - 1), self.draw(dtype, depth - 1), self.draw(dtype, depth - 1))
        if choice < 0.3:
            return tir.cast(self.draw(str(self.rng.choice(TYPES)), depth - 1), dtype)
        op = str(self.rng.choice(OPS))
        return tir.binary(op, self.draw(dtype, depth - 1), self.draw(dtype, depth - 1))


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = []
    for dtype in TYPES[1:]:
        low, high = dtypes.integer_range(dtype)
        near = rng.integers(max(low, -5), 6, 32)
        far = rng.integers(low, high, 32, dtype=dtypes.numpy_dtype(dtype), endpoint=True)
        inputs.append(np.where(rng.random(32) < 0.5, near.astype(far.dtype), far))
    result = TYPES[seed % len(TYPES)]
    function = map_function(TYPES[1:], result, lambda *leaves: Generator(seed, leaves).draw(result, 5), lanes=(1, 4, 8)[seed % 3])
    target = ("llvm", "llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3")[seed % 3]
    assert_identical(run_map(function, inputs, target), interpret_map(function, inputs))
