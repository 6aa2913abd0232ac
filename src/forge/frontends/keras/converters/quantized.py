"""Quantised layers: weights stay integers; what is computed with them is what Keras computes."""

from __future__ import annotations

from forge.frontends.keras.context import Context
from forge.ir.nodes import Value


def dense(g: Context, x: Value) -> Value:
    """The product of a quantised layer, before its bias."""
    raise g.unsupported(f"quantisation {g.layer.policy.mode!r}: not supported")


def einsum_kernel(g: Context, x: Value) -> tuple[Value]:
    """The result of a quantised layer, before its bias."""
    raise g.unsupported(f"quantisation {g.layer.policy.mode!r}: not supported")


def embeddings(g: Context) -> Value:
    """The table of a quantised layer, as numbers."""
    raise g.unsupported(f"quantisation {g.layer.policy.mode!r}: not supported")


def projected(g: Context, path: str, x: Value, outputs: int, use_bias: bool) -> Value:
    """``x`` times a quantised kernel at ``path`` whose last ``outputs`` axes are new, and a bias."""
    raise g.unsupported(f"quantisation {g.layer.policy.mode!r}: not supported")
