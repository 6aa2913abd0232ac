"""Networks of equimo, flaxmodels, haiku, flax, e3nn, jraph and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.frontends.stablehlo.strangers.case import BATCH, LENGTH, Case, Cases, numbers, tokens


def cases() -> Cases:
    for name, settings in EQUIMO.items():
        yield f"equimo-{name}", partial(_equimo, name, settings)
    yield "equimo-vit-open", partial(_equimo, "vit_tiny_patch16_224", EQUIMO["vit_tiny_patch16_224"], True)
    yield "flaxmodels-ResNet18", partial(_flaxmodels, "ResNet18")
    yield "flaxmodels-ResNet50", partial(_flaxmodels, "ResNet50")
    for name, (function, *inputs) in HAIKU.items():
        yield f"haiku-{name}", partial(_haiku, function, inputs)
        yield f"haiku-{name}-training", partial(_haiku, function, inputs, True)
    for name in ("lstm", "gru", "optimized_lstm", "conv_lstm"):
        yield f"flax-{name}", partial(_flax_cell, name)
    yield "flax-nnx", _nnx
    yield "equinox-gru", _equinox_gru
    yield "equinox-unet", _equinox_unet
    for name in ("GCN", "GAT", "GraphNetwork", "InteractionNetwork"):
        yield f"jraph-{name}", partial(_jraph, name)
    yield "e3nn-tensor_product", _e3nn_product
    yield "e3nn-spherical_harmonics", _e3nn_harmonics
    yield "e3nn-gate", _e3nn_gate


EQUIMO: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": {"img_size": 32, "dim": 24, "patch_size": 8, "num_heads": [2], "depths": [2], "num_classes": 5},
    "dinov2_vits14_reg": {"img_size": 28, "dim": 24, "num_heads": [2], "depths": [2]},
    "convnext_t": {}, "mobilenetv3_small": {}, "reduceformer_backbone_b1": {}, "iformer_t": {}, "attnet_xxs": {},
}


def _equimo(name: str, settings: dict[str, Any], is_open: bool = False) -> Case:
    import equinox as eqx
    from equimo import models

    key = jax.random.key(0)
    model = eqx.nn.inference_mode(getattr(models, name)(key=key, **{"in_channels": 3, **settings}))
    size = settings.get("img_size", 224)
    images = numbers(BATCH if is_open else 1, 3, size, size)
    run = jax.vmap(lambda x: model(x, key=key, inference=True))
    return Case(run, (images,), (f"batch, 3, {size}, {size}",) if is_open else None)


def _flaxmodels(name: str) -> Case:
    import flaxmodels

    model = getattr(flaxmodels, name)(output="logits", pretrained=None, num_classes=10)
    images = numbers(1, 32, 32, 3)
    weights = model.init(jax.random.key(0), images, train=False)
    return Case(lambda weights, x: model.apply(weights, x, train=False), (weights, images))


def _mlp(x: Any, is_training: bool) -> Any:
    import haiku as hk

    return hk.nets.MLP([16, 8, 4])(x, dropout_rate=0.1 if is_training else None, rng=hk.next_rng_key() if is_training else None)


def _haiku_network(name: str, x: Any, is_training: bool) -> Any:
    import haiku as hk

    return getattr(hk.nets, name)(num_classes=5)(x, is_training=is_training)


def _recurrent(x: Any, is_training: bool) -> Any:
    import haiku as hk

    core = hk.DeepRNN([hk.LSTM(8), jax.nn.relu, hk.GRU(6), hk.VanillaRNN(5)])
    return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))


def _attention(x: Any, is_training: bool) -> Any:
    import haiku as hk

    w = hk.initializers.VarianceScaling(1.0)
    x = hk.LayerNorm(-1, True, True)(x + hk.MultiHeadAttention(2, 4, w_init=w)(x, x, x))
    return hk.Linear(3)(x)


def _quantizer(x: Any, is_training: bool) -> Any:
    import haiku as hk

    found = hk.nets.VectorQuantizerEMA(6, 8, 0.25, 0.99)(x, is_training)
    return found["quantize"], found["loss"], found["perplexity"]


def _convolutions(x: Any, is_training: bool) -> Any:
    import haiku as hk

    x = hk.Conv2DTranspose(4, 3, stride=2)(x)
    x = hk.GroupNorm(2)(x)
    x = hk.max_pool(hk.DepthwiseConv2D(2, 3)(x), 2, 2, "SAME")
    return hk.avg_pool(hk.SeparableDepthwiseConv2D(1, 3)(x), 2, 2, "VALID")


HAIKU: dict[str, tuple[Any, ...]] = {
    "mlp": (_mlp, (3, 6)),
    "ResNet18": (partial(_haiku_network, "ResNet18"), (2, 64, 64, 3)),
    "ResNet50": (partial(_haiku_network, "ResNet50"), (2, 64, 64, 3)),
    "MobileNetV1": (partial(_haiku_network, "MobileNetV1"), (2, 64, 64, 3)),
    "recurrent": (_recurrent, (5, 2, 4)),
    "attention": (_attention, (2, 5, 8)),
    "quantizer": (_quantizer, (4, 3, 6)),
    "convolutions": (_convolutions, (1, 8, 8, 4)),
}


def _haiku(function: Callable[..., Any], shapes: Sequence[tuple[int, ...]], is_training: bool = False) -> Case:
    import haiku as hk

    model = hk.transform_with_state(function)
    inputs = [numbers(*shape) for shape in shapes]
    weights, state = model.init(jax.random.key(0), *inputs, True)
    _, state = model.apply(weights, state, jax.random.key(2), *inputs, True)  # means and variances that are some
    return Case(
        lambda weights, state, key, *given: model.apply(weights, state, jax.random.wrap_key_data(key), *given, is_training),
        (weights, state, jax.random.key_data(jax.random.key(1)), *inputs))


def _flax_cell(name: str) -> Case:
    from flax import linen as nn

    if name == "conv_lstm":
        model, inputs = nn.RNN(nn.ConvLSTMCell(4, (3, 3))), numbers(BATCH, LENGTH, 6, 6, 3)
    else:
        cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "optimized_lstm": nn.OptimizedLSTMCell}[name]
        model, inputs = nn.Bidirectional(nn.RNN(cell(8)), nn.RNN(cell(8))), numbers(BATCH, LENGTH, 5)
    lengths = np.array([LENGTH, 3], np.int32)
    weights = model.init(jax.random.key(0), inputs)
    return Case(lambda weights, x, lengths: model.apply(weights, x, seq_lengths=lengths), (weights, inputs, lengths))


def _nnx() -> Case:
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.conv = nnx.Conv(3, 8, (3, 3), rngs=rngs)
            self.norm = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.out = nnx.LinearGeneral((8,), (2, 3), axis=(-1,), rngs=rngs)

        def __call__(self, x: Any) -> Any:
            x = nnx.avg_pool(nnx.gelu(self.norm(self.conv(x))), (2, 2), (2, 2))
            return self.out(self.attention(x.reshape(x.shape[0], -1, 8)))

    graph, state = nnx.split(Block(nnx.Rngs(0)))
    return Case(lambda state, x: nnx.merge(graph, state)(x), (state, numbers(BATCH, 8, 8, 3)))


def _equinox_gru() -> Case:
    import equinox as eqx

    cell = eqx.nn.GRUCell(4, 6, key=jax.random.key(0))
    head = eqx.nn.MLP(6, 2, 8, 2, key=jax.random.key(1))

    def run(x: Any) -> Any:
        return head(jax.lax.scan(lambda h, row: (cell(row, h), None), jnp.zeros(6), x)[0])

    return Case(jax.vmap(run), (numbers(BATCH, LENGTH, 4),), ("batch, length, 4",))


def _equinox_unet() -> Case:
    import equinox as eqx

    keys = jax.random.split(jax.random.key(0), 5)
    down, up = eqx.nn.Conv2d(3, 8, 3, 2, 1, key=keys[0]), eqx.nn.ConvTranspose2d(8, 3, 4, 2, 1, key=keys[1])
    norm, heads = eqx.nn.GroupNorm(2, 8), eqx.nn.MultiheadAttention(2, 8, key=keys[2])

    def run(x: Any) -> Any:
        y = jax.nn.silu(norm(down(x)))
        flat = y.reshape(8, -1).T
        flat = flat + heads(flat, flat, flat)
        return eqx.nn.AdaptiveAvgPool2d(4)(up(flat.T.reshape(y.shape)) + x)

    return Case(jax.vmap(run), (numbers(BATCH, 3, 16, 16),))


def _jraph(name: str) -> Case:
    import jraph

    nodes, edges, globals_ = numbers(6, 4), numbers(9, 4), numbers(2, 4)
    senders, receivers = tokens(9) % 6, tokens(18)[9:] % 6
    counts = np.array([4, 2], np.int32), np.array([5, 4], np.int32)
    mix = numbers(4, 4) * 0.3

    def combined(*given: Any) -> Any:
        return jnp.tanh(sum(value @ mix for value in given))

    made: dict[str, Any] = {
        "GCN": lambda: jraph.GraphConvolution(lambda n: n @ mix, add_self_edges=True, symmetric_normalization=True),
        "GAT": lambda: jraph.GAT(lambda n: n @ mix, lambda s, r, e: jnp.sum(jax.nn.leaky_relu(s + r), -1, keepdims=True)),
        "GraphNetwork": lambda: jraph.GraphNetwork(combined, combined, combined),
        "InteractionNetwork": lambda: jraph.InteractionNetwork(
            lambda e, s, r: combined(e, s, r), lambda n, received: combined(n, received)),
    }

    def run(nodes: Any, edges: Any, senders: Any, receivers: Any, globals_: Any, n_node: Any, n_edge: Any) -> Any:
        graph = jraph.GraphsTuple(nodes, edges, receivers, senders, globals_, n_node, n_edge)
        out = made[name]()(graph)
        return out.nodes, out.edges, out.globals

    return Case(run, (nodes, edges, senders, receivers, globals_, *counts))


def _e3nn_product() -> Case:
    import e3nn_jax as e3nn

    def run(x: Any, y: Any) -> Any:
        return e3nn.tensor_product(e3nn.IrrepsArray("2x0e + 1x1o", x), e3nn.IrrepsArray("1x0e + 1x1o + 1x2e", y)).array

    return Case(run, (numbers(3, 5), numbers(3, 9)))


def _e3nn_harmonics() -> Case:
    import e3nn_jax as e3nn

    return Case(lambda x: e3nn.spherical_harmonics([0, 1, 2, 3, 4], e3nn.IrrepsArray("1o", x), True).array, (numbers(5, 3),))


def _e3nn_gate() -> Case:
    import e3nn_jax as e3nn
    import flax.linen as nn

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = e3nn.flax.Linear("8x0e + 4x0e + 4x1o + 2x2e")(e3nn.IrrepsArray("4x0e + 2x1o + 1x2e", x))
            return e3nn.norm_activation(x, [jax.nn.silu, jax.nn.silu, None, None]).array

    model, x = Layer(), numbers(3, 15)
    weights = model.init(jax.random.key(0), x)
    return Case(lambda w, x: model.apply(w, x), (weights, x))
