"""A new instruction for products is rows of its instruction set and one micro-kernel: ``octets``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from forge import dtypes
from forge.driver import check_options
from forge.driver.compiler import compile_module
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.kernels.cpu import micro
from forge.target import Target
from forge.tir.expr import Expr
from tests.kernels.octets import ROWS, OctetProduct
from tests.passes.checks import parse

RNG = np.random.default_rng(5)
TARGETS = pytest.mark.parametrize("target", ["llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
MULTIPLIED: Counter[str] = Counter()
"""By dtype of sums, how many multiply-adds of octets were written since the test began."""


class Counted(OctetProduct):
    def multiply_add(self, a: Expr, b: Expr, total: Expr) -> Expr:
        MULTIPLIED[total.dtype] += 1
        return super().multiply_add(a, b, total)


@pytest.fixture(autouse=True)
def octets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    MULTIPLIED.clear()
    real = Target.isa.func  # type: ignore[attr-defined]
    monkeypatch.setattr(micro, "_KINDS", list(micro._KINDS))
    micro.register(Counted)
    monkeypatch.setattr(Target, "isa", property(lambda target: replace(real(target), dots=ROWS)))
    yield


def normal(*shape: int) -> np.ndarray:
    """Numbers that bfloat16 holds."""
    return RNG.standard_normal(shape).astype(dtypes.numpy_dtype("bfloat16")).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: str) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def results(graph: Graph, target: str, *inputs: np.ndarray, bfloat16: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """What the compiled graph gives, and its meaning in NumPy."""
    compiled = compile_module(Module(graph.copy()), check_options(target, bfloat16=bfloat16), use_cache=False)
    return np.asarray(compiled.runtime()(*inputs)), run_graph(graph, list(inputs))[0]


FLOATS = {
    "dense": ("def @main(%x: Tensor[(7, 64), float32]) { nn.dense(%x, meta[relay.Constant][0]) }", [normal(50, 64)], [(7, 64)]),
    "convolution": (
        "def @main(%x: Tensor[(2, 16, 9, 11), float32]) { nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1, 1, 1]) }",
        [normal(24, 16, 3, 3)], [(2, 16, 9, 11)]),
    "product": (
        "def @main(%a: Tensor[(3, 9, 40), float32], %b: Tensor[(3, 40, 21), float32]) { nn.matmul(%a, %b) }", [],
        [(3, 9, 40), (3, 40, 21)]),
    "attention": (
        """def @main(%q: Tensor[(2, 19, 32), float32], %k: Tensor[(2, 23, 32), float32], %v: Tensor[(2, 23, 24), float32]) {
          %0 = nn.matmul(%q, %k, transpose_b=True);
          %1 = multiply(%0, 0.25f);
          %2 = nn.softmax(%1);
          nn.matmul(%2, %v)
        }""", [], [(2, 19, 32), (2, 23, 32), (2, 23, 24)]),
}


@TARGETS
@pytest.mark.parametrize("name", FLOATS)
def test_bfloat16(name: str, target: str) -> None:
    text, constants, shapes = FLOATS[name]
    found, want = results(parse(text, constants), target, *(normal(*shape) for shape in shapes), bfloat16=True)
    assert MULTIPLIED["float32"] > 0
    np.testing.assert_allclose(found, want, rtol=2e-2, atol=2e-2 * np.abs(want).max())


INTEGERS = {
    "dense": ('def @main(%x: Tensor[(7, 64), uint8]) { nn.dense(%x, meta[relay.Constant][0], out_dtype="int32") }',
              [integers(-128, 128, 50, 64, dtype="int8")], [((7, 64), "uint8")]),
    "convolution": (
        'def @main(%x: Tensor[(2, 16, 9, 11), uint8]) { nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1, 1, 1], '
        'out_dtype="int32") }', [integers(-128, 128, 24, 16, 3, 3, dtype="int8")], [((2, 16, 9, 11), "uint8")]),
    "product": (
        'def @main(%a: Tensor[(9, 40), uint8], %b: Tensor[(40, 21), int8]) { nn.matmul(%a, %b, out_dtype="int32") }', [],
        [((9, 40), "uint8"), ((40, 21), "int8")]),
}
OTHERS = {
    "depthwise": (
        'def @main(%x: Tensor[(2, 16, 9, 11), uint8]) { nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1, 1, 1], groups=16, '
        'out_dtype="int32") }', [integers(-128, 128, 16, 1, 3, 3, dtype="int8")], [((2, 16, 9, 11), "uint8")]),
    "odd depth": ('def @main(%x: Tensor[(7, 60), uint8]) { nn.dense(%x, meta[relay.Constant][0], out_dtype="int32") }',
                  [integers(-128, 128, 50, 60, dtype="int8")], [((7, 60), "uint8")]),
}
"""Products that octets do not divide: they are computed as before."""


@TARGETS
@pytest.mark.parametrize("name", [*INTEGERS, *OTHERS])
def test_bytes(name: str, target: str) -> None:
    text, constants, types = {**INTEGERS, **OTHERS}[name]
    data = [integers(0 if dtype == "uint8" else -128, 256 if dtype == "uint8" else 128, *shape, dtype=dtype)
            for shape, dtype in types]
    found, want = results(parse(text, constants), target, *data)
    blocks_hold_octets = name != "convolution" or target != "llvm -mcpu=x86-64"  # which has blocks of four channels
    assert (MULTIPLIED["int32"] > 0) == (name in INTEGERS and blocks_hold_octets)
    np.testing.assert_array_equal(found, want)
