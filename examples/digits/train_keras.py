"""Trains a classifier of scikit-learn's 8x8 digits with Keras and saves it as ``digits.keras``, which is committed.

Needs keras with a backend, and scikit-learn; takes a minute on one core. The test split is that of `train`.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 0
TEST_SHARE = 0.25


def build() -> keras.Model:
    image = keras.Input((8, 8, 1), name="image")
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(image)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.MaxPooling2D()(layers.SeparableConv2D(32, 3, padding="same", activation="relu")(x))
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(layers.Conv2D(48, 3, padding="same", activation="relu")(x)))
    return keras.Model(image, layers.Dense(10, activation="softmax", name="scores")(x))


def deflate(path: Path) -> None:
    """Compresses the entries of an archive, of which Keras compresses none: HDF5 has many zeros."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in entries.items():
            archive.writestr(name, contents)


def main() -> None:
    keras.utils.set_random_seed(SEED)
    data = load_digits()
    images = (data.images[..., None] / 16).astype(np.float32)
    parts = train_test_split(images, data.target, test_size=TEST_SHARE, random_state=SEED, stratify=data.target)
    model = build()
    model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(parts[0], parts[2], epochs=30, batch_size=64, verbose=0)
    model.evaluate(parts[1], parts[3])
    inference = keras.models.clone_model(model)
    inference.set_weights(model.get_weights())
    path = Path(__file__).parent / "digits.keras"
    inference.save(path)
    deflate(path)


if __name__ == "__main__":
    main()
