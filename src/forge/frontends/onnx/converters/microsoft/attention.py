"""Attention layers of encoders and decoders; masks in the forms that onnxruntime knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge import dims
from forge.compose import attention as layers
from forge.dims import Dim
from forge.errors import option
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.nn.matmul import matmul
from forge.frontends.onnx.registry import converts
from forge.ops.core.term import Term

HIDDEN = -10000.0
"""What onnxruntime adds to scores of masked keys unless ``mask_filter_value`` says otherwise."""


@dataclass(frozen=True, kw_only=True)
class HeadAttributes:
    mask_filter_value: float = HIDDEN
    num_heads: int
    scale: float = 0.0
    unidirectional: int = 0


@dataclass(frozen=True, kw_only=True)
class ProjectedAttributes(HeadAttributes):
    """Of layers that project their input."""

    do_rotary: int = 0
    past_present_share_buffer: int = 0


@converts("Attention", domain=DOMAIN)
def attention(
    g: Context, x: Value, weights: Value, bias: Value | None = None, mask_index: Value | None = None, past: Value | None = None,
    attention_bias: Value | None = None, past_sequence_length: Value | None = None,
    *, qkv_hidden_sizes: tuple[int, ...] | None = None, rotary_embedding_dim: int = 0, attrs: ProjectedAttributes,
) -> list[Value]:
    """``x`` is projected to queries, keys and values by one matrix; past and present are key and value on top of each other."""
    check_options(g, attrs.do_rotary, attrs.past_present_share_buffer or past_sequence_length is not None)
    projected = matmul(g, x, weights)
    if bias is not None:
        projected = g.call("add", projected, bias)
    sizes = head_sizes(g, weights, attrs.num_heads, qkv_hidden_sizes)
    return projected_attention(g, projected, sizes, mask_index, past, attrs, attention_bias)


def check_options(g: Context, rotates: int, shares: int | bool) -> None:
    """Raises OpAttributeUnimplemented for what onnxruntime has on other devices only."""
    if rotates:
        raise g.unsupported("attribute 'do_rotary': got 1; supported: 0; use MultiHeadAttention after RotaryEmbedding")
    if shares:
        raise g.unsupported("past and present share a buffer; supported: a past that is as long as it says")


def projected_attention(
    g: Context, projected: Value, sizes: Sequence[int], mask_index: Value | None, past: Value | None, attrs: HeadAttributes,
    attention_bias: Value | None = None,
) -> list[Value]:
    """Attention between queries, keys and values that lie side by side; past and present are keys and values stacked."""
    query, key, value = _split(g, projected, sizes)
    past_key, past_value = (None, None) if past is None else _halves(g, past)
    result = _attended(g, (query, key, value), mask_index, attention_bias, (past_key, past_value), attrs)
    if not g.wants(1):
        return [result.out]
    return [result.out, g.call("stack", result.key, result.value, axis=0)]


def _attended(
    g: Context, operands: Sequence[Value], mask: Value | None, bias: Value | None, past: Sequence[Value | None],
    attrs: HeadAttributes, scores: str = "none",
) -> layers.AttentionResult:
    """Attention of query, key and value; ``past`` are the caches of the last two."""
    addend = mask_addend(g, mask, operands[0], operands[1], past[0], attrs.mask_filter_value)
    return layers.attention(
        g, *operands, mask=_sum(g, addend, bias), past_key=past[0], past_value=past[1], num_heads=attrs.num_heads,
        num_kv_heads=attrs.num_heads, scale=attrs.scale or None, is_causal=bool(attrs.unidirectional), scores=scores,
    )


def head_sizes(g: Context, weights: Value, heads: int, given: Sequence[int] | None) -> tuple[int, ...]:
    """Columns of the projection that are query, key and value."""
    columns = weights.shape[-1]
    if not isinstance(columns, int):
        raise g.unsupported(f"weights of type {weights.type}; expected a known number of columns; fix it with {option('shape=')}")
    sizes = tuple(given) if given else (columns // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != columns or sizes[0] != sizes[1]:
        raise g.invalid(
            f"attribute 'qkv_hidden_sizes': got {list(sizes)} for {columns} columns; expected three numbers that add up to them, "
            "the first two equal"
        )
    if heads < 1 or any(size % heads for size in sizes):
        raise g.invalid(f"attribute 'num_heads': got {heads} for hidden sizes {list(sizes)}; expected a divisor of them")
    return sizes


def _split(g: Context, x: Value, sizes: Sequence[int]) -> list[Value]:
    ends = (sizes[0], sizes[0] + sizes[1])
    return g.multi("split", x, indices_or_sections=ends, axis=x.rank - 1)


def _halves(g: Context, past: Value) -> tuple[Value, Value]:
    """``[2, B, H, P, D]`` as two of ``[B, H, P, D]``."""
    if past.rank != 5:
        raise g.invalid(f"past: got {past.type}; expected rank 5, keys and values on top of each other")
    first, second = g.multi("split", past, indices_or_sections=2, axis=0)
    return g.reshape(first, past.shape[1:]), g.reshape(second, past.shape[1:])


def _sum(g: Context, a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None:
        return b if a is None else a
    return g.call("add", a, b)


def mask_addend(
    g: Context, mask: Value | None, query: Value, key: Value, past_key: Value | None, hidden: float
) -> Value | None:
    """What a mask adds to scores ``[B, H, L, S]``: ``hidden`` where a key is masked, else 0.

    A mask is ``[B, S]`` or ``[B, L, S]``, visible where greater than 0; ``[B]``, the numbers of visible keys; ``[2 * B]``, their
    ends, then their starts; or ``[3 * B + 2]``, which begins with the numbers.
    """
    if mask is None:
        return None
    batch, queries = query.shape[:2]
    if mask.rank == 1:
        visible = _by_length(g, mask, batch, key_places(g, key, past_key))
    elif mask.rank in (2, 3):
        keys = key.shape[key.rank - 2] + (past_key.shape[2] if past_key is not None else 0)
        wanted = (batch, keys) if mask.rank == 2 else (batch, queries, keys)
        if any(dims.different(own, size) for own, size in zip(mask.shape, wanted)):
            raise g.invalid(f"mask: got {mask.type}; expected {'x'.join(map(str, wanted))}, one element for each key")
        visible = g.call("greater", mask, g.scalar(0, mask))
        visible = g.reshape(visible, (mask.shape[0], 1, *([1] if mask.rank == 2 else []), *mask.shape[1:]))
    else:
        raise g.unsupported(f"mask: got {mask.type}; supported: ranks 1 to 3")
    return g.call("where", visible, g.constant(0.0, "float32"), g.constant(hidden, "float32"))


def _by_length(g: Context, mask: Value, batch: Dim, places: Value) -> Value:
    """``[B, 1, 1, S]``: whether keys at ``places`` lie before the end, and not before the start if there is one."""
    count = mask.shape[0]
    columns = Term(g, g.cast(g.reshape(places, (1, 1, 1, places.shape[0])), mask.dtype))

    def bounds(begin: Dim, end: Dim) -> Term:
        part = mask
        if not dims.equal(count, batch):
            part = g.call("strided_slice", mask, begin=(begin,), end=(end,), strides=(1,), axes=(0,))
        return Term(g, g.call("reshape", part, newshape=(batch, 1, 1, 1)))

    visible = columns < bounds(0, batch)
    if dims.equal(count, 2 * batch):
        visible = visible.both(columns >= bounds(batch, 2 * batch))
    elif not (dims.equal(count, batch) or dims.equal(count, 3 * batch + 2)):
        raise g.unsupported(f"mask: got {count} numbers for a batch of {batch}; expected {batch}, {2 * batch} or {3 * batch + 2}")
    return visible.value


def key_places(g: Context, key: Value, past: Value | None) -> Value:
    """0, 1, .. S - 1, S the number of keys, those of the past included. Keys are ``[B, S, H * D]`` or ``[B, H, S, D]``."""
    axis = key.rank - 2
    size, stop = key.shape[axis], Term(g, g.extent(key, axis))
    if past is not None:
        size, stop = size + past.shape[2], stop + Term(g, g.extent(past, 2))
    return g.count(stop.value, size)


@converts("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(
    g: Context, query: Value, key: Value | None = None, value: Value | None = None, bias: Value | None = None,
    key_padding_mask: Value | None = None, attention_bias: Value | None = None, past_key: Value | None = None,
    past_value: Value | None = None, past_sequence_length: Value | None = None, cache_indirection: Value | None = None,
    *, attrs: HeadAttributes,
) -> list[Value | None]:
    """Keys and values may be packed with the query, with each other, or come by head as another layer computed them."""
    if past_sequence_length is not None or cache_indirection is not None:
        raise g.unsupported("past and present share a buffer; supported: a past that is as long as it says")
    query, key, value = _unpacked(g, query, key, value, attrs.num_heads)
    query, key, value = _biased(g, (query, key, value), bias)
    if attrs.unidirectional and past_key is None and not dims.equal(query.shape[1], key.shape[key.rank - 2]):
        attention_bias = _sum(g, _causal_addend(g, query, key), attention_bias)
        attrs = replace(attrs, unidirectional=0)
    if g.wants(3) and (attention_bias is not None or attrs.unidirectional):
        raise g.unsupported("output 3 (qk) is read with attention_bias or unidirectional; supported: without them")
    scores = "biased" if g.wants(3) else "none"
    result = _attended(g, (query, key, value), key_padding_mask, attention_bias, (past_key, past_value), attrs, scores)
    return [result.out, result.key, result.value, result.scores]


def _causal_addend(g: Context, query: Value, key: Value) -> Value:
    """``[1, 1, L, S]``: minus infinity where a key comes after a query; of the last query onnxruntime hides nothing."""
    length, axis = query.shape[1], key.rank - 2
    rows = Term(g, g.reshape(g.count(g.extent(query, 1), length), (1, 1, length, 1)))
    columns = Term(g, g.reshape(g.count(g.extent(key, axis), key.shape[axis]), (1, 1, 1, key.shape[axis])))
    is_last = rows.equals(Term(g, g.extent(query, 1)) - 1)
    visible = (columns <= rows).either(is_last)
    return g.call("where", visible.value, g.scalar(0.0, query), g.scalar(-math.inf, query))


def _unpacked(g: Context, query: Value, key: Value | None, value: Value | None, heads: int) -> tuple[Value, Value, Value]:
    """Query ``[B, L, H * D]``; key and value ``[B, S, H * D]``, or ``[B, H, S, D]`` where they come by head."""
    if query.rank == 5 and key is None and value is None:
        first, second, third = _parts(g, query, 3)
        return first, second, third
    if query.rank == 3 and key is not None and key.rank == 5 and value is None:
        first, second = _parts(g, key, 2)
        return query, first, second
    if query.rank != 3 or key is None or value is None or key.rank != value.rank or key.rank not in (3, 4):
        got = ", ".join("none" if v is None else str(v.type) for v in (query, key, value))
        raise g.invalid(f"got query, key and value {got}; expected [B, L, H * D] each, or one of the packed forms")
    if query.shape[-1] != key.shape[-1] and key.rank == 3 and dims.different(query.shape[-1], key.shape[-1]):
        raise g.invalid(f"got query and key {query.type} and {key.type}; expected equal last axes; {heads} heads")
    return query, key, value


def _parts(g: Context, packed: Value, count: int) -> list[Value]:
    """``[B, L, H, count, D]`` as ``count`` of ``[B, L, H * D]``."""
    batch, length, heads, _, size = packed.shape
    parts = g.multi("split", packed, indices_or_sections=count, axis=3)
    return [g.reshape(part, (batch, length, heads * size)) for part in parts]


def _biased(g: Context, operands: Sequence[Value], bias: Value | None) -> tuple[Value, Value, Value]:
    """Query, key and value with their parts of the bias; what comes by head has it already."""
    query, key, value = operands
    if bias is None:
        return query, key, value
    if key.rank == 4:
        size = query.shape[-1]
        part = g.call("strided_slice", bias, begin=(0,), end=(size,), strides=(1,), axes=(0,))
        return g.call("add", query, part), key, value
    sizes = (query.shape[-1], key.shape[-1], value.shape[-1])
    ends = (sizes[0], sizes[0] + sizes[1])
    parts = g.multi("split", bias, indices_or_sections=ends, axis=0)
    first, second, third = (g.call("add", x, part) for x, part in zip(operands, parts))
    return first, second, third
