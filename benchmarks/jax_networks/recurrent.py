"""Recurrent networks: stacked LSTMs and GRUs, a reader of lines of text, ConvLSTM (flax.linen)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


class Classifier(nn.Module):
    """Maps sequences ``(N, steps, features)`` to logits of the last step and all states ``(N, steps, hidden)``."""

    cell: Any
    hidden: int
    layers: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        for _ in range(self.layers):
            x = nn.RNN(self.cell(self.hidden))(x)
        return nn.Dense(self.classes)(x[:, -1]), x


class Tagger(nn.Module):
    """Maps token ids and lengths to logits of each token, by LSTMs both ways that end at the length."""

    vocabulary: int
    width: int
    hidden: int
    classes: int

    @nn.compact
    def __call__(self, input_ids: jax.Array, lengths: jax.Array) -> jax.Array:
        x = nn.Embed(self.vocabulary, self.width)(input_ids)
        forward, backward = (nn.RNN(nn.OptimizedLSTMCell(self.hidden)) for _ in range(2))
        return nn.Dense(self.classes)(nn.Bidirectional(forward, backward)(x, seq_lengths=lengths))


class Reader(nn.Module):
    """Maps lines of text ``(N, 32, W, 1)`` to logits ``(N, W / 4, classes)``: convolutions, then LSTMs both ways."""

    widths: tuple[int, ...]
    hidden: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        pools = ((2, 2), (2, 2), None, (2, 1), None, (2, 1))
        for width, pool in zip(self.widths, pools, strict=True):
            x = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(width, (3, 3), use_bias=False)(x)))
            if pool is not None:
                x = nn.max_pool(x, pool, pool)
        x = nn.relu(nn.Conv(self.widths[-1], (2, 1), padding="VALID")(x)).squeeze(1)
        for _ in range(2):
            x = nn.Bidirectional(nn.RNN(nn.LSTMCell(self.hidden)), nn.RNN(nn.LSTMCell(self.hidden)))(x)
        return nn.Dense(self.classes)(x)


class Film(nn.Module):
    """Maps the last frames of a film ``(N, frames, H, W, 1)`` to the next frame ``(N, H, W, 1)``."""

    widths: tuple[int, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths:
            x = nn.RNN(nn.ConvLSTMCell(width, (3, 3)))(x)
        return nn.Conv(1, (1, 1))(x[:, -1])


def forecast(variables: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """A GRU by hand: ``lax.scan`` over the steps of ``(N, steps, features)``; the last state is projected."""

    def step(state: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
        gates = jax.nn.sigmoid(row @ variables["input_gates"] + state @ variables["state_gates"] + variables["gates_bias"])
        kept, reset = jnp.split(gates, 2, axis=-1)
        new = jnp.tanh(row @ variables["input_new"] + reset * (state @ variables["state_new"]) + variables["new_bias"])
        return kept * state + (1 - kept) * new, None

    state, _ = jax.lax.scan(step, jnp.zeros((x.shape[0], variables["state_new"].shape[0])), jnp.swapaxes(x, 0, 1))
    return state @ variables["head"]


__all__ = ["Classifier", "Film", "Reader", "Tagger", "forecast"]
