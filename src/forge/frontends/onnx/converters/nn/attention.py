"""Attention and rotary embeddings."""

from __future__ import annotations

import math
from functools import partial

from forge import dims
from forge.compose.attention import attention, by_head, joined, rotary_embedding
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype

_SCORES = ("product", "capped", "biased", "probabilities")


@converts("Attention", since=23, introduced={"lengths": 24, "left_window_size": 25, "right_window_size": 25})
def scaled_attention(
    g: Context, query: Value, key: Value, value: Value, mask: Value | None = None, past_key: Value | None = None,
    past_value: Value | None = None, lengths: Value | None = None,
    *, is_causal: int = 0, kv_num_heads: int | None = None, left_window_size: int = -1, q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, right_window_size: int = -1, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> list[Value | None]:
    if not 0 <= qk_matmul_output_mode < len(_SCORES):
        raise g.invalid(f"attribute 'qk_matmul_output_mode': got {qk_matmul_output_mode}; expected 0 to {len(_SCORES) - 1}")
    result = attention(
        g, query, key, value,
        mask=None if mask is None else _as_wide_as_keys(g, mask, key, past_key),
        past_key=past_key,
        past_value=past_value,
        offset=_first_position(g, lengths, query) if past_key is None else None,
        lengths=lengths,
        num_heads=q_num_heads,
        num_kv_heads=kv_num_heads,
        scale=scale,
        is_causal=bool(is_causal),
        softcap=softcap,
        left_window=left_window_size,
        right_window=right_window_size,
        softmax_dtype=None if softmax_precision is None else element_dtype(softmax_precision, "attribute 'softmax_precision'"),
        scores=_SCORES[qk_matmul_output_mode] if g.wants(3) else "none",
    )
    return [result.out, result.key, result.value, result.scores][: g.num_outputs]


def _first_position(g: Context, lengths: Value | None, query: Value) -> Value | None:
    """The queries are the last ones of the valid keys."""
    return None if lengths is None else g.call("subtract", lengths, g.extent(query, query.rank - 2))


def _as_wide_as_keys(g: Context, mask: Value, key: Value, past_key: Value | None) -> Value:
    """A mask may be shorter than keys and cache; what it lacks is invisible."""
    size = key.shape[-2] + (past_key.shape[2] if past_key is not None else 0)
    missing = size - mask.shape[-1]
    if not isinstance(missing, int) or missing <= 0:
        return mask
    hidden = g.constant(False) if mask.dtype == "bool" else g.scalar(-math.inf, mask)
    pads = (*[(0, 0)] * (mask.rank - 1), (0, missing))
    return g.call("nn.pad", mask, hidden, pad_width=pads, pad_mode="constant")


@converts("RotaryEmbedding", since=23)
def rotary(
    g: Context, x: Value, cosines: Value, sines: Value, positions: Value | None = None,
    *, interleaved: int = 0, num_heads: int | None = None, rotary_embedding_dim: int = 0,
) -> Value:
    turn = partial(rotary_embedding, g, positions=positions, interleaved=bool(interleaved), rotated=rotary_embedding_dim)
    if x.rank == 4:
        return turn(x, cosines, sines)
    if x.rank != 3 or not num_heads:
        raise g.invalid(f"got rank {x.rank} and num_heads {num_heads}; expected rank 4, or rank 3 and the number of heads")
    heads = by_head(g, x, num_heads, dims.floordiv(x.shape[2], num_heads))
    return g.reshape(joined(g, turn(heads, cosines, sines)), x.shape)
