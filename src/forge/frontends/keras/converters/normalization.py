"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge.compose import norms
from forge.frontends.keras.context import Context
from forge.frontends.keras.registry import converts
from forge.ir.nodes import Value


def _wide(x: Value) -> str:
    """The type that statistics are computed in."""
    return "float32" if x.dtype in ("float16", "bfloat16") else x.dtype


def _axes(g: Context, given: Any, rank: int, count: int | None = None) -> list[int]:
    """Axes from the front, in order; None is the last one."""
    listed = given if isinstance(given, tuple) else (-1 if given is None else given,)
    if not listed or not all(isinstance(axis, int) for axis in listed) or count not in (None, len(listed)):
        raise g.invalid(f"axis: got {given!r}; expected {'one axis' if count else 'axes'}")
    return sorted(g.axis(axis, rank) for axis in listed)


@converts("BatchNormalization")
def batch_normalization(
    g: Context, x: Value, *, axis: Any = None, epsilon: float = 1e-3, center: bool = True, scale: bool = True
) -> Value:
    (position,) = _axes(g, axis, x.rank, 1)
    wide = _wide(x)
    mean, variance = (g.weight(name, dtype=wide) for name in ("moving_mean", "moving_variance"))
    gamma = g.weight("gamma", dtype=wide) if scale else g.full(mean.shape, 1.0, wide)
    beta = g.weight("beta", dtype=wide) if center else g.full(mean.shape, 0.0, wide)
    found = g.call("nn.batch_norm", g.cast(x, wide), gamma, beta, mean, variance, axis=position, epsilon=float(epsilon))
    return g.cast(found, g.layer.policy.compute)


def _on_axes(g: Context, parameter: Value, axes: Sequence[int], rank: int, shape: Sequence[Any]) -> Value:
    return g.reshape(parameter, [shape[k] if k in axes else 1 for k in range(rank)])


@converts("LayerNormalization")
def layer_normalization(
    g: Context, x: Value, *, axis: Any = None, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
    rms_scaling: bool = False,
) -> Value:
    axes = _axes(g, axis, x.rank)
    wide = _wide(x)
    data = g.cast(x, wide)
    if rms_scaling:
        variance = g.call("variance", data, axis=tuple(axes), keepdims=True)
        root = norms.inverse_root(g, variance, float(epsilon))
        factor = _on_axes(g, g.weight("gamma", dtype=wide), axes, x.rank, x.shape)
        return g.cast(g.call("multiply", g.call("multiply", data, root), factor), g.layer.policy.compute)
    gamma = g.weight("gamma", dtype=wide) if scale else None
    beta = g.weight("beta", dtype=wide) if center else None
    if axes == list(range(axes[0], x.rank)):
        found = norms.layer_norm(g, data, gamma, beta, first=axes[0], epsilon=float(epsilon))
        return g.cast(found, g.layer.policy.compute)
    mean = g.call("mean", data, axis=tuple(axes), keepdims=True)
    variance = g.call("variance", data, axis=tuple(axes), keepdims=True)
    found = g.call("multiply", g.call("subtract", data, mean), norms.inverse_root(g, variance, float(epsilon)))
    if gamma is not None:
        found = g.call("multiply", found, _on_axes(g, gamma, axes, x.rank, x.shape))
    if beta is not None:
        found = g.call("add", found, _on_axes(g, beta, axes, x.rank, x.shape))
    return g.cast(found, g.layer.policy.compute)


@converts("RMSNormalization")
def rms_normalization(g: Context, x: Value, *, axis: Any = None, epsilon: float = 1e-6) -> Value:
    axes = _axes(g, axis, x.rank)
    wide = _wide(x)
    root = norms.inverse_root_mean_square(g, g.cast(x, wide), tuple(axes), float(epsilon))
    scale = _on_axes(g, g.weight("scale", dtype=wide), axes, x.rank, x.shape)
    return g.cast(g.call("multiply", g.call("multiply", g.cast(x, wide), root), scale), x.dtype)


@converts("GroupNormalization")
def group_normalization(
    g: Context, x: Value, *, groups: int = 32, axis: Any = None, epsilon: float = 1e-3, center: bool = True, scale: bool = True
) -> Value:
    (position,) = _axes(g, axis, x.rank, 1)
    channels = x.shape[position]
    if not isinstance(channels, int):
        raise g.unsupported(f"got {x.type}; expected a known number of channels")
    number = channels if groups == -1 else groups
    if number < 1 or channels % number:
        raise g.invalid(f"groups: got {groups} for {channels} channels; expected a divisor")
    wide = _wide(x)
    split = [*x.shape[:position], number, channels // number, *x.shape[position + 1 :]]
    data = g.reshape(g.cast(x, wide), split)
    over = tuple(k for k in range(1, data.rank) if k != position)
    mean, variance = (g.call(op, data, axis=over, keepdims=True) for op in ("mean", "variance"))
    found = g.call("multiply", g.call("subtract", data, mean), norms.inverse_root(g, variance, float(epsilon)))
    found = g.reshape(found, x.shape)
    for name, op, has in (("gamma", "multiply", scale), ("beta", "add", center)):
        if has:
            found = g.call(op, found, _on_axes(g, g.weight(name, dtype=wide), [position], x.rank, x.shape))
    return g.cast(found, g.layer.policy.compute)


@converts("UnitNormalization")
def unit_normalization(g: Context, x: Value, *, axis: Any = None) -> Value:
    return unit(g, x, _axes(g, axis, x.rank))


def unit(g: Context, x: Value, axes: Sequence[int], epsilon: float = 1e-12) -> Value:
    """``x / sqrt(max(sum of x^2, epsilon))``, as Keras's ``normalize`` with order 2 computes it."""
    total = g.call("sum", g.call("multiply", x, x), axis=tuple(axes), keepdims=True)
    return g.call("multiply", x, g.call("rsqrt", g.call("maximum", total, g.scalar(epsilon, total))))
