"""Operators whose results torch leaves open in part: what of them is compared.

The signs of singular vectors and eigenvectors are free, so the sizes of their elements are compared, and what shows that the
signs fit together: the product, which is the matrix. Vectors that complete a basis are any that are orthogonal.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Gauge = Callable[..., tuple[Tensor, ...]]
"""Of all results: the tensors to compare."""


def _singular(left: Tensor, values: Tensor, right: Tensor) -> tuple[Tensor, ...]:
    count = values.shape[-1]
    u, vh = left[..., :count], right[..., :count, :]
    return values, (u * values[..., None, :]) @ vh, u.abs(), vh.abs(), left.mH @ left, right @ right.mH


def _eigen(values: Tensor, vectors: Tensor) -> tuple[Tensor, ...]:
    return values, (vectors * values[..., None, :]) @ vectors.mH, vectors.abs(), vectors.mH @ vectors


GAUGES: dict[str, Gauge] = {
    "linalg.svd": _singular,
    "svd": lambda left, values, right: _singular(left, values, right.mH),
    "linalg.eigh": _eigen,
}
"""By the name of the operator in the database. All other results are compared as they are."""
