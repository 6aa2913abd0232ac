"""Transposed convolutions in every layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import te
from forge.ops.core.inference import tuple_of
from forge.ops.core.op import register
from forge.ops.core.signatures import Dim, Expr, Tensor, TensorTypes, Value
from forge.ops.core.window_geometry import padded_read
from forge.ops.nn.convolution import ConvBase, ConvShape, reduction_axis, tap_axes
from forge.te import Axis


@dataclass(frozen=True)
class Conv2DTransposeAttrs:
    channels: int | None = None
    kernel_size: tuple[Dim, ...] | None = None
    strides: tuple[int, ...] = (1, 1)
    output_padding: tuple[Dim, ...] = (0, 0)
    padding: tuple[Dim, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "IOHW"
    out_layout: str = ""
    out_dtype: str = ""


@dataclass(frozen=True)
class Conv1DTransposeAttrs(Conv2DTransposeAttrs):
    strides: tuple[int, ...] = (1,)
    output_padding: tuple[Dim, ...] = (0,)
    padding: tuple[Dim, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    data_layout: str = "NCW"
    kernel_layout: str = "IOW"


@dataclass(frozen=True)
class Conv3DTransposeAttrs(Conv2DTransposeAttrs):
    strides: tuple[int, ...] = (1, 1, 1)
    output_padding: tuple[Dim, ...] = (0, 0, 0)
    padding: tuple[Dim, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "IODHW"


class ConvTranspose(ConvBase[Conv2DTransposeAttrs]):
    """Transposed convolution: the gradient of a convolution with respect to its data.

    Every input element adds its product with the weight to the outputs ``p = i * stride + k * dilation - padding``::

        out[n, o, p] = sum over i, k with p = i * stride + k * dilation - padding of data[n, c, i] * weight[c, o, k]

    Output extents are ``(i - 1) * stride + (k - 1) * dilation + 1 + output_padding - padding``. The weight's O axis holds
    one group. float16 and bfloat16 are accumulated in float32.
    """

    weight_groups_axis = "O"
    flops_free_axis = "I"

    def scaled(self, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Each group has rows of its own along I, and the columns of all along O."""
        places = self.attrs.kernel_layout.index("I"), self.weight_axis
        wide = np.moveaxis(weight.astype(np.float64), places, (0, 1))
        factors = np.repeat(scale.reshape(self.attrs.groups, -1), wide.shape[0] // self.attrs.groups, axis=0)
        wide = wide * factors.reshape(*factors.shape, *[1] * (weight.ndim - 2))
        return np.ascontiguousarray(np.moveaxis(wide, (0, 1), places)).astype(weight.dtype)

    def out_extents(self, extents: dict[str, Any], shape: ConvShape, attrs: Conv2DTransposeAttrs) -> list[Any]:
        extra = tuple_of(self.name, "output_padding", attrs.output_padding, len(self.spatial))
        return [
            (extents[letter] - 1) * w.stride + (w.size - 1) * w.dilation + 1 + more - w.before - w.after
            for letter, w, more in zip(self.spatial, shape.taps, extra)
        ]

    def contract(self, x: np.ndarray, w: np.ndarray, shape: ConvShape, attrs: Conv2DTransposeAttrs) -> np.ndarray:
        extents = dict(zip(self.spatial, x.shape[2:]))
        sizes = [int(size) for size in self.out_extents(extents, shape, attrs)]
        full = [max((i - 1) * t.stride + (t.size - 1) * t.dilation + 1, size + t.before)
                for i, t, size in zip(x.shape[2:], shape.taps, sizes)]
        out = np.zeros((x.shape[0], shape.channels, *full), x.dtype)
        per_group, outs = x.shape[1] // shape.groups, w.shape[0]
        for tap in np.ndindex(*w.shape[2:]):
            region = tuple(slice(k * t.dilation, k * t.dilation + max(0, (i - 1) * t.stride + 1), t.stride)
                           for k, t, i in zip(tap, shape.taps, x.shape[2:]))
            for g in range(shape.groups):
                product = np.tensordot(w[(slice(None), slice(g * per_group, (g + 1) * per_group), *tap)],
                                       x[:, g * per_group : (g + 1) * per_group], (1, 1))
                out[(slice(None), slice(g * outs, (g + 1) * outs), *region)] += np.moveaxis(product, 0, 1)
        crop = tuple(slice(t.before, t.before + size) for t, size in zip(shape.taps, sizes))
        return out[(slice(None), slice(None), *crop)]

    def lower_sum(self, attrs: Conv2DTransposeAttrs, data: Tensor, weight: Tensor, shape: ConvShape, out: Sequence[Expr],
                  dtype: str) -> Tensor:
        outs = weight.shape[shape.kernel.index("O")]
        per_group = weight.shape[shape.kernel.index("I")] // shape.groups
        axes: list[Axis] = []
        channel = reduction_axis(per_group, "ri", axes)
        taps = tap_axes(shape, weight, axes)

        def body(*indices: Expr) -> Expr:
            at = dict(zip(shape.out, indices))
            group = te.const(0) if shape.groups == 1 else at["C"] // outs
            source = {"N": at["N"], "C": group * per_group + channel}
            kernel = {"O": at["C"] - group * outs, "I": source["C"], **dict(zip(shape.spatial, taps))}
            hit: Expr = te.const(True, "bool")
            for letter, tap, w in zip(shape.spatial, taps, shape.taps):
                offset = at[letter] + te.dim(w.before) - tap * w.dilation
                hit = te.logical_and(hit, (offset % w.stride).eq(0))
                source[letter] = offset // w.stride
            x = padded_read(data, [source[s] for s in shape.data], [s in shape.spatial for s in shape.data], 0)
            product = te.cast(x, dtype) * te.cast(weight[tuple(kernel[s] for s in shape.kernel)], dtype)
            return te.reduce("sum", te.select(hit, product, te.const(0, dtype)), axes)

        return te.compute(out, body, name="conv_transpose", dtype=dtype)

    def flops_positions(self, data: Value, results: TensorTypes) -> Dim:
        return data.size


@register
class Conv1DTranspose(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    name = "nn.conv1d_transpose"
    Attrs = Conv1DTransposeAttrs
    spatial = "W"


@register
class Conv2DTranspose(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    name = "nn.conv2d_transpose"
    Attrs = Conv2DTransposeAttrs
    spatial = "HW"


@register
class Conv3DTranspose(ConvTranspose):
    __doc__ = ConvTranspose.__doc__
    name = "nn.conv3d_transpose"
    Attrs = Conv3DTransposeAttrs
    spatial = "DHW"
