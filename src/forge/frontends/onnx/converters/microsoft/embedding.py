"""Embeddings of words, positions and segments, with the layer norm after their sum."""

from __future__ import annotations

from forge.compose import norms
from forge.compose.checks import checked_indices
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.core.windows import ConvAttributes
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.microsoft.quantized import real
from forge.frontends.onnx.converters.nn.convolution import conv
from forge.frontends.onnx.registry import converts
from forge.ops.core.term import Term


@converts("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_norm(
    g: Context, ids: Value, segment_ids: Value | None, words: Value, positions: Value, segments: Value | None, gamma: Value,
    beta: Value, mask: Value | None = None, position_ids: Value | None = None,
    *, epsilon: float = 1e-12, mask_index_type: int | None = None,
) -> list[Value | None]:
    """The norm; how many elements of each row of the mask are 1 (0 without a mask), whatever mask_index_type says; the sum."""
    total = _rows(g, words, ids)
    total = g.call("add", total, _positions(g, positions, ids, position_ids))
    if segment_ids is not None:
        if segments is None:
            raise g.invalid("input 4 (segment_embedding) is absent; expected it with segment_ids")
        total = g.call("add", total, _rows(g, segments, segment_ids))
    return [norms.layer_norm(g, total, gamma, beta, first=total.rank - 1, epsilon=epsilon), _counts(g, ids, mask), total]


def _rows(g: Context, table: Value, indices: Value) -> Value:
    return g.call("take", table, checked_indices(g, indices, table.shape[0], from_end=False), axis=0, mode="clip")


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
    g: Context, ids: Value, segment_ids: Value | None, words: Value, positions: Value, segments: Value | None, gamma: Value,
    beta: Value, mask: Value | None, words_scale: Value, positions_scale: Value, segments_scale: Value | None, gamma_scale: Value,
    beta_scale: Value, words_zero_point: Value, positions_zero_point: Value, segments_zero_point: Value | None,
    gamma_zero_point: Value, beta_zero_point: Value,
    *, epsilon: float = 1e-12,
) -> list[Value | None]:
    third = None if segments is None or segments_scale is None else real(g, segments, segments_scale, segments_zero_point)
    results = embed_layer_norm(
        g, ids, segment_ids, real(g, words, words_scale, words_zero_point),
        real(g, positions, positions_scale, positions_zero_point), third, real(g, gamma, gamma_scale, gamma_zero_point),
        real(g, beta, beta_scale, beta_zero_point), mask, epsilon=epsilon,
    )
    return results[:2]


@converts("WordConvEmbedding", domain=DOMAIN)
def word_embedding(
    g: Context, words: Value, weight: Value, bias: Value, table: Value,
    *, char_embedding_size: int | None = None, conv_window_size: int | None = None, embedding_size: int | None = None,
) -> Value:
    """Of words ``[N, L]`` of characters: the largest tanh of a convolution over windows that lie in the word, one at least.

    A word is as long as it has characters other than 0, and empty, with zeros for result, if it begins with 0.
    """
    filters, _, window, size = weight.shape
    given = {"embedding_size": embedding_size, "conv_window_size": conv_window_size, "char_embedding_size": char_embedding_size}
    for (name, value), own in zip(given.items(), (filters, window, size)):
        if value is not None and value != own:
            raise g.invalid(f"attribute {name!r}: got {value}; the weight has {own}; expected equal sizes")
    rows = g.call("transpose", g.call("take", table, words, axis=0, mode="clip"), axes=(0, 2, 1))
    kernel = g.call("transpose", g.reshape(weight, (filters, window, size)), axes=(0, 2, 1))
    found = g.call("tanh", conv(g, rows, kernel, bias, attrs=ConvAttributes()))
    present = Term(g, g.cast((Term(g, words) > 0).value, "int64")).sum(1)
    begins = g.call("strided_slice", words, begin=(0,), end=(1,), strides=(1,), axes=(1,))
    count = (present - (window - 1)).maximum(1)
    places = Term(g, g.reshape(g.count(g.extent(found, 2), found.shape[2]), (1, found.shape[2])))
    inside = g.call("expand_dims", (places < count).value, axis=1)
    best = g.call("max", g.call("where", inside, found, g.scalar(-2, found)), axis=(2,), keepdims=False)
    return Term(g, begins).equals(0).where(0, Term(g, best)).value
