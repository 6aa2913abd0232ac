"""Scales for the inputs of dense layers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from forge.ir.interp import run_graph
from forge.quantization.places.layers import layers_of
from forge.quantization.weights.activation_scales import Rescaled, best_scales, divided, rescale
from forge.quantization.weights.rounding import fit_steps, nearest
from tests.quantization.models import Net
from tests.quantization.nets import OPTIONS

ROUND = partial(nearest, group=16, fit=fit_steps(4, True))


def test_columns_of_large_inputs_lose_less() -> None:
    rng = np.random.default_rng(0)
    size = np.r_[np.full(4, 30.0), np.ones(28)]
    data, weight = (rng.standard_normal((200, 32)) * size).astype(np.float32), rng.standard_normal((8, 32)).astype(np.float32)
    scales = best_scales([weight], data.T @ data, ROUND)
    assert scales is not None and scales[:4].min() > 1.5 * scales[4:].max()
    lost = [np.square(data @ (w - weight).T).sum() for w in (ROUND(weight).real, ROUND(weight * scales).real / scales)]
    assert lost[1] < 0.7 * lost[0]


def test_equal_inputs_need_no_scales() -> None:
    weight = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32)
    assert best_scales([weight], np.eye(32), ROUND) is None and best_scales([weight], np.zeros((32, 32)), ROUND) is None


@pytest.mark.parametrize("before", ["nn.layer_norm", "nn.dense", "sqrt"])
def test_the_model_computes_the_same(before: str) -> None:
    """What makes the input is divided, or else the input itself."""
    net = Net(32)
    spread = net.builder.constant(np.r_[np.full(4, 40), np.ones(28)].astype(np.float32))
    if before == "nn.layer_norm":
        hidden = net.call("nn.layer_norm", net.x, spread, axis=-1)
    else:
        hidden = net.call("nn.relu", net.call("multiply", net.dense(net.x, 32), spread))
        hidden = hidden if before == "nn.dense" else net.call("sqrt", hidden)
    ir = net.module(net.dense(hidden, 8))
    graph, layer = ir.mod.main, layers_of(ir.mod.main)[-1]
    samples = [{"x": x} for x in net.samples(4, batch=32)]
    expected, done = [run_graph(graph, [s["x"]])[0] for s in samples], Rescaled()
    weight = layer.array.copy()
    rescale(ir.mod, [layer], samples, OPTIONS, ROUND, done)
    assert done.nodes == {layer.node} and not np.allclose(layer.array, weight)
    assert (layer.inputs[0].producer.op == "multiply") == (before == "sqrt")  # type: ignore[union-attr]
    for sample, wanted in zip(samples, expected):
        np.testing.assert_allclose(run_graph(graph, [sample["x"]])[0], wanted, rtol=2e-4, atol=2e-4)


def test_a_value_that_others_read_is_not_divided() -> None:
    net = Net(32)
    made = net.dense(net.x, 32)
    net.module(net.dense(made, 8), net.call("abs", made))
    layer = layers_of(net.builder.graph)[-1]
    assert divided(net.builder.graph, made, {layer.node}) is None
    assert divided(net.builder.graph, made, {user for user, _ in made.uses}) is not None
