"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose import norms
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.functions.arguments import integer
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, as_dims


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last axes (Ba et al., 2016).

    Args:
        x: ``(..., *normalized_shape)``.
        normalized_shape: sizes of the last axes; a number is that of the last one.
        weight, bias: of that shape.

    Raises:
        OptionError: ``x`` has other sizes.

    >>> nn.layer_norm([[1.0, 3.0]], 2).numpy().round(4).tolist()
    [[-1.0, 1.0]]
    """
    g = Context(name)
    value = g.value(x)
    sizes = as_dims(normalized_shape, name)
    first = value.rank - len(sizes)
    if first < 0 or any(map(dims.different, value.shape[first:], sizes)):
        raise OptionError(f"{name}: got {value.type}; expected the last sizes ({', '.join(map(str, sizes))})")
    given = [None if v is None else g.value(v) for v in (weight, bias)]
    return g.tensor(norms.layer_norm(g, value, *given, first=first, epsilon=eps))


def rms_norm(
    x: Tensor, weight: Tensor | None, axes: int | Sequence[int], epsilon: float = 1e-5, name: str = "rms_norm"
) -> Tensor:
    """``x / sqrt(mean(x ** 2) + epsilon) * weight`` over some axes (Zhang and Sennrich, 2019).

    Args:
        x: any shape.
        weight: broadcasts to these axes.
        axes: over which the mean is.

    >>> nn.rms_norm([[3.0, 4.0]], None, -1).numpy().round(4).tolist()
    [[0.8485, 1.1314]]
    """
    g = Context(name)
    value = g.value(x)
    places = sorted(g.axes(axes, value.rank, "axes"))
    if not places:
        raise OptionError(f"{name}: axes: got {axes}; expected at least one")
    scale = None if weight is None else g.value(weight)
    if places == list(range(places[0], value.rank)):
        return g.tensor(norms.rms_norm(g, value, scale, first=places[0], epsilon=epsilon))
    inverse = norms.inverse_root_mean_square(g, value, places, epsilon)
    result = g.call("multiply", value, inverse)
    return g.tensor(result if scale is None else g.call("multiply", result, _spread(g, scale, value, places)))


def _spread(g: Context, parameter: Value, value: Value, places: Sequence[int]) -> Value:
    """A parameter of the sizes of ``places`` with one for every axis."""
    own = [*[1] * (len(places) - parameter.rank), *parameter.shape]
    shape = [own[places.index(k)] if k in places else 1 for k in range(value.rank)]
    return g.reshape(parameter, shape)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float = 1e-5,
    channel_axis: int = 1,
    axes: Sequence[int] | None = None,
    name: str = "group_norm",
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over groups of channels and other axes (Wu and He, 2018).

    Args:
        x: any shape with channels, a multiple of ``num_groups``.
        weight, bias: ``(channels,)``.
        channel_axis: where the channels are.
        axes: over which statistics are, besides the channels of a group; by default all from the second on.

    >>> nn.group_norm([[1.0, 3.0, 5.0, 5.0]], 2, None, None).numpy().round(4).tolist()
    [[-1.0, 1.0, 0.0, 0.0]]
    """
    g = Context(name)
    value = g.value(x)
    channel = g.axis(channel_axis, value.rank, "channel_axis")
    channels = value.shape[channel]
    if not dims.equal(dims.floormod(channels, integer(num_groups, f"{name}: num_groups", 1)), 0):
        raise OptionError(f"{name}: got {channels} channels; expected a multiple of num_groups, which is {num_groups}")
    others = [k for k in range(1, value.rank) if k != channel]
    chosen = others if axes is None else sorted(g.axes(axes, value.rank, "axes"))
    if channel in chosen:
        raise OptionError(f"{name}: axes: got {axes}, which has the channels; expected other axes")
    scale, shift = (None if v is None else g.value(v) for v in (weight, bias))
    kept = [k for k in range(value.rank) if k not in chosen and k != channel]
    order = [*kept, channel, *chosen]
    moved = value if order == list(range(value.rank)) else g.call("transpose", value, axes=tuple(order))
    flat = g.reshape(moved, (dims.product(moved.shape[: len(kept)]), channels, dims.product(moved.shape[len(kept) + 1 :])))
    gamma, beta = norms.parameters(g, flat, scale, shift, flat.dtype)
    result = g.reshape(g.call("nn.group_norm", flat, gamma, beta, num_groups=num_groups, epsilon=eps), moved.shape)
    if moved is not value:
        result = g.call("transpose", result, axes=tuple(order.index(k) for k in range(value.rank)))
    return g.tensor(result)


def _check_rank(name: str, x: Value, least: int) -> None:
    if x.rank < least:
        raise OptionError(f"{name}: got {x.type}; expected (n, channels, ...), at least {least} axes")


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "batch_norm",
) -> Tensor:
    """``(x - running_mean) / sqrt(running_var + eps) * weight + bias`` by channel.

    Args:
        x: ``(n, channels, ...)``.
        running_mean, running_var, weight, bias: ``(channels,)``.

    >>> nn.batch_norm([[1.0, 3.0]], [0.0, 1.0], [1.0, 4.0]).numpy().round(4).tolist()
    [[1.0, 1.0]]
    """
    g = Context(name)
    value = g.value(x)
    _check_rank(name, value, 2)
    mean, variance = g.value(running_mean), g.value(running_var)
    scale, shift = (None if v is None else g.value(v) for v in (weight, bias))
    gamma, beta = norms.parameters(g, value, scale, shift, value.dtype)
    return g.tensor(g.multi("nn.batch_norm", value, gamma, beta, mean, variance, epsilon=eps)[0])


def instance_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, name: str = "instance_norm"
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over all but batch and channel.

    Args:
        x: ``(n, channels, ...)``.
        weight, bias: ``(channels,)``.

    >>> nn.instance_norm([[[1.0, 3.0], [5.0, 5.0]]]).numpy().round(4).tolist()
    [[[-1.0, 1.0], [0.0, 0.0]]]
    """
    g = Context(name)
    value = g.value(x)
    _check_rank(name, value, 3)
    scale, shift = (None if v is None else g.value(v) for v in (weight, bias))
    gamma, beta = norms.parameters(g, value, scale, shift, value.dtype)
    return g.tensor(g.call("nn.instance_norm", value, gamma, beta, epsilon=eps))
