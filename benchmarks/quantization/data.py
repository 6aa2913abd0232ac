"""Samples for training, calibration, validation and tests, made of data that packages bring along.

Pictures are scikit-learn's digits of 8x8 pixels, turned, shifted, scaled, dimmed, partly covered and with noise; texts are
sources and help texts of Python's standard library. Splits share no original: no digit, and no passage of a text. Equal
arguments give equal arrays.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Split = Literal["train", "validation", "test"]

CLASSES = 10
_DIGITS = {"train": slice(0, 1000), "validation": slice(1000, 1300), "test": slice(1300, 1797)}
"""Of scikit-learn's order, in which the digits of one writer are neighbours."""
SCENE = 48
MAX_OBJECTS = 3
"""In a scene of the detector."""
MODULES = ("argparse", "_pydecimal", "doctest", "inspect", "mailbox", "statistics", "tarfile", "typing", "turtle",
           "unittest.mock")
VOCABULARY = 1500
TOKENS = 32
"""Words in a sample of the classifier of texts."""
CHARACTERS = 64
"""In a sample of the language model."""
_BLOCKS = {"train": (0, 1, 2, 3, 4, 5, 6), "validation": (7,), "test": (8, 9)}
"""Each text is cut into blocks, which are dealt to the splits in turn."""
_BLOCK_COUNT = 40


@dataclass(frozen=True)
class Samples:
    """Inputs and what is expected of them, along the first axes."""

    inputs: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, rows: slice | Array) -> Samples:
        return Samples(self.inputs[rows], self.labels[rows])


def generator(seed: int, split: Split) -> np.random.Generator:
    """Random numbers that no other split of the seed has."""
    return np.random.default_rng([seed, list(_DIGITS).index(split)])


def digits(split: Split, seed: int, count: int, *, size: int) -> Samples:
    """Grey pictures ``(count, 1, size, size)`` in steps of 1/255 and their classes."""
    rng = generator(seed, split)
    pictures, labels = _varied_digits(rng, split, count, size)
    return Samples(_photographed(rng, pictures[:, None], noise=0.15), labels)


def coloured_digits(split: Split, seed: int, count: int, *, size: int) -> Samples:
    """Digits of one colour on a ground of another, ``(count, 3, size, size)``, and their classes."""
    rng = generator(seed, split)
    pictures, labels = _varied_digits(rng, split, count, size)
    ground, ink = rng.uniform(0, 1, (2, count, 3, 1, 1))
    # Some contrast in one channel at least.
    ink[:, 0] = (ground[:, 0] + rng.uniform(0.35, 0.65, (count, 1, 1))) % 1.0
    return Samples(_photographed(rng, ground + (ink - ground) * pictures[:, None], noise=0.12), labels)


