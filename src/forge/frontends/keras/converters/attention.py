"""Attention layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from forge.compose.attention import attention as joined_attention
from forge.dims import Dim
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters import quantized
from forge.frontends.keras.converters.core import product
from forge.frontends.keras.registry import converts
from forge.ir.nodes import Value

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def projected(g: Context, name: str, x: Value, outputs: int, use_bias: bool) -> Value:
    """``x`` times a kernel of the layer whose last ``outputs`` axes are new."""
    path = f"{name}_dense"
    stored = g.weight_array("kernel", path)
    if stored is not None and stored.dtype == "int8" and stored.ndim > 2:
        return quantized.projected(g, path, x, stored.shape[-outputs:], stored.ndim - outputs, use_bias, "int8")
    if g.layer.policy.mode:
        raise g.unsupported(f"quantization {g.layer.policy.mode!r}: not supported; expected int8")
    kernel = g.weight("kernel", path)
    inputs = kernel.rank - outputs
    lead, given, made = x.shape[: x.rank - inputs], kernel.shape[:inputs], kernel.shape[inputs:]
    flat = g.reshape(x, (*lead, math.prod(given))) if inputs > 1 else x
    found = product(g, flat, g.reshape(kernel, (math.prod(given), math.prod(made))))
    if use_bias:
        found = g.call("add", found, g.reshape(g.weight("bias", path), (math.prod(made),)))
    return g.reshape(found, (*lead, *made))


def _counts(g: Context, value: Value, axis: int, lead: int, rank: int) -> Value:
    """0, 1, .. along one of ``rank`` axes."""
    numbers = g.count(g.extent(value, axis), value.shape[axis])
    shape: list[Dim] = [1] * rank
    shape[lead] = value.shape[axis]
    return g.reshape(numbers, shape)


def causal_mask(g: Context, query: Value, key: Value, axis: int = 1) -> Value:
    """Which keys a query sees: those up to its own position; [1, T, S]."""
    return g.call("greater_equal", _counts(g, query, axis, 1, 3), _counts(g, key, axis, 2, 3))


def window_mask(g: Context, query: Value, key: Value, width: int) -> Value:
    """Which keys a query sees: those nearer than ``width``; [1, T, S]."""
    apart = g.call("abs", g.call("subtract", _counts(g, query, 1, 1, 3), _counts(g, key, 1, 2, 3)))
    return g.call("less", apart, g.constant(width, "int64"))


def all_of(g: Context, masks: Sequence[Value | None]) -> Value | None:
    """Where all masks that are there hold."""
    total: Value | None = None
    for mask in masks:
        if mask is not None:
            mask = g.cast(mask, "bool")
            total = mask if total is None else g.call("logical_and", total, mask)
    return total


def added(g: Context, mask: Value, dtype: str) -> Value:
    """What is added to scores where a mask does not hold; rows without any key become means, as in Keras."""
    numbers = g.cast(g.call("logical_not", mask), dtype)
    return g.call("multiply", numbers, g.constant(-3e4 if dtype == "float16" else -1e9, dtype))


def _expanded(g: Context, mask: Value | None, axis: int) -> Value | None:
    return None if mask is None else g.call("expand_dims", mask, axis=axis)


def _whole_mask(
    g: Context, query: Value, value: Value, masks: Sequence[Value | None], attention_mask: Value | None, causal: bool,
    window: int | None,
) -> Value | None:
    query_mask, value_mask, key_mask = masks
    return all_of(g, [
        _expanded(g, query_mask, 2), _expanded(g, value_mask, 1), _expanded(g, key_mask, 1),
        causal_mask(g, query, value) if causal else None, None if window is None else window_mask(g, query, value, window),
        attention_mask])


@converts("MultiHeadAttention")
def multi_head_attention(
    g: Context, query: Value, value: Value, key: Value | None = None, query_mask: Value | None = None,
    value_mask: Value | None = None, key_mask: Value | None = None, attention_mask: Value | None = None,
    return_attention_scores: bool | None = None, training: bool | None = None, use_causal_mask: bool | None = None, *,
    num_heads: int, key_dim: int, value_dim: Any = None, use_bias: bool = True, output_shape: Any = None,
    attention_axes: Any = None, use_gate: bool = False, sliding_window: Any = None, query_shape: Any = None,
    key_shape: Any = None, value_shape: Any = None,
) -> Any:
    source = value if key is None else key
    axes = attention_axes if attention_axes is None or isinstance(attention_axes, tuple) else (attention_axes,)
    masks = (query_mask, value_mask, key_mask)
    if query.rank == 3 and (axes is None or tuple(axes) in ((1,), (-2,))):
        if any(m is not None and m.rank != 2 for m in masks):
            raise g.unsupported("got masks that are not of rank 2; expected one number for each step")
        mask = _whole_mask(g, query, value, masks, attention_mask, bool(use_causal_mask), sliding_window)
        q, k, v = (projected(g, *of, 2, use_bias) for of in (("query", query), ("key", source), ("value", value)))
        out, scores = _heads(g, q, k, v, mask, 1 / math.sqrt(key_dim), bool(return_attention_scores))
    else:
        if any(m is not None for m in masks) or use_causal_mask or sliding_window is not None:
            raise g.unsupported(f"got masks for inputs of rank {query.rank}; supported: attention_mask")
        q, k, v = (projected(g, *of, 2, use_bias) for of in (("query", query), ("key", source), ("value", value)))
        out, scores = _general(g, q, k, v, axes, attention_mask, 1 / math.sqrt(key_dim))
    if use_gate:
        gate = g.call("sigmoid", projected(g, "gate", query, 2, use_bias))
        out = g.call("multiply", out, gate)
    outputs = len(output_shape) if isinstance(output_shape, tuple) else 1
    out = projected(g, "output", out, outputs, use_bias)
    return [out, scores] if return_attention_scores else out


def _heads(
    g: Context, query: Value, key: Value, value: Value, mask: Value | None, scale: float, wants_scores: bool
) -> tuple[Value, Value | None]:
    """Attention of [B, T, N, H]; the result has this form."""
    parts = [g.call("transpose", x, axes=(0, 2, 1, 3)) for x in (query, key, value)]
    if mask is not None:
        mask = added(g, mask if mask.rank == 4 else g.call("expand_dims", mask, axis=1), query.dtype)
    found = joined_attention(g, *parts, mask=mask, scale=scale, scores="probabilities" if wants_scores else "none")
    return g.call("transpose", found.out, axes=(0, 2, 1, 3)), found.scores


def _general(
    g: Context, query: Value, key: Value, value: Value, axes: Sequence[int] | None, mask: Value | None, scale: float
) -> tuple[Value, Value]:
    """Attention over any axes."""
    rank = query.rank
    over = tuple(range(1, rank - 2)) if axes is None else tuple(axis if axis >= 0 else rank - 1 + axis for axis in axes)
    target = _LETTERS[:rank]
    batch = [k for k in range(rank) if k not in over and k != rank - 1]
    source = "".join(
        target[k] if k in batch or k == rank - 1 else _LETTERS[rank + sum(1 for j in range(k) if j in over)] for k in range(rank))
    scored = "".join(target[k] for k in batch) + "".join(target[k] for k in over) + "".join(source[k] for k in over)
    scores = g.call("einsum", key, g.call("multiply", query, g.scalar(scale, query)), equation=f"{source},{target}->{scored}")
    if mask is not None:
        while mask.rank < scores.rank:
            mask = g.call("expand_dims", mask, axis=mask.rank - 2 * len(over))
        scores = g.call("add", scores, added(g, mask, scores.dtype))
    tail = tuple(range(scores.rank - len(over), scores.rank))
    if len(over) > 1:
        total = g.call("logsumexp", scores, axis=tail, keepdims=True)
        flat = g.call("exp", g.call("subtract", scores, total))
    else:
        flat = g.call("nn.softmax", scores, axis=-1)
    return g.call("einsum", flat, value, equation=f"{scored},{source}->{target}"), flat


@converts("GroupQueryAttention", "GroupedQueryAttention")
def grouped_query_attention(
    g: Context, query: Value, value: Value, key: Value | None = None, query_mask: Value | None = None,
    value_mask: Value | None = None, key_mask: Value | None = None, attention_mask: Value | None = None,
    return_attention_scores: bool | None = None, training: bool | None = None, use_causal_mask: bool | None = None, *,
    head_dim: int, num_query_heads: int, num_key_value_heads: int, use_bias: bool = True, use_gate: bool = False,
    sliding_window: Any = None, query_shape: Any = None, key_shape: Any = None, value_shape: Any = None,
) -> Any:
    mask = _whole_mask(
        g, query, value, (query_mask, value_mask, key_mask), attention_mask, bool(use_causal_mask), sliding_window)
    source = value if key is None else key
    q, k, v = (projected(g, *of, 2, use_bias) for of in (("query", query), ("key", source), ("value", value)))
    out, scores = _heads(g, q, k, v, mask, 1 / math.sqrt(head_dim), bool(return_attention_scores))
    if use_gate:
        out = g.call("multiply", out, g.call("sigmoid", projected(g, "gate", query, 2, use_bias)))
    out = projected(g, "output", out, 1, use_bias)
    return [out, scores] if return_attention_scores else out


def _applied(
    g: Context, scores: Value, value: Value, masks: Any, causal: bool, return_scores: bool
) -> Any:
    """The values that scores weigh, for layers that take [query, value, key]."""
    query_mask, value_mask = (masks[k] if isinstance(masks, list | tuple) and len(masks) > k else None for k in (0, 1))
    mask = _expanded(g, value_mask, 1)
    if causal:
        rows, columns = (_counts(g, scores, axis, axis, 3) for axis in (1, 2))
        mask = all_of(g, [mask, g.call("greater_equal", rows, columns)])
    if mask is not None:
        largest = 65504.0 if scores.dtype == "float16" else 1e9
        lower = g.call("subtract", scores, g.scalar(largest, scores))
        scores = g.call("where", g.broadcast(mask, scores.shape), scores, lower)
    weights = g.call("nn.softmax", scores, axis=-1)
    found = g.call("nn.matmul", weights, value)
    if query_mask is not None:
        found = g.call("where", g.broadcast(g.call("expand_dims", query_mask, axis=2), found.shape), found,
            g.call("zeros_like", found))
    return [found, weights] if return_scores else found


def _three(g: Context, inputs: Any) -> tuple[Value, Value, Value]:
    if not isinstance(inputs, list | tuple) or len(inputs) not in (2, 3):
        raise g.invalid("got no list of 2 or 3 tensors; expected query, value and key")
    return inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else inputs[1]


@converts("Attention")
def attention(
    g: Context, inputs: Any, mask: Any = None, training: bool | None = None, return_attention_scores: bool | None = None,
    use_causal_mask: bool | None = None, *, use_scale: bool = False, score_mode: str = "dot",
) -> Any:
    query, value, key = _three(g, inputs)
    scale = g.weight("scale") if use_scale else None
    if score_mode == "dot":
        scores = g.call("nn.matmul", query, key, transpose_b=True)
        scores = scores if scale is None else g.call("multiply", scores, scale)
    elif score_mode == "concat":
        total = g.call("add", g.call("expand_dims", query, axis=2), g.call("expand_dims", key, axis=1))
        total = total if scale is None else g.call("multiply", total, scale)
        scores = g.call("multiply", g.call("sum", g.call("tanh", total), axis=(3,)), g.weight("concat_score_weight"))
    else:
        raise g.invalid(f"score_mode: got {score_mode!r}; expected dot or concat")
    return _applied(g, scores, value, mask, bool(use_causal_mask), bool(return_attention_scores))


@converts("AdditiveAttention")
def additive_attention(
    g: Context, inputs: Any, mask: Any = None, training: bool | None = None, return_attention_scores: bool | None = None,
    use_causal_mask: bool | None = None, *, use_scale: bool = True,
) -> Any:
    query, value, key = _three(g, inputs)
    total = g.call("tanh", g.call("add", g.call("expand_dims", query, axis=2), g.call("expand_dims", key, axis=1)))
    total = g.call("multiply", total, g.weight("scale")) if use_scale else total
    scores = g.call("sum", total, axis=(3,))
    return _applied(g, scores, value, mask, bool(use_causal_mask), bool(return_attention_scores))
