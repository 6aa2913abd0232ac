"""A decoder in the manner of Llama: RMS norm, rotary positions, grouped heads, SwiGLU, a cache (flax.linen)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

Cache = tuple[jax.Array, jax.Array]
"""Keys and values ``(N, length, shared heads, size)`` of one layer."""


def rotated(x: jax.Array, places: jax.Array) -> jax.Array:
    """``x`` ``(N, L, heads, size)`` turned by the angles of places ``(L,)``."""
    size = x.shape[-1]
    rates = 1e4 ** (-jnp.arange(0, size, 2) / size)
    angles = jnp.einsum("l,r->lr", places.astype(jnp.float32), rates)[:, None, :]
    first, second = jnp.split(x, 2, axis=-1)
    cosines, sines = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate((first * cosines - second * sines, second * cosines + first * sines), axis=-1)


class Attention(nn.Module):
    """Causal attention; several query heads share a key and value head. With a cache, of tokens from ``place`` on over it."""

    heads: int
    shared_heads: int

    @nn.compact
    def __call__(self, x: jax.Array, place: Any, cache: Cache | None) -> tuple[jax.Array, Cache]:
        size, length = x.shape[-1] // self.heads, x.shape[1]
        dense = functools.partial(nn.DenseGeneral, use_bias=False)
        places = place + jnp.arange(length)
        query = rotated(dense((self.heads, size), name="query")(x), places)
        key = rotated(dense((self.shared_heads, size), name="key")(x), places)
        value = dense((self.shared_heads, size), name="value")(x)
        if cache is None:
            attended = jax.nn.dot_product_attention(query, key, value, is_causal=True)
        else:
            key = lax.dynamic_update_slice(cache[0], key, (0, place, 0, 0))
            value = lax.dynamic_update_slice(cache[1], value, (0, place, 0, 0))
            mask = jnp.arange(key.shape[1])[None, :] <= places[:, None]
            attended = jax.nn.dot_product_attention(query, key, value, mask=mask[None, None])
        return dense(x.shape[-1], axis=(-2, -1), name="output")(attended), (key, value)


class Layer(nn.Module):
    """Attention and a gated feed-forward network, each behind a normalization."""

    heads: int
    shared_heads: int
    hidden: int

    @nn.compact
    def __call__(self, x: jax.Array, place: Any = 0, cache: Cache | None = None) -> tuple[jax.Array, Cache | None]:
        attended, new = Attention(self.heads, self.shared_heads)(nn.RMSNorm()(x), place, cache)
        x = x + attended
        normal, dense = nn.RMSNorm()(x), functools.partial(nn.Dense, use_bias=False)
        gated = nn.silu(dense(self.hidden, name="gate")(normal)) * dense(self.hidden, name="up")(normal)
        return x + dense(x.shape[-1], name="down")(gated), None if cache is None else new


class Decoder(nn.Module):
    """Maps token ids ``(N, L)`` to logits of the last position, and caches ``(layers, N, length, shared heads, size)`` too.

    Attributes:
        scanned: the layers are one, scanned over stacked weights.
    """

    layers: int
    width: int
    heads: int
    shared_heads: int
    hidden: int
    vocabulary: int
    scanned: bool = False

    @nn.compact
    def __call__(self, input_ids: jax.Array, place: Any = 0, caches: Cache | None = None) -> Any:
        x = nn.Embed(self.vocabulary, self.width, name="tokens")(input_ids)
        sizes = (self.heads, self.shared_heads, self.hidden)
        if self.scanned:
            layer = nn.scan(
                Layer, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=(nn.broadcast, 0), length=self.layers)
            x, caches = layer(*sizes, name="layers")(x, place, caches)
        else:
            own = [None if caches is None else (caches[0][k], caches[1][k]) for k in range(self.layers)]
            for k, cache in enumerate(own):
                x, own[k] = Layer(*sizes, name=f"layer_{k}")(x, place, cache)
            caches = None if caches is None else tuple(jnp.stack(c) for c in zip(*own))
        logits = nn.Dense(self.vocabulary, use_bias=False, name="head")(nn.RMSNorm()(x[:, -1]))
        return logits if caches is None else (logits, caches)


def caches(model: Decoder, batch: int, length: int) -> Cache:
    """Empty caches of a model."""
    shape = (model.layers, batch, length, model.shared_heads, model.width // model.heads)
    return jnp.zeros(shape), jnp.zeros(shape)


def greedy(model: Decoder, steps: int) -> Callable[[Any, jax.Array], jax.Array]:
    """A function of the variables and a prompt ``(N, L)``: the prompt and the likeliest tokens after it."""

    def generate(variables: Any, prompt: jax.Array) -> jax.Array:
        batch, length = prompt.shape
        logits, cache = model.apply(variables, prompt, 0, caches(model, batch, length + steps))
        tokens = jnp.concatenate((prompt, jnp.zeros((batch, steps), prompt.dtype)), axis=1)
        tokens = tokens.at[:, length].set(jnp.argmax(logits, axis=-1))

        def step(place: Any, state: Any) -> Any:
            tokens, cache = state
            token = lax.dynamic_slice(tokens, (0, place), (batch, 1))
            logits, cache = model.apply(variables, token, place, cache)
            tokens = lax.dynamic_update_slice(tokens, jnp.argmax(logits, axis=-1)[:, None].astype(tokens.dtype), (0, place + 1))
            return tokens, cache

        return lax.fori_loop(length, length + steps - 1, step, (tokens, cache))[0]

    return generate


__all__ = ["Decoder", "caches", "greedy"]
