"""split_recurrent."""

from __future__ import annotations

import pytest

from forge import dtypes
from forge.ir.builder import Builder
from forge.ir.types import TensorType
from forge.passes import split_recurrent
from tests.passes.checks import check, weights


@pytest.mark.parametrize(("op", "gates", "functions"), [("nn.lstm", 4, 3), ("nn.gru", 3, 2), ("nn.rnn", 1, 1)])
def test_input_products_are_taken_out(op: str, gates: int, functions: int) -> None:
    builder = Builder()
    x = builder.input(TensorType((5, 2, 3), "float32"), "x")
    w, r = builder.constant(weights(2, gates * 4, 3)), builder.constant(weights(2, gates * 4, 4))
    numbers = (0.0,) * functions * 2
    attributes = {"activations": ("tanh",) * functions * 2, "activation_alpha": numbers, "activation_beta": numbers}
    results = builder.call_multi(op, x, w, r, **attributes, direction="bidirectional")
    graph = builder.output(*results)
    assert check(split_recurrent.run, graph) == 1
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["nn.dense", op]


def test_products_of_bfloat16_are_float32() -> None:
    builder = Builder()
    x = builder.input(TensorType((5, 2, 3), "float32"), "x")
    w, r = (builder.constant(weights(1, 4, n).astype(dtypes.numpy_dtype("bfloat16"))) for n in (3, 4))
    results = builder.call_multi("nn.rnn", x, w, r, activations=("tanh",), activation_alpha=(0.0,), activation_beta=(0.0,))
    graph = builder.output(*results)
    assert check(split_recurrent.run, graph) == 1
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["cast", "nn.dense", "nn.rnn"]
    assert all(v.dtype == "float32" for n in graph.nodes if n.op in ("nn.dense", "nn.rnn") for v in n.results)


def test_weights_that_arrive_at_run_time_stay() -> None:
    builder = Builder()
    x, w, r = (builder.input(TensorType(s, "float32"), n) for s, n in (((5, 2, 3), "x"), ((1, 4, 3), "w"), ((1, 4, 4), "r")))
    results = builder.call_multi("nn.rnn", x, w, r, activations=("tanh",), activation_alpha=(0.0,), activation_beta=(0.0,))
    assert check(split_recurrent.run, builder.output(*results)) == 0
