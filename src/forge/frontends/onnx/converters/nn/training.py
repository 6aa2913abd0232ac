"""Losses, and steps of training.

A node of the latter updates any number of parameters: all parameters come first, then all gradients, then all states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from forge.compose import losses, optimizers
from forge.frontends.converter import forwarding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    g: Context, scores: Value, labels: Value, weights: Value | None = None,
    *, ignore_index: int | None = None, reduction: str = "mean",
) -> list[Value]:
    return list(losses.cross_entropy(g, scores, labels, weights, reduction=reduction, ignore_index=ignore_index))[: g.num_outputs]


DOMAIN = "ai.onnx.preview.training"
Update = Callable[..., Sequence[Value]]

converts("NegativeLogLikelihoodLoss", since=12)(forwarding(losses.nll_loss, 2, 1, ignore_index=None, reduction="mean"))


def _updated(g: Context, update: Update, rate: Value, step: Value, tensors: Sequence[Value], kinds: int) -> list[Value]:
    """``update(g, rate, step, parameter, gradient, *states)`` for each parameter; results by kind."""
    count, rest = divmod(len(tensors), kinds)
    if rest or not count:
        raise g.invalid(f"got {len(tensors)} tensors; expected {kinds} for each parameter")
    results = [update(g, rate, step, *tensors[i::count]) for i in range(count)]
    return [value for kind in zip(*results) for value in kind]


@converts("Adagrad", since=1, domain=DOMAIN)
def adagrad(
    g: Context, rate: Value, step: Value, *tensors: Value, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> list[Value]:
    update = partial(optimizers.adagrad, decay=decay_factor, epsilon=epsilon, weight_decay=norm_coefficient)
    return _updated(g, update, rate, step, tensors, 3)


@converts("Adam", since=1, domain=DOMAIN)
def adam(
    g: Context, rate: Value, step: Value, *tensors: Value, alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> list[Value]:
    update = partial(
        optimizers.adam, alpha=alpha, beta=beta, epsilon=epsilon, weight_decay=norm_coefficient,
        weight_decay_after=norm_coefficient_post,
    )
    return _updated(g, update, rate, step, tensors, 4)


@converts("Momentum", since=1, domain=DOMAIN)
def momentum(
    g: Context, rate: Value, step: Value, *tensors: Value, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> list[Value]:
    if mode not in ("standard", "nesterov"):
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected standard or nesterov")
    update = partial(
        optimizers.momentum, alpha=alpha, beta=beta, weight_decay=norm_coefficient, nesterov=mode == "nesterov"
    )
    return _updated(g, update, rate, step, tensors, 3)
