"""Scaled dot-product attention. Queries are [..., H, L, D], keys [..., G, S, D], values [..., G, S, E]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forge import dims
from forge.compose import attention, products
from forge.compose.attention import AttentionResult
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.embedding import dropout
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.broadcast import common_size
from forge.ops.core.inference import HALF_TYPES


def _attention(
    g: Context, query: Value, key: Value, value: Value, mask: Value | None = None, *, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, scores: str = "none",
) -> tuple[Value, AttentionResult]:
    """The result in the shape that torch gives it, and all results for operands of rank 4."""
    rank = max(v.rank for v in (query, key, value))
    operands = [_ranked(g, v, max(rank, 4)) for v in (query, key, value)]
    lead = _common([v.shape[:-3] for v in operands])
    heads = None if enable_gqa else _common([v.shape[-3:-2] for v in operands])
    query, key, value = (_spread(g, v, (*lead, *(heads or v.shape[-3:-2]), *v.shape[-2:])) for v in operands)
    if mask is not None and mask.rank > 3:
        mask = _spread(g, mask, (*lead, *mask.shape[-3:]))
    kind = "probabilities" if dropout_p else scores
    narrow = query.dtype
    query, key, value = (g.cast(v, _wide(narrow)) for v in (query, key, value))
    found = attention.attention(g, query, key, value, mask=mask, scale=scale, is_causal=is_causal, scores=kind)
    if dropout_p and found.scores is not None:
        if scores == "biased":
            raise g.unsupported(f"dropout_p: got {dropout_p} with the sums of scores read; supported: 0")
        kept = dropout(g, found.scores, p=dropout_p, train=True)
        found = replace(found, out=_weighted(g, kept, value), scores=kept)
    found = replace(found, out=g.cast(found.out, narrow))
    shape = (*lead, *found.out.shape[1:])
    return g.reshape(found.out, shape[max(4 - rank, 0) :]), found


def attended(g: Context, query: Value, key: Value, value: Value, mask: Value | None, *, scores: str = "none") -> AttentionResult:
    """All results for operands of rank 4."""
    return _attention(g, query, key, value, mask, scores=scores)[1]


def _wide(dtype: str) -> str:
    """The type of scores and probabilities: torch's kernels keep those of half precision in float32."""
    return "float32" if dtype in HALF_TYPES else dtype


def _weighted(g: Context, probabilities: Value, value: Value) -> Value:
    """The sums of values, ``[B, G, S, E]``, with the weights ``probabilities``, ``[B, H, L, S]``: ``[B, H, L, E]``."""
    batch, heads, length, size = probabilities.shape
    groups = value.shape[1]
    by_group = g.reshape(probabilities, (batch, groups, dims.floordiv(heads * length, groups), size))
    return g.reshape(products.matmul(g, by_group, value), (batch, heads, length, value.shape[3]))


def _ranked(g: Context, x: Value, rank: int) -> Value:
    return g.reshape(x, (*(1,) * (rank - x.rank), *x.shape))


def _common(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    return tuple(common_size(column) for column in zip(*shapes))


def _spread(g: Context, x: Value, shape: Sequence[Dim]) -> Value:
    """``x`` broadcast to ``shape``, with one batch axis."""
    full = x if x.shape == tuple(shape) else g.call("broadcast_to", x, shape=tuple(shape))
    return g.reshape(full, (dims.product(shape[:-3]), *shape[-3:]))


@converts("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    g: Context, query: Value, key: Value, value: Value, attn_mask: Value | None = None,
    *, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Value:
    return _attention(
        g, query, key, value, attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


@converts("_scaled_dot_product_attention_math.default")
def attention_with_probabilities(
    g: Context, query: Value, key: Value, value: Value, attn_mask: Value | None = None, dropout_mask: Value | None = None,
    *, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> list[Value | None]:
    """The result, and the probabilities."""
    if dropout_mask is not None:
        raise g.unsupported("dropout_mask: got a tensor; supported: none")
    out, found = _attention(
        g, query, key, value, attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa,
        scores="probabilities" if g.wants(1) else "none",
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
        out, found = _attention(g, query, key, value, mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, scores=scores)
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
    by_head = (g.cast(g.call("transpose", v, axes=(0, 2, 1, 3)), _wide(v.dtype)) for v in (query, key, value))
    left, right = (-1 if size is None else size for size in (window_size_left, window_size_right))
    out = attention.attention(g, *by_head, scale=scale, is_causal=is_causal, left_window=left, right_window=right).out
    return [g.cast(g.call("transpose", out, axes=(0, 2, 1, 3)), query.dtype), *(None for _ in range(g.num_outputs - 1))]
