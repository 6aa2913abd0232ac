"""3x3 convolution on blocked channels with filters in the Winograd domain, which a target-dependent pass produces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forge.dims import Dim, ceildiv
from forge.ir.types import TensorType
from forge.ops.base import register
from forge.ops.nn_common import Window, fail, require_equal, windows
from forge.ops.nn_conv_packed import Conv2DNCHWc

if TYPE_CHECKING:
    from forge.ir.nodes import Graph, Value

FILTER_TRANSFORM = np.array([
    [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
    [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1],
])
"""G of F(4x4, 3x3): a filter g becomes G g G^T."""


def transform_filters(packed: np.ndarray) -> np.ndarray:
    """``[O / o, I / i, 3, 3, i, o]`` as ``[36, O / o, I / i, i, o]``: G g G^T of every filter, by position."""
    g = FILTER_TRANSFORM
    positions = np.einsum("yh,OIhwio,xw->yxOIio", g, packed.astype(np.float64), g, optimize=True)
    return np.ascontiguousarray(positions.reshape(36, *positions.shape[2:]).astype(packed.dtype))


def restore_filters(transformed: np.ndarray) -> np.ndarray:
    """The filters that ``transform_filters`` made ``transformed`` of."""
    inverse = np.linalg.pinv(FILTER_TRANSFORM)
    positions = transformed.astype(np.float64).reshape(6, 6, *transformed.shape[1:])
    filters: np.ndarray = np.einsum("hy,yxOIio,wx->OIhwio", inverse, positions, inverse, optimize=True)
    return filters


@register
class WinogradConv2DNCHWc(Conv2DNCHWc):
    """``nn.contrib_conv2d_NCHWc`` with 3x3 filters, strides and dilation 1, and a weight that holds G g G^T for every filter g.

    Operands: data ``[N, ceil(I / a), H, W, a]``, weight ``[36, ceil(O / b), ceil(I / a), a, b]`` (``transform_filters``).
    Attributes: those of nn.contrib_conv2d_NCHWc. Kernel family ``conv2d_winograd_nchwc``, F(4x4, 3x3) of Lavin and Gray (2015):
    its rounding error is about ten times that of the direct sum.
    """

    name = "nn.contrib_conv2d_winograd_NCHWc"
    kernel = "conv2d_winograd_nchwc"
    weight_rank = 5

    def taps(self, weight_shape: Sequence[Any], attrs: Any) -> tuple[Window, ...]:
        return windows(self.name, (3, 3), attrs.strides, attrs.dilation, attrs.padding)

    def blocks(self, weight: TensorType) -> tuple[Dim, Dim, Dim, Dim]:
        _, out_blocks, in_blocks, inner, outer = weight.shape
        return in_blocks, inner, out_blocks, outer

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        if tuple(attrs.strides) != (1, 1) or tuple(attrs.dilation) != (1, 1):
            raise fail(self.name, "strides and dilation", (attrs.strides, attrs.dilation), "1")
        results = super().infer(operands, attrs, regions)
        weight = operands[1]
        assert weight is not None
        require_equal(self.name, "positions of the weight", weight.shape[0], 36)
        return results

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        data, weight = operands
        filters = restore_filters(weight).astype(self.accumulator(data, attrs))
        return super().reference([data, filters], attrs)

    def lower(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Sequence[Any]:
        raise NotImplementedError(f"{self.name} has a kernel family only")

    def flops(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Any:
        n, _, h, w, _ = results[0].shape
        return 2 * n * ceildiv(h, 4) * ceildiv(w, 4) * 36 * attrs.channels * attrs.in_channels
