"""Normalizations in forms that are not operators: over several axes, with statistics, in training."""

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


def wide_type(*values: Value | None) -> str:
    """The type to compute in: float32, or float64 if one operand is of it, for operands of different types."""
    found = {v.dtype for v in values if v is not None}
    return found.pop() if len(found) == 1 else "float64" if "float64" in found else "float32"


def wide(g: Composer, x: Value) -> Value:
    """``x`` in float32 or more, in which statistics are computed."""
    return g.cast(x, "float64" if x.dtype == "float64" else "float32")


def parameters(g: Composer, x: Value, scale: Value | None, bias: Value | None, dtype: str) -> tuple[Value, Value]:
    """Scale and bias of the channels, axis 1, of ``x``; 1 and 0 stand for absent ones."""
    def present(parameter: Value | None, number: float) -> Value:
        if parameter is not None:
            return g.cast(parameter, dtype)
        return g.call("full", g.constant(number, dtype), shape=(x.shape[1],))

    return present(scale, 1), present(bias, 0)


def mixed_batch_norm(
    g: Composer, x: Value, scale: Value | None, bias: Value | None, mean: Value, variance: Value, *, epsilon: float
) -> Value:
    """`batch_norm` of operands of any types, computed in `wide_type`, whose scale and bias may be absent."""
    dtype = wide_type(x, scale, bias, mean, variance)
    result = batch_norm(g, g.cast(x, dtype), *parameters(g, x, scale, bias, dtype), mean, variance, epsilon=epsilon)
    return g.cast(result, x.dtype)


def training_batch_norm(
    g: Composer, x: Value, scale: Value | None, bias: Value | None, *, epsilon: float
) -> tuple[Value, Value, Value]:
    """The result with mean and variance of the batch, and these, in float32 or more."""
    mean, variance = _moments(g, wide(g, x))
    return mixed_batch_norm(g, x, scale, bias, mean, variance, epsilon=epsilon), mean, variance


def _moments(g: Composer, x: Value) -> tuple[Value, Value]:
    """Mean and variance of each channel of a batch."""
    axes = (0, *range(2, x.rank))
    return g.call("mean", x, axis=axes, keepdims=False), g.call("variance", x, axis=axes, keepdims=False)


def running_statistics(g: Composer, x: Value, mean: Value, old: Sequence[Value], *, share: float) -> list[Value]:
    """``(1 - share) * old + share * new`` of the mean and of the unbiased variance of a batch, whose mean is ``mean``."""
    variance = g.call("variance", wide(g, x), axis=(0, *range(2, x.rank)), keepdims=False, unbiased=True)
    return [blend(g, before, new, 1 - share, share) for before, new in zip(old, (mean, variance), strict=True)]


def instance_statistics(g: Composer, x: Value) -> tuple[Value, Value]:
    """Means over the batch of the means and of the unbiased variances of its elements, of each channel."""
    data, axes = wide(g, x), tuple(range(2, x.rank))
    mean = g.call("mean", g.call("mean", data, axis=axes, keepdims=False), axis=0, keepdims=False)
    variance = g.call("variance", data, axis=axes, keepdims=False, unbiased=True)
    return mean, g.call("mean", variance, axis=0, keepdims=False)


def group_statistics(g: Composer, x: Value, groups: int, batch: Dim, *, epsilon: float) -> tuple[Value, Value]:
    """Mean and 1 / sqrt(variance + epsilon) of each group of channels of the ``batch`` elements."""
    rows = g.reshape(wide(g, x), (batch, groups, dims.floordiv(dims.product(x.shape[1:]), groups)))
    mean, variance = g.call("mean", rows, axis=2, keepdims=False), g.call("variance", rows, axis=2, keepdims=False)
    return mean, inverse_root(g, variance, epsilon)


def inverse_root(g: Composer, variance: Value, epsilon: float) -> Value:
    """``1 / sqrt(variance + epsilon)``."""
    return g.call("rsqrt", (Term(g, variance) + epsilon).value)


def inverse_root_mean_square(g: Composer, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """``1 / sqrt(mean of x^2 + epsilon)`` over ``axes``, which stay with size 1."""
    return inverse_root(g, g.call("mean", g.call("multiply", x, x), axis=tuple(axes), keepdims=True), epsilon)


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
    own = _moments(g, x)
    mean, variance = (blend(g, old, new, momentum, 1 - momentum) for old, new in zip((mean, variance), own))
    return own, (mean, variance)


def blend(g: Composer, old: Value, new: Value, kept: float, share: float) -> Value:
    """``kept * old + share * new`` in the type of ``old``."""
    return (Term(g, old) * kept + (Term(g, new) * share).cast(old.dtype)).value


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
    """A parameter for all normalized elements, as a vector."""
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
    inverse = inverse_root(g, variance, epsilon)
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


def limited_rows(g: Composer, table: Value, indices: Value, *, most: float, p: float) -> Value:
    """``table``, ``[N, D]``, whose rows at ``indices`` are divided by their ``p``-norm over ``most``, where that is above 1."""
    total = g.call("sum", g.call("power", g.call("abs", table), g.scalar(p, table)), axis=1, keepdims=True)
    norm = Term(g, g.call("power", total, g.scalar(1 / p, table)))
    places = g.reshape(indices, (dims.product(indices.shape),))
    marks = g.call("full", g.constant(False), shape=table.shape[:1])
    named = g.call("scatter_elements", marks, places, g.call("full", g.constant(True), shape=places.shape), axis=0)
    is_long = (norm > most).both(Term(g, g.reshape(named, (table.shape[0], 1))))
    return (Term(g, table) * is_long.where(most / (norm + 1e-7), 1)).value
