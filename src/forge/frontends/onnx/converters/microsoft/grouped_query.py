"""Attention of decoders with grouped heads, a cache of keys and values, and rotary positions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from forge import dims
from forge.compose import attention as layers
from forge.compose.caching import cache_update
from forge.compose.checks import check_that, checked_indices
from forge.compose.norms import rms_norm
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.registry import converts
from forge.ops.core.broadcast import with_equal_sizes
from forge.ops.core.term import Term


@converts("RotaryEmbedding", domain=DOMAIN)
def rotary(
    g: Context, x: Value, positions: Value, cosines: Value, sines: Value,
    *, interleaved: int = 0, is_packed_batching: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0,
) -> Value:
    """``x`` is ``[B, L, H * D]`` or ``[B, H, L, D]``; one position is that of the first element.

    D is twice the table's width unless only a part of each head is rotated. ``scale`` is not read, as in onnxruntime on CPUs,
    whatever its documentation says.
    """
    if is_packed_batching:
        raise g.unsupported("attribute 'is_packed_batching': got 1; supported: 0; export the model for CPUs")
    if rotary_embedding_dim and num_heads <= 0 and x.rank == 3:
        raise g.invalid(f"attribute 'num_heads': got {num_heads} with rotary_embedding_dim; expected the number of heads")
    if x.rank not in (3, 4):
        raise g.invalid(f"input: got {x.type}; expected rank 3 or 4")
    size = dims.floordiv(x.shape[-1], num_heads) if x.rank == 3 and rotary_embedding_dim else cosines.shape[-1] * 2
    heads = x if x.rank == 4 else layers.by_head(g, x, dims.floordiv(x.shape[2], size), size)
    turned = layers.rotary_embedding(
        g, heads, cosines, sines, positions=_all_positions(g, positions, heads), interleaved=bool(interleaved),
        rotated=rotary_embedding_dim,
    )
    return turned if x.rank == 4 else g.reshape(layers.joined(g, turned), x.shape)


def _all_positions(g: Context, positions: Value, heads: Value) -> Value:
    """``[B, L]``, or ``[1, L]`` counted from a single first position."""
    if positions.rank == 2:
        return positions
    if positions.rank != 1:
        raise g.invalid(f"position_ids: got {positions.type}; expected rank 1 or 2")
    length = heads.shape[2]
    places = g.reshape(g.count(g.extent(heads, 2), length), (1, length))
    return g.call("add", places, g.cast(g.call("reshape", positions, newshape=(1, 1)), "int64"))


@dataclass(frozen=True)
class _Places:
    """Where new keys go, as values: ``starts`` ``[B]``, the position of the first; ``ends`` ``[B]``, how many keys there are with
    them; ``total``, a number of rank 0, how many at most, and ``size``, its name where it has one.
    """

    starts: Value
    ends: Value
    total: Value
    size: Dim | None


@converts("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(
    g: Context, query: Value, key: Value | None, value: Value | None, past_key: Value | None, past_value: Value | None,
    seqlens_k: Value, total_sequence_length: Value, cos_cache: Value | None = None, sin_cache: Value | None = None,
    position_ids: Value | None = None, attention_bias: Value | None = None, head_sink: Value | None = None,
    k_scale: Value | None = None, v_scale: Value | None = None, q_norm_weight: Value | None = None,
    k_norm_weight: Value | None = None, query_seqlens: Value | None = None,
    *, causal: int = 1, do_rotary: int = 0, k_norm_epsilon: float | None = None, k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0, kv_num_heads: int, local_window_size: int = -1, num_heads: int,
    q_norm_epsilon: float | None = None, qk_norm_epsilon: float = 1e-6, qk_output: int = 0, rotary_interleaved: int = 0,
    scale: float = 0.0, sliding_window_cache: int = 0, smooth_softmax: int = -1, softcap: float = 0.0, v_quant_type: str = "NONE",
) -> list[Value | None]:
    """Query i of a batch stands at position ``seqlens_k + 1 - L + i``, in a first call at i; it sees keys up to that position, or
    with ``causal`` 0 all valid keys, the first ``seqlens_k + 1``.

    Present keys and values are as long as ``total_sequence_length`` or the past, whichever is longer; what is after the new
    ones is 0. Queries after the valid keys, padding of a first call, have no meaning.
    """
    if query_seqlens is not None:
        raise g.unsupported("query_seqlens: got numbers of valid tokens; supported: none, all tokens of the query are valid")
    _check_options(g, k_quant_type, v_quant_type, kv_cache_bit_width, sliding_window_cache, qk_output, k_scale, v_scale)
    if not causal and local_window_size > 0:
        raise g.invalid(f"attribute 'local_window_size': got {local_window_size} with causal 0; expected -1, as in onnxruntime")
    heads = _heads(g, query, key, value, num_heads, kv_num_heads)
    seqlens_k = _checked_lengths(g, seqlens_k, total_sequence_length, past_key)
    places = _places(g, query, seqlens_k, total_sequence_length)
    norms = ((q_norm_weight, q_norm_epsilon), (k_norm_weight, k_norm_epsilon))
    turned = [_normed(g, x, weight, own or qk_norm_epsilon) for x, (weight, own) in zip(heads, norms)]
    if do_rotary:
        turned = _rotated(g, turned, places, cos_cache, sin_cache, position_ids, bool(rotary_interleaved))
    present = [_cached(g, past, new, places) for past, new in ((past_key, turned[1]), (past_value, heads[2]))]
    out = _attended(
        g, turned[0], present[0], present[1], places, attention_bias,
        _sink(g, head_sink, smooth_softmax, num_heads), scale=scale or None, softcap=softcap, window=local_window_size,
        is_causal=bool(causal),
    )
    return [layers.joined(g, out), *present]


def _check_options(
    g: Context, k_quant_type: str, v_quant_type: str, bits: int, sliding: int, qk_output: int, k_scale: Value | None,
    v_scale: Value | None,
) -> None:
    if (k_quant_type, v_quant_type) != ("NONE", "NONE") or bits or k_scale is not None or v_scale is not None:
        raise g.unsupported(f"attribute 'k_quant_type': got {k_quant_type!r}; supported: 'NONE', a cache of the query's type")
    if sliding:
        raise g.unsupported("attribute 'sliding_window_cache': got 1; supported: 0")
    if qk_output or g.wants(3):
        raise g.unsupported(f"attribute 'qk_output': got {qk_output}; supported: 0, and output 3 unread")


def _heads(
    g: Context, query: Value, key: Value | None, value: Value | None, num_heads: int, kv_num_heads: int
) -> tuple[Value, Value, Value]:
    """``[B, H, L, D]`` each, out of a packed query if key and value are absent."""
    if min(num_heads, kv_num_heads) < 1 or num_heads % kv_num_heads:
        raise g.invalid(f"attribute 'num_heads': got {num_heads}; expected a multiple of kv_num_heads, {kv_num_heads}")
    if query.rank != 3 or (key is None) != (value is None):
        raise g.invalid(f"query: got {query.type}; expected [B, L, H * D] with key and value, or all of them packed")
    if key is None or value is None:
        size = dims.floordiv(query.shape[2], num_heads + 2 * kv_num_heads)
        ends = (size * num_heads, size * (num_heads + kv_num_heads))
        query, key, value = g.multi("split", query, indices_or_sections=ends, axis=2)
    first, second, third = (
        layers.by_head(g, x, n, dims.floordiv(x.shape[2], n))
        for x, n in ((query, num_heads), (key, kv_num_heads), (value, kv_num_heads))
    )
    return first, second, third


def _checked_lengths(g: Context, seqlens: Value, total: Value, past: Value | None) -> Value:
    """``seqlens``, the positions of the last keys, which lie within the present keys."""
    known, before = g.dims(total), past.shape[2] if past is not None and past.rank == 4 else 0
    if known is not None:
        return checked_indices(g, seqlens, dims.maximum(known[0], before), from_end=False, what="a number of seqlens_k")
    last = Term(g, g.cast(seqlens, "int64"))
    whole = Term(g, g.cast(g.reshape(total, ()), "int64"))
    whole = whole if past is None else whole.maximum(Term(g, g.extent(past, 2)))
    fits = g.call("all", (last >= 0).both(last < whole).value, axis=None)
    check_that(g, fits, "a number of seqlens_k is not a position of the present keys")
    return seqlens


def _places(g: Context, query: Value, seqlens: Value, total: Value) -> _Places:
    ends = Term(g, g.cast(g.call("reshape", seqlens, newshape=(query.shape[0],)), "int64")) + 1
    length = Term(g, g.extent(query, 1))
    whole = Term(g, g.cast(g.reshape(total, ()), "int64"))
    known = g.dims(total)
    size = known[0] if known is not None else None
    if size is not None and dims.equal(size, query.shape[1]):
        starts = ends * 0
    else:
        starts = whole.equals(length).where(0, ends - length)
    return _Places(starts.value, ends.value, whole.value, size)


def _normed(g: Context, x: Value, weight: Value | None, epsilon: float) -> Value:
    return x if weight is None else rms_norm(g, x, weight, first=3, epsilon=epsilon)


def _rotated(
    g: Context, heads: list[Value], places: _Places, cosines: Value | None, sines: Value | None, positions: Value | None,
    interleaved: bool,
) -> list[Value]:
    """Query and key turned by their positions."""
    if cosines is None or sines is None:
        raise g.invalid("cos_cache or sin_cache is absent; expected both with do_rotary")
    if positions is None:
        batch, length = heads[0].shape[0], heads[0].shape[2]
        numbers = Term(g, g.reshape(g.count(g.extent(heads[0], 2), length), (1, length)))
        positions = (numbers + Term(g, g.reshape(places.starts, (batch, 1)))).value
    width = cosines.shape[-1]
    rotated = width * 2 if isinstance(width, int) else 0
    return [
        layers.rotary_embedding(g, x, cosines, sines, positions=positions, interleaved=interleaved, rotated=rotated)
        for x in heads
    ]


def _cached(g: Context, past: Value | None, new: Value, places: _Places) -> Value:
    """``[B, G, S, D]``: the past with what is new after its valid part, zeros after that."""
    batch, groups, length, width = new.shape
    if places.size is not None and past is None and dims.equal(places.size, length):
        return new
    if past is None:
        past = g.call("full", g.scalar(0, new), shape=(batch, groups, 0, width))
    if places.size is not None and dims.equal(batch, 1) and dims.equal(places.size, past.shape[2] + length):
        return g.call("concatenate", *with_equal_sizes(g.builder, [past, new], 2), axis=2)
    buffer = _widened(g, past, new, places)
    written = cache_update(g, buffer, new, places.starts)
    size = buffer.shape[2]
    columns = Term(g, g.reshape(g.count(g.extent(buffer, 2), size), (1, 1, size, 1)))
    end = Term(g, g.reshape(places.starts, (batch, 1, 1, 1))) + Term(g, g.extent(new, 2))
    return (columns < end).where(Term(g, written), 0).value


def _widened(g: Context, past: Value, new: Value, places: _Places) -> Value:
    """The past with places for all keys."""
    past = with_equal_sizes(g.builder, [past, new], 2)[0]
    if places.size is not None:
        missing = dims.maximum(places.size - past.shape[2], 0)
        if isinstance(missing, int) and missing == 0:
            return past
        return g.call("nn.pad", past, g.scalar(0, past), pad_width=((0, 0), (0, 0), (0, missing), (0, 0)), pad_mode="constant")
    missing_now = (Term(g, places.total) - Term(g, g.extent(past, 2))).maximum(0).reshape(1, 1)
    zeros = g.constant([[0, 0], [0, 0]], "int64")
    after = g.call("concatenate", g.constant([[0]], "int64"), missing_now.value, axis=1)
    widths = g.call("concatenate", zeros, after, g.constant([[0, 0]], "int64"), axis=0)
    wide = g.call("nn.pad", past, g.scalar(0, past), widths, pad_width=None, pad_mode="constant")
    return g.reshape(wide, (*past.shape[:2], wide.shape[2], past.shape[3]))


def _sink(g: Context, head_sink: Value | None, smooth: int, num_heads: int) -> Value | None:
    """``[1, H, 1, 1]``: the score of a key that takes part in the softmax only."""
    if head_sink is not None:
        return g.reshape(head_sink, (1, num_heads, 1, 1))
    return g.constant([[[[0.0]]] * num_heads], "float32") if smooth == 1 else None


def _attended(
    g: Context, query: Value, key: Value, value: Value, places: _Places, bias: Value | None, sink: Value | None,
    *, scale: float | None, softcap: float, window: int, is_causal: bool,
) -> Value:
    """A sink is a key of zeros in front of all, which the mask gives its score; so positions and windows go into the mask."""
    left = window - 1 if window > 0 else -1
    if bias is not None:
        bias = _as_wide(g, bias, key.shape[2])
    if sink is None:
        seen: dict[str, Any] = {"offset": places.starts, "left_window": left} if is_causal else {"lengths": places.ends}
        return layers.attention(
            g, query, key, value, mask=bias, scale=scale, is_causal=is_causal, softcap=softcap, **seen
        ).out
    shown = _shown(g, query, key, places, left, bias, is_causal)
    columns = (query.shape[0], query.shape[1], query.shape[2], 1)
    mask = g.call("concatenate", g.call("broadcast_to", g.cast(sink, query.dtype), shape=columns), shown, axis=3)
    first = [
        g.call("concatenate", g.call("full", g.scalar(0, x), shape=(x.shape[0], x.shape[1], 1, x.shape[3])), x, axis=2)
        for x in (key, value)
    ]
    return layers.attention(g, query, *first, mask=mask, scale=scale, softcap=softcap).out


def _shown(g: Context, query: Value, key: Value, places: _Places, left: int, bias: Value | None, is_causal: bool) -> Value:
    """``[B, H, L, S]``: what is added to scores; minus infinity where a key is invisible."""
    length, size = query.shape[2], key.shape[2]
    rows = Term(g, g.reshape(g.count(g.extent(query, 2), length), (1, 1, length, 1)))
    rows = rows + Term(g, g.reshape(places.starts, (query.shape[0], 1, 1, 1)))
    columns = Term(g, g.reshape(g.count(g.extent(key, 2), size), (1, 1, 1, size)))
    distance = rows - columns
    visible = distance >= 0 if is_causal else columns < Term(g, g.reshape(places.ends, (query.shape[0], 1, 1, 1)))
    if left >= 0:
        visible = visible.both(distance <= left)
    addend = g.scalar(0, query) if bias is None else bias
    mask = g.call("where", visible.value, addend, g.scalar(-math.inf, query))
    return g.call("broadcast_to", mask, shape=(query.shape[0], query.shape[1], length, size))


def _as_wide(g: Context, bias: Value, size: Dim) -> Value:
    """A bias for fewer keys than the cache has room for; the others are not visible anyway."""
    missing = size - bias.shape[-1]
    if isinstance(missing, int) and missing <= 0:
        return bias
    pads = (*[(0, 0)] * (bias.rank - 1), (0, dims.maximum(missing, 0)))
    return g.call("nn.pad", bias, g.scalar(0, bias), pad_width=pads, pad_mode="constant")
