"""Layer normalization kernels against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from forge.tir import expr as E
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.support import guarded, run
from tests.schedule.support import TARGETS

RNG = np.random.default_rng(6)


def case(
    shape: tuple[object, ...],
    axis: int,
    parameters: int = 2,
    operator: str = "nn.layer_norm",
    dtype: str = "float32",
    epsilon: float = 1e-5,
    **options: object,
) -> Case:
    specs = [Spec(shape[axis:], dtype) if k < parameters else None for k in range(2)]
    return Case(
        "layer_norm",
        [Spec(shape, dtype), *specs],
        Spec(shape, dtype),
        {"axis": axis, "epsilon": epsilon},
        operator=operator,
        **options,
    )


def normalized(x: np.ndarray, axis: int, centred: bool = True, epsilon: float = 1e-5) -> np.ndarray:
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    wide = wide - wide.mean(axes, keepdims=True) if centred else wide
    return wide / np.sqrt((wide * wide).mean(axes, keepdims=True) + epsilon)


@TARGETS
@pytest.mark.parametrize("operator", ["nn.layer_norm", "nn.rms_norm"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 77), -1), ((3, 768), 1), ((2, 5, 6), 1), ((2, 5000), 1), ((3, 1), 1), ((7, 3), 1), ((33,), 0)]
)
def test_matches_numpy(target: str, operator: str, shape: tuple[int, ...], axis: int) -> None:
    x = RNG.standard_normal(shape).astype(np.float32) * 3 + 7
    gamma, beta = (RNG.standard_normal(shape[axis:]).astype(np.float32) for _ in range(2))
    centred = operator == "nn.layer_norm"
    arrays = [x, gamma, beta] if centred else [x, gamma]
    got = run(case(shape, axis, len(arrays) - 1, operator), arrays, target)
    want = normalized(x, axis, centred) * gamma + (beta if centred else 0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


@TARGETS
def test_parameters_may_be_absent(target: str) -> None:
    x = RNG.standard_normal((4, 40)).astype(np.float32)
    np.testing.assert_allclose(run(case((4, 40), 1, 0), [x], target), normalized(x, 1), rtol=1e-5, atol=1e-5)


@TARGETS
def test_a_large_mean_does_not_cancel(target: str) -> None:
    x = (RNG.standard_normal((3, 512)) + 1e4).astype(np.float32)
    np.testing.assert_allclose(run(case((3, 512), 1, 0), [x], target), normalized(x, 1), atol=2e-3)


@TARGETS
def test_symbolic_sizes(target: str) -> None:
    n, m = E.var("n"), E.var("m")
    kernel = build(case((n, m), 1, symbols=(n, m)).function(target), target)
    for sizes in ((1, 1), (3, 5), (70, 33), (2, 5000)):
        x, gamma, beta = (RNG.standard_normal(s).astype(np.float32) for s in (sizes, sizes[1:], sizes[1:]))
        y = guarded(np.full(sizes, 5, np.float32))
        kernel(guarded(x), guarded(gamma), guarded(beta), y, *sizes)
        np.testing.assert_allclose(y, normalized(x, 1) * gamma + beta, rtol=1e-5, atol=1e-5)


@TARGETS
def test_half_precision_is_computed_in_float32(target: str) -> None:
    x = (RNG.standard_normal((4, 300)) * 100).astype(np.float16)
    got = run(case((4, 300), 1, 0, dtype="float16"), [x], target)
    np.testing.assert_allclose(got.astype(np.float64), normalized(x, 1), atol=3e-3)


@TARGETS
def test_fused_residual(target: str) -> None:
    x = RNG.standard_normal((6, 50)).astype(np.float32)
    fused = case((6, 50), 1, 0, prologues={0: lambda v: v * v}, epilogue=lambda y, read: y + read(0), extras=[Spec((6, 50))])
    other = RNG.standard_normal((6, 50)).astype(np.float32)
    np.testing.assert_allclose(run(fused, [x, other], target), normalized(x * x, 1) + other, rtol=1e-5, atol=2e-5)


@TARGETS
@pytest.mark.parametrize("shape", [(2, 30_001), (1, 7, 9000), (3, 5, 13_000)])
def test_long_rows_with_a_large_mean(target: str, shape: tuple[int, ...]) -> None:
    x = (RNG.standard_normal(shape) + 1e4).astype(np.float32)
    gamma, beta = (RNG.standard_normal((shape[1], *[1] * (len(shape) - 2))).astype(np.float32) for _ in range(2))
    if len(shape) == 2:
        np.testing.assert_allclose(run(case(shape, 1, 0), [x], target), normalized(x, 1), atol=2e-3)
        return
    specs = [Spec(shape, "float32"), Spec(gamma.shape, "float32"), Spec(beta.shape, "float32")]
    own = Case("layer_norm", specs, Spec(shape, "float32"), {"axis": 1, "epsilon": 1e-5}, operator="nn.layer_norm")
    np.testing.assert_allclose(run(own, [x, gamma, beta], target), normalized(x, 1) * gamma + beta, atol=1e-2)


@TARGETS
def test_symbolic_long_rows(target: str) -> None:
    n = E.var("n")
    kernel = build(case((2, n), 1, 0, symbols=(n,)).function(target), target)
    for size in (1, 100, 20_000):
        x, y = RNG.standard_normal((2, size)).astype(np.float32), guarded(np.full((2, size), 5, np.float32))
        kernel(guarded(x), y, size)
        np.testing.assert_allclose(y, normalized(x, 1), rtol=1e-5, atol=1e-5)
