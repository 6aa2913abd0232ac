"""Normalizations as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from forge.errors import OptionError
from forge.nn import op
from forge.nn.module import Module
from forge.nn.tensor import Parameter, Tensor


class LayerNorm(Module):
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last axes.

    Args:
        normalized_shape: sizes of these axes; a number is that of the last one.
        eps: None: 1e-5.
        elementwise_affine: whether there are ``weight`` and ``bias``, of shape ``normalized_shape``.
        dtype: of the parameters; by default that of `get_default_dtype`.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = 1e-5, elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.normalized_shape = [normalized_shape] if isinstance(normalized_shape, int | str) else list(normalized_shape)
        self.eps = 1e-5 if eps is None else eps
        self.weight = Parameter(self.normalized_shape, dtype) if elementwise_affine else None
        self.bias = Parameter(self.normalized_shape, dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """``(..., *normalized_shape)``."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """``x / sqrt(mean(x ** 2) + epsilon) * weight + bias`` over some axes.

    Args:
        hidden_size: the size of the last of these axes, of which ``weight`` and ``bias`` are vectors.
        axes: over which the mean is.
        bias: whether there is one.
        dtype: of the parameters; by default that of `get_default_dtype`.
    """

    def __init__(
        self, hidden_size: int, axes: int | Sequence[int] = -1, epsilon: float = 1e-5, bias: bool = True, dtype: str | None = None
    ) -> None:
        self.axes = axes
        self.epsilon = epsilon
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``(..., hidden_size)``."""
        normalized = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return normalized if self.bias is None else op.add(normalized, self.bias)


class GroupNorm(Module):
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, over groups of channels and all that is not batch or channel.

    Args:
        num_groups: of which each has equally many channels.
        num_channels: a multiple of ``num_groups``.
        affine: whether there are ``weight`` and ``bias``, of shape ``(num_channels,)``.
        dtype: of the parameters; by default that of `get_default_dtype`.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: str | None = None
    ) -> None:
        if num_channels % num_groups:
            expected = f"expected a multiple of num_groups, which is {num_groups}"
            raise OptionError(f"GroupNorm: num_channels: got {num_channels}; {expected}")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: Sequence[int] | None = None) -> Tensor:
        """``(n, num_channels, ...)``; ``axes``: over which statistics are, besides the channels of a group."""
        own = None if axes is None else list(axes)
        return op.group_norm(x, self.num_groups, self.weight, self.bias, self.eps, channel_axis, own)


class _BatchNorm(Module):
    """What batch normalizations share."""

    ignored_state = ("num_batches_tracked",)
    rank: ClassVar[tuple[int, ...]]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, dtype: str | None = None
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = Parameter((num_features,), dtype) if affine else None
        self.bias = Parameter((num_features,), dtype) if affine else None
        self.running_mean = Parameter((num_features,), dtype)
        self.running_var = Parameter((num_features,), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_features, ...)``."""
        if x.ndim not in self.rank:
            raise OptionError(f"{type(self).__name__}: got {x.type}; expected {' or '.join(map(str, self.rank))} axes")
        return op.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.eps)


class BatchNorm1D(_BatchNorm):
    """``(x - running_mean) / sqrt(running_var + eps) * weight + bias`` by channel, for ``(n, c)`` and ``(n, c, w)``.

    The mean and variance are those that training has found; ``momentum`` has no effect.
    """

    rank = (2, 3)


class BatchNorm2D(_BatchNorm):
    """As `BatchNorm1D`, for images ``(n, c, h, w)``."""

    rank = (4,)


class BatchNorm3D(_BatchNorm):
    """As `BatchNorm1D`, for volumes ``(n, c, d, h, w)``."""

    rank = (5,)


class InstanceNorm(Module):
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, over all but batch and channel.

    Args:
        affine: whether there are ``weight`` and ``bias``, of shape ``(num_features,)``.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = False, dtype: str | None = None) -> None:
        self.num_features, self.eps = num_features, eps
        self.weight = Parameter((num_features,), dtype) if affine else None
        self.bias = Parameter((num_features,), dtype) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_features, ...)``."""
        return op.instance_norm(x, self.weight, self.bias, self.eps)
