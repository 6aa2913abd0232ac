"""Functions of jax as modules of Forge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import forge
from forge.module import IRModule


def loaded(function: Callable[..., Any], *examples: Any) -> IRModule:
    """A function, traced for arguments like ``examples``."""
    return forge.from_stablehlo(jax.jit(function, keep_unused=True).lower(*examples))


def results(found: Any) -> list[np.ndarray]:
    found = found if isinstance(found, list | tuple) else [found]
    return [np.asarray(v) for v in found]


def check(function: Callable[..., Any], *arguments: Any, rtol: float = 1e-5, atol: float = 1e-5, compiled: bool = True) -> None:
    """Compares a function with jax, as the reference and compiled."""
    arguments = jax.tree.map(jax.numpy.asarray, arguments)
    expected = [np.asarray(v) for v in jax.tree.leaves(function(*arguments))]
    module = loaded(function, *arguments)
    inputs = [np.asarray(v) for v in jax.tree.leaves(arguments)]
    for how in ("reference", "llvm") if compiled else ("reference",):
        run = module.get_inference_function("reference") if how == "reference" else module.get_inference_function()
        found = results(run(*inputs))
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert one.dtype == other.dtype and one.shape == other.shape, how
            if one.dtype.kind in "fcV":
                wide = np.complex128 if one.dtype.kind == "c" else np.float64
                np.testing.assert_allclose(one.astype(wide), other.astype(wide), rtol=rtol, atol=atol, err_msg=how)
            else:
                np.testing.assert_array_equal(one, other, err_msg=how)
