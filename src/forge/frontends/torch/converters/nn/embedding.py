"""Embeddings, and dropout, which does nothing at inference."""

from __future__ import annotations

from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("embedding.default")
def embedding(
    g: Context, weight: Value, indices: Value, *, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    return g.call("take", weight, indices, axis=0)


@converts(*(f"{op}.default" for op in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")))
def dropout(g: Context, input: Value, *, p: float, train: bool) -> Value:  # noqa: A002
    if train and p > 0:
        raise g.unsupported("train: got True; supported: False; export the model after eval()")
    return input
