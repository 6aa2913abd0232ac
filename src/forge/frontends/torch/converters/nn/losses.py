"""Losses. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from forge import dims
from forge.compose import losses
from forge.compose.checks import checked_indices
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.products import linear
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

_MEAN = 1
_REDUCTIONS = ("none", "mean", "sum")


def _loss(compose: Callable[..., Value], *targets: str) -> None:
    @converts(*targets)
    def convert(g: Context, self: Value, target: Value, *, reduction: int = _MEAN) -> Value:
        return compose(g, *g.promoted(self, target), reduction=_REDUCTIONS[reduction])


_loss(losses.mse_loss, "mse_loss.default")
_loss(losses.l1_loss, "l1_loss.default")


@converts("huber_loss.default")
def huber_loss(g: Context, self: Value, target: Value, *, reduction: int = _MEAN, delta: float = 1.0) -> Value:
    return losses.huber_loss(g, *g.promoted(self, target), delta=delta, reduction=_REDUCTIONS[reduction])


@converts("smooth_l1_loss.default")
def smooth_l1_loss(g: Context, self: Value, target: Value, *, reduction: int = _MEAN, beta: float = 1.0) -> Value:
    prediction, wanted = g.promoted(self, target)
    if beta == 0:
        return losses.l1_loss(g, prediction, wanted, reduction=_REDUCTIONS[reduction])
    loss = losses.huber_loss(g, prediction, wanted, delta=beta, reduction="none")
    return losses.reduced(g, (Term(g, loss) / beta).value, _REDUCTIONS[reduction])


@converts("soft_margin_loss.default")
def soft_margin_loss(g: Context, self: Value, target: Value, *, reduction: int = _MEAN) -> Value:
    product = Term(g, self) * Term(g, target) * -1
    return losses.reduced(g, g.call("log1p", g.call("exp", product.value)), _REDUCTIONS[reduction])


@converts("binary_cross_entropy.default")
def binary_cross_entropy(
    g: Context, self: Value, target: Value, weight: Value | None = None, *, reduction: int = _MEAN
) -> Value:
    return losses.binary_cross_entropy(g, self, target, weight, reduction=_REDUCTIONS[reduction])


@converts("binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(
    g: Context, self: Value, target: Value, weight: Value | None = None, pos_weight: Value | None = None,
    *, reduction: int = _MEAN,
) -> Value:
    if pos_weight is None:
        return losses.binary_cross_entropy_with_logits(g, self, target, weight, reduction=_REDUCTIONS[reduction])
    x, t = Term(g, self), Term(g, target)
    softplus = Term(g, g.call("nn.softplus", (x * -1).value))
    loss = (1 - t) * x + ((Term(g, pos_weight) - 1) * t + 1) * softplus
    return losses.reduced(g, (loss if weight is None else loss * Term(g, weight)).value, _REDUCTIONS[reduction])


@converts("kl_div.default")
def kl_divergence(g: Context, self: Value, target: Value, *, reduction: int = _MEAN, log_target: bool = False) -> Value:
    """``t * (log t - self)``, with 0 for ``t * log t`` where t is 0; ``log_target``: the target is log t."""
    t = Term(g, target)
    if log_target:
        loss = Term(g, g.call("exp", target)) * (t - Term(g, self))
    else:
        loss = t.equals(0).where(0, t * Term(g, g.call("log", target))) - t * Term(g, self)
    return losses.reduced(g, loss.value, _REDUCTIONS[reduction])


@converts("nll_loss.default", "nll_loss2d.default", "nll_loss_nd.default")
def nll_loss(
    g: Context, self: Value, target: Value, weight: Value | None = None, *, reduction: int = _MEAN, ignore_index: int = -100
) -> Value:
    """``self`` is [N, C, ...], ``target`` [N, ...]; or [C] and a scalar."""
    compute = partial(losses.nll_loss, reduction=_REDUCTIONS[reduction], ignore_index=ignore_index)
    if self.rank > 1:
        return compute(g, self, target, weight)
    return g.reshape(compute(g, g.reshape(self, (1, *self.shape)), g.reshape(target, (1,)), weight), ())


@converts("nll_loss_forward.default", "nll_loss2d_forward.default")
def nll_loss_forward(
    g: Context, self: Value, target: Value, weight: Value | None = None, *, reduction: int, ignore_index: int
) -> list[Value | None]:
    """The loss, and the sum of the weights of the targets that count; 0 if nothing is reduced."""
    result = nll_loss(g, self, target, weight, reduction=reduction, ignore_index=ignore_index)
    if not g.wants(1):
        return [result, None]
    if not reduction:
        return [result, g.scalar(0, result)]
    ignored = Term(g, target).equals(ignore_index)
    index = ignored.where(0, Term(g, target)).value
    found: Any = 1 if weight is None else Term(g, g.call("take", weight, index, axis=0))
    counted = ignored.where(g.scalar(0, self), found if weight is not None else g.scalar(1, self)).value
    return [result, g.call("sum", counted, axis=None, keepdims=False)]


@converts("cross_entropy_loss.default")
def cross_entropy(
    g: Context, self: Value, target: Value, weight: Value | None = None,
    *, reduction: int = _MEAN, ignore_index: int = -100, label_smoothing: float = 0.0,
) -> Value:
    """``target`` has indices of classes, or the shape of ``self`` and their probabilities."""
    axis = 0 if self.rank == 1 else 1
    log_probabilities = g.call("nn.log_softmax", self, axis=axis)
    if target.shape == self.shape and target.dtype == self.dtype:
        return _soft_cross_entropy(g, log_probabilities, target, weight, axis, reduction, label_smoothing)
    options = {"reduction": reduction, "ignore_index": ignore_index}
    sharp = nll_loss(g, log_probabilities, target, weight, **options)
    if not label_smoothing:
        return sharp
    ignored = Term(g, target).equals(ignore_index)
    spread = ignored.where(0, _over_classes(g, log_probabilities, weight, axis))
    if reduction != _MEAN:
        smooth = Term(g, losses.reduced(g, spread.value, _REDUCTIONS[reduction]))
    else:
        index = ignored.where(0, Term(g, target))
        weights = Term(g, g.call("full", g.scalar(1, self), shape=target.shape))
        if weight is not None:
            weights = Term(g, g.call("take", weight, index.value, axis=0))
        smooth = Term(g, losses.reduced(g, spread.value, "mean", ignored.where(0, weights).value))
    return (Term(g, sharp) * (1 - label_smoothing) + smooth * (label_smoothing / _classes(g, self, axis))).value


def _classes(g: Context, x: Value, axis: int) -> int:
    count = x.shape[axis]
    if not isinstance(count, int):
        raise g.unsupported(f"label_smoothing: got a symbolic number of classes, {count}; supported: a number")
    return count


def _over_classes(g: Context, log_probabilities: Value, weight: Value | None, axis: int, target: Term | None = None) -> Term:
    """``-sum over c of weight[c] * target[c] * log_probabilities[c]``."""
    total = Term(g, log_probabilities) if target is None else Term(g, log_probabilities) * target
    if weight is not None:
        total = total * Term(g, g.reshape(weight, [-1 if k == axis else 1 for k in range(log_probabilities.rank)]))
    return Term(g, g.call("sum", total.value, axis=axis, keepdims=False)) * -1


def _soft_cross_entropy(
    g: Context, log_probabilities: Value, target: Value, weight: Value | None, axis: int, reduction: int, label_smoothing: float
) -> Value:
    t = Term(g, target)
    if label_smoothing:
        t = t * (1 - label_smoothing) + label_smoothing / _classes(g, target, axis)
    return losses.reduced(g, _over_classes(g, log_probabilities, weight, axis, t).value, _REDUCTIONS[reduction])


def _linear_cross_entropy(*targets: str) -> None:
    @converts(*targets, domain="torch_nn")
    def convert(
        g: Context, input: Value, linear_weight: Value, target: Value, linear_bias: Value | None = None,  # noqa: A002
        weight: Value | None = None, *, ignore_index: int, batch_chunk_size: int, acc_policy: str, acc_dtype: str,
        reduction: str = "none", label_smoothing: float = 0.0, allow_retain_graph: bool = False,
        compute_input_grad: bool = False, compute_linear_weight_grad: bool = False, compute_linear_bias_grad: bool = False,
    ) -> list[Value | None]:
        """The loss of the classes whose scores a linear layer gives. Torch computes parts of the batch, and gradients with it."""
        if any(g.wants(k) for k in range(1, g.num_outputs)):
            raise g.unsupported("its gradients are read; supported: the loss; export the model under torch.no_grad()")
        if label_smoothing:
            raise g.unsupported(f"label_smoothing: got {label_smoothing}; supported: 0")
        wide = "float64" if input.dtype == "float64" else "float32"
        x, matrix, bias, weights = (v if v is None else g.cast(v, wide) for v in (input, linear_weight, linear_bias, weight))
        assert x is not None
        assert matrix is not None
        loss, _ = losses.cross_entropy(
            g, linear(g, x, matrix, bias), target, weights, reduction=reduction, ignore_index=ignore_index
        )
        return [g.cast(loss, g.dtype), *(None for _ in range(g.num_outputs - 1))]


_linear_cross_entropy(
    "_linear_cross_entropy_batch_chunked.default", "_linear_cross_entropy_batch_chunked_no_reduction.default"
)


@converts("multilabel_margin_loss.default")
def multilabel_margin_loss(g: Context, self: Value, target: Value, *, reduction: int = _MEAN) -> Value:
    return multilabel_margin_loss_forward(g, self, target, reduction=reduction)[0]


@converts("multilabel_margin_loss_forward.default")
def multilabel_margin_loss_forward(g: Context, self: Value, target: Value, *, reduction: int) -> list[Value]:
    """The sum over pairs of a target and another class of ``max(0, 1 - x[target] + x[other])``, over the number of classes.

    ``self`` is [N, C] or [C]; ``target`` has classes up to the first -1. The second result is 1 for classes that are targets.
    """
    count = self.shape[-1] if self.rank else 1
    rows, named = (g.reshape(v, (dims.product(v.shape[:-1]), count)) for v in (self, target))
    absent = Term(g, named) < 0
    seen = Term(g, g.call("cumsum", g.cast(absent.value, "int64"), axis=1)).equals(0)
    index = Term(g, checked_indices(g, seen.where(Term(g, named), 0).value, count, from_end=False))
    classes = Term(g, g.reshape(g.count(g.tensor(count), count), (1, 1, count)))
    pairs = Term(g, g.call("expand_dims", index.value, axis=2)).equals(classes)
    pairs = pairs.both(Term(g, g.call("expand_dims", seen.value, axis=2)))
    is_target = Term(g, g.call("any", pairs.value, axis=(1,)))
    chosen = Term(g, g.call("expand_dims", g.call("gather", rows, index.value, axis=1), axis=2))
    margins = (1 - chosen + Term(g, g.call("expand_dims", rows, axis=1))).maximum(0)
    counts = Term(g, g.call("expand_dims", seen.value, axis=2)).both(
        Term(g, g.call("expand_dims", g.call("logical_not", is_target.value), axis=1)))
    total = g.call("sum", counts.where(margins, 0).value, axis=(1, 2), keepdims=False)
    loss = (Term(g, total) / Term(g, g.tensor(count, self.dtype))).value
    kind = _REDUCTIONS[reduction]
    result = g.reshape(loss, self.shape[:-1]) if kind == "none" else losses.reduced(g, loss, kind)
    return [result, g.reshape(g.cast(is_target.value, self.dtype), target.shape)]
