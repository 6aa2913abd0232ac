"""Codes for weights: steps, rounding to the nearest, and rounding that makes up for errors."""

from __future__ import annotations

import numpy as np
import pytest

from forge.quantization.weights.rounding import Steps, compensated, error, fit_steps, inverse_factor, nearest

RNG = np.random.default_rng(5)


def correlated(depth: int, rows: int = 400) -> np.ndarray:
    """Inputs with few directions, of different sizes."""
    mixed = RNG.standard_normal((rows, depth // 4)) @ RNG.standard_normal((depth // 4, depth))
    return ((mixed + 0.1 * RNG.standard_normal((rows, depth))) * np.exp(RNG.standard_normal(depth))).astype(np.float32)


def ones(blocks: np.ndarray, importance: np.ndarray | None) -> Steps:
    """Whole numbers from -8 to 7."""
    scale = np.ones((*blocks.shape[:-1], 1), np.float32)
    return Steps(scale, np.zeros_like(scale), -8, 7)


def test_by_hand() -> None:
    """Damped, the Gram matrix is [[2.02, 1], [1, 2.02]]: a column takes 1 / 2.02 of the error of the one before it.

    0.4 becomes 0, and its 0.4 add 0.198 to 0.4, which is nearer to 1 then.
    """
    weight, gram = np.array([[0.4, 0.4]], np.float32), np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(nearest(weight, 2, ones).codes, [[0, 0]])
    found = compensated(weight, gram, 2, ones)
    np.testing.assert_array_equal(found.codes, [[0, 1]])
    assert error(weight, found.real, gram) == pytest.approx(0.4**2 * 2 + 0.6**2 * 2 - 2 * 0.4 * 0.6)
    assert error(weight, np.zeros_like(weight), gram) == pytest.approx(0.4**2 * 6)


@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize(("depth", "group"), [(96, 32), (192, 192), (256, 256), (160, 40)])
@pytest.mark.parametrize("symmetric", [False, True])
def test_compensated_beats_nearest_on_correlated_inputs(depth: int, group: int, symmetric: bool, by_size: bool) -> None:
    weight, data = RNG.standard_normal((24, depth)).astype(np.float32), correlated(depth)
    gram, fit = data.T.astype(np.float64) @ data, fit_steps(4, symmetric)
    plain, better = nearest(weight, group, fit), compensated(weight, gram, group, fit, by_size)
    assert error(weight, better.real, gram) < 0.5 * error(weight, plain.real, gram)
    found, expected = error(weight, better.real, gram), np.square(data @ (weight - better.real).T).sum()
    assert found == pytest.approx(expected, rel=1e-3)


def test_independent_inputs_change_nothing() -> None:
    weight = RNG.standard_normal((8, 64)).astype(np.float32)
    fit = fit_steps(8, True)
    np.testing.assert_array_equal(compensated(weight, np.eye(64), 16, fit).codes, nearest(weight, 16, fit).codes)


def test_inputs_without_rank() -> None:
    """Some are 0, others equal: the damping grows until the matrix has an inverse."""
    data = np.zeros((3, 32), np.float32)
    data[:, :8] = 1
    factor = inverse_factor(data.T @ data)
    assert np.isfinite(factor).all()
    assert np.isfinite(inverse_factor(np.zeros((4, 4)))).all()
    np.testing.assert_array_equal(factor, np.triu(factor))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_steps(bits: int, symmetric: bool) -> None:
    weight = RNG.standard_normal((16, 64)).astype(np.float32)
    weight[0] = 0
    weight[1] = np.abs(weight[1])
    found = nearest(weight, 32, fit_steps(bits, symmetric))
    assert found.codes.min() >= found.low
    assert found.codes.max() < found.low + (1 << bits)
    assert not found.real[0].any()
    assert not (symmetric and found.zero.any())
    bound = np.ptp(weight.reshape(16, 2, 32), axis=2) / ((1 << bits) - 1)
    if bits == 8 and not symmetric:
        assert (np.abs(weight - found.real).reshape(16, 2, 32).max(axis=2)[2:] <= 0.51 * bound[2:]).all()
    whole = nearest(weight, 32, fit_steps(bits, symmetric), np.ones(64, np.float32))
    np.testing.assert_array_equal(whole.codes, found.codes)


def test_the_range_is_cut_where_that_gives_less_error() -> None:
    weight = RNG.uniform(-1, 1, (1, 64)).astype(np.float32)
    weight[0, 0] = 2.5
    found = nearest(weight, 64, fit_steps(4, True))
    assert found.scale[0, 0] < 2.5 / 7
    important = np.ones(64, np.float32)
    important[0] = 1e6
    assert nearest(weight, 64, fit_steps(4, True), important).scale[0, 0] > 0.9 * 2.5 / 8
