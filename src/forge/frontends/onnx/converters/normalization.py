"""Normalisations."""

from __future__ import annotations

from forge import dims
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype


@converts("BatchNormalization", since=1)
def batch_norm_1(
    g: Context,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> list[Value]:
    return batch_norm_7(g, x, scale, bias, mean, variance, epsilon=epsilon, momentum=momentum, spatial=spatial)


@converts("BatchNormalization", since=7)
def batch_norm_7(
    g: Context,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
) -> list[Value]:
    if not spatial and x.rank > 2:
        raise g.unsupported("attribute 'spatial': got 0; supported: 1 (one mean for each channel)")
    return batch_norm_9(g, x, scale, bias, mean, variance, epsilon=epsilon, momentum=momentum)


@converts("BatchNormalization", since=9)
def batch_norm_9(
    g: Context,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> list[Value]:
    if any(g.wants(i) for i in range(1, 5)):
        raise g.unsupported(
            "outputs after the first are read (training); expected inference; export the model in evaluation mode"
        )
    return [_normalized(g, x, scale, bias, mean, variance, epsilon)]


@converts("BatchNormalization", since=14)
def batch_norm(
    g: Context,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> list[Value]:
    if not training_mode:
        return [_normalized(g, x, scale, bias, mean, variance, epsilon)]
    axes = (0, *range(2, x.rank))
    own_mean = g.call("mean", x, axis=axes, keepdims=False)
    own_variance = g.call("variance", x, axis=axes, keepdims=False)
    running = [_blend(g, old, new, momentum) for old, new in ((mean, own_mean), (variance, own_variance))]
    return [_normalized(g, x, scale, bias, own_mean, own_variance, epsilon), *running]


def _blend(g: Context, old: Value, new: Value, momentum: float) -> Value:
    kept = g.call("multiply", old, g.scalar(momentum, old))
    return g.call("add", kept, g.cast(g.call("multiply", new, g.scalar(1 - momentum, new)), old.dtype))


def _normalized(g: Context, x: Value, scale: Value, bias: Value, mean: Value, variance: Value, epsilon: float) -> Value:
    parameters = (g.cast(v, x.dtype) for v in (scale, bias, mean, variance))
    return g.call("nn.batch_norm", x, *parameters, axis=1, epsilon=epsilon)


@converts("InstanceNormalization", since=1)
def instance_norm(g: Context, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Value:
    return g.call("nn.instance_norm", x, scale, bias, axis=1, epsilon=epsilon)


@converts("GroupNormalization", since=18)
def group_norm_18(g: Context, x: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5) -> Value:
    """One scale and one bias for each group."""
    channels = x.shape[1]
    size = dims.floordiv(channels, num_groups)
    spread = [
        g.reshape(g.call("broadcast_to", g.reshape(v, (num_groups, 1)), shape=(num_groups, size)), (channels,))
        for v in (scale, bias)
    ]
    return g.call("nn.group_norm", x, *spread, num_groups=num_groups, axis=1, epsilon=epsilon)


@converts("GroupNormalization", since=21)
def group_norm(
    g: Context, x: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    wide = element_dtype(stash_type, "attribute 'stash_type'")
    if wide == x.dtype or x.dtype == "float64":
        return g.call("nn.group_norm", x, scale, bias, num_groups=num_groups, axis=1, epsilon=epsilon)
    cast = (g.cast(v, wide) for v in (x, scale, bias))
    return g.cast(g.call("nn.group_norm", *cast, num_groups=num_groups, axis=1, epsilon=epsilon), x.dtype)


@converts("LayerNormalization", since=17)
def layer_norm(
    g: Context, x: Value, scale: Value, bias: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> list[Value | None]:
    first = g.axis(axis, x.rank)
    if g.wants(1) or g.wants(2):
        return list(_layer_norm_with_statistics(g, x, scale, bias, first, epsilon, stash_type))
    merged = (*x.shape[:first], dims.product(x.shape[first:]))
    data = g.reshape(x, merged)
    shift = None if bias is None else _row(g, bias, x, first)
    result = g.call("nn.layer_norm", data, _row(g, scale, x, first), shift, axis=-1, epsilon=epsilon)
    return [g.reshape(result, x.shape)]


def _row(g: Context, parameter: Value, x: Value, first: int) -> Value:
    """A parameter for all normalised elements, as a vector."""
    shape = x.shape[first:]
    full = parameter if parameter.shape == shape else g.call("broadcast_to", parameter, shape=shape)
    return g.reshape(full, (dims.product(shape),))


def _layer_norm_with_statistics(
    g: Context, x: Value, scale: Value, bias: Value | None, first: int, epsilon: float, stash_type: int
) -> tuple[Value, Value, Value]:
    wide = element_dtype(stash_type, "attribute 'stash_type'")
    data = x if x.dtype == "float64" else g.cast(x, wide)
    axes = tuple(range(first, x.rank))
    mean = g.call("mean", data, axis=axes, keepdims=True)
    centred = g.call("subtract", data, mean)
    variance = g.call("mean", g.call("multiply", centred, centred), axis=axes, keepdims=True)
    inverse = g.call("rsqrt", g.call("add", variance, g.scalar(epsilon, variance)))
    result = g.call("multiply", g.cast(g.call("multiply", centred, inverse), x.dtype), scale)
    return (result if bias is None else g.call("add", result, bias)), g.cast(mean, wide), g.cast(inverse, wide)


@converts("RMSNormalization", since=23)
def rms_norm(g: Context, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Value:
    first = g.axis(axis, x.rank)
    data = g.reshape(x, (*x.shape[:first], dims.product(x.shape[first:])))
    weight = _row(g, g.cast(scale, x.dtype), x, first)
    result = g.reshape(g.call("nn.rms_norm", data, weight, axis=-1, epsilon=epsilon), x.shape)
    return g.cast(result, scale.dtype)


@converts("LRN", since=1)
def local_response_norm(g: Context, x: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Value:
    return g.call("nn.lrn", x, size=size, axis=1, bias=bias, alpha=alpha, beta=beta)


@converts("LpNormalization", since=1)
def lp_norm(g: Context, x: Value, *, axis: int = -1, p: int = 2) -> Value:
    """x / ||x||, and 0 where the norm is 0."""
    if p not in (1, 2):
        raise g.invalid(f"attribute 'p': got {p}; expected 1 or 2")
    powered = g.call("abs", x) if p == 1 else g.call("multiply", x, x)
    total = g.call("sum", powered, axis=(g.axis(axis, x.rank),), keepdims=True)
    norm = total if p == 1 else g.call("sqrt", total)
    zero = g.scalar(0, x)
    quotient = g.call("divide", x, norm)
    return g.call("where", g.call("equal", norm, zero), zero, quotient)


@converts("MeanVarianceNormalization", since=9)
def mean_variance_norm(g: Context, x: Value, *, axes: tuple[int, ...] = (0, 2, 3)) -> Value:
    mean = g.call("mean", x, axis=axes, keepdims=True)
    centred = g.call("subtract", x, mean)
    deviation = g.call("sqrt", g.call("mean", g.call("multiply", centred, centred), axis=axes, keepdims=True))
    return g.call("divide", centred, g.call("add", deviation, g.scalar(1e-9, x)))
