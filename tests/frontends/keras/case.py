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
