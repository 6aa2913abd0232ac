"""Normalizations against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import norms
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import run

rng = np.random.default_rng(37)
X = rng.standard_normal((3, 4, 5)).astype(np.float32)


def draw(*shape: int) -> np.ndarray:
    return rng.uniform(0.5, 2, shape).astype(np.float32)


def torch_norm(name: str, *operands: Any, **options: Any) -> np.ndarray:
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in operands]
    result: np.ndarray = getattr(torch.nn.functional, name)(*tensors, **options).numpy()
    return result


@pytest.mark.parametrize("first", [1, 2])
def test_layers_over_trailing_axes(first: int) -> None:
    shape = X.shape[first:]
    scale, bias = draw(*shape), draw(*shape)
    wanted = torch_norm("layer_norm", X, shape, scale, bias)
    check(run(lambda g, *v: norms.layer_norm(g, *v, first=first), X, scale, bias)[0], wanted, Accuracy.ACCUMULATING)
    check(run(lambda g, *v: norms.layer_norm(g, *v, first=first), X, scale, bias, symbolic=True)[0].reshape(X.shape), wanted,
          Accuracy.ACCUMULATING)

    def with_statistics(g: Composer, x: Value, s: Value, b: Value) -> Any:
        return norms.layer_norm_with_statistics(g, x, s, b, first=first, epsilon=1e-5, wide="float32")

    out, mean, inverse = run(with_statistics, X, scale, bias)
    axes = tuple(range(first, 3))
    check(out, wanted, Accuracy.ACCUMULATING)
    check(mean, X.mean(axes, keepdims=True), Accuracy.ACCUMULATING)
    check(inverse, 1 / np.sqrt(X.var(axes, keepdims=True) + np.float32(1e-5)), Accuracy.ACCUMULATING)


def test_root_mean_squares() -> None:
    scale = draw(4, 5)
    wanted = torch_norm("rms_norm", X, (4, 5), scale, eps=1e-5)
    check(run(lambda g, *v: norms.rms_norm(g, *v, first=1), X, scale)[0], wanted, Accuracy.ACCUMULATING)


@pytest.mark.parametrize("p", [1, 2])
def test_vectors_of_length_one_and_zeros(p: int) -> None:
    x = X.copy()
    x[:, 1] = 0
    (got,) = run(lambda g, v: norms.lp_norm(g, v, p, 2), x)
    check(got, torch_norm("normalize", x, p, 2), Accuracy.ACCUMULATING)
    assert not got[:, 1].any()


def test_batches_in_training() -> None:
    torch = pytest.importorskip("torch")
    mean, variance, scale, bias = draw(4), draw(4), draw(4), draw(4)

    def compose(g: Composer, x: Value, mean: Value, variance: Value, scale: Value, bias: Value) -> list[Value]:
        own, running = norms.batch_statistics(g, x, mean, variance, momentum=0.9)
        return [norms.batch_norm(g, x, scale, bias, *own), *running]

    out, new_mean, _ = run(compose, X, mean, variance, scale, bias)
    running = torch.from_numpy(mean.copy())
    wanted = torch.nn.functional.batch_norm(
        torch.from_numpy(X), running, torch.from_numpy(variance.copy()), torch.from_numpy(scale), torch.from_numpy(bias),
        training=True, momentum=0.1,
    )
    check(out, wanted.numpy(), Accuracy.ACCUMULATING)
    check(new_mean, running.numpy(), Accuracy.ACCUMULATING)


def test_parameters_of_groups_become_those_of_channels() -> None:
    (got,) = run(lambda g, v: norms.by_channel(g, v, 6), np.array([1.0, 2.0, 3.0], np.float32))
    assert got.tolist() == [1, 1, 2, 2, 3, 3]


def test_mean_and_variance_of_axes() -> None:
    (got,) = run(lambda g, v: norms.mean_variance_norm(g, v, (0, 2)), X)
    wanted = (X - X.mean((0, 2), keepdims=True)) / (X.std((0, 2), keepdims=True) + np.float32(1e-9))
    check(got, wanted, Accuracy.ACCUMULATING)
