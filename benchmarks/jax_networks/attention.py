"""Transformers over tokens: BERT, GPT-2 and a translator with an encoder and a decoder (flax.linen)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn


class FeedForward(nn.Module):
    """Two products with GELU between them."""

    approximate: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        width = x.shape[-1]
        return nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(x), approximate=self.approximate))


class BertLayer(nn.Module):
    """Attention and a feed-forward network, each followed by residual addition and layer normalization."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        x = nn.LayerNorm(epsilon=1e-12)(x + nn.MultiHeadDotProductAttention(self.heads)(x, mask=mask))
        return nn.LayerNorm(epsilon=1e-12)(x + FeedForward(approximate=False)(x))


class Bert(nn.Module):
    """Maps token ids, a 0/1 mask and segment ids, all ``(N, L)``, to ``(N, L, width)`` and ``(N, width)``."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int

    @nn.compact
    def __call__(self, input_ids: jax.Array, attention_mask: jax.Array, token_type_ids: jax.Array) -> tuple[jax.Array, jax.Array]:
        places = jnp.broadcast_to(jnp.arange(input_ids.shape[1]), input_ids.shape)
        x = nn.Embed(self.vocabulary, self.width)(input_ids)
        x = x + nn.Embed(2, self.width)(token_type_ids) + nn.Embed(self.positions, self.width)(places)
        x = nn.LayerNorm(epsilon=1e-12)(x)
        mask = nn.make_attention_mask(jnp.ones_like(attention_mask), attention_mask)
        for _ in range(self.layers):
            x = BertLayer(self.heads)(x, mask)
        return x, nn.tanh(nn.Dense(self.width)(x[:, 0]))


class GPT2Layer(nn.Module):
    """Causal attention of one fused projection, and a feed-forward network, each after a normalization."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        batch, length, width = x.shape
        projected = nn.Dense(3 * width)(nn.LayerNorm()(x))
        query, key, value = (part.reshape(batch, length, self.heads, -1) for part in jnp.split(projected, 3, axis=-1))
        attended = nn.dot_product_attention(query, key, value, mask=mask)
        x = x + nn.Dense(width)(attended.reshape(batch, length, width))
        return x + FeedForward(approximate=True)(nn.LayerNorm()(x))


class GPT2(nn.Module):
    """Maps token ids ``(N, L)`` to logits ``(N, L, vocabulary)``."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int

    @nn.compact
    def __call__(self, input_ids: jax.Array) -> jax.Array:
        tokens = nn.Embed(self.vocabulary, self.width)
        x = tokens(input_ids) + nn.Embed(self.positions, self.width)(jnp.arange(input_ids.shape[1])[None])
        mask = nn.make_causal_mask(input_ids)
        for _ in range(self.layers):
            x = GPT2Layer(self.heads)(x, mask)
        return tokens.attend(nn.LayerNorm()(x))


class EncoderLayer(nn.Module):
    """Attention over all tokens and a feed-forward network, each after a normalization."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x))
        return x + FeedForward(approximate=False)(nn.LayerNorm()(x))


class DecoderLayer(nn.Module):
    """Causal attention, attention to the source, and a feed-forward network, each after a normalization."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, source: jax.Array, mask: jax.Array, source_mask: jax.Array) -> jax.Array:
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.RMSNorm()(x), mask=mask)
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.RMSNorm()(x), source, mask=source_mask)
        return x + FeedForward(approximate=True)(nn.RMSNorm()(x))


class Translator(nn.Module):
    """Maps ids of a source ``(N, S)``, where 0 is no token, and of a target ``(N, L)`` to logits ``(N, L, vocabulary)``."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int

    @nn.compact
    def __call__(self, source_ids: jax.Array, target_ids: jax.Array) -> jax.Array:
        tokens = nn.Embed(self.vocabulary, self.width)
        places = self.param("positions", nn.initializers.normal(0.02), (self.positions, self.width))
        x = tokens(source_ids) + places[: source_ids.shape[1]]
        for _ in range(self.layers):
            x = EncoderLayer(self.heads)(x)
        source = nn.LayerNorm()(x)
        x = tokens(target_ids) + places[: target_ids.shape[1]]
        mask = nn.make_causal_mask(target_ids)
        source_mask = nn.make_attention_mask(jnp.ones_like(target_ids), source_ids > 0)
        for _ in range(self.layers):
            x = DecoderLayer(self.heads)(x, source, mask, source_mask)
        return nn.log_softmax(nn.Dense(self.vocabulary)(nn.RMSNorm()(x)))


class Perceptron(nn.Module):
    """Linear layers with ReLU between them."""

    widths: tuple[int, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths[:-1]:
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.widths[-1])(x)


def sinusoids(places: jax.Array, width: int) -> jax.Array:
    """Sines, then cosines of places ``(L,)``: ``(L, width)``."""
    rates = jnp.exp(-jnp.log(1e4) / (width // 2 - 1) * jnp.arange(width // 2))
    angles = places[:, None] * rates
    return jnp.concatenate((jnp.sin(angles), jnp.cos(angles)), axis=1)


__all__ = ["GPT2", "Bert", "EncoderLayer", "Perceptron", "Translator", "sinusoids"]
