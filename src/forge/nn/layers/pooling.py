"""Pooling layers: the largest element or the mean of windows, for ``(n, c, w)``, ``(n, c, h, w)`` and ``(n, c, d, h, w)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from forge.nn import op
from forge.nn.module import Module
from forge.nn.tensor import Tensor

Sizes = int | Sequence[int]


class _MaxPool(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: bool = False
    ) -> None:
        self.window = (kernel_size, stride, padding, dilation, ceil_mode)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c, ...)``."""
        return type(self).function(x, *self.window)


class MaxPool1D(_MaxPool):
    """The largest elements of windows along one axis.

    Args:
        stride: by default ``kernel_size``.
        padding: at both ends, of what never is the largest.
        dilation: distance of the elements of a window.
        ceil_mode: a last window that is only partly inside counts, too.
    """

    function = staticmethod(op.max_pool1d)


class MaxPool2D(_MaxPool):
    """As `MaxPool1D`, along two axes."""

    function = staticmethod(op.max_pool2d)


class MaxPool3D(_MaxPool):
    """As `MaxPool1D`, along three axes."""

    function = staticmethod(op.max_pool3d)


class _AvgPool(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        self.window = (kernel_size, stride, padding, ceil_mode, count_include_pad)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c, ...)``."""
        return type(self).function(x, *self.window)


class AvgPool1D(_AvgPool):
    """Means of windows along one axis.

    Args:
        stride: by default ``kernel_size``.
        padding: zeros at both ends.
        ceil_mode: a last window that is only partly inside counts, too.
        count_include_pad: zeros of the padding count.
    """

    function = staticmethod(op.avg_pool1d)


class AvgPool2D(_AvgPool):
    """As `AvgPool1D`, along two axes."""

    function = staticmethod(op.avg_pool2d)


class AvgPool3D(_AvgPool):
    """As `AvgPool1D`, along three axes."""

    function = staticmethod(op.avg_pool3d)


class AdaptiveAvgPool2D(Module):
    """Means of windows that divide an image into ``output_size``: ``(n, c, h, w)`` to ``(n, c, *output_size)``."""

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c, h, w)``."""
        return op.adaptive_avg_pool2d(x, self.output_size)


class Upsample(Module):
    """`interpolate` as a layer."""

    def __init__(
        self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:  # fmt: skip
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners

    def forward(self, x: Tensor) -> Tensor:
        """``(n, c, ...)``."""
        return op.interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)
