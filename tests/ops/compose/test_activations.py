"""Activations, images and bits against torch and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge.compose import activations, images
from forge.compose.bits import bitcast
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import run

X = np.random.default_rng(53).standard_normal((2, 4, 6, 4)).astype(np.float32) * 3


@pytest.mark.parametrize(
    ("compose", "name", "arguments"),
    [
        (lambda g, x: activations.elu(g, x, alpha=0.5), "elu", (0.5,)),
        (lambda g, x: activations.softplus(g, x, beta=2.0, threshold=3.0), "softplus", (2.0, 3.0)),
        (lambda g, x: activations.soft_shrink(g, x, 0.7), "softshrink", (0.7,)),
        (lambda g, x: activations.hard_shrink(g, x, 0.7), "hardshrink", (0.7,)),
        (lambda g, x: activations.threshold(g, x, 0.1, 20.0), "threshold", (0.1, 20.0)),
        (lambda g, x: activations.glu(g, x, 1), "glu", (1,)),
        (lambda g, x: images.space_to_channels(g, x, 2), "pixel_unshuffle", (2,)),
        (lambda g, x: images.channels_to_space(g, x, 2), "pixel_shuffle", (2,)),
        (lambda g, x: images.unfold(g, x, block_shape=(2, 3), strides=(2, 1), padding=(1, 0), dilation=(1, 1)), "unfold",
         ((2, 3), 1, (1, 0), (2, 1))),
    ],
)
def test_functions_are_those_of_torch(compose: Callable[..., Any], name: str, arguments: tuple[Any, ...]) -> None:
    torch = pytest.importorskip("torch")
    wanted = getattr(torch.nn.functional, name)(torch.from_numpy(X), *arguments).numpy()
    check(run(compose, X)[0], wanted, Accuracy.ROUNDING)


def test_elu_with_factors() -> None:
    (got,) = run(lambda g, x: activations.elu(g, x, alpha=1.5, scale=2.0, input_scale=0.5), X)
    check(got, np.where(X > 0, 2 * X, 3 * np.expm1(X / 2)), Accuracy.ROUNDING)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "complex64", "float64"])
def test_bytes_stay(dtype: str) -> None:
    (got,) = run(lambda g, x: bitcast(g, x, dtype), X)
    assert got.tobytes() == X.view(dtype).tobytes()
    assert got.shape == X.view(dtype).shape
