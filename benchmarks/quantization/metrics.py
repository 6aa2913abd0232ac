"""How good outputs are, in points: the more the better, and differences of one point mean one per cent of what counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.quantization.data import CLASSES, Array

KEPT = 20
"""Boxes of a picture that are looked at."""
OVERLAP = 0.5
"""Of intersection over union: from here on, a box finds an object, and repeats another box."""


@dataclass(frozen=True)
class Metric:
    """``points(outputs, labels)`` and how they are shown."""

    name: str
    points: Callable[[Array, Array], float]
    shown: Callable[[float], str] = "{:.2f}".format


def accuracy(outputs: Array, labels: Array) -> float:
    """Per cent of samples whose largest output is that of their class."""
    return 100.0 * float((outputs.argmax(axis=-1) == labels).mean())


def explained_variance(outputs: Array, labels: Array) -> float:
    """The coefficient of determination (R2) in per cent."""
    return 100.0 * (1.0 - float(np.square(outputs - labels).mean()) / float(labels.var()))


def log_likelihood(outputs: Array, labels: Array) -> float:
    """Of the characters that follow, the mean in hundredths of nats: a point is one per cent of perplexity."""
    shifted = outputs - outputs.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[..., None], axis=-1)[..., 0]
    return 100.0 * float((chosen - np.log(np.exp(shifted).sum(axis=-1))).mean(dtype=np.float64))


def mean_average_precision(outputs: Array, labels: Array) -> float:
    """Of boxes and scores ``(N, cells, 4 + classes)`` the area under the curve of precision, mean over classes, in per cent."""
    boxes, scores, classes = _best(outputs)
    kept = _kept(boxes, classes) & np.isfinite(scores)
    right = _matched(boxes, np.where(kept, classes, -2), labels)
    found = []
    for k in range(CLASSES):
        chosen = kept & (classes == k)
        order = np.argsort(-scores[chosen], kind="stable")
        found.append(_area(right[chosen][order], int((labels[..., 0] == k).sum())))
    return 100.0 * float(np.mean(found))


def _best(outputs: Array) -> tuple[Array, Array, Array]:
    """The boxes with the highest scores of each picture, in order."""
    scores, classes = outputs[..., 4:].max(axis=-1), outputs[..., 4:].argmax(axis=-1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :KEPT]
    boxes = np.take_along_axis(outputs[..., :4], order[..., None], axis=1)
    return boxes, np.take_along_axis(scores, order, axis=1), np.take_along_axis(classes, order, axis=1)


def _overlaps(boxes: Array, others: Array) -> Array:
    """Intersection over union of boxes ``(N, 1 or K, 4)``."""
    low, high = np.maximum(boxes[..., :2], others[..., :2]), np.minimum(boxes[..., 2:], others[..., 2:])
    shared = (high - low).clip(0).prod(axis=-1)
    areas = [(b[..., 2:] - b[..., :2]).clip(0).prod(axis=-1) for b in (boxes, others)]
    ratio: Array = shared / np.maximum(areas[0] + areas[1] - shared, 1e-9)
    return ratio


def _kept(boxes: Array, classes: Array) -> Array:
    """Which boxes no better box of their class repeats (non-maximum suppression)."""
    kept = np.ones(classes.shape, bool)
    for k in range(boxes.shape[1] - 1):
        same = (classes[:, k + 1 :] == classes[:, k : k + 1]) & (_overlaps(boxes[:, k : k + 1], boxes[:, k + 1 :]) > OVERLAP)
        kept[:, k + 1 :] &= ~(same & kept[:, k : k + 1])
    return kept


def _matched(boxes: Array, classes: Array, labels: Array) -> Array:
    """Which boxes find an object that no better box has found."""
    free = labels[..., 0] >= 0
    right = np.zeros(classes.shape, bool)
    rows = np.arange(len(boxes))
    for k in range(boxes.shape[1]):
        overlaps = _overlaps(boxes[:, k : k + 1], labels[..., 1:]) * (free & (labels[..., 0] == classes[:, k : k + 1]))
        best = overlaps.argmax(axis=1)
        right[:, k] = overlaps[rows, best] >= OVERLAP
        free[rows, best] &= ~right[:, k]
    return right


def _area(right: Array, objects: int) -> float:
    """Under the curve of precision over recall, precision made monotonic from the right."""
    found = np.cumsum(right)
    precision = np.maximum.accumulate((found / np.arange(1, len(found) + 1))[::-1])[::-1]
    return float((precision * right).sum()) / max(objects, 1)


ACCURACY = Metric("accuracy, %", accuracy)
VARIANCE = Metric("R2, %", explained_variance)
PERPLEXITY = Metric("perplexity", log_likelihood, lambda points: f"{math.exp(-points / 100):.3f}")
PRECISION = Metric("mAP at 0.5, %", mean_average_precision)
