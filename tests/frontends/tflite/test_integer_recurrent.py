"""Recurrent layers on integers, beside the interpreter's kernels."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from tests.frontends.tflite.writer import Graph, Tensor, model

BATCH, TIME, IN, UNITS = 2, 6, 5, 16


def compare(data: bytes, *shape: int, runs: int = 8) -> None:
    """Compiled code and the interpreter, from the same zero states on."""
    interpreters = pytest.importorskip("ai_edge_litert.interpreter")
    random = np.random.default_rng(1)
    module = forge.from_tflite(data)
    for how in ((), ("reference",)):
        interpreter = interpreters.Interpreter(
            model_content=data, experimental_op_resolver_type=interpreters.OpResolverType.BUILTIN_REF)
        interpreter.allocate_tensors()
        function = module.get_inference_function(*how)
        for _ in range(runs):
            x = random.integers(-128, 128, shape).astype(np.int8)
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
            interpreter.invoke()
            np.testing.assert_array_equal(function(x), interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def lstm(projection: int = 0, *, coupled: bool = False, peephole: bool = False, clip: float = 0.0) -> bytes:
    random, graph, out = np.random.default_rng(0), Graph(), projection or UNITS

    def integers(dtype: str, bound: int, scale: float, *shape: int) -> Tensor:
        return graph.constant(random.integers(-bound, bound, shape).astype(dtype), scale=scale, zero_point=0)

    x = graph.input((BATCH, TIME, IN), "int8", scale=0.02, zero_point=4)
    weights: list[Tensor | None] = [integers("int8", 127, 0.006 + 0.001 * k, UNITS, IN) for k in range(4)]
    recurrent: list[Tensor | None] = [integers("int8", 127, 0.005 + 0.001 * k, UNITS, out) for k in range(4)]
    peepholes: list[Tensor | None] = [integers("int16", 20000, 1e-5, UNITS) if peephole else None for _ in range(3)]
    biases: list[Tensor | None] = [integers("int32", 2000, 0.02 * (0.006 + 0.001 * k), UNITS) for k in range(4)]
    if coupled:
        weights[0] = recurrent[0] = peepholes[0] = biases[0] = None
    project: list[Tensor | None] = [None, None]
    if projection:
        project = [integers("int8", 127, 0.005, out, UNITS), integers("int32", 2000, 0.00004, out)]
    how = {"scale": 0.01, "zero_point": 2} if projection else {"scale": 1 / 128, "zero_point": 0}
    h = graph.tensor((BATCH, out), "int8", is_variable=True, **how)
    c = graph.tensor((BATCH, UNITS), "int16", scale=2.0**-11, zero_point=0, is_variable=True)
    between = [graph.tensor((1,), "int16", scale=0.002, zero_point=0) for _ in range(4)]
    between.append(graph.tensor((1,), "int8", scale=0.008 if projection else 1 / 128, zero_point=-3 if projection else 0))
    graph.outputs = [graph.tensor((BATCH, TIME, out), "int8", **how)]
    graph.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *weights, *recurrent, *peepholes, *biases, *project, h, c], graph.outputs,
        intermediates=between, fused_activation_function="TANH", cell_clip=clip)
    return model(graph)


@pytest.mark.parametrize("data", [
    lstm(), lstm(coupled=True), lstm(peephole=True), lstm(7), lstm(clip=0.5)],
    ids=["plain", "coupled", "peephole", "projection", "clip"])
def test_lstm(data: bytes) -> None:
    compare(data, BATCH, TIME, IN)


def test_svdf() -> None:
    """Its activation function is not computed."""
    random, graph, memory, rank = np.random.default_rng(0), Graph(), 5, 2
    x = graph.input((BATCH, IN), "int8", scale=0.02, zero_point=3)
    features = graph.constant(random.integers(-127, 128, (2 * UNITS, IN)).astype(np.int8), scale=0.01, zero_point=0)
    times = graph.constant(random.integers(-3000, 3000, (2 * UNITS, memory)).astype(np.int16), scale=0.0001, zero_point=0)
    bias = graph.constant(random.integers(-20000, 20000, UNITS).astype(np.int32), scale=0.0005 * 0.0001, zero_point=0)
    state = graph.tensor((BATCH, 2 * UNITS * memory), "int16", scale=0.0005, zero_point=0, is_variable=True)
    graph.outputs = [graph.tensor((BATCH, UNITS), "int8", scale=0.03, zero_point=-5)]
    graph.op("SVDF", [x, features, times, bias, state], graph.outputs, rank=rank, fused_activation_function="RELU")
    compare(model(graph), BATCH, IN)
