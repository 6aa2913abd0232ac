"""Losses: how far predictions are from targets."""

from __future__ import annotations

from forge import dims
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

    ``log_probabilities`` is ``[N, C, ...]``, ``target`` ``[N, ...]``, ``weight`` ``[C]``; or ``[C]`` and a scalar. Targets equal
    to ``ignore_index`` give 0. The mean is weighted: over the sum of the weights of the targets that count.
    """
    if log_probabilities.rank == 1:
        row, only = g.reshape(log_probabilities, (1, *log_probabilities.shape)), g.reshape(target, (1,))
        return g.reshape(nll_loss(g, row, only, weight, reduction=reduction, ignore_index=ignore_index), ())
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
    ones = Term(g, g.call("full", g.scalar(1, like), shape=index.shape))
    found = ones if weight is None else Term(g, g.cast(g.call("take", weight, index, axis=0, mode="clip"), like.dtype))
    return found if ignored is None else ignored.where(0, found)


def counted_weight(g: Composer, like: Value, target: Value, weight: Value | None, ignore_index: int) -> Value:
    """The sum of the weights, of the type of ``like``, of the targets that count: what the mean of `nll_loss` divides by."""
    ignored = Term(g, target).equals(ignore_index)
    weights = _weights(g, like, ignored.where(0, Term(g, target)).value, weight, ignored)
    assert weights is not None
    return g.call("sum", weights.value, axis=None, keepdims=False)


def cross_entropy(
    g: Composer,
    scores: Value,
    target: Value,
    weight: Value | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
) -> tuple[Value, Value]:
    """``nll_loss`` of ``log softmax`` of ``scores`` over axis 1, or those of a vector; the loss and the log-probabilities.

    ``label_smoothing`` is the share of each target that is spread over all classes.
    """
    axis = min(1, scores.rank - 1)
    log_probabilities = g.call("nn.log_softmax", scores, axis=axis)
    sharp = nll_loss(g, log_probabilities, target, weight, reduction=reduction, ignore_index=ignore_index)
    if not label_smoothing:
        return sharp, log_probabilities
    ignored = None if ignore_index is None else Term(g, target).equals(ignore_index)
    spread = _over_classes(g, log_probabilities, weight, axis)
    if ignored is not None:
        spread = ignored.where(0, spread)
    index = target if ignored is None else ignored.where(0, Term(g, target)).value
    weights = _weights(g, scores, index, weight, ignored) if reduction == "mean" else None
    smooth = Term(g, reduced(g, spread.value, reduction, None if weights is None else weights.value))
    share = label_smoothing / _classes(g, scores, axis)
    return (Term(g, sharp) * (1 - label_smoothing) + smooth * share).value, log_probabilities


def soft_cross_entropy(
    g: Composer, scores: Value, target: Value, weight: Value | None = None,
    *, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Value:
    """``-sum over classes of weight * target * log softmax(scores)``; ``target`` has the probability of each class.

    Classes are along axis 1, or those of a vector; ``label_smoothing`` is the share of each target that is spread over all.
    """
    axis = min(1, scores.rank - 1)
    log_probabilities = g.call("nn.log_softmax", scores, axis=axis)
    t = Term(g, target)
    if label_smoothing:
        t = t * (1 - label_smoothing) + label_smoothing / _classes(g, target, axis)
    return reduced(g, _over_classes(g, log_probabilities, weight, axis, t).value, reduction)


def _classes(g: Composer, x: Value, axis: int) -> int:
    count = x.shape[axis]
    if not isinstance(count, int):
        raise g.unsupported(f"label_smoothing: got a symbolic number of classes, {count}; supported: a number")
    return count


def _over_classes(g: Composer, log_probabilities: Value, weight: Value | None, axis: int, target: Term | None = None) -> Term:
    """``-sum over c of weight[c] * target[c] * log_probabilities[c]``."""
    total = Term(g, log_probabilities) if target is None else Term(g, log_probabilities) * target
    if weight is not None:
        total = total * Term(g, g.reshape(weight, [-1 if k == axis else 1 for k in range(log_probabilities.rank)]))
    return Term(g, g.call("sum", total.value, axis=axis, keepdims=False)) * -1


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


def smooth_l1_loss(g: Composer, prediction: Value, target: Value, *, beta: float = 1.0, reduction: str = "mean") -> Value:
    """`huber_loss` over ``beta``; 0: `l1_loss`."""
    if beta == 0:
        return l1_loss(g, prediction, target, reduction=reduction)
    loss = Term(g, huber_loss(g, prediction, target, delta=beta, reduction="none"))
    return reduced(g, (loss / beta).value, reduction)


def soft_margin_loss(g: Composer, prediction: Value, target: Value, *, reduction: str = "mean") -> Value:
    """``log(1 + exp(-t * prediction))``, with targets of 1 and -1."""
    product = Term(g, prediction) * Term(g, target) * -1
    return reduced(g, g.call("log1p", g.call("exp", product.value)), reduction)


def binary_cross_entropy(
    g: Composer, probability: Value, target: Value, weight: Value | None = None, *, reduction: str = "mean"
) -> Value:
    """``-(t * log p + (1 - t) * log(1 - p))``, logarithms at least -100, times ``weight``; the mean is over all elements."""
    p, t = Term(g, probability), Term(g, target)
    logs = [Term(g, g.call("log", x.value)).maximum(-100) for x in (p, 1 - p)]
    loss = (t * logs[0] + (1 - t) * logs[1]) * -1
    return reduced(g, (loss if weight is None else loss * Term(g, weight)).value, reduction)


def binary_cross_entropy_with_logits(
    g: Composer, logit: Value, target: Value, weight: Value | None = None, positive_weight: Value | None = None,
    *, reduction: str = "mean",
) -> Value:
    """``binary_cross_entropy`` of ``sigmoid(logit)`` without its overflow: ``max(x, 0) - x * t + log(1 + exp(-|x|))``.

    ``positive_weight`` multiplies what positive targets contribute.
    """
    x, t = Term(g, logit), Term(g, target)
    if positive_weight is None:
        tail = Term(g, g.call("log1p", g.call("exp", (abs(x) * -1).value)))
        loss = x.maximum(0) - x * t + tail
    else:
        softplus = Term(g, g.call("nn.softplus", (x * -1).value))
        loss = (1 - t) * x + ((Term(g, positive_weight) - 1) * t + 1) * softplus
    return reduced(g, (loss if weight is None else loss * Term(g, weight)).value, reduction)


def kl_divergence(
    g: Composer, log_probability: Value, target: Value, *, reduction: str = "mean", log_target: bool = False
) -> Value:
    """``t * (log t - log_probability)``, with 0 for ``t * log t`` where t is 0; ``log_target``: the target is log t."""
    t = Term(g, target)
    if log_target:
        loss = Term(g, g.call("exp", target)) * (t - Term(g, log_probability))
    else:
        loss = t.equals(0).where(0, t * Term(g, g.call("log", target))) - t * Term(g, log_probability)
    return reduced(g, loss.value, reduction)


def multilabel_margin_loss(g: Composer, scores: Value, target: Value, *, reduction: str = "mean") -> tuple[Value, Value]:
    """The sum over pairs of a target and another class of ``max(0, 1 - x[target] + x[other])``, over the number of classes.

    ``scores`` are ``[N, C]`` or ``[C]``; ``target`` has classes up to the first negative one. The second result is 1 for classes
    that are targets.
    """
    count = scores.shape[-1] if scores.rank else 1
    rows, named = (g.reshape(v, (dims.product(v.shape[:-1]), count)) for v in (scores, target))
    size = g.size(count)
    absent = Term(g, named) < 0
    seen = Term(g, g.call("cumsum", g.cast(absent.value, "int64"), axis=1)).equals(0)
    index = Term(g, checked_indices(g, seen.where(Term(g, named), 0).value, count, from_end=False))
    classes = Term(g, g.reshape(g.count(size, count), (1, 1, count)))
    pairs = Term(g, g.call("expand_dims", index.value, axis=2)).equals(classes)
    pairs = pairs.both(Term(g, g.call("expand_dims", seen.value, axis=2)))
    is_target = Term(g, g.call("any", pairs.value, axis=(1,)))
    chosen = Term(g, g.call("expand_dims", g.call("gather", rows, index.value, axis=1), axis=2))
    margins = (1 - chosen + Term(g, g.call("expand_dims", rows, axis=1))).maximum(0)
    counts = Term(g, g.call("expand_dims", seen.value, axis=2)).both(
        Term(g, g.call("expand_dims", g.call("logical_not", is_target.value), axis=1)))
    total = g.call("sum", counts.where(margins, 0).value, axis=(1, 2), keepdims=False)
    loss = (Term(g, total) / Term(g, g.cast(size, scores.dtype))).value
    result = g.reshape(loss, scores.shape[:-1]) if reduction == "none" else reduced(g, loss, reduction)
    return result, g.reshape(g.cast(is_target.value, scores.dtype), target.shape)
