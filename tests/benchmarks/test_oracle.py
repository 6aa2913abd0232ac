"""The oracle of accuracy against mpmath: its own error must not show in float32."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from benchmarks.accuracy_table import BY_NAME, Function
from benchmarks.oracle import Oracle

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")

LARGEST = 1e-5
"""Error allowed to the oracle, in ulp of float32."""


def operands(function: Function) -> list[np.ndarray]:
    """All magnitudes, and ordinary numbers."""
    rng = np.random.default_rng(13)
    magnitudes = np.exp(rng.uniform(-100, 88, (function.operands, 60))) * rng.choice([-1, 1], (function.operands, 60))
    ordinary = rng.normal(size=(function.operands, 120)) * 5
    near = rng.uniform(-1, 1, (function.operands, 60))
    return list(np.concatenate([magnitudes, ordinary, near], axis=1).astype(np.float32))


def truth_of(oracle: Oracle, values: list[np.ndarray]) -> np.ndarray:
    out = np.empty(values[0].size)
    oracle.truth(values[0], values[1] if len(values) > 1 else None, out)
    return out


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_agrees_with_mpmath(name: str) -> None:
    mp = pytest.importorskip("mpmath")
    function = BY_NAME[name]
    values = operands(function)
    got = truth_of(Oracle.compile(function.truth), values)
    with mp.workdps(60):
        for *args, result in zip(*(v.tolist() for v in values), got.tolist()):
            exact = function.exact(mp, *(mp.mpf(v) for v in args))
            if not isinstance(exact, mp.mpf):
                assert np.isnan(result), args
            elif abs(exact) < 2.0**128:
                unit = mp.ldexp(1, max(int(mp.frexp(exact)[1]) - 24, -149))
                assert abs(mp.mpf(result) - exact) / unit < LARGEST, args


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_vectors_agree_with_scalars_at_the_edges(name: str) -> None:
    function = BY_NAME[name]
    edges = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 3e38, -3e38, 0.5, 100.0, -100.0, 1e-38, 2.0],
                     np.float32)
    values = [np.repeat(edges, 16), np.tile(edges, 16)][:function.operands]
    with np.errstate(over="ignore"):
        vector, scalar = (truth_of(Oracle.compile(function.truth, p), values).astype(np.float32) for p in (False, True))
    np.testing.assert_array_equal(vector, scalar)
    assert (np.signbit(vector) == np.signbit(scalar))[~np.isnan(scalar)].all()


def test_an_expression_that_the_compiler_refuses_is_reported() -> None:
    with pytest.raises(RuntimeError, match=r"accuracy: .* refuses 'x \+'"):
        Oracle.compile("x +")


def test_a_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RuntimeError, match="no C compiler"):
        Oracle.compile("x")


def test_arrays_with_strides_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a contiguous one"):
        Oracle.compile("x", portable=True).truth(np.zeros(8, np.float32)[::2], None, np.zeros(4))
