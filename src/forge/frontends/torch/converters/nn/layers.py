"""Layers that torch does not take apart."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose import attention, norms, products
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("linear.default")
def linear(g: Context, input: Value, weight: Value, bias: Value | None = None) -> Value:  # noqa: A002
    product = products.matmul(g, input, g.call("transpose", weight, axes=(1, 0)) if weight.rank == 2 else weight)
    return product if bias is None else g.call("add", product, bias)


@converts("layer_norm.default")
def layer_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    *, normalized_shape: Sequence[Dim], eps: float = 1e-5, cudnn_enable: bool = True,
) -> Value:
    first = input.rank - len(normalized_shape)
    ones = g.constant(1.0, input.dtype)
    scale = weight if weight is not None else g.call("broadcast_to", ones, shape=tuple(normalized_shape))
    return norms.layer_norm(g, input, scale, bias, first=first, epsilon=eps)


@converts("gelu.default")
def gelu(g: Context, self: Value, *, approximate: str = "none") -> Value:
    return g.call("nn.gelu", self, approximate=approximate)


@converts("dropout.default")
def dropout(g: Context, input: Value, *, p: float, train: bool) -> Value:  # noqa: A002
    if train and p > 0:
        raise g.unsupported("train: got True; supported: False; export the model after eval()")
    return input


@converts("embedding.default")
def embedding(
    g: Context, weight: Value, indices: Value, *, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    return g.call("take", weight, indices, axis=0)


@converts("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    g: Context, query: Value, key: Value, value: Value, attn_mask: Value | None = None,
    *, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:
    if dropout_p:
        raise g.unsupported(f"dropout_p: got {dropout_p}; supported: 0; export the model after eval()")
    lead, rank = query.shape[:-3], query.rank
    if rank != 4:
        query, key, value = (_four_axes(g, x) for x in (query, key, value))
        attn_mask = attn_mask if attn_mask is None or attn_mask.rank <= 3 and rank == 3 else _four_axes(g, attn_mask)
    options = {"mask": attn_mask, "scale": scale, "is_causal": is_causal}
    out = attention.attention(g, query, key, value, **options).out  # type: ignore[arg-type]
    return out if rank == 4 else g.reshape(out, (*lead, *out.shape[4 - min(rank, 3):]))


def _four_axes(g: Context, x: Value) -> Value:
    lead = (1,) * (4 - x.rank) if x.rank < 4 else (dims.product(x.shape[:-3]),)
    return g.reshape(x, (*lead, *x.shape[-3:]))
