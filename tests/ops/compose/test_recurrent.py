"""Recurrent layers against torch, with parameters of its layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import recurrent
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import run

X = np.random.default_rng(5).standard_normal((4, 2, 3)).astype(np.float32)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("biased", [False, True])
def test_layers_of_gru(directions: int, biased: bool) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer: Any = torch.nn.GRU(3, 5, num_layers=2, bidirectional=directions == 2, bias=biased)
    parameters = [p.detach().numpy() for p in layer.parameters()]
    first = np.zeros((2 * directions, 2, 5), np.float32)

    def compose(g: Composer, x: Value, h: Value, *given: Value) -> list[Value]:
        each = 4 if biased else 2
        cells = [given[k : k + each] for k in range(0, len(given), each)]
        return recurrent.layers(
            g, "nn.gru", x, [h], cells, activations=("sigmoid", "tanh"), order=(1, 0, 2), directions=directions,
            linear_before_reset=True,
        )

    with torch.no_grad():
        wanted = layer(torch.from_numpy(X), torch.from_numpy(first))
    for got, expected in zip(run(compose, X, first, *parameters), wanted, strict=True):
        check(got, expected.numpy(), Accuracy.ACCUMULATING)


def test_steps() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    cell = torch.nn.LSTMCell(3, 5)
    h, c = (np.random.default_rng(k).standard_normal((2, 5)).astype(np.float32) for k in (6, 7))
    parameters = [p.detach().numpy() for p in cell.parameters()]
    with torch.no_grad():
        wanted = cell(torch.from_numpy(X[0]), (torch.from_numpy(h), torch.from_numpy(c)))
    for got, expected in zip(run(recurrent.lstm_cell, X[0], h, c, *parameters), wanted, strict=True):
        check(got, expected.numpy(), Accuracy.ACCUMULATING)
