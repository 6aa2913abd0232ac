"""Makes ``digits_int8.tflite``: a small network of a phone's kind, trained on scikit-learn's digits, quantized by TensorFlow.

    python examples/phone/make_model.py

Needs tensorflow-cpu and scikit-learn. The page docs/start/tflite.md uses the file that it leaves here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 0
SIZE = 32
EPOCHS = 30
FOLDER = Path(__file__).parent


def block(x: keras.KerasTensor, wide: int, channels: int, stride: int) -> keras.KerasTensor:
    """An inverted residual: wider, filtered by channels, narrower."""
    layers = keras.layers
    inner = layers.BatchNormalization(momentum=0.9)(layers.Conv2D(wide, 1, use_bias=False)(x))
    inner = layers.Activation("hard_swish")(inner)
    inner = layers.BatchNormalization(momentum=0.9)(layers.DepthwiseConv2D(3, stride, "same", use_bias=False)(inner))
    inner = layers.Activation("hard_swish")(inner)
    inner = layers.BatchNormalization(momentum=0.9)(layers.Conv2D(channels, 1, use_bias=False)(inner))
    return layers.Add()([x, inner]) if stride == 1 and x.shape[-1] == channels else inner


def network() -> keras.Model:
    image = keras.Input((SIZE, SIZE, 1), name="image")
    x = keras.layers.Conv2D(8, 3, 2, "same", activation="relu6")(image)
    for wide, channels, stride in ((24, 12, 2), (36, 12, 1), (48, 24, 2), (72, 24, 1)):
        x = block(x, wide, channels, stride)
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(64, 1, activation="relu6")(x))
    return keras.Model(image, keras.layers.Dense(10, activation="softmax", name="scores")(x))


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images [N, 32, 32, 1] between 0 and 1, and their digits."""
    data = load_digits()
    images = np.kron(data.images / 16, np.ones((4, 4)))[..., None]
    return images.astype(np.float32), data.target


def main() -> None:
    keras.utils.set_random_seed(SEED)
    images, targets = digits()
    parts = train_test_split(images, targets, test_size=0.25, random_state=0, stratify=targets)  # as examples/digits has it
    train_images, test_images, train_targets, test_targets = parts
    model = network()
    model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        train_images, train_targets, batch_size=64, epochs=EPOCHS, verbose=2, validation_data=(test_images, test_targets))

    def samples() -> Iterator[list[np.ndarray]]:
        for image in train_images[:200]:
            yield [image[None]]

    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = samples
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.uint8
    (FOLDER / "digits_int8.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main()
