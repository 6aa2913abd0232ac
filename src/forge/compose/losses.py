"""Losses: how far predictions are from targets."""

from __future__ import annotations

from forge.compose.checks import checked_indices
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

REDUCTIONS = ("none", "mean", "sum")


def reduced(g: Composer, loss: Value, reduction: str, weight: Value | None = None) -> Value:
    """``loss`` itself, its sum, or its mean: the sum over the sum of ``weight``, absent: over the number of elements.

    Raises:
        OpAttributeInvalid: another reduction than none, mean and sum.
    """
    if reduction not in REDUCTIONS:
        raise g.invalid(f"attribute 'reduction': got {reduction!r}; expected one of {', '.join(REDUCTIONS)}")
    if reduction == "none":
        return loss
    if reduction == "mean" and weight is None:
        return g.call("mean", loss, axis=None, keepdims=False)
    total = g.call("sum", loss, axis=None, keepdims=False)
    if weight is None or reduction == "sum":
        return total
    return g.call("divide", total, g.call("sum", weight, axis=None, keepdims=False))


def nll_loss(
    g: Composer,
    log_probabilities: Value,
    target: Value,
    weight: Value | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
) -> Value:
    """``-weight[t] * log_probabilities[n, t, ...]`` with ``t = target[n, ...]``: the negative log-likelihood of classes.

    ``log_probabilities`` is ``[N, C, ...]``, ``target`` ``[N, ...]``, ``weight`` ``[C]``. Targets equal to ``ignore_index``
    give 0. The mean is weighted: over the sum of the weights of the targets that count.
    """
    index = g.cast(target, "int64")
    ignored = None if ignore_index is None else Term(g, index).equals(ignore_index)
    if ignored is not None:
        index = ignored.where(0, Term(g, index)).value
    index = checked_indices(g, index, log_probabilities.shape[1], from_end=False)
    taken = g.call("gather", log_probabilities, g.call("expand_dims", index, axis=1), axis=1)
    loss = Term(g, g.call("squeeze", taken, axis=(1,))) * -1
    weights = _weights(g, loss.value, index, weight, ignored)
    if weights is not None:
        loss = loss * weights
        if ignored is not None:
            loss = ignored.where(0, loss)
    return reduced(g, loss.value, reduction, None if weights is None else weights.value)


def _weights(g: Composer, like: Value, index: Value, weight: Value | None, ignored: Term | None) -> Term | None:
    """The weight of each target, 0 of those that are ignored; None: all weigh the same."""
    if weight is None and ignored is None:
        return None
    ones = Term(g, g.call("full", g.scalar(1, like), shape=like.shape))
    found = ones if weight is None else Term(g, g.cast(g.call("take", weight, index, axis=0, mode="clip"), like.dtype))
    return found if ignored is None else ignored.where(0, found)


def cross_entropy(
    g: Composer,
    scores: Value,
    target: Value,
    weight: Value | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
) -> tuple[Value, Value]:
    """``nll_loss`` of ``log softmax`` of ``scores`` over axis 1; the loss and the log-probabilities."""
    log_probabilities = g.call("nn.log_softmax", scores, axis=1)
    return nll_loss(g, log_probabilities, target, weight, reduction=reduction, ignore_index=ignore_index), log_probabilities


def mse_loss(g: Composer, prediction: Value, target: Value, *, reduction: str = "mean") -> Value:
    """``(prediction - target)^2``."""
    d = Term(g, prediction) - Term(g, target)
    return reduced(g, (d * d).value, reduction)


def l1_loss(g: Composer, prediction: Value, target: Value, *, reduction: str = "mean") -> Value:
    """``|prediction - target|``."""
    return reduced(g, abs(Term(g, prediction) - Term(g, target)).value, reduction)


def huber_loss(g: Composer, prediction: Value, target: Value, *, delta: float = 1.0, reduction: str = "mean") -> Value:
    """``d^2 / 2`` where ``d = |prediction - target| < delta``, else ``delta * (d - delta / 2)``.

    Divided by ``delta`` it is the smooth L1 loss with that beta.
    """
    d = abs(Term(g, prediction) - Term(g, target))
    return reduced(g, (d < delta).where(d * d * 0.5, (d - 0.5 * delta) * delta).value, reduction)


def binary_cross_entropy(
    g: Composer, probability: Value, target: Value, weight: Value | None = None, *, reduction: str = "mean"
) -> Value:
    """``-(t * log p + (1 - t) * log(1 - p))``, logarithms at least -100, times ``weight``; the mean is over all elements."""
    p, t = Term(g, probability), Term(g, target)
    logs = [Term(g, g.call("log", x.value)).maximum(-100) for x in (p, 1 - p)]
    loss = (t * logs[0] + (1 - t) * logs[1]) * -1
    return reduced(g, (loss if weight is None else loss * Term(g, weight)).value, reduction)


def binary_cross_entropy_with_logits(
    g: Composer, logit: Value, target: Value, weight: Value | None = None, *, reduction: str = "mean"
) -> Value:
    """``binary_cross_entropy`` of ``sigmoid(logit)`` without its overflow: ``max(x, 0) - x * t + log(1 + exp(-|x|))``."""
    x, t = Term(g, logit), Term(g, target)
    tail = Term(g, g.call("log1p", g.call("exp", (abs(x) * -1).value)))
    loss = x.maximum(0) - x * t + tail
    return reduced(g, (loss if weight is None else loss * Term(g, weight)).value, reduction)


def kl_divergence(g: Composer, log_probability: Value, target: Value, *, reduction: str = "mean") -> Value:
    """``t * (log t - log_probability)``, 0 where t is 0."""
    t = Term(g, target)
    loss = t * (Term(g, g.call("log", target)) - Term(g, log_probability))
    return reduced(g, (t > 0).where(loss, 0).value, reduction)
