"""Steps of training against torch's optimizers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from forge.compose import optimizers
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import run, run_compiled

rng = np.random.default_rng(11)
STEPS = 3


def torch_steps(make: Any, start: np.ndarray, gradients: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = make(torch, [parameter])
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
    result: np.ndarray = parameter.detach().numpy()
    return result


def our_steps(update: Any, first: int, states: int, start: np.ndarray, gradients: Any) -> np.ndarray:
    values = [start, *[np.zeros_like(start)] * states]
    for step, gradient in enumerate(gradients, first):
        parameter, *state = values
        values = run(update, np.float32(0.1), np.array([step]), parameter, gradient, *state)
    return values[0]


@pytest.mark.parametrize(
    ("update", "first", "states", "make"),
    [
        (
            partial(optimizers.adagrad, decay=0.2, epsilon=1e-3, weight_decay=0.01), 0, 1,
            lambda t, p: t.optim.Adagrad(p, 0.1, lr_decay=0.2, eps=1e-3, weight_decay=0.01),
        ),
        (
            partial(optimizers.momentum, alpha=0.8, weight_decay=0.1), 0, 1,
            lambda t, p: t.optim.SGD(p, 0.1, momentum=0.8, weight_decay=0.1),
        ),
        (
            partial(optimizers.momentum, alpha=0.8, nesterov=True), 0, 1,
            lambda t, p: t.optim.SGD(p, 0.1, momentum=0.8, nesterov=True),
        ),
    ],
    ids=["adagrad", "momentum", "nesterov"],
)
def test_steps_are_those_of_torch(update: Any, first: int, states: int, make: Any) -> None:
    start = rng.standard_normal((3, 4)).astype(np.float32)
    gradients = rng.standard_normal((STEPS, 3, 4)).astype(np.float32)
    wanted = torch_steps(make, start, gradients)
    check(our_steps(update, first, states, start, gradients), wanted, Accuracy.ACCUMULATING)


def test_adam_is_that_of_torch_but_for_the_place_of_epsilon() -> None:
    start = rng.standard_normal((3, 4)).astype(np.float32)
    gradients = rng.standard_normal((STEPS, 3, 4)).astype(np.float32)
    wanted = torch_steps(lambda t, p: t.optim.Adam(p, 0.1, (0.7, 0.9), eps=0, weight_decay=0.1), start, gradients)
    update = partial(optimizers.adam, alpha=0.7, beta=0.9, weight_decay=0.1)
    check(our_steps(update, 1, 2, start, gradients), wanted, Accuracy.ACCUMULATING)


def test_before_step_one_adam_takes_the_rate_as_it_is() -> None:
    x, d = np.array([1.0, 2.0], np.float32), np.array([0.5, -1.0], np.float32)
    zero = np.zeros(2, np.float32)
    update = partial(optimizers.adam, alpha=0.5, beta=0.75, epsilon=1.0, weight_decay_after=0.5)
    got, mean, square = run_compiled(update, np.float32(0.1), np.array(0), x, d, zero, zero)
    check(mean, d / 2, Accuracy.ROUNDING)
    check(square, d * d / 4, Accuracy.ROUNDING)
    check(got, (x - np.float32(0.1) * mean / (np.sqrt(square) + 1)) / 2, Accuracy.ROUNDING)


def test_the_first_step_of_momentum_takes_the_whole_gradient() -> None:
    x, d, zero = (np.array(v, np.float32) for v in ([1.0], [2.0], [0.0]))
    update = partial(optimizers.momentum, alpha=0.5, beta=0.25)
    assert run(update, np.float32(0.1), np.array(0), x, d, zero)[1] == 2.0
    assert run(update, np.float32(0.1), np.array(1), x, d, zero)[1] == 0.5
