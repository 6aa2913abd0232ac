"""Scores of classifiers and regressors: transforms of what a model adds up, and labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.errors import OpAttributeInvalid
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

_PROBIT_SHAPE = 0.147
"""The constant of Winitzki's approximation of the inverse error function, which is what other engines compute."""
_NEAR_ZERO = 1e-7


def transformed(g: Composer, scores: Value, transform: str) -> Value:
    """The scores (rows, classes) after one of ``TRANSFORMS``.

    SOFTMAX_ZERO: a softmax in which scores of (nearly) 0 take no part and stay so; rows without others become 0.5.
    PROBIT: the normal distribution's quantile, by Winitzki's approximation; NaN outside of [0, 1].

    Raises:
        OpAttributeInvalid: an unknown transform.
    """
    match transform:
        case "NONE":
            return scores
        case "SOFTMAX":
            return g.call("nn.softmax", scores, axis=-1)
        case "LOGISTIC":
            return g.call("sigmoid", scores)
        case "SOFTMAX_ZERO":
            return _softmax_zero(g, scores)
        case "PROBIT":
            return _probit(g, scores)
    raise OpAttributeInvalid(f"post_transform: got {transform!r}; expected {', '.join(TRANSFORMS)}")


def _softmax_zero(g: Composer, scores: Value) -> Value:
    largest = g.call("max", scores, axis=(-1,), keepdims=True)
    powers = g.call("exp", g.call("subtract", scores, largest))
    small = g.call("multiply", scores, g.call("exp", g.call("negative", largest)))
    counts = g.call("greater", g.call("abs", scores), g.scalar(_NEAR_ZERO, scores))
    terms = g.call("where", counts, powers, small)
    total = g.call("sum", terms, axis=(-1,), keepdims=True)
    nothing = g.call("equal", total, g.scalar(0, scores))
    divisor = g.call("where", nothing, g.scalar(1, scores), total)
    return g.call("where", nothing, g.scalar(0.5, scores), g.call("divide", terms, divisor))


def _probit(g: Composer, scores: Value) -> Value:
    def number(value: float) -> Value:
        return g.scalar(value, scores)

    x = g.call("subtract", g.call("multiply", scores, number(2)), number(1))
    log = g.call("log", g.call("multiply", g.call("subtract", number(1), x), g.call("add", number(1), x)))
    middle = g.call("add", g.call("multiply", log, number(0.5)), number(2 / (np.pi * _PROBIT_SHAPE)))
    square = g.call("subtract", g.call("multiply", middle, middle), g.call("multiply", log, number(1 / _PROBIT_SHAPE)))
    size = g.call("sqrt", g.call("subtract", g.call("sqrt", square), middle))
    signed = g.call("where", g.call("less", x, number(0)), g.call("negative", size), size)
    return g.call("multiply", signed, number(np.sqrt(2)))


def class_labels(integers: Sequence[int] | None, strings: Sequence[str] | None) -> np.ndarray:
    """The labels of classes as a vector.

    Raises:
        OpAttributeInvalid: there are none, or both kinds.
    """
    if bool(integers) == bool(strings):
        raise OpAttributeInvalid("class labels: expected either integers or strings, at least one of them")
    return np.array(strings, object) if strings else np.array(integers, np.int64)


def best_label(g: Composer, scores: Value, labels: np.ndarray) -> Value:
    """For every row the label of the largest score, of equal ones the first."""
    return g.call("take", g.constant(labels), g.call("argmax", scores, axis=-1), axis=0)


def label_if(g: Composer, condition: Value, labels: np.ndarray) -> Value:
    """The second label where ``condition`` holds, else the first."""
    return g.call("take", g.constant(labels), g.cast(condition, "int64"), axis=0)


def beside(g: Composer, *columns: Value) -> Value:
    """Columns (rows, 1) side by side."""
    return g.call("concatenate", *columns, axis=1)
