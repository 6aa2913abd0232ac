"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims
from forge.compose import norms
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


def _per_channel(g: Context, parameter: Value | None, number: float, channels: Dim, dtype: str) -> Value:
    """A parameter, or what stands for an absent one."""
    if parameter is not None:
        return g.cast(parameter, dtype)
    return g.call("full", g.constant(number, dtype), shape=(channels,))


def _wide(*values: Value | None) -> str:
    """The element type to compute in: float32 for operands of different types."""
    dtypes = {v.dtype for v in values if v is not None}
    return dtypes.pop() if len(dtypes) == 1 else "float64" if "float64" in dtypes else "float32"


def _normalized(
    g: Context, x: Value, weight: Value | None, bias: Value | None, mean: Value, variance: Value, eps: float
) -> Value:
    wide = _wide(x, weight, bias, mean, variance)
    scale, shift = _per_channel(g, weight, 1, x.shape[1], wide), _per_channel(g, bias, 0, x.shape[1], wide)
    return g.cast(norms.batch_norm(g, g.cast(x, wide), scale, shift, mean, variance, epsilon=eps), x.dtype)


def _with_statistics(
    g: Context, x: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """The result with mean and variance of the batch, and these, in float32 or more."""
    wide = g.cast(x, _wider(x))
    axes = (0, *range(2, x.rank))
    mean, variance = g.call("mean", wide, axis=axes, keepdims=False), g.call("variance", wide, axis=axes, keepdims=False)
    return _normalized(g, x, weight, bias, mean, variance, eps), mean, variance


def _wider(x: Value) -> str:
    return "float64" if x.dtype == "float64" else "float32"


def _inverse(g: Context, variance: Value, eps: float) -> Value:
    return g.call("rsqrt", (Term(g, variance) + eps).value)


def _empty(g: Context, index: int) -> Value | None:
    """A result without elements, where it is read."""
    return g.constant(np.zeros(0), g.meta(index).dtype) if g.wants(index) else None


@converts("batch_norm.default")
def batch_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    running_mean: Value | None = None, running_var: Value | None = None,
    *, training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Value:
    if input.rank == 1:  # torch takes a vector only without elements
        return input
    if not training and running_mean is not None and running_var is not None:
        return _normalized(g, input, weight, bias, running_mean, running_var, eps)
    result, mean, _ = _with_statistics(g, input, weight, bias, eps)
    _replace_running(g, input, mean, running_mean, running_var, momentum)
    return result


def _replace_running(
    g: Context, x: Value, mean: Value, running_mean: Value | None, running_var: Value | None, momentum: float
) -> None:
    """Writes the statistics of a batch into the running ones."""
    if running_mean is not None and running_var is not None:
        for name, value in zip(("running_mean", "running_var"), _running(g, x, mean, running_mean, running_var, momentum)):
            g.write(name, value)


def _running(g: Context, x: Value, mean: Value, running_mean: Value, running_var: Value, momentum: float) -> list[Value]:
    """(1 - momentum) * old + momentum * new; the new variance is the unbiased one."""
    axes = (0, *range(2, x.rank))
    variance = g.call("variance", g.cast(x, _wider(x)), axis=axes, keepdims=False, unbiased=True)
    return [_blended(g, old, new, momentum) for old, new in ((running_mean, mean), (running_var, variance))]


def _blended(g: Context, old: Value, new: Value, momentum: float) -> Value:
    return (Term(g, old) * (1 - momentum) + (Term(g, new) * momentum).cast(old.dtype)).value


@converts("_native_batch_norm_legit_no_training.default", "_batch_norm_no_update.default")
def batch_norm_at_inference(
    g: Context, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,  # noqa: A002
    *, momentum: float, eps: float,
) -> list[Value | None]:
    result = _normalized(g, input, weight, bias, running_mean, running_var, eps)
    return [result, *(_empty(g, k) for k in range(1, g.num_outputs))]


@converts("_native_batch_norm_legit.default", "_native_batch_norm_legit.no_stats", "native_batch_norm.default")
def native_batch_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    running_mean: Value | None = None, running_var: Value | None = None, *, training: bool, momentum: float, eps: float,
) -> list[Value | None]:
    """The result, mean and 1 / sqrt(variance + eps) of the batch; these have no elements if it is not in training."""
    if not training and running_mean is not None and running_var is not None:
        return batch_norm_at_inference(g, input, weight, bias, running_mean, running_var, momentum=momentum, eps=eps)
    result, mean, variance = _with_statistics(g, input, weight, bias, eps)
    _replace_running(g, input, mean, running_mean, running_var, momentum)
    return [result, *_saved(g, mean, _inverse(g, variance, eps))]


