"""Attention in one kernel: what the pass ``fuse_attention`` makes of two matrix products and the softmax between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims
from forge.ops.core.inference import broadcast_shapes, fail, require_equal, same_dtype
from forge.ops.core.lowering import wide
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, TensorType, TensorTypes, Types, Value


@dataclass(frozen=True)
class FusedAttentionAttrs:
    scale: float = 1.0
    softcap: float = 0.0
    fill: float = -math.inf
    zero_unseen: bool = False
    transpose_key: bool = True
    inner: int = 0


@register
class FusedAttention(Op[FusedAttentionAttrs]):
    """``out[..., i] = sum over j of softmax over j (s[..., i, j]) * value[..., j]``, ``s = bias(cap(scale * query . key))``.

    Operands: query ``[..., L, D]``, key ``[..., S, D]`` (``[..., D, S]`` without ``transpose_key``), value ``[..., S, E]``,
    whose leading axes broadcast; ``mask``, which broadcasts to ``[..., L, S]``: of the operands' dtype or float32 it is added, a
    bool puts ``fill`` where it is False. ``cap(x) = softcap * tanh(x / softcap)``, x where ``softcap`` is 0. A row of nothing
    but -inf gives NaN, or 0 with ``zero_unseen``. Scores, their exponentials and sums are not rounded to a narrow dtype, but for
    the exponentials that multiply values of bfloat16. A key with a mask of -1e30 or less may be left out for rows that see
    others, NaN or not.

    Result: ``[..., L, E]``; with ``inner = n``, axis L stands before the last n of the leading axes. Kernel family ``attention``.
    """

    name = "nn.contrib_attention"
    query, key, value = Operand(accepts="float", min_rank=2), Operand(min_rank=2), Operand(min_rank=2)
    mask = Operand(optional=True, accepts="number or bool")
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "attention"
    category = Category.CONTRACTION

    def infer(self, attrs: FusedAttentionAttrs, query: Value, key: Value, value: Value, mask: Value | None) -> Types:
        dtype = same_dtype(self.name, (query, key, value))
        keys, depth = key.shape[-2:] if attrs.transpose_key else key.shape[:-3:-1]
        require_equal(self.name, f"depth of key {key.type} against query {query.type}", depth, query.shape[-1])
        require_equal(self.name, f"positions of value {value.type} against key {key.type}", value.shape[-2], keys)
        batch = broadcast_shapes(self.name, query.shape[:-2], key.shape[:-2], value.shape[:-2])
        if mask is not None:
            _check_mask(self.name, mask, dtype, (*batch, query.shape[-2], keys))
        if not 0 <= attrs.inner <= len(batch):
            raise fail(self.name, "attribute 'inner'", attrs.inner, f"0 to {len(batch)}, the number of leading axes")
        place = len(batch) - attrs.inner
        return [TensorType((*batch[:place], query.shape[-2], *batch[place:], value.shape[-1]), dtype)]

    def reference(self, attrs: FusedAttentionAttrs, query: Array, key: Array, value: Array, mask: Array | None) -> Arrays:
        dtype = query.dtype
        scores = wide(query) @ wide(np.swapaxes(key, -1, -2) if attrs.transpose_key else key) * attrs.scale
        if attrs.softcap:
            scores = np.tanh(scores / attrs.softcap) * attrs.softcap
        if mask is not None:
            scores = np.where(mask, scores, attrs.fill) if mask.dtype == bool else scores + wide(mask)
        out = (_softmax(scores, attrs.zero_unseen) @ wide(value)).astype(dtype)
        return [np.ascontiguousarray(np.moveaxis(out, -2, -2 - attrs.inner))]

    def flops(self, attrs: FusedAttentionAttrs, results: TensorTypes, query: Value, key: Value, value: Value, *_: object) -> Any:
        outputs = dims.product(results[0].shape[:-1])
        return outputs * value.shape[-2] * (2 * query.shape[-1] + 2 * value.shape[-1] + 5)


def _check_mask(op: str, mask: Value, dtype: str, full: tuple[Dim, ...]) -> None:
    if mask.dtype not in ("bool", "float32", dtype):
        raise fail(op, "element type of mask", mask.dtype, f"bool, float32 or {dtype}")
    if mask.rank > len(full):
        raise fail(op, "rank of mask", mask.rank, f"at most {len(full)}")
    for got, wanted in zip(broadcast_shapes(op, full, mask.shape), full, strict=True):
        require_equal(op, f"mask {mask.type} broadcast to the scores", got, wanted)


def _softmax(scores: Array, zero_unseen: bool) -> Array:
    """Along the last axis; NaN, or 0 if asked for, where everything is -inf."""
    if scores.shape[-1] == 0:
        return scores
    largest = scores.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        exponentials = np.exp(scores - np.where(largest == -np.inf, 0, largest))
        total = exponentials.sum(axis=-1, keepdims=True)
        shares: Array = exponentials / total
    return np.where(total == 0, 0, shares) if zero_unseen else shares
