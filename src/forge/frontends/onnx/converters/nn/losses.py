"""Losses."""

from __future__ import annotations

from forge.compose import losses
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(
    g: Context, x: Value, target: Value, weight: Value | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Value:
    return losses.nll_loss(g, x, target, weight, reduction=reduction, ignore_index=ignore_index)


@converts("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    g: Context, scores: Value, labels: Value, weights: Value | None = None,
    *, ignore_index: int | None = None, reduction: str = "mean",
) -> list[Value]:
    return list(losses.cross_entropy(g, scores, labels, weights, reduction=reduction, ignore_index=ignore_index))[: g.num_outputs]
