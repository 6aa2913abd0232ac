"""Losses. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from collections.abc import Callable

from forge.compose import losses
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.products import linear
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_MEAN = 1
_REDUCTIONS = ("none", "mean", "sum")


def _loss(name: str, compose: Callable[..., Value], promotes: bool = False) -> None:
    @converts(f"{name}.default")
    def convert(g: Context, self: Value, target: Value, weight: Value | None = None, *, reduction: int = _MEAN) -> Value:
        operands = g.promoted(self, target) if promotes else [self, target]
        return compose(g, *operands, *(() if weight is None else (weight,)), reduction=_REDUCTIONS[reduction])


_loss("mse_loss", losses.mse_loss, promotes=True)
_loss("l1_loss", losses.l1_loss, promotes=True)
_loss("soft_margin_loss", losses.soft_margin_loss)
_loss("binary_cross_entropy", losses.binary_cross_entropy)


@converts("huber_loss.default")
def huber_loss(g: Context, self: Value, target: Value, *, reduction: int = _MEAN, delta: float = 1.0) -> Value:
    return losses.huber_loss(g, *g.promoted(self, target), delta=delta, reduction=_REDUCTIONS[reduction])


@converts("smooth_l1_loss.default")
def smooth_l1_loss(g: Context, self: Value, target: Value, *, reduction: int = _MEAN, beta: float = 1.0) -> Value:
    return losses.smooth_l1_loss(g, *g.promoted(self, target), beta=beta, reduction=_REDUCTIONS[reduction])


@converts("binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(
    g: Context, self: Value, target: Value, weight: Value | None = None, pos_weight: Value | None = None,
    *, reduction: int = _MEAN,
) -> Value:
    return losses.binary_cross_entropy_with_logits(g, self, target, weight, pos_weight, reduction=_REDUCTIONS[reduction])


@converts("kl_div.default")
def kl_divergence(g: Context, self: Value, target: Value, *, reduction: int = _MEAN, log_target: bool = False) -> Value:
    return losses.kl_divergence(g, self, target, reduction=_REDUCTIONS[reduction], log_target=log_target)


@converts("nll_loss.default", "nll_loss2d.default", "nll_loss_nd.default")
def nll_loss(
    g: Context, self: Value, target: Value, weight: Value | None = None, *, reduction: int = _MEAN, ignore_index: int = -100
) -> Value:
    return losses.nll_loss(g, self, target, weight, reduction=_REDUCTIONS[reduction], ignore_index=ignore_index)


@converts("nll_loss_forward.default", "nll_loss2d_forward.default")
def nll_loss_forward(
    g: Context, self: Value, target: Value, weight: Value | None = None, *, reduction: int, ignore_index: int
) -> list[Value | None]:
    """The loss, and the sum of the weights of the targets that count; 0 if nothing is reduced."""
    result = nll_loss(g, self, target, weight, reduction=reduction, ignore_index=ignore_index)
    if not g.wants(1):
        return [result, None]
    return [result, losses.counted_weight(g, self, target, weight, ignore_index) if reduction else g.scalar(0, result)]


@converts("cross_entropy_loss.default")
def cross_entropy(
    g: Context, self: Value, target: Value, weight: Value | None = None,
    *, reduction: int = _MEAN, ignore_index: int = -100, label_smoothing: float = 0.0,
) -> Value:
    """``target`` has indices of classes, or the shape of ``self`` and their probabilities."""
    kind = _REDUCTIONS[reduction]
    if target.shape == self.shape and target.dtype == self.dtype:
        return losses.soft_cross_entropy(g, self, target, weight, reduction=kind, label_smoothing=label_smoothing)
    return losses.cross_entropy(
        g, self, target, weight, reduction=kind, ignore_index=ignore_index, label_smoothing=label_smoothing)[0]


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
    return list(losses.multilabel_margin_loss(g, self, target, reduction=_REDUCTIONS[reduction]))
