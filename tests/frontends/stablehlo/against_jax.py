"""Functions of jax as modules of Forge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import forge
from forge.module import IRModule


def loaded(function: Callable[..., Any], *examples: Any) -> IRModule:
    """A function, traced for arguments like ``examples``."""
    module: IRModule = forge.from_stablehlo(jax.jit(function, keep_unused=True).lower(*examples))
    return module


def results(found: Any) -> list[np.ndarray]:
    found = found if isinstance(found, list | tuple) else [found]
    return [np.asarray(v) for v in found]


def assert_close(found: np.ndarray, expected: np.ndarray, how: str) -> None:
    """Both are of one type, and differ by a hundred-thousandth of the largest number at most (a hundredth in 16 bits)."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, how
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected, err_msg=how)
        return
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    one, other = found.astype(wide), expected.astype(wide)
    finite = np.abs(other[np.isfinite(other)])
    least = 1e-5 if expected.dtype.itemsize > 2 else 1e-2
    np.testing.assert_allclose(one, other, rtol=least, atol=least * max(1, finite.max(initial=0)), err_msg=how)


def check(function: Callable[..., Any], *arguments: Any, targets: Sequence[str] = ("reference", "llvm")) -> None:
    """Compares a function with jax, by the interpreter and compiled."""
    arguments = jax.tree.map(jax.numpy.asarray, arguments)
    expected = [np.asarray(v) for v in jax.tree.leaves(function(*arguments))]
    module = loaded(function, *arguments)
    inputs = [np.asarray(v) for v in jax.tree.leaves(arguments)]
    for target in targets:
        found = results(module.get_inference_function(target)(*inputs))
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert_close(one, other, target)
