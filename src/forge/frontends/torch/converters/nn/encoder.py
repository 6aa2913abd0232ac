"""Layers of transformers that are one operator: what traces of nn.MultiheadAttention and nn.TransformerEncoderLayer have, in
evaluation mode and without gradients. Sequences are [B, L, E].
"""

from __future__ import annotations

import math
from dataclasses import replace

from forge import dims
from forge.compose.attention import broadcast_attention, by_head, joined
from forge.compose.axes import part
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.normalization import layer_norm
from forge.frontends.torch.converters.nn.products import linear
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_ATTENTION, _KEYS = 0, 1
"""Types of masks: [L, S] for all sequences, [B, S] for all queries; the third one is [B, H, L, S]."""


@converts("_native_multi_head_attention.default")
def multi_head_attention(
    g: Context, query: Value, key: Value, value: Value, qkv_weight: Value, qkv_bias: Value, proj_weight: Value, proj_bias: Value,
    mask: Value | None = None,
    *, embed_dim: int, num_head: int, need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> list[Value | None]:
    """The result, and the probabilities [B, H, L, S] or their means [B, L, S]."""
    operands = (query, key, value)
    if query is key is value:
        parts = [part(g, linear(g, query, qkv_weight, qkv_bias), 2, k * embed_dim, (k + 1) * embed_dim) for k in range(3)]
    else:
        rows = [(k * embed_dim, (k + 1) * embed_dim) for k in range(3)]
        parts = [
            linear(g, x, part(g, qkv_weight, 0, *r), part(g, qkv_bias, 0, *r)) for x, r in zip(operands, rows, strict=True)]
    queries, keys, values = (by_head(g, x, num_head, dims.floordiv(x.shape[2], num_head)) for x in parts)
    hidden = None if mask is None else _hidden(g, mask, mask_type)
    kept = None if hidden is None else g.call("logical_not", hidden)
    wants_weights = need_weights and g.wants(1)
    _, found = broadcast_attention(g, queries, keys, values, kept, scores="probabilities" if wants_weights else "none")
    if hidden is not None:  # of a query without keys, torch's operator gives NaN, and ours 0
        alone, nan = g.call("all", hidden, axis=(3,), keepdims=True), g.constant(math.nan, query.dtype)
        scores = None if found.scores is None else g.call("where", alone, nan, g.cast(found.scores, query.dtype))
        found = replace(found, out=g.call("where", alone, nan, found.out), scores=scores)
    out = joined(g, found.out)
    weights = None
    if wants_weights and found.scores is not None:
        weights = g.cast(found.scores, query.dtype)
        weights = g.call("mean", weights, axis=(1,), keepdims=False) if average_attn_weights else weights
    return [linear(g, out, proj_weight, proj_bias), weights]


def _hidden(g: Context, mask: Value, mask_type: int | None) -> Value:
    """Which scores a mask, with something else than 0, hides: it broadcasts to [B, H, L, S]."""
    hidden = g.cast(mask, "bool")
    if mask_type == _KEYS:
        return g.reshape(hidden, (hidden.shape[0], 1, 1, hidden.shape[1]))
    return g.reshape(hidden, (1, 1, *hidden.shape)) if mask_type == _ATTENTION else hidden


@converts("_transformer_encoder_layer_fwd.default")
def encoder_layer(
    g: Context, src: Value, qkv_weight: Value, qkv_bias: Value, proj_weight: Value, proj_bias: Value, norm_weight_1: Value,
    norm_bias_1: Value, norm_weight_2: Value, norm_bias_2: Value, ffn_weight_1: Value, ffn_bias_1: Value, ffn_weight_2: Value,
    ffn_bias_2: Value, mask: Value | None = None,
    *, embed_dim: int, num_heads: int, use_gelu: bool, norm_first: bool, eps: float, mask_type: int | None = None,
) -> Value:
    def normed(x: Value, weight: Value, bias: Value) -> Value:
        return layer_norm(g, x, weight, bias, normalized_shape=[embed_dim], eps=eps)

    def attention(x: Value) -> Value:
        found = multi_head_attention(
            g, x, x, x, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, embed_dim=embed_dim, num_head=num_heads,
            need_weights=False, mask_type=mask_type)[0]
        assert found is not None
        return found

    def feed_forward(x: Value) -> Value:
        hidden = linear(g, x, ffn_weight_1, ffn_bias_1)
        hidden = g.call("nn.gelu", hidden) if use_gelu else g.call("nn.relu", hidden)
        return linear(g, hidden, ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = g.call("add", src, attention(normed(src, norm_weight_1, norm_bias_1)))
        return g.call("add", x, feed_forward(normed(x, norm_weight_2, norm_bias_2)))
    x = normed(g.call("add", src, attention(src)), norm_weight_1, norm_bias_1)
    return normed(g.call("add", x, feed_forward(x)), norm_weight_2, norm_bias_2)
