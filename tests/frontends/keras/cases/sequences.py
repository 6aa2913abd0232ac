"""Recurrent and attention layers, with masks and states; models inside of models; quantized layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.frontends.keras.case import Case, called, integers, normal


def recurrent(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    x, indices = normal(2, 7, 5), integers(0, 3, 3, 6)
    plain: tuple[dict[str, Any], ...] = (
        {}, {"return_sequences": True, "go_backwards": True}, {"activation": "relu", "use_bias": False},
        {"activation": "gelu", "return_sequences": True}, {"return_state": True}, {"unroll": True})
    masked: tuple[dict[str, Any], ...] = (
        {}, {"return_sequences": True}, {"zero_output_for_mask": True, "return_sequences": True},
        {"go_backwards": True, "return_sequences": True})
    for name in ("LSTM", "GRU", "SimpleRNN"):
        layer = layers.__dict__[name]
        for k, options in enumerate(plain):
            yield called(keras, f"{name}-{k}", layer(3, **options), x)
        for k, options in enumerate(masked):
            table, one = layers.Embedding(4, 5, mask_zero=True), layer(3, **options)
            yield called(keras, f"{name}-masked-{k}", lambda x, table=table, one=one: one(table(x)), indices)
        table, both = layers.Embedding(4, 5, mask_zero=True), layers.Bidirectional(layer(3, return_sequences=True))
        yield called(keras, f"Bidirectional-{name}-masked", lambda x, table=table, both=both: both(table(x)), indices)
    yield called(keras, "GRU-reset", lambda x: [
        layers.GRU(3, reset_after=False)(x), layers.GRU(3, reset_after=False, activation="gelu")(x)], x)
    for mode in ("concat", "sum", "ave", "mul", None):
        wrapped = layers.LSTM(3, return_sequences=True, return_state=True)
        yield called(keras, f"Bidirectional-{mode}", layers.Bidirectional(wrapped, merge_mode=mode), x)
    yield called(keras, "RNN", layers.RNN(layers.LSTMCell(3), return_state=True), x)
    cells = [layers.LSTMCell(3), layers.GRUCell(4), layers.SimpleRNNCell(2)]
    yield called(keras, "StackedRNNCells", layers.RNN(layers.StackedRNNCells(cells), return_sequences=True), x)
    yield called(
        keras, "LSTM-initial", lambda x, h, c: layers.LSTM(3)(x, initial_state=[h, c]), x, normal(2, 3), normal(2, 3))
    yield called(keras, "TimeDistributed", layers.TimeDistributed(layers.Dense(4, activation="relu")), x)
    for rank, sizes in ((1, (4, 6, 3)), (2, (4, 6, 5, 3)), (3, (3, 4, 4, 4, 2))):
        for k, options in enumerate(({}, {"return_sequences": True, "padding": "same"}, {"strides": 2, "return_state": True})):
            layer = layers.__dict__[f"ConvLSTM{rank}D"](2, 3 if rank < 3 else 2, **options)
            yield called(keras, f"ConvLSTM{rank}D-{k}", layer, normal(2, *sizes))
    masking = layers.Masking()
    zeros = x.copy()
    zeros[0, 2] = zeros[1, 4:] = 0
    yield called(keras, "Masking", lambda x: layers.LSTM(3)(layers.Dense(4)(masking(x))), zeros)


def attention(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    query, value, indices = normal(2, 4, 6), normal(2, 5, 6), integers(0, 3, 3, 4)
    multi: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({}, {}), ({"use_bias": False, "output_shape": 5}, {}), ({}, {"return_attention_scores": True}),
        ({}, {"use_causal_mask": True}), ({"sliding_window": 2}, {}), ({"use_gate": True}, {}), ({"dropout": 0.1}, {}))
    for k, (options, arguments) in enumerate(multi):
        layer = layers.MultiHeadAttention(2, 4, **options)
        yield called(keras, f"MultiHeadAttention-{k}", lambda q, v, f=layer, a=arguments: f(q, v, **a), query, value)
    grouped: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
        ({}, {}), ({}, {"use_causal_mask": True}), ({"use_bias": False}, {"return_attention_scores": True}))
    for k, (options, arguments) in enumerate(grouped):
        layer = layers.GroupQueryAttention(4, 6, 3, **options)
        yield called(keras, f"GroupQueryAttention-{k}", lambda q, v, f=layer, a=arguments: f(q, v, **a), query, value)
    for name, kinds in (("Attention", ({}, {"use_scale": True}, {"score_mode": "concat", "use_scale": True})),
                        ("AdditiveAttention", ({}, {"use_scale": False}))):
        for k, options in enumerate(kinds):
            layer = layers.__dict__[name](**options)
            yield called(
                keras, f"{name}-{k}", lambda q, v, f=layer: f([q, v], use_causal_mask=True,
                    return_attention_scores=True), query, value)

    def with_mask(x: Any) -> list[Any]:
        rows = layers.Embedding(5, 6, mask_zero=True)(x)
        found = layers.MultiHeadAttention(2, 4)(rows, rows)  # which takes the mask from its input in Keras
        others = layers.Embedding(5, 6, mask_zero=True)(x)
        return [found, layers.GlobalAveragePooling1D()(found), layers.Attention()([others, others])]

    yield called(keras, "attention-masked", with_mask, indices)
    yield called(keras, "MultiHeadAttention-axes", lambda x: layers.MultiHeadAttention(2, 4, attention_axes=(2,))(x, x),
        normal(2, 3, 4, 6))


def nested(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    x = normal(2, 9, 11, 3)

    def built(x: Any) -> list[Any]:
        inner = keras.Sequential([keras.Input((9, 11, 3)), layers.Conv2D(3, 3, padding="same"), layers.BatchNormalization()])
        y = keras.Input((9, 11, 3))
        two = keras.Model(y, [layers.Conv2D(2, 1)(y), layers.Conv2D(3, 1)(y)])
        a, b = two(inner(inner(x)))
        return [a, layers.Flatten()(b)]

    yield called(keras, "nested", built, x)
    yield called(keras, "nested-h5", built, x, suffix=".h5")
    yield called(keras, "recurrent-h5", lambda x: layers.Bidirectional(layers.LSTM(3))(x), normal(2, 7, 5), suffix=".h5")
    yield called(keras, "attention-h5", lambda x: layers.MultiHeadAttention(2, 4)(x, x), normal(2, 4, 6), suffix=".h5")
    frozen = keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(2)])
    frozen.layers[1].trainable = False
    yield Case("frozen-h5", keras.Sequential([keras.Input((6,)), frozen, layers.Dense(3)]), [normal(2, 6)], ".h5")
    built_late = keras.Sequential([layers.Dense(3)])
    built_late.build((None, 4))
    yield Case("Sequential-late", built_late, [normal(2, 4)])


def quantized(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    for mode in ("int8", "int4"):
        dense = keras.Sequential([keras.Input((4, 6)), layers.Dense(8, activation="relu"), layers.Dense(5, use_bias=False)])
        table = keras.Sequential([keras.Input((4,), dtype="int32"), layers.Embedding(7, 9)])
        einsum = keras.Sequential([
            keras.Input((4, 6)), layers.EinsumDense("abc,cde->abde", output_shape=(None, 3, 5), bias_axes="de")])
        for name, model, x in (("Dense", dense, normal(3, 4, 6)), ("Embedding", table, integers(0, 7, 3, 4)),
                               ("EinsumDense", einsum, normal(3, 4, 6))):
            model.quantize(mode)
            yield Case(f"{name}-{mode}", model, [x], is_random=False)


GROUPS = (recurrent, attention, nested, quantized)
