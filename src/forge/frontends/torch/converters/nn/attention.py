"""Scaled dot-product attention."""

from __future__ import annotations

from forge import dims
from forge.compose import attention
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


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
