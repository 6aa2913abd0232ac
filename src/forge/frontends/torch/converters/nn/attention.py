"""Scaled dot-product attention. Queries are [..., H, L, D], keys [..., G, S, D], values [..., G, S, E]."""

from __future__ import annotations

from forge.compose import attention
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.random.distributions import seed_of
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    g: Context, query: Value, key: Value, value: Value, attn_mask: Value | None = None,
    *, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:
    return attention.broadcast_attention(
        g, query, key, value, attn_mask, dropout=dropout_p, is_causal=is_causal, scale=scale, grouped=enable_gqa, seed=seed_of(g)
    )[0]


@converts("_scaled_dot_product_attention_math.default")
def attention_with_probabilities(
    g: Context, query: Value, key: Value, value: Value, attn_mask: Value | None = None, dropout_mask: Value | None = None,
    *, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> list[Value | None]:
    """The result, and the probabilities."""
    if dropout_mask is not None:
        raise g.unsupported("dropout_mask: got a tensor; supported: none")
    out, found = attention.broadcast_attention(
        g, query, key, value, attn_mask, dropout=dropout_p, is_causal=is_causal, scale=scale, grouped=enable_gqa,
        scores="probabilities" if g.wants(1) else "none", seed=seed_of(g),
    )
    if found.scores is None:
        return [out, None]
    return [out, g.cast(g.reshape(found.scores, (*out.shape[:-1], found.scores.shape[-1])), g.meta(1).dtype)]


def _fused(*targets: str) -> None:
    @converts(*targets)
    def convert(
        g: Context, query: Value, key: Value, value: Value, attn_mask: Value | None = None,
        *, attn_bias: Value | None = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
        return_debug_mask: bool = False, compute_log_sumexp: bool = False,
    ) -> list[Value | None]:
        """The result, and the logarithm of the sum of the exponentials of the scores; the rest is state of CUDA."""
        mask = attn_bias if attn_mask is None else attn_mask
        scores = "biased" if g.wants(1) else "none"
        out, found = attention.broadcast_attention(
            g, query, key, value, mask, dropout=dropout_p, is_causal=is_causal, scale=scale, scores=scores, seed=seed_of(g))
        sums = None
        if found.scores is not None:
            total = g.call("logsumexp", g.cast(found.scores, g.meta(1).dtype), axis=-1, keepdims=False)
            sums = g.reshape(total, out.shape[:-1])
        return [out, sums, *(None for _ in range(g.num_outputs - 2))]


_fused(*(
    f"_scaled_dot_product_{kind}.default" for kind in (
        "flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable",
    )
))


@converts("_flash_attention_forward.default")
def flash_attention(
    g: Context, query: Value, key: Value, value: Value, cum_seq_q: Value | None = None, cum_seq_k: Value | None = None,
    *, max_q: Dim, max_k: Dim, dropout_p: float, is_causal: bool, return_debug_mask: bool, scale: float | None = None,
    window_size_left: int | None = None, window_size_right: int | None = None, seqused_k: Value | None = None,
    alibi_slopes: Value | None = None, block_table: Value | None = None, num_splits: int | None = None,
) -> list[Value | None]:
    """Operands and result are [B, L, H, D]."""
    given = {"cum_seq_q": cum_seq_q, "cum_seq_k": cum_seq_k, "seqused_k": seqused_k, "alibi_slopes": alibi_slopes}
    refused = [name for name, operand in {**given, "block_table": block_table}.items() if operand is not None]
    if dropout_p or refused:
        raise g.unsupported(f"{', '.join(refused) or 'dropout_p'}: got a value; supported: none")
    by_head = (g.cast(g.call("transpose", v, axes=(0, 2, 1, 3)), attention.score_type(v.dtype)) for v in (query, key, value))
    left, right = (-1 if size is None else size for size in (window_size_left, window_size_right))
    out = attention.attention(g, *by_head, scale=scale, is_causal=is_causal, left_window=left, right_window=right).out
    return [g.cast(g.call("transpose", out, axes=(0, 2, 1, 3)), query.dtype), *(None for _ in range(g.num_outputs - 1))]
