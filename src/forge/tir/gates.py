"""What the intrinsics of activation functions mean, in NumPy: computed in float64 and rounded once; sigmoid takes complex too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_ERFC = np.frompyfunc(math.erfc, 1, 1)


def _sigmoid(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, decay, 1.0) / (1.0 + decay))


def _complex_sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * np.asarray(_ERFC(x * -math.sqrt(0.5)), np.float64))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _rounded_once(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


MEANINGS: dict[str, Callable[[Array], Array]] = {
    "sigmoid": lambda x: _complex_sigmoid(x) if np.iscomplexobj(x) else _rounded_once(_sigmoid)(x),
    "softplus": _rounded_once(_softplus), "gelu": _rounded_once(_gelu), "gelu_tanh": _rounded_once(_gelu_tanh),
    "silu": _rounded_once(lambda x: x * _sigmoid(x)),
    "mish": _rounded_once(lambda x: x * np.tanh(_softplus(x))),
}
