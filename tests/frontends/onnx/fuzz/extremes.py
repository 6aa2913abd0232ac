"""Values that programs tend to mistake: limits of integers, not-a-numbers, names that are none, tensors of absurd sizes."""

from __future__ import annotations

import random

import numpy as np
import onnx
from onnx import numpy_helper

INTEGERS = (
    0, 1, -1, 2, -2, 3, 7, 64, 127, 255, 1000, 65536, 10**6, 10**9, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62, -(2**62),
    2**63 - 1, -(2**63),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, -1e38, 1e300, float("inf"), float("-inf"), float("nan"))
NAMES = ("", " ", "x", "nowhere", "\0", "a\nb", "%0", "main", "é", "a" * 3000, "../x", "d0", "0", "-1")
DIM_TEXTS = (
    "N", "M", "", "-1", "0",
    "N*M", "N+1", "N-1", "N//0", "N/0", "1//0", "N%0", "(" * 300 + "N" + ")" * 300, "N" * 5000, "9" * 400,
    "N*N*N*N*N*N*N*N", "2**62", "min(N,M)", "-N", "N**N", "é",
    "N M", "floor(N/2)", "N+" * 800 + "N", "max(N,0)*4294967296*4294967296",
)


def integer(rng: random.Random) -> int:
    return rng.choice(INTEGERS) if rng.random() < 0.8 else rng.randint(-5, 9)


def real(rng: random.Random) -> float:
    return rng.choice(FLOATS)


def integers(rng: random.Random, length: int) -> list[int]:
    """About ``length`` of them; most are harmless, so that some get past the first check."""
    length = max(0, length + rng.choice((0, 0, 0, 0, 1, -1, 7)))
    return [integer(rng) if rng.random() < 0.4 else rng.randint(0, 3) for _ in range(length)]


def array(rng: random.Random, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A small array with extreme contents."""
    count = int(np.prod(shape))
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return np.array([min(max(integer(rng), info.min), info.max) for _ in range(count)], dtype).reshape(shape)
        if dtype.kind in "OSU":
            texts = [rng.choice(("", "a", "1e999", "nan", "\0", "x" * 2000)) for _ in range(count)]
            return np.array(texts, object).reshape(shape)
        return np.array([real(rng) for _ in range(count)], np.float64).astype(dtype).reshape(shape)


def size_operand(rng: random.Random, name: str) -> onnx.TensorProto:
    """A short int64 vector or scalar, as operators take for shapes, repeats, pads, axes and k."""
    values = integers(rng, rng.choice((0, 1, 1, 2, 3, 4, 8)))
    array_ = np.array(values, np.int64) if rng.random() < 0.85 or not values else np.array(values[0], np.int64)
    return numpy_helper.from_array(array_, name)
