"""Attention layers: heads, caches of keys and values, rotary positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from forge import dims
from forge.compose.axes import part
from forge.compose.checks import checked_indices
from forge.compose.products import matmul
from forge.compose.randomness import known_dropout
from forge.dims import Dim
from forge.errors import option
from forge.ir.nodes import Value
from forge.ops.core.broadcast import common_size, simplest, with_equal_sizes
from forge.ops.core.composer import Composer
from forge.ops.core.inference import HALF_TYPES
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


def broadcast_attention(
    g: Composer, query: Value, key: Value, value: Value, mask: Value | None = None, *, is_causal: bool = False,
    scale: float | None = None, grouped: bool = False, scores: str = "none", dropout: float = 0.0, seed: int = 0,
) -> tuple[Value, AttentionResult]:
    """`attention` of operands ``[..., H, L, D]``, ``[..., G, S, D]`` and ``[..., G, S, E]`` whose leading axes broadcast.

    The result, ``[..., H, L, E]``, and all results for operands of rank 4. Heads broadcast, too, unless ``grouped``. Scores and
    probabilities of half precision are of float32, and ``dropout`` is the share of these that is dropped.

    Raises:
        OpAttributeUnimplemented: biased scores are asked for, and probabilities dropped.
    """
    if dropout and scores == "biased":
        raise g.unsupported(f"dropout: got {dropout} with the sums of scores read; supported: 0")
    narrow, rank = query.dtype, max(v.rank for v in (query, key, value))
    operands = [g.reshape(v, (*(1,) * (max(rank, 4) - v.rank), *v.shape)) for v in (query, key, value)]
    lead = _common([v.shape[:-3] for v in operands])
    heads = None if grouped else _common([v.shape[-3:-2] for v in operands])
    query, key, value = (_spread(g, v, (*lead, *(heads or v.shape[-3:-2]), *v.shape[-2:])) for v in operands)
    if mask is not None and mask.rank > 3:
        mask = _spread(g, mask, (*lead, *mask.shape[-3:]))
    query, key, value = (g.cast(v, score_type(narrow)) for v in (query, key, value))
    kind = "probabilities" if dropout else scores
    found = attention(g, query, key, value, mask=mask, scale=scale, is_causal=is_causal, scores=kind)
    if dropout and found.scores is not None:
        kept, _ = known_dropout(g, found.scores, dropout, seed=seed)
        found = replace(found, out=_weighted(g, kept, value), scores=kept)
    found = replace(found, out=g.cast(found.out, narrow))
    shape = (*lead, *found.out.shape[1:])
    return g.reshape(found.out, shape[max(4 - rank, 0) :]), found


def score_type(dtype: str) -> str:
    """The type of scores and probabilities of operands of ``dtype``."""
    return "float32" if dtype in HALF_TYPES else dtype


def _weighted(g: Composer, probabilities: Value, value: Value) -> Value:
    """The sums of values, ``[B, G, S, E]``, with the weights ``probabilities``, ``[B, H, L, S]``: ``[B, H, L, E]``."""
    batch, heads, length, size = probabilities.shape
    groups = value.shape[1]
    by_group = g.reshape(probabilities, (batch, groups, dims.floordiv(heads * length, groups), size))
    return g.reshape(matmul(g, by_group, value), (batch, heads, length, value.shape[3]))


def _common(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    return tuple(common_size(column) for column in zip(*shapes))


def _spread(g: Composer, x: Value, shape: Sequence[Dim]) -> Value:
    """``x`` broadcast to ``shape``, with one batch axis."""
    full = x if x.shape == tuple(shape) else g.call("broadcast_to", x, shape=tuple(shape))
    return g.reshape(full, (dims.product(shape[:-3]), *shape[-3:]))


def scored_attention(
    g: Composer, query: Value, key: Value, value: Value, scale: Value, score: Callable[[Value, Sequence[Value]], Value],
    holds: Callable[[Sequence[Value]], Value],
) -> Value:
    """``softmax(score(scale * query @ key^T, places), where holds(places)) @ value``; 0 for queries that see no key.

    query is ``[B, H, L, D]``, key ``[B, G, S, D]``, value ``[B, G, S, E]``, with sizes of 1 in the place of B, and H a multiple
    of G. ``places`` are the numbers, of int32, of batch, head, query and key; they have the shape of the scores,
    ``[B, H, L, S]``, and so has what both functions give. Scores of half precision are of float32, the type of ``scale``.
    """
    batch, heads, rows = query.shape[:3]
    shape = (batch, heads, rows, key.shape[2])
    keys, values = (_repeated(g, v, batch, heads) for v in (key, value))
    q, k = (g.cast(v, score_type(v.dtype)) for v in (query, keys))
    scores = g.reshape(g.call("nn.batch_matmul", _flat(g, q), _flat(g, k), transpose_b=True), shape)
    scores = g.call("multiply", scores, scale)
    places = [_places(g, shape, axis) for axis in range(4)]
    scores = g.cast(score(scores, places), scores.dtype)
    held = holds(places)
    lowest = g.scalar(-math.inf, scores)
    weights = g.call("nn.softmax", g.call("where", held, scores, lowest), axis=-1)
    seen = g.call("any", g.call("logical_and", held, g.call("greater", scores, lowest)), axis=(3,), keepdims=True)
    weights = g.cast(g.call("where", seen, weights, g.scalar(0, weights)), value.dtype)
    result = g.call("nn.batch_matmul", _flat(g, weights), _flat(g, values), transpose_b=False)
    return g.reshape(result, (batch, heads, rows, value.shape[3]))


def _flat(g: Composer, x: Value) -> Value:
    """``x`` with its batches and heads as one axis."""
    batch, heads, *rest = x.shape
    return g.reshape(x, (batch * heads, *rest))


def _repeated(g: Composer, x: Value, batch: Dim, heads: Dim) -> Value:
    """Keys or values for each head of the queries, of which several may share one."""
    own_batch, own_heads, rows, columns = x.shape
    if own_heads != heads:
        if not isinstance(heads, int) or not isinstance(own_heads, int):
            raise g.unsupported(f"got {heads} heads of queries and {own_heads} of keys; supported: fixed numbers")
        x = g.call("repeat", x, repeats=heads // own_heads, axis=1)
    return x if own_batch == batch else g.call("broadcast_to", x, shape=(batch, heads, rows, columns))


def _places(g: Composer, shape: Sequence[Dim], axis: int) -> Value:
    """The number of each score along ``axis``, of type int32."""
    ends = (g.constant(0, "int32"), g.cast(g.size(shape[axis]), "int32"), g.constant(1, "int32"))
    numbers = g.call("arange", *ends, dtype="int32")
    along = tuple(shape[axis] if k == axis else 1 for k in range(4))
    return g.call("broadcast_to", g.reshape(numbers, along), shape=tuple(shape))


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
