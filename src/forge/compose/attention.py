"""Attention layers: heads, caches of keys and values, rotary positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge import dims
from forge.compose.axes import part
from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.errors import option
from forge.ir.nodes import Value
from forge.ops.core.broadcast import simplest, with_equal_sizes
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


@dataclass(frozen=True)
class AttentionResult:
    """What attention gives: its output; keys and values, those of the cache included; scores if they were asked for."""

    out: Value
    key: Value
    value: Value
    scores: Value | None = None


def attention(
    g: Composer,
    query: Value,
    key: Value,
    value: Value,
    *,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    offset: Value | None = None,
    lengths: Value | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    softcap: float = 0.0,
    left_window: int = -1,
    right_window: int = -1,
    softmax_dtype: str | None = None,
    scores: str = "none",
) -> AttentionResult:
    """``softmax(scale * query @ key^T + mask) @ value`` for each head; ``nn.attention`` describes the options.

    query is ``[B, H, L, D]``, key ``[B, G, S, D]``, value ``[B, G, S, E]``; of rank 3, with ``num_heads`` and ``num_kv_heads``
    (H and G), ``[B, L, H * D]``, ``[B, S, G * D]``, ``[B, S, G * E]``, and so is the output. The caches, ``[B, G, P, D]`` and
    ``[B, G, P, E]``, come before key and value; unless ``offset`` says otherwise, query 0 then is at position P.

    Raises:
        OpAttributeInvalid: a rank that is not 3 or 4, rank 3 without numbers of heads, or one of the caches without the other.
    """
    if (past_key is None) != (past_value is None):
        raise g.invalid("got one of past key and past value; expected both, or none")
    is_joined = query.rank == 3
    query, key, value = (_by_head(g, x, n) for x, n in ((query, num_heads), (key, num_kv_heads), (value, num_kv_heads)))
    if past_key is not None and past_value is not None:
        offset = g.extent(past_key, 2) if offset is None else offset
        key, value = _after(g, past_key, key), _after(g, past_value, value)
    operands = [*_agreeing(g, query, key, value)]
    if mask is not None:
        mask = _fitting(g, g.cast(mask, query.dtype) if mask.dtype != "bool" else mask, (*query.shape[:3], key.shape[2]))
    results = g.multi(
        "nn.attention", *operands, mask, offset, lengths, scale=scale, is_causal=is_causal, softcap=softcap,
        left_window=left_window, right_window=right_window, softmax_dtype=softmax_dtype, scores=scores,
    )
    out = joined(g, results[0]) if is_joined else results[0]
    return AttentionResult(out, key, value, results[1] if len(results) > 1 else None)


def _by_head(g: Composer, x: Value, heads: int | None) -> Value:
    if x.rank == 4:
        return x
    if x.rank != 3 or not heads:
        raise g.invalid(f"got rank {x.rank} and {heads} heads; expected rank 4, or rank 3 and the number of heads")
    return by_head(g, x, heads, dims.floordiv(x.shape[2], heads))


def by_head(g: Composer, x: Value, heads: Dim, size: Dim) -> Value:
    """``[B, L, H * D]`` as ``[B, H, L, D]``."""
    return g.call("transpose", g.reshape(x, (*x.shape[:2], heads, size)), axes=(0, 2, 1, 3))


def joined(g: Composer, x: Value) -> Value:
    """``[B, H, L, D]`` as ``[B, L, H * D]``."""
    batch, heads, length, size = x.shape
    return g.reshape(g.call("transpose", x, axes=(0, 2, 1, 3)), (batch, length, heads * size))


def _after(g: Composer, past: Value, new: Value) -> Value:
    return g.call("concatenate", *with_equal_sizes(g.builder, [past, new], 2), axis=2)


def _agreeing(g: Composer, query: Value, key: Value, value: Value) -> tuple[Value, Value, Value]:
    """Operands whose sizes provably fit each other.

    Symbolic ones, numbers of heads too, are taken for equal, which is checked at run time.
    """
    batch = simplest([v.shape[0] for v in (query, key, value)])
    heads = simplest([v.shape[1] for v in (key, value)])
    if not dims.is_static(query.shape[1], heads):
        heads = simplest([query.shape[1], heads])
    keys = simplest([v.shape[2] for v in (key, value)])
    size = simplest([v.shape[3] for v in (query, key)])
    return (
        _sized(g, query, (batch, query.shape[1] if dims.is_static(query.shape[1]) else heads, query.shape[2], size)),
        _sized(g, key, (batch, heads, keys, size)),
        _sized(g, value, (batch, heads, keys, value.shape[3])),
    )


def _sized(g: Composer, x: Value, shape: Sequence[Dim]) -> Value:
    """``x`` with the sizes of ``shape``, but for those that are certainly different."""
    wanted = tuple(own if dims.different(own, size) else size for own, size in zip(x.shape, shape))
    same = all(dims.equal(own, size) for own, size in zip(x.shape, wanted))
    return x if same else g.call("broadcast_to", x, shape=wanted)


def _fitting(g: Composer, mask: Value, full: Sequence[Dim]) -> Value:
    """``mask`` with sizes that provably broadcast to the scores."""
    own = full[4 - mask.rank :] if mask.rank <= 4 else mask.shape
    return _sized(g, mask, tuple(1 if isinstance(m, int) and m == 1 else size for m, size in zip(mask.shape, own)))


def rotary_embedding(
    g: Composer,
    x: Value,
    cosines: Value,
    sines: Value,
    *,
    positions: Value | None = None,
    interleaved: bool = False,
    rotated: int = 0,
) -> Value:
    """Turns pairs (a, b) of the last axis by angles: ``(a * cos - b * sin, b * cos + a * sin)``.

    ``x`` is ``[B, H, L, D]``. Only its first ``rotated`` elements take part (0: all D). Element k is paired with element
    k + rotated / 2, or, when ``interleaved``, 2k with 2k + 1. ``cosines`` and ``sines`` are ``[B, L, rotated / 2]``, or with
    ``positions`` ``[B, L]`` tables ``[P, rotated / 2]`` that these index.

    Raises:
        OpAttributeInvalid: ``x`` is not of rank 4, or an odd number of elements takes part.
        OpAttributeUnimplemented: D is known only at run time.
    """
    size = x.shape[-1]
    if not isinstance(size, int):
        raise g.unsupported(f"the size of a head is known only at run time; expected a constant; fix it with {option('shape=')}")
    count = rotated or size
    if x.rank != 4 or count % 2 or count > size:
        raise g.invalid(f"got rank {x.rank} and {count} of {size} elements to rotate; expected rank 4 and an even number of them")
    if positions is not None:
        positions = checked_indices(g, positions, cosines.shape[0], from_end=False, what="a position")
        cosines, sines = (g.call("take", table, positions, axis=0, mode="clip") for table in (cosines, sines))
    cosine, sine = (Term(g, g.reshape(t, (t.shape[0], 1, *t.shape[1:]))) for t in (cosines, sines))
    first, second = (Term(g, half) for half in _pairs(g, x, count, interleaved))
    turned = _paired(g, (first * cosine - second * sine).value, (second * cosine + first * sine).value, interleaved)
    if count == size:
        return turned
    return g.call("concatenate", *with_equal_sizes(g.builder, [turned, part(g, x, 3, count, size)], 3), axis=3)


def _pairs(g: Composer, x: Value, count: int, interleaved: bool) -> tuple[Value, Value]:
    if interleaved:
        return part(g, x, 3, 0, count, 2), part(g, x, 3, 1, count, 2)
    return part(g, x, 3, 0, count // 2), part(g, x, 3, count // 2, count)


def _paired(g: Composer, first: Value, second: Value, interleaved: bool) -> Value:
    if not interleaved:
        return g.call("concatenate", first, second, axis=3)
    shape = first.shape
    columns = [g.reshape(half, (*shape, 1)) for half in (first, second)]
    size = shape[3]
    return g.reshape(g.call("concatenate", *columns, axis=4), (*shape[:3], size * 2))
