"""A function of a package with arguments, written as what jax exports, beside what jax gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

Cases = Iterator[tuple[str, Callable[[], "Case"]]]
"""Names, and what makes the cases."""
VOCABULARY = 99
BATCH, LENGTH = 2, 7
LARGEST = 64
"""What sizes that are open can be at most: as many positions as the models have."""

_NOT_GUARANTEED = ("lapack_sormqr_ffi",)
"""Targets of custom calls that jax exports only if asked to."""


@dataclass(frozen=True)
class Case:
    """A function with its arguments.

    Attributes:
        sizes: how sizes of the arguments that stay open are written, for each leaf: ``batch, length``; None: all are known.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    sizes: tuple[str | None, ...] | None = None

    def write(self, folder: Path, name: str) -> None:
        given, tree = jax.tree.flatten(self.arguments)
        types = list(map(_type, given))
        if self.sizes is not None:
            names = {name for text in self.sizes if text is not None for name in re.findall(r"[a-z]+", text)}
            scope = export.SymbolicScope([f"{name} <= {LARGEST}" for name in sorted(names)])
            for index, text in enumerate(self.sizes):
                if text is not None:
                    types[index] = jax.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), types[index].dtype)

        def flat(*leaves: Any) -> list[Any]:
            """The function without containers of packages, which files cannot have."""
            return jax.tree.leaves(self.function(*jax.tree.unflatten(tree, leaves)))

        checks = [export.DisabledSafetyCheck.custom_call(name) for name in _NOT_GUARANTEED]
        exported = export.export(jax.jit(flat, keep_unused=True), platforms=["cpu"], disabled_checks=checks)(*types)
        found = exported.call(*given)
        arrays = {f"input_{k}": _plain(value) for k, value in enumerate(given)}
        arrays |= {f"output_{k}": _plain(value) for k, value in enumerate(found)}
        np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]
        (folder / f"{name}.jaxexport").write_bytes(exported.serialize())


def _type(value: Any) -> jax.ShapeDtypeStruct:
    value = value if isinstance(value, jax.Array) else jnp.asarray(value)
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def _plain(value: Any) -> np.ndarray:
    """An array as files of NumPy keep it: keys as their numbers."""
    value = value if isinstance(value, jax.Array) else jnp.asarray(value)
    value = jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.prng_key) else value
    return np.asarray(value, np.float32 if value.dtype == jnp.bfloat16 else None)


def tokens(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(3, VOCABULARY - 1, shape or (BATCH, LENGTH)).astype(np.int32)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)
