"""recurrent_codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.types import TensorType
from forge.passes import recurrent_codes
from tests.passes.checks import check

LAYERS = [("nn.lstm", 4, 3), ("nn.gru", 3, 2), ("nn.rnn", 1, 1)]
INPUTS, HIDDEN = 6, 8
RNG = np.random.default_rng(1)


def layer(op: str, gates: int, functions: int, w: Any, r: Any, **attributes: Any) -> Graph:
    """``w`` and ``r`` are codes, scale, zero point or None, and the axis of those."""
    builder = Builder()
    x = builder.input(TensorType((5, 2, INPUTS), "float32"), "x")

    def real(codes: np.ndarray, scale: Any, zero: Any = None, axis: int = 1) -> Any:
        points = None if zero is None else builder.constant(zero)
        return builder.call("qnn.dequantize", builder.constant(codes), builder.constant(np.float32(scale)), points, axis=axis)

    numbers = (0.0,) * functions * 2
    attributes |= {"activations": ("tanh",) * functions * 2, "activation_alpha": numbers, "activation_beta": numbers}
    return builder.output(*builder.call_multi(op, x, real(*w), real(*r), direction="bidirectional", **attributes))


def codes(gates: int, depth: int, dtype: Any = np.int8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, (2, gates * HIDDEN, depth), endpoint=True).astype(dtype)


def scales(gates: int) -> np.ndarray:
    return RNG.uniform(0.001, 0.01, gates * HIDDEN).astype(np.float32)


@pytest.mark.parametrize(("op", "gates", "functions"), LAYERS)
def test_codes_stay(op: str, gates: int, functions: int) -> None:
    graph = layer(op, gates, functions, (codes(gates, INPUTS), scales(gates)), (codes(gates, HIDDEN), 0.01))
    assert check(recurrent_codes.run, graph) == 2
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["nn.pad", "qnn.dequantize", "nn.dense", op]
    after = graph.nodes[-1]
    assert after.operands[1] is None
    assert after.operands[2] is not None
    assert after.operands[2].dtype == "int8"


def test_a_scale_for_each_direction() -> None:
    graph = layer("nn.gru", 3, 2, (codes(3, INPUTS), [0.01, 0.02], None, 0), (codes(3, HIDDEN), [0.02, 0.01], None, 0))
    assert check(recurrent_codes.run, graph) == 2


@pytest.mark.parametrize("zero", [128, 3])
def test_codes_of_uint8_are_int8(zero: int) -> None:
    """With a zero point only where they are not int8 without it."""
    point = np.uint8(zero)
    graph = layer("nn.rnn", 1, 1, (codes(1, INPUTS, np.uint8), 0.01, point), (codes(1, HIDDEN, np.uint8), 0.01, point))
    assert check(recurrent_codes.run, graph) == 2
    names = [o.name for o in graph.nodes[-1].op_def.operands]
    given = dict(zip(names, graph.nodes[-1].op_def.arguments(graph.nodes[-1].operands)))
    assert given["r"] is not None
    assert given["r"].dtype == "int8"
    assert (given["r_zero_point"] is None) == (zero == 128)


def test_what_is_refused_says_why() -> None:
    wide = RNG.integers(-999, 999, (2, HIDDEN, HIDDEN)).astype(np.int16)
    by_column = RNG.uniform(0.001, 0.01, HIDDEN).astype(np.float32)
    for r, reason in (((wide, 0.01), "of int16"), ((codes(1, HIDDEN), by_column, None, 2), "no scales of rows")):
        graph = layer("nn.rnn", 1, 1, (codes(1, INPUTS), 0.01), r)
        assert check(recurrent_codes.run, graph) == 0, reason


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(("op", "gates", "functions"), LAYERS)
def test_no_float_copy_is_stored(op: str, gates: int, functions: int, dtype: Any, target: str) -> None:
    zero = None if dtype == np.int8 else np.uint8(128)
    graph = layer(op, gates, functions, (codes(gates, INPUTS, dtype), scales(gates), zero and np.full(gates * HIDDEN, zero)),
                  (codes(gates, HIDDEN, dtype), scales(gates), zero and np.full(gates * HIDDEN, zero)))
    compiled = compile_module(Module(graph), check_options(target=target), use_cache=False)
    large = [w for _, w in compiled.weights.entries if w.size > 4 * gates * HIDDEN]
    assert large
    assert {w.dtype for w in large} <= {np.dtype(np.int8), np.dtype(np.uint8)}
