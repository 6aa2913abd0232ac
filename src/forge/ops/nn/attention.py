"""Scaled dot-product attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.ops.core.composer import Composer
from forge.ops.core.inference import HALF_TYPES, broadcast_shapes, fail, require_equal, same_dtype
from forge.ops.core.lowering import wide
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, TensorTypes, Types, Value, Values
from forge.ops.core.term import Term

SCORES = ("none", "product", "capped", "biased", "probabilities")


@dataclass(frozen=True)
class AttentionAttrs:
    scale: float | None = None
    is_causal: bool = False
    softcap: float = 0.0
    left_window: int = -1
    right_window: int = -1
    softmax_dtype: str | None = None
    scores: str = "none"


@register
class Attention(Op[AttentionAttrs]):
    """``out[b, h, i] = sum over j of p[b, h, i, j] * value[b, g, j]``, g the head of key and value that query head h shares.

    ``p = softmax over j of s``, ``s = cap(scale * (query[b, h, i] . key[b, g, j])) + mask``, ``g = h // (H / G)``,
    ``cap(x) = softcap * tanh(x / softcap)`` (x where ``softcap`` is 0).

    Operands: query ``[B, H, L, D]``, key ``[B, G, S, D]``, value ``[B, G, S, E]``, H a multiple of G; ``mask``, bool (True:
    visible) or of the operands' dtype (added), broadcasts to ``[B, H, L, S]``; ``offset``, int64, ``[]`` or ``[B]``: the position
    of query 0 among the keys, absent: 0; ``lengths``, int64, ``[B]``: how many keys are valid. ``scale`` is 1 / sqrt(D) when
    absent. Query i is at position q = i + offset; key j is invisible (p = 0) if ``is_causal`` and j > q, if
    j < q - ``left_window`` or j > q + ``right_window`` (-1: no bound), if j >= lengths[b], or if a bool mask is False there. A
    query that sees no key gets 0.

    Products and sums are rounded to the operands' dtype; softmax is computed in ``softmax_dtype`` (absent: the same). Results:
    out ``[B, H, L, E]`` and, if ``scores`` is not "none", ``[B, H, L, S]``: the scaled "product", "capped", "biased" (with the
    mask; -inf where invisible), or the "probabilities".
    """

    name = "nn.attention"
    query, key, value = Operand(accepts="float", rank=4), Operand(rank=4), Operand(rank=4)
    mask, offset = Operand(optional=True, accepts="number or bool"), Operand(optional=True, accepts="int64", rank=(0, 1))
    lengths = Operand(optional=True, accepts="int64", rank=1)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    category = Category.CONTRACTION

    def infer(self, attrs: AttentionAttrs, query: Value, key: Value, value: Value, *masks: Value | None) -> Types:
        dtype = same_dtype(self.name, (query, key, value))
        _check_sizes(self.name, query, key, value)
        _check_attributes(self.name, attrs)
        full = (*query.shape[:3], key.shape[2])
        mask, *counts = masks
        if mask is not None:
            _check_mask(self.name, mask, dtype, full)
        for name, count in zip(("offset", "lengths"), counts):
            if count is not None and count.rank == 1:
                require_equal(self.name, f"size of {name}", count.shape[0], query.shape[0])
        out = TensorType((*query.shape[:3], value.shape[3]), dtype)
        return [out] if attrs.scores == "none" else [out, TensorType(full, dtype)]

    def reference(
        self,
        attrs: AttentionAttrs,
        query: Array,
        key: Array,
        value: Array,
        mask: Array | None,
        offset: Array | None,
        lengths: Array | None,
    ) -> Arrays:
        group = max(query.shape[1] // max(key.shape[1], 1), 1)
        key, value = (np.repeat(x, group, axis=1) for x in (key, value))
        left, right = _factors(query.dtype, _scale(attrs, query.shape[3]))
        product = (wide(query * left) @ wide(np.swapaxes(key * right, 2, 3))).astype(query.dtype)
        capped = (np.tanh(wide(product) / attrs.softcap) * attrs.softcap).astype(query.dtype) if attrs.softcap else product
        visible = _visible_array(product.shape, attrs, offset, lengths)
        added = None
        if mask is not None:
            visible = visible & (mask if mask.dtype == bool else mask > -np.inf)
            added = None if mask.dtype == bool else mask
        biased = np.where(visible, capped if added is None else capped + added, query.dtype.type(-np.inf))
        probabilities = _softmax(biased, visible, attrs.softmax_dtype).astype(query.dtype)
        out = (wide(probabilities) @ wide(value)).astype(query.dtype)
        found = {"product": product, "capped": capped, "biased": biased, "probabilities": probabilities}
        return [out] if attrs.scores == "none" else [out, found[attrs.scores]]

    def decompose(self, builder: Builder, attrs: AttentionAttrs, *operands: Any) -> Values:
        return _Parts(Composer(builder), attrs, *operands).results()

    def flops(self, attrs: AttentionAttrs, results: TensorTypes, query: Value, key: Value, value: Value, *_: object) -> Any:
        scores = dims.product((*query.shape[:3], key.shape[2]))
        return scores * (2 * query.shape[3] + 2 * value.shape[3] + 5)


def _check_sizes(op: str, query: Value, key: Value, value: Value) -> None:
    for what, got, wanted in (
        ("batch of key", key.shape[0], query.shape[0]),
        ("batch of value", value.shape[0], query.shape[0]),
        ("heads of value", value.shape[1], key.shape[1]),
        ("positions of value", value.shape[2], key.shape[2]),
        ("last axis of key", key.shape[3], query.shape[3]),
    ):
        require_equal(op, what, got, wanted)
    if not dims.equal(query.shape[1], key.shape[1]):
        require_equal(op, f"heads {query.shape[1]} of query modulo those of key", dims.floormod(query.shape[1], key.shape[1]), 0)


def _check_attributes(op: str, attrs: AttentionAttrs) -> None:
    if attrs.scores not in SCORES:
        raise fail(op, "attribute 'scores'", repr(attrs.scores), f"one of {', '.join(SCORES)}")
    if min(attrs.left_window, attrs.right_window) < -1:
        raise fail(op, "windows", f"{attrs.left_window} and {attrs.right_window}", "-1 or more")
    if attrs.softcap < 0:
        raise fail(op, "attribute 'softcap'", attrs.softcap, "0 or more")
    if attrs.softmax_dtype is not None and not dtypes.is_float(attrs.softmax_dtype):
        raise fail(op, "attribute 'softmax_dtype'", attrs.softmax_dtype, "a floating point type")


def _check_mask(op: str, mask: Value, dtype: str, full: tuple[Dim, ...]) -> None:
    if mask.dtype not in ("bool", dtype):
        raise fail(op, "element type of mask", mask.dtype, f"bool or {dtype}")
    if mask.rank > 4:
        raise fail(op, "rank of mask", mask.rank, "at most 4")
    for got, wanted in zip(broadcast_shapes(op, full, mask.shape), full):
        require_equal(op, f"mask {mask.type} broadcast to the scores", got, wanted)


def _scale(attrs: AttentionAttrs, size: int) -> float:
    return attrs.scale if attrs.scale is not None else 1 / math.sqrt(max(size, 1))


def _factors(dtype: np.dtype[Any], scale: float) -> tuple[Any, Any]:
    """Factors of query and key. Narrow types share the scale, so that products stay in range."""
    if dtypes.canonical(dtype) not in HALF_TYPES:
        return dtype.type(scale), dtype.type(1)
    root = math.sqrt(abs(scale))
    return dtype.type(math.copysign(root, scale)), dtype.type(root)


def _visible_array(shape: tuple[int, ...], attrs: AttentionAttrs, offset: Array | None, lengths: Array | None) -> Array:
    """Whether query i may see key j, in the shape of the scores."""
    start = np.zeros(1, np.int64) if offset is None else np.atleast_1d(offset)
    columns = np.arange(shape[3])
    distance = np.arange(shape[2])[:, None] + start.reshape(-1, 1, 1, 1) - columns
    visible = np.ones(shape, bool)
    if attrs.is_causal:
        visible &= distance >= 0
    if attrs.left_window >= 0:
        visible &= distance <= attrs.left_window
    if attrs.right_window >= 0:
        visible &= -distance <= attrs.right_window
    return visible if lengths is None else visible & (columns < lengths.reshape(-1, 1, 1, 1))


def _softmax(scores: Array, visible: Array, dtype: str | None) -> Array:
    """0 in rows without anything visible."""
    x = scores if dtype is None else scores.astype(dtypes.numpy_dtype(dtype))
    if x.size == 0:
        return x
    seen = visible.any(axis=-1, keepdims=True)
    shifted = wide(x) - np.max(wide(x), axis=-1, keepdims=True, initial=-np.inf, where=seen)
    with np.errstate(invalid="ignore"):
        exponentials = np.exp(np.where(seen, shifted, -np.inf))
        total = np.where(seen, exponentials.sum(axis=-1, keepdims=True), 1)
    return np.where(seen, exponentials / total, 0).astype(x.dtype)


class _Parts:
    """The operator out of simpler ones."""

    def __init__(
        self,
        g: Composer,
        attrs: AttentionAttrs,
        query: Value,
        key: Value,
        value: Value,
        mask: Value | None,
        offset: Value | None,
        lengths: Value | None,
    ) -> None:
        self.g, self.attrs = g, attrs
        self.query, self.key, self.value = query, key, value
        self.mask, self.offset, self.lengths = mask, offset, lengths
        self.full = (*query.shape[:3], key.shape[2])

    def results(self) -> list[Value]:
        g, attrs = self.g, self.attrs
        product = self._product()
        capped = self._capped(product)
        visible, mask = self._visible(), self._added()
        biased = capped if mask is None else g.call("add", capped, mask)
        if visible is not None:
            biased = g.call("where", visible, biased, g.scalar(-math.inf, biased))
        probabilities = self._probabilities(biased, self._seen(visible, mask))
        out = self._weighted(probabilities)
        found = {"product": product, "capped": capped, "biased": biased, "probabilities": probabilities}
        return [out] if attrs.scores == "none" else [out, found[attrs.scores]]

    def _product(self) -> Value:
        """Scaled scores ``[B, H, L, S]``; query heads that share a key are rows of one matrix."""
        g = self.g
        query, key = self._scaled()
        batch, _, length, size = query.shape
        groups = key.shape[1]
        rows = g.reshape(query, (batch, groups, self._group * length, size))
        return g.reshape(g.call("nn.matmul", rows, key, transpose_b=True), self.full)

    def _capped(self, product: Value) -> Value:
        bound = self.attrs.softcap
        if not bound:
            return product
        return (Term(self.g, self.g.call("tanh", (Term(self.g, product) / bound).value)) * bound).value

    @property
    def _group(self) -> Dim:
        heads, groups = self.query.shape[1], self.key.shape[1]
        return 1 if dims.equal(heads, groups) else dims.floordiv(heads, groups)

    def _scaled(self) -> tuple[Value, Value]:
        g, size, dtype = self.g, self.query.shape[3], self.query.dtype
        if self.attrs.scale is None and not isinstance(size, int):
            extent = g.call("maximum", g.extent(self.query, 3), g.constant(1, "int64"))
            factor = g.call("rsqrt", g.cast(extent, "float64" if dtype == "float64" else "float32"))
            return g.call("multiply", self.query, g.cast(factor, dtype)), self.key
        left, right = _factors(dtypes.numpy_dtype(dtype), _scale(self.attrs, size if isinstance(size, int) else 1))
        return self._times(self.query, left), self._times(self.key, right)

    def _times(self, x: Value, factor: Any) -> Value:
        return x if factor == 1 else self.g.call("multiply", x, self.g.constant(factor))

    def _weighted(self, probabilities: Value) -> Value:
        g = self.g
        batch, heads, length, size = self.full
        groups = self.key.shape[1]
        rows = g.reshape(probabilities, (batch, groups, self._group * length, size))
        product = g.call("nn.matmul", rows, self.value)
        return g.reshape(product, (batch, heads, length, self.value.shape[3]))

    def _added(self) -> Value | None:
        return None if self.mask is None or self.mask.dtype == "bool" else self._aligned(self.mask)

    def _aligned(self, mask: Value) -> Value:
        return self.g.reshape(mask, (*[1] * (4 - mask.rank), *mask.shape))

    def _visible(self) -> Value | None:
        """Whether query i may see key j; None: always."""
        g = self.g
        conditions = self._by_position()
        if self.lengths is not None:
            columns = Term(g, self._columns())
            conditions.append((columns < Term(g, g.reshape(self.lengths, (self.full[0], 1, 1, 1)))).value)
        if self.mask is not None and self.mask.dtype == "bool":
            conditions.append(self._aligned(self.mask))
        if not conditions:
            return None
        result = conditions[0]
        for condition in conditions[1:]:
            result = g.call("logical_and", result, condition)
        return result

    def _columns(self) -> Value:
        size = self.full[3]
        return self.g.reshape(self.g.count(self.g.extent(self.key, 2), size), (1, 1, 1, size))

    def _by_position(self) -> list[Value]:
        g, attrs, length = self.g, self.attrs, self.full[2]
        if not attrs.is_causal and max(attrs.left_window, attrs.right_window) < 0:
            return []
        places = Term(g, g.reshape(g.count(g.extent(self.query, 2), length), (1, 1, length, 1)))
        if self.offset is not None:
            start = self.offset if self.offset.rank == 0 else g.reshape(self.offset, (self.full[0], 1, 1, 1))
            places = places + Term(g, start)
        distance = places - Term(g, self._columns())
        lowest = 0 if attrs.is_causal else -attrs.right_window if attrs.right_window >= 0 else None
        found = [] if lowest is None else [(distance >= lowest).value]
        return [*found, (distance <= attrs.left_window).value] if attrs.left_window >= 0 else found

    def _seen(self, visible: Value | None, mask: Value | None) -> Value | None:
        """Whether a query sees any key; None: all do."""
        g = self.g
        conditions = [] if visible is None or self._first_key_is_visible() else [visible]
        if mask is not None:
            conditions = [v for v in (visible, g.call("greater", mask, g.scalar(-math.inf, mask))) if v is not None]
        if not conditions:
            return None
        both = conditions[0] if len(conditions) == 1 else g.call("logical_and", *conditions)
        return g.call("any", both, axis=(3,), keepdims=True)

    def _first_key_is_visible(self) -> bool:
        """Whether key 0 is visible to every query, whatever arrives at run time."""
        return self.offset is None and self.lengths is None and self.mask is None and self.attrs.left_window < 0

    def _probabilities(self, scores: Value, seen: Value | None) -> Value:
        g = self.g
        dtype = self.attrs.softmax_dtype or scores.dtype
        result = g.call("nn.softmax", g.cast(scores, dtype), axis=-1)
        if seen is not None:
            result = g.call("where", seen, result, g.scalar(0, result))
        return g.cast(result, scores.dtype)
