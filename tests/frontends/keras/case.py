"""A Keras model whose results are recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAW = np.random.default_rng(20)


@dataclass(frozen=True)
class Case:
    """A model and its inputs.

    Attributes:
        suffix: of the file: ``.keras``, or ``.h5`` for a whole-model file.
        accuracy: of floats, relative to the largest one.
        is_random: weights are drawn anew, so that none of them is 0 or 1.
    """

    name: str
    model: Any
    inputs: Sequence[np.ndarray]
    suffix: str = ".keras"
    accuracy: float = 2e-5
    is_random: bool = True


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], accuracy: float) -> str:
    """What is wrong with results; "" where nothing is."""
    if len(found) != len(expected):
        return f"got {len(found)} results; expected {len(expected)}"
    for number, (one, wanted) in enumerate(zip(found, expected)):
        if one.shape != wanted.shape or one.dtype != wanted.dtype and str(one.dtype) != "bfloat16":
            return f"result {number}: got {one.dtype}{one.shape}; expected {wanted.dtype}{wanted.shape}"
        if wanted.dtype.kind in "iub":
            if not np.array_equal(one, wanted):
                return f"result {number} differs"
            continue
        known = np.isfinite(wanted)
        bound = accuracy * max(float(np.abs(wanted[known].astype(np.float64)).max(initial=0)), 1.0)
        away = np.abs(one.astype(np.float64) - wanted.astype(np.float64))[known].max(initial=0)
        if not away <= bound or not np.array_equal(one[~known], wanted[~known], equal_nan=True):
            return f"result {number} differs by {away:.3g}; expected at most {bound:.3g}"
    return ""


def normal(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape).astype(np.float32)


def integers(low: int, high: int, *shape: int) -> np.ndarray:
    return DRAW.integers(low, high, shape).astype(np.int32)


def called(keras: Any, name: str, make: Any, *inputs: np.ndarray, **more: Any) -> Case:
    """The case of a function of symbolic tensors."""
    symbols = [keras.Input(x.shape[1:], dtype=str(x.dtype), name=f"x{k}") for k, x in enumerate(inputs)]
    found = make(*symbols)
    outputs = list(found) if isinstance(found, list | tuple) else found
    return Case(name, keras.Model(symbols if len(symbols) > 1 else symbols[0], outputs), inputs, **more)
