"""Recurrent layers on integers, beside the interpreter's kernels."""

from __future__ import annotations

import numpy as np
import pytest

import forge
from forge.errors import ForgeError
from tests.frontends.tflite.by_operator import sample
from tests.frontends.tflite.writer import Graph, Tensor, model

BATCH, TIME, IN, UNITS = 2, 6, 5, 16


def compare(data: bytes, runs: int = 8) -> None:
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
            inputs = [sample(random, entry) for entry in interpreter.get_input_details()]
            for entry, value in zip(interpreter.get_input_details(), inputs):
                interpreter.set_tensor(entry["index"], value)
            interpreter.invoke()
            found = function(*inputs)
            for one, entry in zip(found if isinstance(found, list | tuple) else [found], interpreter.get_output_details()):
                np.testing.assert_array_equal(one, interpreter.get_tensor(entry["index"]))


def lstm(
    projection: int = 0, *, coupled: bool = False, peephole: bool = False, clip: float = 0.0, is_step: bool = False,
    norm: float = 0.0, units: int = UNITS,
) -> bytes:
    """A layer, or one step of it; ``norm`` is the scale of weights of normalized gates, if any."""
    random, graph, out = np.random.default_rng(0), Graph(), projection or units
    times = () if is_step else (TIME,)

    def integers(dtype: str, bound: int, scale: float, *shape: int) -> Tensor:
        return graph.constant(random.integers(-bound, bound, shape).astype(dtype), scale=scale, zero_point=0)

    x = graph.input((BATCH, *times, IN), "int8", scale=0.02, zero_point=4)
    weights: list[Tensor | None] = [integers("int8", 127, 0.006 + 0.001 * k, units, IN) for k in range(4)]
    recurrent: list[Tensor | None] = [integers("int8", 127, 0.005 + 0.001 * k, units, out) for k in range(4)]
    peepholes: list[Tensor | None] = [integers("int16", 20000, 1e-5, units) if peephole else None for _ in range(3)]
    biases: list[Tensor | None] = [integers("int32", 2000, 0.02 * (0.006 + 0.001 * k), units) for k in range(4)]
    norms = [integers("int16", 20000, norm, units) for _ in range(4)] if norm else []
    if norm:
        biases = [integers("int32", 20000, norm / 1024, units) for _ in range(4)]
    if coupled:
        weights[0] = recurrent[0] = peepholes[0] = biases[0] = None
    project: list[Tensor | None] = [None, None]
    if projection:
        project = [integers("int8", 127, 0.005, out, units), integers("int32", 2000, 0.00004, out)]
    how = {"scale": 0.01, "zero_point": 2} if projection else {"scale": 1 / 128, "zero_point": 0}
    h = graph.tensor((BATCH, out), "int8", is_variable=True, **how)
    c = graph.tensor((BATCH, units), "int16", scale=2.0**-11, zero_point=0, is_variable=True)
    between = [graph.tensor((1,), "int16", scale=0.002, zero_point=0) for _ in range(4)]
    between.append(graph.tensor((1,), "int8", scale=0.008 if projection else 1 / 128, zero_point=-3 if projection else 0))
    graph.outputs = [graph.tensor((BATCH, *times, out), "int8", **how)]
    graph.op(
        "LSTM" if is_step else "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [x, *weights, *recurrent, *peepholes, *biases, *project, h, c, *norms], graph.outputs, intermediates=between,
        fused_activation_function="TANH", cell_clip=clip)
    return model(graph)


@pytest.mark.parametrize("data", [
    lstm(), lstm(coupled=True), lstm(peephole=True), lstm(7), lstm(clip=0.5), lstm(norm=3e-5), lstm(norm=3e-5, units=20),
    lstm(is_step=True), lstm(is_step=True, norm=2e-5)],
    ids=["plain", "coupled", "peephole", "projection", "clip", "norms", "norms-20", "step", "step-norms"])
def test_lstm(data: bytes) -> None:
    compare(data)


@pytest.mark.parametrize("scale", [0.004, 0.016, 0.064])
def test_basic_lstm(scale: float) -> None:
    """One step, whose states are inputs and outputs: the output as uint8, and the cells as int16."""
    random, graph = np.random.default_rng(0), Graph()
    of_bytes, of_cells = {"scale": 1 / 128, "zero_point": 128}, {"scale": 2.0**-11, "zero_point": 0}
    x, h = (graph.input((BATCH, size), "uint8", **of_bytes) for size in (IN, UNITS))
    weights = graph.constant(random.integers(0, 256, (4 * UNITS, IN + UNITS)).astype(np.uint8), scale=scale, zero_point=125)
    bias = graph.constant(random.integers(-4000, 4000, 4 * UNITS).astype(np.int32), scale=scale / 128)
    cells = graph.input((BATCH, UNITS), "int16", **of_cells)
    results = [
        graph.tensor((BATCH, UNITS), "uint8", **of_bytes), graph.tensor((BATCH, UNITS), "int16", **of_cells),
        graph.tensor((BATCH, IN + UNITS), "uint8", **of_bytes),
        graph.tensor((BATCH, 4 * UNITS), "int16", scale=2.0**-12, zero_point=0)]
    graph.op("LSTM", [x, h, weights, bias, cells], results, kernel_type="BASIC", fused_activation_function="TANH", version=2)
    graph.outputs = results[:2]
    compare(model(graph))


def test_other_types_are_refused() -> None:
    graph = Graph()
    x = graph.input((BATCH, IN), "uint8", scale=0.02, zero_point=4)
    matrices = [graph.constant(np.ones((UNITS, size), np.int8), scale=0.01) for size in [IN] * 4 + [UNITS] * 4]
    biases = [graph.constant(np.ones(UNITS, np.int32), scale=0.0002) for _ in range(4)]
    states = [graph.tensor((BATCH, UNITS), kind, scale=2.0**-11, is_variable=True) for kind in ("int8", "int16")]
    graph.outputs = [graph.tensor((BATCH, UNITS), "uint8", scale=0.01)]
    graph.op("LSTM", [x, *matrices, *[None] * 3, *biases, None, None, *states], graph.outputs, fused_activation_function="TANH")
    with pytest.raises(ForgeError, match="got an output of uint8 with quantized states; expected int8"):
        forge.from_tflite(model(graph))


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
    compare(model(graph))
