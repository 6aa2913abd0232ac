"""Embeddings of words, positions and segments, with the layer norm behind their sum."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.microsoft.quantized import real
from forge.frontends.onnx.registry import converts
from forge.ops.compose import norms


@converts("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_norm(
    g: Context,
    ids: Value,
    segment_ids: Value | None,
    words: Value,
    positions: Value,
    segments: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None = None,
    position_ids: Value | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int | None = None,
) -> list[Value | None]:
    """The norm; how many elements of each row of the mask are 1 (0 without a mask), whatever mask_index_type says; the sum."""
    total = _rows(g, words, ids)
    total = g.call("add", total, _positions(g, positions, ids, position_ids))
    if segment_ids is not None:
        if segments is None:
            raise g.invalid("input 4 (segment_embedding) is absent; expected it beside segment_ids")
        total = g.call("add", total, _rows(g, segments, segment_ids))
    return [norms.layer_norm(g, total, gamma, beta, first=total.rank - 1, epsilon=epsilon), _counts(g, ids, mask), total]


def _rows(g: Context, table: Value, indices: Value) -> Value:
    return g.call("take", table, indices, axis=0, mode="clip")


def _positions(g: Context, table: Value, ids: Value, chosen: Value | None) -> Value:
    if chosen is not None:
        return _rows(g, table, chosen)
    length = ids.shape[1]
    if isinstance(length, int):
        return g.call("strided_slice", table, begin=(0,), end=(length,), strides=(1,), axes=(0,))
    return _rows(g, table, g.count(g.extent(ids, 1), length))


def _counts(g: Context, ids: Value, mask: Value | None) -> Value | None:
    if not g.wants(1):
        return None
    if mask is None:
        return g.call("full", g.constant(0, "int32"), shape=(ids.shape[0],))
    return g.call("sum", g.cast(g.call("equal", mask, g.scalar(1, mask)), "int32"), axis=(1,), keepdims=False)


@converts("QEmbedLayerNormalization", domain=DOMAIN)
def quantized_embed_layer_norm(
    g: Context,
    ids: Value,
    segment_ids: Value | None,
    words: Value,
    positions: Value,
    segments: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None,
    words_scale: Value,
    positions_scale: Value,
    segments_scale: Value | None,
    gamma_scale: Value,
    beta_scale: Value,
    words_zero_point: Value,
    positions_zero_point: Value,
    segments_zero_point: Value | None,
    gamma_zero_point: Value,
    beta_zero_point: Value,
    *,
    epsilon: float = 1e-12,
) -> list[Value | None]:
    third = None if segments is None or segments_scale is None else real(g, segments, segments_scale, segments_zero_point)
    results = embed_layer_norm(
        g, ids, segment_ids, real(g, words, words_scale, words_zero_point),
        real(g, positions, positions_scale, positions_zero_point), third, real(g, gamma, gamma_scale, gamma_zero_point),
        real(g, beta, beta_scale, beta_zero_point), mask, epsilon=epsilon,
    )
    return results[:2]
