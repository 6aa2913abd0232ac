"""Makes ``saved_model``: a small network, trained on scikit-learn's digits, as Keras exports it for TensorFlow.

    python examples/keras/make_model.py

Needs tensorflow-cpu and scikit-learn. The page docs/start/tensorflow.md uses what it leaves here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import keras
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 0
EPOCHS = 60
FOLDER = Path(__file__).parent


def network() -> keras.Model:
    layers = keras.layers
    image = x = keras.Input((8, 8, 1), name="image")
    for channels, stride in ((16, 1), (24, 2), (32, 1)):
        x = layers.Conv2D(channels, 3, stride, "same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(10, activation="softmax", name="scores")(x), name="digits")


def main() -> None:
    keras.utils.set_random_seed(SEED)
    data = load_digits()
    images = (data.images / 16).astype("float32")[..., None]
    parts = train_test_split(images, data.target, test_size=0.25, random_state=0, stratify=data.target)
    train_images, test_images, train_targets, test_targets = parts
    model = network()
    model.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(
        train_images, train_targets, batch_size=64, epochs=EPOCHS, verbose=2, validation_data=(test_images, test_targets))
    plain = keras.Model.from_config(model.get_config())  # without the optimizer
    plain.set_weights(model.get_weights())
    shutil.rmtree(FOLDER / "saved_model", ignore_errors=True)
    plain.export(FOLDER / "saved_model", verbose=False)


if __name__ == "__main__":
    main()
