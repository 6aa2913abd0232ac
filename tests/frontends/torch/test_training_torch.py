"""Layers in training next to torch's: what they write is compared, what they draw by its distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from forge.driver import check_options, compile_module  # noqa: E402
from forge.frontends.torch import import_model  # noqa: E402
from tests.torch_databases.cases import Call  # noqa: E402
from tests.torch_databases.compare import difference, run  # noqa: E402

F = torch.nn.functional


def normal(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (lambda: torch.nn.BatchNorm1d(3), (4, 3, 5)),
        (lambda: torch.nn.InstanceNorm1d(3, track_running_stats=True), (4, 3, 5)),
        (lambda: torch.nn.InstanceNorm2d(3, momentum=0.3, affine=True, track_running_stats=True), (2, 3, 5, 4)),
    ],
)
def test_norms_replace_their_statistics(norm: Any, shape: tuple[int, ...]) -> None:
    """Three calls of a session next to three of torch, whose last one uses the statistics of those before."""
    layer = norm().train()
    ir = import_model(torch.export.export(layer, (normal(*shape),)))
    session = compile_module(ir, check_options(opt_level=3), use_cache=False).runtime().session()
    for k in range(3):
        x = normal(*shape) * (k + 1) + k
        assert difference(session(x.numpy()), layer(x)) == ""
    for name in ("running_mean", "running_var"):
        assert difference(session.state()[name], getattr(layer, name)) == ""


@pytest.mark.parametrize("compiled", [False, True])
def test_what_norms_write_to_inputs_is_an_output(compiled: bool) -> None:
    x, mean, variance = normal(4, 3, 5), normal(3), normal(3).abs()
    options = {"use_input_stats": True, "momentum": 0.2}
    ir = import_model(torch.export.export(Call(F.instance_norm, ((x, mean, variance), options)), (x, mean, variance)))
    found = run(ir, (x, mean, variance), compiled=compiled)
    expected = F.instance_norm(x, mean, variance, **options)  # type: ignore[arg-type]
    assert [difference(f, e) for f, e in zip(found, (expected, mean, variance), strict=True)] == ["", "", ""]


def drawn(function: Any, *inputs: Any, **options: Any) -> np.ndarray:
    """The result of the import, compiled; interpreted it is the same."""
    ir = import_model(torch.export.export(Call(function, (inputs, options)), inputs))
    first, second = (run(ir, inputs, compiled=compiled)[0] for compiled in (False, True))
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    return second


def is_near(numbers: np.ndarray, mean: float, variance: float) -> bool:
    """Whether independent numbers may have this mean and variance: 5 standard errors for a mean, and 20 % for a variance."""
    error = abs(float(np.mean(numbers)) - mean)
    return error <= 5 * math.sqrt(variance / numbers.size) and abs(float(np.var(numbers)) / variance - 1) < 0.2


def most_frequent(numbers: np.ndarray) -> tuple[np.ndarray, float]:
    """Where the most frequent number is, and this."""
    values, counts = np.unique(numbers, return_counts=True)
    value = values[counts.argmax()]
    return numbers == value, float(value)


def test_dropout_of_channels() -> None:
    x = 1 + normal(64, 50, 3, 2).abs()
    ratio = drawn(F.dropout2d, x, p=0.2) / x.numpy()
    assert set(np.unique(ratio.round(4))) == {0.0, 1.25}
    assert (ratio == ratio[:, :, :1, :1]).mean() > 0.7  # but for rounding
    assert (np.ptp(ratio, axis=(2, 3)) < 1e-5).all()
    assert is_near(ratio[:, :, 0, 0], 1.0, 1.25**2 * 0.2 * 0.8)


@pytest.mark.parametrize("function", [F.alpha_dropout, F.feature_alpha_dropout])
def test_alpha_dropout_keeps_mean_and_variance(function: Any) -> None:
    """What is dropped takes the value that SELU tends to, then everything is scaled and shifted."""
    x = normal(200, 100, 4)
    found = drawn(function, x, p=0.3, training=True)
    dropped, value = most_frequent(found)
    assert is_near(dropped[:, :, 0].astype(float), 0.3, 0.21)
    assert np.unique(dropped.sum(axis=2)).size == (2 if function is F.feature_alpha_dropout else 5)
    kept = np.polyfit(x.numpy()[~dropped], found[~dropped], 1)
    torch.manual_seed(0)
    reference = function(x, p=0.3, training=True)
    others, wanted = most_frequent(reference.numpy())
    np.testing.assert_allclose(kept, np.polyfit(x.numpy()[~others], reference.numpy()[~others], 1), rtol=1e-4)
    assert value == pytest.approx(wanted, rel=1e-5)
    assert is_near(found[:, :, 0], 0, 1)


def test_rrelu_draws_slopes() -> None:
    x = normal(100, 100)
    found = drawn(F.rrelu, x, lower=0.1, upper=0.4, training=True)
    slopes = found[x.numpy() <= 0] / x.numpy()[x.numpy() <= 0]
    np.testing.assert_array_equal(found[x.numpy() > 0], x.numpy()[x.numpy() > 0])
    assert slopes.min() >= 0.1 - 1e-6
    assert slopes.max() <= 0.4 + 1e-6
    assert is_near(slopes, 0.25, 0.3**2 / 12)


@pytest.mark.parametrize("groups", [4, 2])
def test_attention_drops_probabilities(groups: int) -> None:
    """With the identity for values the result is the probabilities, of which some are 0 and the others twice as large."""
    query, key = normal(8, 4, 16, 5), normal(8, groups, 16, 5)
    value = torch.eye(16).expand(8, groups, 16, 16)
    options = {"enable_gqa": groups == 2, "is_causal": True}
    expected = F.scaled_dot_product_attention(query, key, value, **options)  # type: ignore[arg-type]
    found = drawn(F.scaled_dot_product_attention, query, key, value, dropout_p=0.5, **options)
    kept = found != 0
    np.testing.assert_allclose(found[kept], 2 * expected.numpy()[kept], rtol=1e-5)
    assert is_near(kept[expected.numpy() > 0].astype(float), 0.5, 0.25)
