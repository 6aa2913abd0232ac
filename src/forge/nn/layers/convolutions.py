"""Convolutions and transposed convolutions of one, two and three axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from forge.errors import OptionError
from forge.nn import op
from forge.nn.module import Module
from forge.nn.tensor import Parameter, Tensor

Sizes = int | Sequence[int]
Padding = int | Sequence[int] | str


class _Convolution(Module):
    """What convolutions share: parameters and arguments.

    Attributes:
        weight: ``(out_channels, in_channels // groups, *kernel_size)``; of transposed convolutions
            ``(in_channels, out_channels // groups, *kernel_size)``.
        bias: ``(out_channels,)``, or None.
    """

    axes: ClassVar[int]
    transposed: ClassVar[bool] = False

    def _set(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, groups: int, bias: bool, dtype: str | None, **window: Any
    ) -> None:
        where = type(self).__name__
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if isinstance(count, int) and count % groups:
                raise OptionError(f"{where}: {name}: got {count}; expected a multiple of groups, which is {groups}")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = self._each("kernel_size", kernel_size)
        self.window = window
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = Parameter((first, second // groups, *self.kernel_size), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def _each(self, name: str, sizes: Sizes) -> tuple[int, ...]:
        """One number for each axis."""
        listed = (sizes,) * self.axes if isinstance(sizes, int) else tuple(sizes)
        if len(listed) != self.axes or not all(isinstance(size, int) and size > 0 for size in listed):
            raise OptionError(f"{type(self).__name__}: {name}: got {sizes!r}; expected a positive number, or {self.axes} of them")
        return listed


class Conv1D(_Convolution):
    """A convolution along one axis; ``kernel_size``, ``stride`` and so on are numbers.

    Args:
        in_channels, out_channels: multiples of ``groups``.
        padding: zeros at both ends, or "same" or "valid".
        dilation: distance of the elements of the kernel.
        groups: parts of the channels that do not see each other.
        bias: whether there is one.
        dtype: of the parameters; by default that of `get_default_dtype`.
    """

    axes = 1

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Padding = 0,
        dilation: Sizes = 1, groups: int = 1, bias: bool = True, dtype: str | None = None,
    ) -> None:  # fmt: skip
        self._set(in_channels, out_channels, kernel_size, groups, bias, dtype, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, in_channels, w)`` to ``(n, out_channels, w')``."""
        return op.conv1d(x, self.weight, self.bias, groups=self.groups, **self.window)


class Conv2D(_Convolution):
    """A convolution along two axes; arguments as of `Conv1D`, numbers or one for each axis.

    Args:
        data_layout: "NCHW" or "NHWC", of ``x`` and of the result.
    """

    axes = 2

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Padding = 0,
        dilation: Sizes = 1, groups: int = 1, bias: bool = True, dtype: str | None = None, data_layout: str = "NCHW",
    ) -> None:  # fmt: skip
        self._set(in_channels, out_channels, kernel_size, groups, bias, dtype, stride=stride, padding=padding, dilation=dilation)
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        """``(n, in_channels, h, w)`` to ``(n, out_channels, h', w')``."""
        return op.conv2d(x, self.weight, self.bias, groups=self.groups, data_layout=self.data_layout, **self.window)


class Conv3D(_Convolution):
    """A convolution along three axes; arguments as of `Conv1D`, numbers or one for each axis.

    Args:
        data_layout: "NCDHW" or "NDHWC", of ``x`` and of the result.
    """

    axes = 3

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Padding = 0,
        dilation: Sizes = 1, groups: int = 1, bias: bool = True, dtype: str | None = None, data_layout: str = "NCDHW",
    ) -> None:  # fmt: skip
        self._set(in_channels, out_channels, kernel_size, groups, bias, dtype, stride=stride, padding=padding, dilation=dilation)
        self.data_layout = data_layout

    def forward(self, x: Tensor) -> Tensor:
        """``(n, in_channels, d, h, w)`` to ``(n, out_channels, d', h', w')``."""
        return op.conv3d(x, self.weight, self.bias, groups=self.groups, data_layout=self.data_layout, **self.window)


class _Transposed(_Convolution):
    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Sizes, stride: Sizes = 1, padding: Sizes = 0,
        output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True, dtype: str | None = None,
    ) -> None:  # fmt: skip
        self._set(
            in_channels, out_channels, kernel_size, groups, bias, dtype, stride=stride, padding=padding,
            output_padding=output_padding, dilation=dilation)  # fmt: skip


class ConvTranspose1D(_Transposed):
    """The transposed convolution along one axis, the gradient of `Conv1D`.

    ``w' = (w - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``.
    """

    axes = 1

    def forward(self, x: Tensor) -> Tensor:
        """``(n, in_channels, w)`` to ``(n, out_channels, w')``."""
        return op.conv1d_transpose(x, self.weight, self.bias, groups=self.groups, **self.window)


class ConvTranspose2D(_Transposed):
    """The transposed convolution along two axes, the gradient of `Conv2D`; sizes are as of `ConvTranspose1D`."""

    axes = 2

    def forward(self, x: Tensor) -> Tensor:
        """``(n, in_channels, h, w)`` to ``(n, out_channels, h', w')``."""
        return op.conv2d_transpose(x, self.weight, self.bias, groups=self.groups, **self.window)


class ConvTranspose3D(_Transposed):
    """The transposed convolution along three axes, the gradient of `Conv3D`; sizes are as of `ConvTranspose1D`."""

    axes = 3

    def forward(self, x: Tensor) -> Tensor:
        """``(n, in_channels, d, h, w)`` to ``(n, out_channels, d', h', w')``."""
        return op.conv3d_transpose(x, self.weight, self.bias, groups=self.groups, **self.window)
