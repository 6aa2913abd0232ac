"""One case for each layer and each of its options: windows, norms, activations, merges, shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.frontends.keras.case import Case, called, integers, normal

SIZES = {1: (9, 4), 2: (6, 8, 4), 3: (4, 5, 6, 3)}
ACTIVATIONS = (
    "relu relu6 sigmoid tanh softmax log_softmax softplus softsign elu celu selu gelu silu mish exponential "
    "leaky_relu hard_sigmoid hard_silu hard_tanh hard_shrink soft_shrink tanh_shrink log_sigmoid glu sparsemax "
    "sparse_plus sparse_sigmoid squareplus linear")
TRAINING_ONLY = (
    "Dropout GaussianDropout GaussianNoise AlphaDropout SpatialDropout2D RandomContrast RandomBrightness RandomZoom "
    "RandomRotation")


def windows(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    convolutions: tuple[dict[str, Any], ...] = (
        {}, {"padding": "same", "strides": 2}, {"dilation_rate": 2, "padding": "same"}, {"use_bias": False, "activation": "relu"})
    pools: tuple[dict[str, Any], ...] = (
        {"pool_size": 2}, {"pool_size": 2, "padding": "same"}, {"pool_size": 3, "strides": 1, "padding": "same"},
        {"pool_size": 3, "strides": 2})
    for rank, sizes in SIZES.items():
        x = normal(2, *sizes)
        for k, options in enumerate(convolutions):
            yield called(keras, f"Conv{rank}D-{k}", layers.__dict__[f"Conv{rank}D"](4, 3 if rank < 3 else 2, **options), x)
            if rank < 3:
                yield called(keras, f"Conv{rank}DTranspose-{k}", layers.__dict__[f"Conv{rank}DTranspose"](4, 3, **options), x)
                depthwise = layers.__dict__[f"DepthwiseConv{rank}D"](3, depth_multiplier=2, **options)
                yield called(keras, f"DepthwiseConv{rank}D-{k}", depthwise, x)
                yield called(keras, f"SeparableConv{rank}D-{k}", layers.__dict__[f"SeparableConv{rank}D"](4, 3, **options), x)
        transposed = layers.__dict__[f"Conv{rank}DTranspose"]
        yield called(keras, f"Conv{rank}DTranspose-same", transposed(4, 3, strides=2, padding="same"), x)
        yield called(keras, f"Conv{rank}DTranspose-more", transposed(4, 4, strides=3, output_padding=1), x)
        for kind in ("MaxPooling", "AveragePooling"):
            for k, options in enumerate(pools):
                yield called(keras, f"{kind}{rank}D-{k}", layers.__dict__[f"{kind}{rank}D"](**options), x)
        for kind in ("GlobalMaxPooling", "GlobalAveragePooling"):
            both = [layers.__dict__[f"{kind}{rank}D"](keepdims=keeps) for keeps in (False, True)]
            yield called(keras, f"{kind}{rank}D", lambda x, both=both: [layer(x) for layer in both], x)
        for kind in ("AdaptiveMaxPooling", "AdaptiveAveragePooling"):
            yield called(keras, f"{kind}{rank}D", layers.__dict__[f"{kind}{rank}D"](3), x)
        shapes = [layers.__dict__[f"{kind}{rank}D"](n) for kind, n in (("UpSampling", 2), ("ZeroPadding", 1), ("Cropping", 1))]
        yield called(keras, f"UpSampling{rank}D", lambda x, shapes=shapes: [layer(x) for layer in shapes], x)
    yield called(keras, "Conv1D-causal", layers.Conv1D(3, 3, padding="causal", dilation_rate=2), normal(2, 9, 4))
    yield called(keras, "Conv2D-groups", layers.Conv2D(4, 3, groups=2), normal(2, 6, 8, 4))
    image = normal(2, 6, 8, 4)
    yield called(keras, "UpSampling2D-bilinear", layers.UpSampling2D(2, interpolation="bilinear"), image)
    yield called(keras, "ZeroPadding2D-pairs", layers.ZeroPadding2D(((1, 2), (0, 3))), image)
    yield called(keras, "Cropping2D-pairs", layers.Cropping2D(((1, 2), (0, 3))), image)


def norms(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    x = normal(2, 6, 8, 4)
    found = {
        "BatchNormalization": layers.BatchNormalization(), "BatchNormalization-axis": layers.BatchNormalization(axis=1,
            scale=False),
        "LayerNormalization": layers.LayerNormalization(), "LayerNormalization-axes": layers.LayerNormalization(axis=(1, 2, 3)),
        "LayerNormalization-first": layers.LayerNormalization(axis=1, center=False),
        "GroupNormalization": layers.GroupNormalization(2), "GroupNormalization-each": layers.GroupNormalization(-1),
        "UnitNormalization": layers.UnitNormalization(axis=(1, 2)), "RMSNormalization": layers.RMSNormalization(),
    }
    for name, layer in found.items():
        yield called(keras, name, layer, x)
    yield called(keras, "SpectralNormalization", layers.SpectralNormalization(layers.Dense(3)), normal(2, 6))


def activations(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    x = normal(2, 6, 8, 4)
    yield called(keras, "Activation", lambda x: [layers.Activation(name)(x) for name in ACTIVATIONS.split()], x)
    yield called(keras, "activation-layers", lambda x: [
        layer(x) for layer in (
            layers.ReLU(), layers.ReLU(6.0), layers.ReLU(2.0, 0.1, 0.3), layers.LeakyReLU(), layers.ELU(0.5), layers.PReLU(),
            layers.PReLU(shared_axes=[1, 2]), layers.Softmax(), layers.Softmax(axis=(1, 2)),
            layers.Dense(3, activation=layers.LeakyReLU(0.1)))], x)
    yield called(keras, "identities", lambda x: [
        layers.__dict__[name](0.2)(x) for name in TRAINING_ONLY.split()] + [layers.RandomFlip()(x), layers.Identity()(x)], x)


def merges(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    a, b = normal(2, 6, 8, 4), normal(2, 6, 8, 4)
    for name in "Add Subtract Multiply Average Maximum Minimum Concatenate".split():
        yield called(keras, name, lambda a, b, name=name: layers.__dict__[name]()([a, b]), a, b)
    yield called(keras, "Concatenate-axis", lambda a, b: layers.Concatenate(axis=1)([a, b]), a, b)
    yield called(keras, "Add-broadcast", lambda a, b: layers.Add()([a, b]), normal(2, 6), normal(2, 1))
    yield called(
        keras, "Dot", lambda a, b: [layers.Dot(axes=(1, 1))([a, b]), layers.Dot(axes=-1, normalize=True)([a, b])],
        normal(2, 9, 4), normal(2, 9, 4))
    yield called(keras, "Dot-vectors", lambda a, b: layers.Dot(axes=1)([a, b]), normal(2, 6), normal(2, 6))


def shapes(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    image, rows = normal(2, 6, 8, 4), normal(2, 6)
    yield called(keras, "shapes", lambda x: [
        layer(x) for layer in (
            layers.Flatten(), layers.Reshape((-1, 4)), layers.Reshape((48, 4)), layers.Permute((2, 1, 3)))], image)
    yield called(keras, "RepeatVector", layers.RepeatVector(3), rows)
    yield called(keras, "Dense", lambda x: layers.Dense(3, use_bias=False)(layers.Dense(5, activation="gelu")(x)), rows)
    yield called(keras, "EinsumDense", lambda x: [
        layers.EinsumDense("abcd,de->abce", output_shape=(None, None, 5), bias_axes="e", activation="relu")(x),
        layers.EinsumDense("...x,xy->...y", output_shape=5)(x)], image)
    yield called(keras, "Embedding", layers.Embedding(7, 3), integers(0, 7, 3, 4))


def preprocessing(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    image = normal(2, 6, 8, 4)
    yield called(keras, "Rescaling", lambda x: [
        layers.Rescaling(1 / 127.5, offset=-1)(x), layers.Rescaling([1.0, 2.0, 3.0, 4.0])(x)], image)
    yield called(keras, "CenterCrop", lambda x: [layers.CenterCrop(4, 5)(x), layers.CenterCrop(4, 9)(x)], image)
    yield called(keras, "Resizing", lambda x: [
        layers.Resizing(3, 5)(x), layers.Resizing(9, 7)(x), layers.Resizing(9, 7, interpolation="nearest")(x),
        layers.Resizing(9, 7, interpolation="bicubic")(x), layers.Resizing(5, 5, crop_to_aspect_ratio=True)(x),
        layers.Resizing(5, 5, pad_to_aspect_ratio=True)(x)], image, accuracy=1e-4)
    numbers = [1.0, 2.0, 3.0, 4.0]
    yield called(keras, "Normalization", lambda x: [
        layers.Normalization(mean=numbers, variance=numbers)(x), layers.Normalization(axis=None, mean=2.0, variance=3.0)(x),
        layers.Normalization(mean=2.0, variance=3.0, invert=True)(x)], image, is_random=False)
    adapted = layers.Normalization()
    adapted.adapt(image)
    yield called(keras, "Normalization-adapted", adapted, image, is_random=False)
    yield called(keras, "Discretization", lambda x: [
        layers.Discretization([-1.0, 0.0, 1.0], output_mode=mode)(x) for mode in ("int", "one_hot", "multi_hot")], normal(2, 6))
    yield called(keras, "CategoryEncoding", lambda x: [
        layers.CategoryEncoding(5)(x), layers.CategoryEncoding(5, "count")(x)], integers(0, 5, 3, 4))
    yield called(keras, "CategoryEncoding-one", layers.CategoryEncoding(5, "one_hot"), integers(0, 5, 3, 1))


def types(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    x = normal(2, 6, 8, 4)
    for name in ("mixed_float16", "float16", "bfloat16", "mixed_bfloat16"):
        found = [layers.Dense(3, dtype=name), layers.Conv2D(3, 3, dtype=name), layers.BatchNormalization(dtype=name)]
        accuracy = 3e-2 if "bfloat16" in name else 3e-3
        yield called(keras, name, lambda x, found=found: [layer(x) for layer in found], x, accuracy=accuracy)


def more_preprocessing(keras: Any) -> Iterator[Case]:
    layers = keras.layers
    image = normal(2, 6, 8, 4)
    flat = np.concatenate([image[..., :3], np.ones_like(image[..., 3:])], axis=-1)
    yield called(keras, "AutoContrast", lambda x: [
        layers.AutoContrast(value_range=(-3, 3))(x), layers.AutoContrast()(x * 100.0)], flat, accuracy=1e-4)
    yield called(keras, "Solarization", layers.Solarization(), image)
    for mode in ("log", "magnitude", "psd", "real", "imag", "angle", "stft"):
        yield called(keras, f"STFTSpectrogram-{mode}", lambda x, mode=mode: [
            layers.STFTSpectrogram(mode, frame_length=16, padding="same", expand_dims=True)(x),
            layers.STFTSpectrogram(mode, 12, frame_step=5, fft_length=16, window="hamming")(x)], normal(2, 50, 2),
            is_random=False, accuracy=1e-4)
    yield called(keras, "MelSpectrogram", lambda x: [
        layers.MelSpectrogram(64, 16, sampling_rate=8000, num_mel_bins=8)(x),
        layers.MelSpectrogram(64, 16, sequence_length=40, window="hamming", num_mel_bins=6, power_to_db=False, mag_exp=1.0)(x)],
        normal(2, 200), accuracy=1e-4)


def of_applications(keras: Any) -> Iterator[Case]:
    """Layers of networks of ``keras.applications``, which have no public names."""
    from keras.src.applications import convnext, inception_resnet_v2

    a, b = normal(2, 6, 8, 4), normal(2, 6, 8, 4)
    yield called(keras, "CustomScaleLayer", lambda a, b: inception_resnet_v2.CustomScaleLayer(0.17)([a, b]), a, b)
    yield called(keras, "LayerScale", lambda x: convnext.LayerScale(0.5, 4)(x), a)


GROUPS = (windows, norms, activations, merges, shapes, preprocessing, types, more_preprocessing, of_applications)