def scenes(split: Split, seed: int, count: int) -> Samples:
    """Grey canvases ``(count, 1, 48, 48)`` with up to three digits.

    Labels ``(count, 3, 5)`` are rows of class, left, top, right and bottom in pixels, with class -1 where there is no object.
    """
    rng = generator(seed, split)
    originals, classes = _originals(split)
    rows = rng.integers(0, len(originals), (count, MAX_OBJECTS))
    there = np.arange(MAX_OBJECTS) < rng.integers(1, MAX_OBJECTS + 1, (count, 1))
    cells = rng.permuted(np.tile(np.arange(9), (count, 1)), axis=1)[:, :MAX_OBJECTS]
    centres = np.stack([cells % 3, cells // 3], axis=-1) * 16.0 + 8.0 + rng.uniform(-3, 3, (count, MAX_OBJECTS, 2))
    layers = np.empty((count, MAX_OBJECTS, SCENE, SCENE), np.float32)
    for k in range(MAX_OBJECTS):
        sizes, angles = rng.uniform(12, 19, count), rng.uniform(-0.3, 0.3, count)
        layers[:, k] = placed(originals[rows[:, k]], centres[:, k], sizes, angles, SCENE)
    layers *= there[:, :, None, None]
    labels = np.concatenate([np.where(there, classes[rows], -1)[:, :, None], _bounds(layers)], axis=-1).astype(np.float32)
    ground = rng.uniform(0, 0.3, (count, 1, 1, 1)) * np.linspace(0, 1, SCENE)
    return Samples(_photographed(rng, np.maximum(layers.max(axis=1, keepdims=True), ground), noise=0.2), labels)


def features(split: Split, seed: int, count: int, *, offset: float = 0.0) -> Samples:
    """Friedman's first function of ten features, of which five count, with noise; features start at the offset."""
    from sklearn.datasets import make_friedman1

    made, targets = make_friedman1(count, 10, noise=1.3, random_state=3 * seed + list(_DIGITS).index(split))
    return Samples((made + offset).astype(np.float32), ((targets - 14.4) / 5.0).astype(np.float32))


def passages(split: Split, seed: int, count: int) -> Samples:
    """Numbers of words ``(count, 32)`` in passages of modules' sources, and which module it is."""
    rng = generator(seed, split)
    labels = rng.integers(0, len(MODULES), count)
    texts = [_parts(text, split, TOKENS) for text in _numbered_modules()]
    return Samples(np.stack([_window(rng, texts[label], TOKENS) for label in labels]), labels)


def characters(split: Split, seed: int, count: int) -> Samples:
    """Numbers of characters ``(count, 64)`` in Python's help texts, and the characters that follow each."""
    rng = generator(seed, split)
    parts = _parts(_help_text()[0], split, CHARACTERS + 1)
    windows = np.stack([_window(rng, parts, CHARACTERS + 1) for _ in range(count)])
    return Samples(windows[:, :-1], windows[:, 1:])


def alphabet() -> int:
    """The number of different characters."""
    return len(_help_text()[1])


def placed(pictures: Array, centres: Array, sizes: Array, angles: Array, canvas: int) -> Array:
    """Pictures ``(N, 8, 8)`` on canvases ``(N, canvas, canvas)`` of zeros, with their centres (x, y) and extents in pixels."""
    import torch
    from torch.nn import functional

    scale = canvas / sizes
    turn = np.stack([np.stack([np.cos(angles), np.sin(angles)], -1), np.stack([-np.sin(angles), np.cos(angles)], -1)], 1)
    linear = turn * scale[:, None, None]
    shift = -linear @ (2 * centres / canvas - 1)[:, :, None]
    theta = torch.from_numpy(np.concatenate([linear, shift], axis=2).astype(np.float32))
    grid = functional.affine_grid(theta, [len(pictures), 1, canvas, canvas], align_corners=False)
    source = torch.from_numpy(pictures[:, None])
    drawn: Array = functional.grid_sample(source, grid, mode="bicubic", align_corners=False)[:, 0].numpy()
    return drawn.clip(0, 1)


@functools.cache
def _all_digits() -> tuple[Array, Array]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images.reshape(-1, 8, 8) / 16).astype(np.float32), labels.astype(np.int64)


def _originals(split: Split) -> tuple[Array, Array]:
    images, labels = _all_digits()
    return images[_DIGITS[split]], labels[_DIGITS[split]]


def _varied_digits(rng: np.random.Generator, split: Split, count: int, size: int) -> tuple[Array, Array]:
    originals, classes = _originals(split)
    rows = rng.integers(0, len(originals), count)
    centres, sizes = size * rng.uniform(0.4, 0.6, (count, 2)), size * rng.uniform(0.75, 1.15, count)
    return placed(originals[rows], centres, sizes, rng.uniform(-0.4, 0.4, count), size), classes[rows]


def _photographed(rng: np.random.Generator, pictures: Array, noise: float) -> Array:
    """Dimmed, with a covered rectangle and noise, as float32 in steps of 1/255."""
    count, size = len(pictures), pictures.shape[-1]
    pictures = pictures * rng.uniform(0.6, 1.0, (count, 1, 1, 1))
    start, extent = rng.integers(0, size, (2, count, 1)), rng.integers(1, max(2, size * 3 // 8), (2, count, 1))
    rows, columns = ((np.arange(size) >= s) & (np.arange(size) < s + e) for s, e in zip(start, extent))
    covered = (rows[:, :, None] & columns[:, None, :])[:, None]
    pictures = np.where(covered, rng.uniform(0, 1, (count, 1, 1, 1)), pictures)
    pictures = pictures + noise * rng.standard_normal(pictures.shape, np.float32)
    stepped: Array = np.rint(pictures.clip(0, 1) * 255) / 255
    return stepped.astype(np.float32)


def _bounds(layers: Array) -> Array:
    """Bounding boxes of the digits, in pixels: left, top, right, bottom of each layer."""
    drawn: Array = layers > 0.25
    found = []
    for axis in (-2, -1):
        there = np.any(drawn, axis=axis)
        found += [there.argmax(axis=-1), SCENE - there[..., ::-1].argmax(axis=-1)]
    left, right, top, bottom = found
    return np.stack([left, top, right, bottom], axis=-1)


@functools.cache
def _numbered_modules() -> list[Array]:
    """The sources as numbers of words by frequency; 0 stands for the rare ones."""
    texts = [re.findall(r"\w+|[^\w\s]", inspect.getsource(importlib.import_module(name))) for name in MODULES]
    common = Counter(word for words in texts for word in words).most_common(VOCABULARY - 1)
    numbers = {word: k + 1 for k, (word, _) in enumerate(common)}
    return [np.array([numbers.get(word, 0) for word in words], np.int64) for words in texts]


@functools.cache
def _help_text() -> tuple[Array, str]:
    from pydoc_data.topics import topics

    text = re.sub(" {2,}", " ", "\n".join(topics[name] for name in sorted(topics)))
    used = "".join(sorted(set(text)))
    numbers = {letter: k for k, letter in enumerate(used)}
    return np.array([numbers[letter] for letter in text], np.int64), used


def _parts(text: Array, split: Split, least: int) -> list[Array]:
    """The blocks of a text that belong to a split."""
    extent = max(least + 1, math.ceil(len(text) / _BLOCK_COUNT))
    blocks = [text[k : k + extent] for k in range(0, len(text), extent)]
    return [block for k, block in enumerate(blocks) if k % 10 in _BLOCKS[split] and len(block) > least]


def _window(rng: np.random.Generator, parts: Sequence[Array], length: int) -> Array:
    part = parts[int(rng.integers(len(parts)))]
    start = int(rng.integers(len(part) - length))
    window: Array = part[start : start + length]
    return window