def _saved(g: Context, *statistics: Value) -> list[Value]:
    """Statistics in the types that torch gives them."""
    return [g.cast(value, g.meta(k).dtype) if g.wants(k) else value for k, value in enumerate(statistics, 1)]


@converts("_native_batch_norm_legit_functional.default")
def functional_batch_norm(
    g: Context, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,  # noqa: A002
    *, training: bool, momentum: float, eps: float,
) -> list[Value | None]:
    """As of `native_batch_norm`, then running mean and variance."""
    if not training:
        result = _normalized(g, input, weight, bias, running_mean, running_var, eps)
        return [result, _empty(g, 1), _empty(g, 2), running_mean, running_var]
    result, mean, variance = _with_statistics(g, input, weight, bias, eps)
    running = _running(g, input, mean, running_mean, running_var, momentum)
    return [result, *_saved(g, mean, _inverse(g, variance, eps)), *running]


@converts("_batch_norm_with_update.default")
def batch_norm_with_update(
    g: Context, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,  # noqa: A002
    *, momentum: float, eps: float,
) -> list[Value | None]:
    """As of `native_batch_norm` in training, then bytes of CUDA."""
    found = native_batch_norm(
        g, input, weight, bias, running_mean, running_var, training=True, momentum=momentum, eps=eps
    )
    return [*found, _empty(g, 3)]


@converts("_batch_norm_with_update_functional.default")
def functional_batch_norm_with_update(
    g: Context, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,  # noqa: A002
    *, momentum: float, eps: float,
) -> list[Value | None]:
    """As of `batch_norm_with_update`, then running mean and variance."""
    found = functional_batch_norm(
        g, input, weight, bias, running_mean, running_var, training=True, momentum=momentum, eps=eps
    )
    return [*found[:3], _empty(g, 3), *found[3:]]


@converts("instance_norm.default")
def instance_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    running_mean: Value | None = None, running_var: Value | None = None,
    *, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Value:
    if not use_input_stats and running_mean is not None and running_var is not None:
        return _normalized(g, input, weight, bias, running_mean, running_var, eps)
    for name, old in (("running_mean", running_mean), ("running_var", running_var)):
        if old is not None:
            g.write(name, _blended(g, old, _mean_of_instances(g, input, name), momentum))
    wide, channels = _wide(input, weight, bias), input.shape[1]
    scale, shift = _per_channel(g, weight, 1, channels, wide), _per_channel(g, bias, 0, channels, wide)
    return g.cast(g.call("nn.instance_norm", g.cast(input, wide), scale, shift, epsilon=eps), input.dtype)


def _mean_of_instances(g: Context, x: Value, name: str) -> Value:
    """The mean over the batch of means or unbiased variances of its elements, of each channel."""
    axes, wide = tuple(range(2, x.rank)), g.cast(x, _wider(x))
    if name == "running_mean":
        own = g.call("mean", wide, axis=axes, keepdims=False)
    else:
        own = g.call("variance", wide, axis=axes, keepdims=False, unbiased=True)
    return g.call("mean", own, axis=0, keepdims=False)


