"""Normalisations in forms that are not operators: over several axes, with statistics, in training."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def batch_norm(
    g: Composer, x: Value, scale: Value, bias: Value, mean: Value, variance: Value, *, epsilon: float = 1e-5
) -> Value:
    """``nn.batch_norm`` over axis 1 with parameters of any floating-point type."""
    parameters = (g.cast(v, x.dtype) for v in (scale, bias, mean, variance))
    return g.call("nn.batch_norm", x, *parameters, axis=1, epsilon=epsilon)


def elementwise_batch_norm(
    g: Composer, x: Value, scale: Value, bias: Value, mean: Value, variance: Value, *, epsilon: float = 1e-5
) -> Value:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` with parameters for each element of an example, broadcast."""
    factor, shift, centre, spread = (Term(g, v) for v in (scale, bias, mean, variance))
    return ((Term(g, x) - centre) * factor / Term(g, g.call("sqrt", (spread + epsilon).value)) + shift).value


def batch_statistics(
    g: Composer, x: Value, mean: Value, variance: Value, *, momentum: float
) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """Mean and variance of each channel (axis 1) of a batch, and the running ones: ``momentum * old + (1 - momentum) * new``."""
    axes = (0, *range(2, x.rank))
    own = g.call("mean", x, axis=axes, keepdims=False), g.call("variance", x, axis=axes, keepdims=False)
    return own, (_blend(g, mean, own[0], momentum), _blend(g, variance, own[1], momentum))


def _blend(g: Composer, old: Value, new: Value, momentum: float) -> Value:
    return (Term(g, old) * momentum + (Term(g, new) * (1 - momentum)).cast(old.dtype)).value


def by_channel(g: Composer, parameter: Value, channels: Dim) -> Value:
    """A number for each group of channels as one for each channel."""
    groups = parameter.shape[0]
    size = dims.floordiv(channels, groups)
    return g.reshape(g.call("broadcast_to", g.reshape(parameter, (groups, 1)), shape=(groups, size)), (channels,))


def layer_norm(
    g: Composer, x: Value, scale: Value | None, bias: Value | None = None, *, first: int, epsilon: float = 1e-5
) -> Value:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over the axes from ``first`` on; scale and bias broadcast."""
    gamma, beta = (None if v is None else _row(g, v, x, first) for v in (scale, bias))
    result = g.call("nn.layer_norm", _merged(g, x, first), gamma, beta, axis=-1, epsilon=epsilon)
    return g.reshape(result, x.shape)


def rms_norm(g: Composer, x: Value, scale: Value | None, *, first: int, epsilon: float = 1e-5) -> Value:
    """``x / sqrt(mean of x^2 + epsilon) * scale`` over all axes from ``first`` on, in the type of ``scale``, if it is there."""
    weight = None if scale is None else _row(g, g.cast(scale, x.dtype), x, first)
    result = g.reshape(g.call("nn.rms_norm", _merged(g, x, first), weight, axis=-1, epsilon=epsilon), x.shape)
    return result if scale is None else g.cast(result, scale.dtype)


def _merged(g: Composer, x: Value, first: int) -> Value:
    return g.reshape(x, (*x.shape[:first], dims.product(x.shape[first:])))


def _row(g: Composer, parameter: Value, x: Value, first: int) -> Value:
    """A parameter for all normalised elements, as a vector."""
    shape = x.shape[first:]
    full = parameter if parameter.shape == shape else g.call("broadcast_to", parameter, shape=shape)
    return g.reshape(full, (dims.product(shape),))


def layer_norm_with_statistics(
    g: Composer, x: Value, scale: Value, bias: Value | None, *, first: int, epsilon: float, wide: str
) -> tuple[Value, Value, Value]:
    """``layer_norm``, the mean, and 1 / sqrt(variance + epsilon), computed in the type ``wide`` (float64 stays)."""
    data = x if x.dtype == "float64" else g.cast(x, wide)
    axes = tuple(range(first, x.rank))
    mean = g.call("mean", data, axis=axes, keepdims=True)
    centred = Term(g, data) - Term(g, mean)
    variance = g.call("mean", (centred * centred).value, axis=axes, keepdims=True)
    inverse = g.call("rsqrt", (Term(g, variance) + epsilon).value)
    result = (centred * Term(g, inverse)).cast(x.dtype) * Term(g, scale)
    return (result if bias is None else result + Term(g, bias)).value, g.cast(mean, wide), g.cast(inverse, wide)


def lp_norm(g: Composer, x: Value, p: int, axis: int) -> Value:
    """``x / ||x||_p`` along an axis, p 1 or 2; 0 where the norm is 0."""
    powered = g.call("abs", x) if p == 1 else g.call("multiply", x, x)
    total = g.call("sum", powered, axis=(axis,), keepdims=True)
    norm = Term(g, total if p == 1 else g.call("sqrt", total))
    return norm.equals(0).where(0, Term(g, x) / norm).value


def mean_variance_norm(g: Composer, x: Value, axes: Sequence[int]) -> Value:
    """``(x - mean) / (standard deviation + 1e-9)`` over ``axes``."""
    centred = Term(g, x) - Term(g, g.call("mean", x, axis=tuple(axes), keepdims=True))
    deviation = g.call("sqrt", g.call("mean", (centred * centred).value, axis=tuple(axes), keepdims=True))
    return (centred / (Term(g, deviation) + 1e-9)).value
