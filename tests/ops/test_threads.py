"""Operators on tensors that are large enough to be divided: the pool's threads give the bits that one thread gives."""

from __future__ import annotations

import numpy as np
import pytest

from forge.driver.compiler import compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.interp import run_module
from forge.ir.types import TensorType
from tests.ops import harness
from tests.ops.case import Case, f32, i64, row

CASES = [
    row("exp", [f32(300, 1000)]), row("sum", [f32(300, 1000)], axis=1), row("sum", [f32(300, 1000)], axis=0),
    row("sum", [f32(300, 1000, low=0, high=1)]),  # of one sign: the error of a sum is relative to that of the magnitudes
    row("argmax", [f32(300, 1000)], axis=1), row("nn.softmax", [f32(300, 1000)]),
    row("nn.layer_norm", [f32(300, 1000), f32(1000), f32(1000)]), row("transpose", [f32(300, 1000)]),
    row("sort", [f32(300, 1000)]), row("cumsum", [f32(300, 1000)], axis=1), row("cumsum", [f32(300000)], axis=0),
    row("take", [f32(300, 1000), i64(400, low=-300, high=299)], axis=0),
    row("scatter_elements", [f32(300, 1000), i64(300, 1000, low=0, high=299), f32(300, 1000)], axis=0, reduction="add"),
    row("nn.matmul", [f32(200, 300), f32(300, 257)]), row("nn.conv2d", [f32(2, 16, 40, 40), f32(24, 16, 3, 3)], padding=(1, 1)),
    row("nn.max_pool2d", [f32(4, 16, 60, 60)], pool_size=(3, 3), strides=(2, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=[c.id for c in CASES])
def test_threads_do_not_change_results(case: Case) -> None:
    runtime = compile_module(harness.module_of(case), use_cache=False).runtime()
    inputs = harness.input_arrays(case)
    results = []
    for threads in (1, 2, 3):
        runtime.set_num_threads(threads)
        results.append(np.asarray(runtime(*inputs)))
    harness.check_result(case, results[0], np.asarray(harness.run_reference(case)[0]))
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


@pytest.mark.parametrize(("op", "gates", "functions"), [
    ("nn.lstm", 4, ("sigmoid", "tanh", "tanh")), ("nn.gru", 3, ("sigmoid", "tanh")), ("nn.rnn", 1, ("tanh",))])
def test_threads_share_the_steps_of_a_recurrent_layer(op: str, gates: int, functions: tuple[str, ...]) -> None:
    """Hidden sizes whose tiles do not divide evenly among threads."""
    rng, hidden = np.random.default_rng(0), 400
    zeros = (0.0,) * len(functions)
    options = {"activations": functions, "activation_alpha": zeros, "activation_beta": zeros}
    b = Builder()
    x = b.input(TensorType((5, 1, 7), "float32"), "x")
    weights = [b.constant(rng.standard_normal((1, gates * hidden, k)).astype(np.float32) / 20) for k in (7, hidden)]
    module = Module(b.output(*b.call_multi(op, x, *weights, **options)))
    data = rng.standard_normal((5, 1, 7)).astype(np.float32)
    runtime = compile_module(module, use_cache=False).runtime()
    found = []
    for threads in (1, 2, 3):
        runtime.set_num_threads(threads)
        found.append(runtime(data))
    for one, two, three, wanted in zip(*found, run_module(module, {"x": data}), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)
        assert one.tobytes() == two.tobytes() == three.tobytes()