@converts("layer_norm.default")
def layer_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    *, normalized_shape: Sequence[Dim], eps: float = 1e-5, cudnn_enable: bool = True,
) -> Value:
    first = input.rank - len(normalized_shape)
    wide = _wide(input, weight, bias)
    x, scale, shift = (v if v is None else g.cast(v, wide) for v in (input, weight, bias))
    assert x is not None
    return g.cast(norms.layer_norm(g, x, scale, shift, first=first, epsilon=eps), input.dtype)


@converts("native_layer_norm.default")
def native_layer_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    *, normalized_shape: Sequence[Dim], eps: float,
) -> list[Value | None]:
    """The result, and mean and 1 / sqrt(variance + eps), which keep the normalised axes with size 1."""
    if not g.wants(1) and not g.wants(2):
        return [layer_norm(g, input, weight, bias, normalized_shape=normalized_shape, eps=eps), None, None]
    first, wide = input.rank - len(normalized_shape), _wider(input)
    scale = g.constant(1, wide) if weight is None else g.cast(weight, wide)
    shift = None if bias is None else g.cast(bias, wide)
    data = g.cast(input, wide)
    found = norms.layer_norm_with_statistics(g, data, scale, shift, first=first, epsilon=eps, wide=wide)
    return [g.cast(value, g.meta(k).dtype if g.wants(k) else wide) for k, value in enumerate(found)]


@converts("group_norm.default")
def group_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    *, num_groups: int, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Value:
    wide, channels = _wide(input, weight, bias), input.shape[1]
    scale, shift = _per_channel(g, weight, 1, channels, wide), _per_channel(g, bias, 0, channels, wide)
    return g.cast(g.call("nn.group_norm", g.cast(input, wide), scale, shift, num_groups=num_groups, epsilon=eps), input.dtype)


@converts("native_group_norm.default")
def native_group_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    *, N: Dim, C: Dim, HxW: Dim, group: int, eps: float,  # noqa: N803
) -> list[Value | None]:
    """The result, and mean and 1 / sqrt(variance + eps) of each sample and group."""
    result = group_norm(g, input, weight, bias, num_groups=group, eps=eps)
    if not g.wants(1) and not g.wants(2):
        return [result, None, None]
    rows = g.reshape(g.cast(input, _wider(input)), (N, group, dims.floordiv(dims.product(input.shape[1:]), group)))
    mean, variance = g.call("mean", rows, axis=2, keepdims=False), g.call("variance", rows, axis=2, keepdims=False)
    return [result, *_saved(g, mean, _inverse(g, variance, eps))]


@converts("rms_norm.default")
def rms_norm(
    g: Context, input: Value, weight: Value | None = None,  # noqa: A002
    *, normalized_shape: Sequence[Dim], eps: float | None = None,
) -> Value:
    """Without ``eps``, that of the type computed in."""
    epsilon = float(np.finfo(_wider(input)).eps) if eps is None else eps
    wide = _wide(input, weight)
    x, scale = g.cast(input, wide), None if weight is None else g.cast(weight, wide)
    return g.cast(norms.rms_norm(g, x, scale, first=input.rank - len(normalized_shape), epsilon=epsilon), g.dtype)


@converts("_fused_rms_norm.default")
def fused_rms_norm(
    g: Context, input: Value, weight: Value | None = None,  # noqa: A002
    *, normalized_shape: Sequence[Dim], eps: float | None = None,
) -> list[Value | None]:
    """The result, and 1 / sqrt(mean of squares + eps)."""
    result = rms_norm(g, input, weight, normalized_shape=normalized_shape, eps=eps)
    if not g.wants(1):
        return [result, None]
    epsilon = float(np.finfo(_wider(input)).eps) if eps is None else eps
    x = Term(g, g.cast(input, _wider(input)))
    axes = tuple(range(input.rank - len(normalized_shape), input.rank))
    squares = g.call("mean", (x * x).value, axis=axes, keepdims=True)
    return [result, g.cast(_inverse(g, squares, epsilon), g.meta(1).dtype)]
