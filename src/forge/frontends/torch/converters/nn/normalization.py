"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.compose import norms
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


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
        return norms.mixed_batch_norm(g, input, weight, bias, running_mean, running_var, epsilon=eps)
    result, mean, _ = norms.training_batch_norm(g, input, weight, bias, epsilon=eps)
    _replace_running(g, input, mean, running_mean, running_var, momentum)
    return result


def _replace_running(
    g: Context, x: Value, mean: Value, running_mean: Value | None, running_var: Value | None, momentum: float
) -> None:
    """Writes the statistics of a batch into the running ones."""
    if running_mean is not None and running_var is not None:
        new = norms.running_statistics(g, x, mean, (running_mean, running_var), share=momentum)
        for name, value in zip(("running_mean", "running_var"), new):
            g.write(name, value)


@converts("_native_batch_norm_legit_no_training.default", "_batch_norm_no_update.default")
def batch_norm_at_inference(
    g: Context, input: Value, weight: Value | None, bias: Value | None, running_mean: Value, running_var: Value,  # noqa: A002
    *, momentum: float, eps: float,
) -> list[Value | None]:
    result = norms.mixed_batch_norm(g, input, weight, bias, running_mean, running_var, epsilon=eps)
    return [result, *(_empty(g, k) for k in range(1, g.num_outputs))]


@converts("_native_batch_norm_legit.default", "_native_batch_norm_legit.no_stats", "native_batch_norm.default")
def native_batch_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    running_mean: Value | None = None, running_var: Value | None = None, *, training: bool, momentum: float, eps: float,
) -> list[Value | None]:
    """The result, mean and 1 / sqrt(variance + eps) of the batch; these have no elements if it is not in training."""
    if not training and running_mean is not None and running_var is not None:
        return batch_norm_at_inference(g, input, weight, bias, running_mean, running_var, momentum=momentum, eps=eps)
    result, mean, variance = norms.training_batch_norm(g, input, weight, bias, epsilon=eps)
    _replace_running(g, input, mean, running_mean, running_var, momentum)
    return [result, *_saved(g, mean, norms.inverse_root(g, variance, eps))]


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
        result = norms.mixed_batch_norm(g, input, weight, bias, running_mean, running_var, epsilon=eps)
        return [result, _empty(g, 1), _empty(g, 2), running_mean, running_var]
    result, mean, variance = norms.training_batch_norm(g, input, weight, bias, epsilon=eps)
    running = norms.running_statistics(g, input, mean, (running_mean, running_var), share=momentum)
    return [result, *_saved(g, mean, norms.inverse_root(g, variance, eps)), *running]


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
        return norms.mixed_batch_norm(g, input, weight, bias, running_mean, running_var, epsilon=eps)
    found = norms.instance_statistics(g, input) if running_mean is not None or running_var is not None else ()
    for name, old, new in zip(("running_mean", "running_var"), (running_mean, running_var), found):
        if old is not None:
            g.write(name, norms.blend(g, old, new, 1 - momentum, momentum))
    wide = norms.wide_type(input, weight, bias)
    scale, shift = norms.parameters(g, input, weight, bias, wide)
    return g.cast(g.call("nn.instance_norm", g.cast(input, wide), scale, shift, epsilon=eps), input.dtype)


@converts("layer_norm.default")
def layer_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    *, normalized_shape: Sequence[Dim], eps: float = 1e-5, cudnn_enable: bool = True,
) -> Value:
    first = input.rank - len(normalized_shape)
    wide = norms.wide_type(input, weight, bias)
    x, scale, shift = (v if v is None else g.cast(v, wide) for v in (input, weight, bias))
    assert x is not None
    return g.cast(norms.layer_norm(g, x, scale, shift, first=first, epsilon=eps), input.dtype)


@converts("native_layer_norm.default")
def native_layer_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    *, normalized_shape: Sequence[Dim], eps: float,
) -> list[Value | None]:
    """The result, and mean and 1 / sqrt(variance + eps), which keep the normalized axes with size 1."""
    if not g.wants(1) and not g.wants(2):
        return [layer_norm(g, input, weight, bias, normalized_shape=normalized_shape, eps=eps), None, None]
    first, data = input.rank - len(normalized_shape), norms.wide(g, input)
    wide = data.dtype
    scale = g.constant(1, wide) if weight is None else g.cast(weight, wide)
    shift = None if bias is None else g.cast(bias, wide)
    found = norms.layer_norm_with_statistics(g, data, scale, shift, first=first, epsilon=eps, wide=wide)
    return [g.cast(value, g.meta(k).dtype if g.wants(k) else wide) for k, value in enumerate(found)]


@converts("group_norm.default")
def group_norm(
    g: Context, input: Value, weight: Value | None = None, bias: Value | None = None,  # noqa: A002
    *, num_groups: int, eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Value:
    wide = norms.wide_type(input, weight, bias)
    scale, shift = norms.parameters(g, input, weight, bias, wide)
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
    return [result, *_saved(g, *norms.group_statistics(g, input, group, N, epsilon=eps))]


@converts("rms_norm.default")
def rms_norm(
    g: Context, input: Value, weight: Value | None = None,  # noqa: A002
    *, normalized_shape: Sequence[Dim], eps: float | None = None,
) -> Value:
    """Without ``eps``, that of the type computed in."""
    epsilon = _epsilon(input, eps)
    wide = norms.wide_type(input, weight)
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
    axes = range(input.rank - len(normalized_shape), input.rank)
    inverse = norms.inverse_root_mean_square(g, norms.wide(g, input), axes, _epsilon(input, eps))
    return [result, g.cast(inverse, g.meta(1).dtype)]


def _epsilon(x: Value, epsilon: float | None) -> float:
    return float(np.finfo("float64" if x.dtype == "float64" else "float32").eps) if epsilon is None else epsilon
