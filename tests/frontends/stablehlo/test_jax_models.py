"""Networks written with flax, equinox and haiku, with a batch that is a number and one that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import forge

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402

from tests.frontends.stablehlo.against_jax import assert_close, results  # noqa: E402

RNG = np.random.default_rng(3)
Network = Callable[[Any], Any]


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


IMAGES, ROWS, WORDS, VECTORS = numbers(2, 8, 8, 3), numbers(2, 6, 8), RNG.integers(0, 20, (2, 6)).astype("int32"), numbers(2, 8)


def flax_network(build: Callable[[Any, Any], Any], x: np.ndarray) -> Network:
    """A network of flax.linen with the layers that ``build(linen, x)`` makes."""
    linen = pytest.importorskip("flax.linen")

    class Model(linen.Module):  # type: ignore[name-defined, misc]
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            return build(linen, x)

    network = Model()
    variables = network.init(jax.random.key(0), x)
    return lambda x: network.apply(variables, x)


def haiku_network(build: Callable[[Any, Any], Any], x: np.ndarray) -> Network:
    """A network of haiku, as ``build(haiku, x)`` says, with its state."""
    haiku = pytest.importorskip("haiku")
    network = haiku.without_apply_rng(haiku.transform_with_state(lambda x: build(haiku, x)))
    params, state = network.init(jax.random.key(0), x)
    return lambda x: network.apply(params, state, x)[0]


def equinox_network(build: Callable[[Any, Any], Network], x: np.ndarray) -> Network:
    """A network of equinox for one example, ``build(equinox.nn, keys)``, applied to all of a batch."""
    equinox = pytest.importorskip("equinox")
    batched: Network = jax.vmap(build(equinox.nn, iter(jax.random.split(jax.random.key(0), 8))))
    return batched


def _residual(linen: Any, x: Any) -> Any:
    for width, stride in ((4, 1), (6, 2)):
        y = linen.relu(linen.BatchNorm(use_running_average=True)(linen.Conv(width, (3, 3), strides=stride, use_bias=False)(x)))
        y = linen.BatchNorm(use_running_average=True)(linen.Conv(width, (3, 3))(y))
        x = linen.relu(y + linen.Conv(width, (1, 1), strides=stride)(x))
    return linen.Dense(5)(x.mean((1, 2)))


def _separable(linen: Any, x: Any) -> Any:
    x = linen.Conv(6, (1, 1))(x)
    x = jax.nn.relu6(linen.Conv(6, (3, 3), feature_group_count=6, strides=2)(x))
    scale = jax.nn.sigmoid(linen.Dense(6)(x.mean((1, 2), keepdims=True)))
    return linen.Conv(4, (1, 1))(x * scale)


def _u_shape(linen: Any, x: Any) -> Any:
    first = jax.nn.silu(linen.GroupNorm(2)(linen.Conv(4, (3, 3))(x)))
    second = jax.nn.silu(linen.Conv(8, (3, 3), strides=2)(first))
    up = linen.ConvTranspose(4, (4, 4), strides=(2, 2))(second)
    return linen.Conv(3, (3, 3), padding="CIRCULAR")(jnp.concatenate([first, up], -1))


def _transformer(linen: Any, words: Any) -> Any:
    x = linen.Embed(20, 8)(words) + linen.Embed(6, 8)(jnp.arange(words.shape[1]))
    for _ in range(2):
        y = linen.LayerNorm()(x)
        x = x + linen.MultiHeadDotProductAttention(2)(y, y, mask=linen.make_causal_mask(words))
        x = x + linen.Dense(8)(jax.nn.gelu(linen.Dense(16)(linen.LayerNorm()(x))))
    return linen.Dense(20)(linen.RMSNorm()(x))


def _vision_transformer(linen: Any, x: Any) -> Any:
    x = linen.Conv(8, (4, 4), strides=(4, 4), padding="VALID")(x).reshape(x.shape[0], -1, 8)
    token = jnp.broadcast_to(jnp.ones((1, 1, 8)), (x.shape[0], 1, 8))
    x = jnp.concatenate([token, x], 1)
    x = x + linen.SelfAttention(2)(linen.LayerNorm()(x))
    return linen.Dense(5)(x[:, 0])


def _mixer(linen: Any, x: Any) -> Any:
    y = jnp.swapaxes(linen.LayerNorm()(x), 1, 2)
    x = x + jnp.swapaxes(linen.Dense(6)(jax.nn.gelu(linen.Dense(9)(y))), 1, 2)
    return x + linen.Dense(8)(jax.nn.gelu(linen.Dense(12)(x)))


def _rotary_decoder(linen: Any, x: Any) -> Any:
    def turned(v: Any) -> Any:
        angles = jnp.arange(v.shape[1])[:, None] / 100 ** (jnp.arange(2) / 2)
        sine, cosine, (a, b) = jnp.sin(angles)[:, None], jnp.cos(angles)[:, None], jnp.split(v, 2, -1)
        return jnp.concatenate([a * cosine - b * sine, a * sine + b * cosine], -1)

    q, k, v = (linen.DenseGeneral((2, 4), use_bias=False)(x) for _ in range(3))
    y = jax.nn.dot_product_attention(turned(q), turned(k), v, is_causal=True)
    return x + linen.DenseGeneral(8, (-2, -1))(y) * jax.nn.silu(linen.Dense(8)(x))


def _sparse_experts(linen: Any, x: Any) -> Any:
    weights, which = lax.top_k(jax.nn.softmax(linen.Dense(4)(x)), 2)
    every = jnp.stack([linen.Dense(8)(jax.nn.relu(x)) for _ in range(4)], -2)
    return (jnp.take_along_axis(every, which[..., None], -2) * weights[..., None]).sum(-2)


def _autoencoder(haiku: Any, x: Any) -> Any:
    code = haiku.Linear(4)(haiku.Flatten()(jax.nn.elu(haiku.Conv2D(4, 3, stride=2)(x))))
    up = haiku.Conv2DTranspose(3, 4, stride=2)(haiku.Reshape((4, 4, 4))(haiku.Linear(64)(code)))
    return jax.nn.sigmoid(up), code


def _normalized(haiku: Any, x: Any) -> Any:
    x = haiku.BatchNorm(True, True, 0.9)(haiku.Conv2D(4, 3, with_bias=False)(x), is_training=True)
    x = haiku.avg_pool(haiku.InstanceNorm(True, True)(jax.nn.relu(x)), (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    return haiku.GroupNorm(2)(haiku.DepthwiseConv2D(2, 3)(x))


def _unrolled(core: str, haiku: Any, x: Any) -> Any:
    layer = getattr(haiku, core)(5)
    found, _ = haiku.dynamic_unroll(layer, jnp.swapaxes(x, 0, 1), layer.initial_state(x.shape[0]))
    return haiku.BatchApply(haiku.Linear(3))(found)


def _attended(haiku: Any, x: Any) -> Any:
    layer = haiku.MultiHeadAttention(2, 4, w_init=haiku.initializers.VarianceScaling(1.0))
    return haiku.LayerNorm(-1, True, True)(x + layer(x, x, x))


def _convolutions(nn: Any, keys: Any) -> Network:
    layers = nn.Sequential([
        nn.Conv1d(6, 4, 3, padding=1, key=next(keys)), nn.Lambda(jax.nn.gelu), nn.MaxPool1d(2, 2), nn.GroupNorm(2, 4),
        nn.ConvTranspose1d(4, 3, 2, stride=2, key=next(keys)), nn.AdaptiveAvgPool1d(4)])
    return lambda x: layers(x)


def _gated(nn: Any, keys: Any) -> Network:
    cell, head = nn.GRUCell(8, 5, key=next(keys)), nn.Linear(5, 3, key=next(keys))
    return lambda x: head(lax.scan(lambda h, row: (cell(row, h), None), jnp.zeros(5), x)[0])


def _long_memory(nn: Any, keys: Any) -> Network:
    cell = nn.LSTMCell(8, 5, key=next(keys))
    return lambda x: lax.scan(lambda s, row: (cell(row, s),) * 2, (jnp.zeros(5), jnp.zeros(5)), x, reverse=True)[1][0]


def _attention(nn: Any, keys: Any) -> Network:
    layer, norm = nn.MultiheadAttention(2, 8, use_key_bias=True, key=next(keys)), nn.RMSNorm(8)
    rotary = nn.RotaryPositionalEmbedding(8)
    return lambda x: jax.vmap(norm)(rotary(x) + layer(x, x, x, mask=jnp.tril(jnp.ones((6, 6), bool))))


def _perceptron(nn: Any, keys: Any) -> Network:
    layers = nn.MLP(8, 3, 7, 2, activation=jax.nn.swish, key=next(keys))
    return lambda x: jax.value_and_grad(lambda v: layers(v).sum())(x)


def _embedding(nn: Any, keys: Any) -> Network:
    table, head = nn.Embedding(20, 6, key=next(keys)), nn.Linear(6, 20, key=next(keys))
    return lambda words: jax.vmap(head)(jax.vmap(table)(words)).argmax(-1)


MODELS: dict[str, tuple[Callable[..., Network], Callable[..., Any], np.ndarray]] = {
    "flax residual": (flax_network, _residual, IMAGES),
    "flax separable": (flax_network, _separable, IMAGES),
    "flax u shape": (flax_network, _u_shape, IMAGES),
    "flax transformer": (flax_network, _transformer, WORDS),
    "flax vision transformer": (flax_network, _vision_transformer, IMAGES),
    "flax mixer": (flax_network, _mixer, ROWS),
    "flax rotary decoder": (flax_network, _rotary_decoder, ROWS),
    "flax experts": (flax_network, _sparse_experts, ROWS),
    "flax two directions": (
        flax_network, lambda linen, x: linen.Bidirectional(linen.RNN(linen.LSTMCell(5)), linen.RNN(linen.GRUCell(5)))(x), ROWS),
    "haiku autoencoder": (haiku_network, _autoencoder, IMAGES),
    "haiku normalized": (haiku_network, _normalized, IMAGES),
    "haiku lstm": (haiku_network, lambda haiku, x: _unrolled("LSTM", haiku, x), ROWS),
    "haiku gru": (haiku_network, lambda haiku, x: _unrolled("GRU", haiku, x), ROWS),
    "haiku attention": (haiku_network, _attended, ROWS),
    "haiku perceptron": (haiku_network, lambda haiku, x: haiku.nets.MLP([9, 4], activation=jnp.tanh)(x), VECTORS),
    "equinox convolutions": (equinox_network, _convolutions, ROWS),
    "equinox gated": (equinox_network, _gated, ROWS),
    "equinox long memory": (equinox_network, _long_memory, ROWS),
    "equinox attention": (equinox_network, _attention, ROWS),
    "equinox perceptron": (equinox_network, _perceptron, VECTORS),
    "equinox embedding": (equinox_network, _embedding, WORDS),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
def test_equals_jax(name: str, is_dynamic: bool) -> None:
    make, build, x = MODELS[name]
    network = make(build, x)
    shape = export.symbolic_shape(", ".join(["batch", *map(str, x.shape[1:])])) if is_dynamic else x.shape
    run = forge.from_jax(network, jax.ShapeDtypeStruct(shape, x.dtype)).get_inference_function()
    for given in (x, np.concatenate([x, x[:1] * 2])) if is_dynamic else (x,):
        for one, other in zip(results(run(given)), jax.tree.leaves(network(given)), strict=True):
            assert_close(one, np.asarray(other), name)
