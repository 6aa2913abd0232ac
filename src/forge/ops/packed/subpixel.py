"""Convolutions whose output channels are the pixels of a larger image: what transposed ones become.

On blocked channels data is as in ``ops.packed.convolution``, with one more axis for volumes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from forge import dims, dtypes
from forge.ops.core.inference import expect_rank, fail, require_equal, require_positive, tuple_of
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Dim, TensorType, TensorTypes, Value
from forge.ops.core.window_geometry import Window, compute_dtype, fits, padding_pairs, sliding_windows, windows
from forge.ops.nn.convolution import conv_result_dtype
from forge.ops.packed import pairs
from forge.ops.packed.convolution import PackedConv2DAttrs


@dataclass(frozen=True)
class SubpixelAttrs(PackedConv2DAttrs):
    """``channels`` and ``in_channels`` are the true numbers; ``phases``: pixels along each axis; ``crop``: begins, then ends.

    ``taps``, unless it is empty, has along each axis a first phase, its first tap and the end of its taps, which hold up to the
    next such three: other taps of the weight are zero.
    """

    channels: int = 0
    in_channels: int = 0
    phases: tuple[int, ...] = (1, 1)
    crop: tuple[int, ...] = (0, 0)
    taps: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class SubpixelConv3DAttrs(SubpixelAttrs):
    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[Dim, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    phases: tuple[int, ...] = (1, 1, 1)
    crop: tuple[int, ...] = (0, 0, 0)


class _Subpixel(Op[SubpixelAttrs]):
    """Along ``axes`` spatial axes."""

    data, weight = Operand(accepts="numeric or bool"), Operand(accepts="number or bool")
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    category = Category.CONTRACTION
    Attrs = SubpixelAttrs
    axes: ClassVar[int]
    is_depthwise: ClassVar[bool] = False

    @property
    def weight_rank(self) -> int:
        """Of a weight without groups of channels or taps."""
        return self.axes + (2 if self.is_depthwise else 4)

    def weight_shape(self, weight: TensorType, attrs: SubpixelAttrs) -> tuple[Any, ...]:
        """The shape of the weight without groups."""
        plain = pairs.plain_type(weight, self.weight_rank)
        expect_rank(self.name, plain, "weight", self.weight_rank)
        if self.is_depthwise and plain != weight and attrs.kernel_size is not None:
            return (*plain.shape[: self.axes], attrs.kernel_size[-1], plain.shape[-1])
        return plain.shape

    def windows(self, weight: Sequence[Any], attrs: SubpixelAttrs) -> tuple[Window, ...]:
        """Those of a weight of this shape."""
        taps = weight[1 : 1 + self.axes] if self.is_depthwise else weight[2 : 2 + self.axes]
        return windows(self.name, taps, attrs.strides, attrs.dilation, attrs.padding)

    def infer(self, attrs: SubpixelAttrs, data: Value, weight: Value) -> TensorTypes:
        expect_rank(self.name, data.tensor_type, "data", self.axes + 3)
        shape = self.weight_shape(weight.tensor_type, attrs)
        phases, crop = tuple_of(self.name, "phases", attrs.phases, self.axes), padding_pairs(self.name, attrs.crop, self.axes)
        if attrs.channels < 1 or attrs.in_channels < 1 or min(phases) < 1 or len(attrs.taps) not in (0, self.axes):
            raise fail(self.name, "attributes", attrs, "numbers of channels and phases, taps along all axes or none")
        lanes, block = shape[-1], data.shape[-1]
        out_blocks, in_blocks = dims.ceildiv(attrs.channels, lanes), dims.ceildiv(attrs.in_channels, block)
        filters = out_blocks * math.prod(phases)
        require_equal(self.name, f"blocks of {attrs.channels} channels in {phases} phases", shape[0], filters)
        require_equal(self.name, f"blocks of {attrs.in_channels} channels of data {data.type}", data.shape[1], in_blocks)
        if self.is_depthwise:
            require_equal(self.name, f"channel block of data {data.type}", block, lanes)
        else:
            require_equal(self.name, f"channel blocks of data {data.type}", data.shape[1], shape[1])
            require_equal(self.name, f"channel block of data {data.type}", block, shape[-2])
        sizes = [window.positions(extent) * phase - begin - end for window, extent, phase, (begin, end)
                 in zip(self.windows(shape, attrs), data.shape[2:], phases, crop)]
        require_positive(self.name, f"window over {data.type}", sizes)
        dtype = conv_result_dtype(self.name, data, weight, attrs.out_dtype)
        return [TensorType((data.shape[0], out_blocks, *sizes, lanes), dtype)]

    def requires(self, attrs: SubpixelAttrs, results: TensorTypes, data: TensorType, *_: object) -> Conditions:
        return fits(data, results[0].shape[2:-1])

    def reference(self, attrs: SubpixelAttrs, data: Array, weight: Array) -> Arrays:
        n, blocks, *extents, block = data.shape
        dtype = dtypes.numpy_dtype(compute_dtype(attrs.out_dtype or dtypes.canonical(data.dtype)))
        lane = (np.arange(blocks * block) < attrs.in_channels).reshape(blocks, *(1,) * self.axes, block)
        plain = pairs.plain_array(weight, self.weight_rank).astype(dtype)
        if plain.ndim != weight.ndim and self.is_depthwise and attrs.kernel_size is not None:
            plain = plain[..., : attrs.kernel_size[-1], :]
        taps, out = self.windows(plain.shape, attrs), -(-attrs.channels // plain.shape[-1])
        sizes = [window.positions(extent) for window, extent in zip(taps, extents)]
        view = sliding_windows(np.where(lane, data, 0).astype(dtype), range(2, 2 + self.axes), taps, sizes, attrs.pad_value)
        pixels = self._sums(view, plain, out).reshape(n, *sizes, *attrs.phases, out, plain.shape[-1])
        places = [axis for k in range(self.axes) for axis in (1 + k, 1 + self.axes + k)]
        apart = pixels.transpose(0, 1 + 2 * self.axes, *places, 2 + 2 * self.axes)
        image = apart.reshape(n, out, *(size * phase for size, phase in zip(sizes, attrs.phases)), plain.shape[-1])
        crop = padding_pairs(self.name, attrs.crop, self.axes)
        return [image[:, :, *(slice(begin, extent - end) for extent, (begin, end) in zip(image.shape[2:], crop))]]

    def _sums(self, view: np.ndarray, weight: np.ndarray, out: int) -> np.ndarray:
        """``[N, positions, phases * blocks, lanes]`` of windows ``[N, blocks, positions, lanes, taps]``."""
        n = self.axes
        if not self.is_depthwise:
            return np.tensordot(view, weight, ([1, *range(n + 3, 2 * n + 3), n + 2], range(1, n + 3)))
        by_phase = weight.reshape(-1, out, *weight.shape[1:])
        sums: np.ndarray = np.einsum("nbyxcvu,pbvuc->nyxpbc", view, by_phase)
        return sums

    def flops(self, attrs: SubpixelAttrs, results: TensorTypes, data: Value, weight: Value) -> Dim:
        taps = self.windows(self.weight_shape(weight.tensor_type, attrs), attrs)
        positions = dims.product(window.positions(extent) for window, extent in zip(taps, data.shape[2:]))
        products = math.prod(window.size for window in taps) * (1 if self.is_depthwise else attrs.in_channels)
        total: Dim = data.shape[0] * positions * (2 * math.prod(attrs.phases) * attrs.channels * products)
        return total


@register
class SubpixelConv2D(_Subpixel):
    """A convolution on blocked channels whose output channels are the pixels of a larger image, which is cropped.

    ``out[n, O, y, x, o] = conv[n, ((y + top) % r * s + (x + left) % s) * B + O, (y + top) // r, (x + left) // s, o]`` where conv
    is nn.contrib_conv2d_NCHWc of the operands, ``phases`` are (r, s), ``crop`` is (top, left, bottom, right), and B is the number
    of channel blocks of the result. Padding may be negative. Kernel family ``subpixel_conv2d_nchwc``.
    """

    name = "nn.contrib_subpixel_conv2d_NCHWc"
    kernel = "subpixel_conv2d_nchwc"
    axes = 2


@register
class SubpixelDepthwiseConv2D(_Subpixel):
    """As nn.contrib_subpixel_conv2d_NCHWc, with one filter of each channel for every pixel.

    Block ``p * B + O`` of the weight, which is that of nn.contrib_depthwise_conv2d_NCHWc, belongs to block O of the data. Kernel
    family ``subpixel_depthwise_conv2d_nchwc``.
    """

    name = "nn.contrib_subpixel_depthwise_conv2d_NCHWc"
    kernel = "subpixel_depthwise_conv2d_nchwc"
    axes = 2
    is_depthwise = True


@register
class SubpixelConv3D(_Subpixel):
    """As nn.contrib_subpixel_conv2d_NCHWc, of volumes: data ``[N, C / c, D, H, W, c]``, and three numbers where that has two.

    With one phase, a plain convolution. Kernel family ``subpixel_conv3d_ncdhwc``.
    """

    name = "nn.contrib_subpixel_conv3d_NCDHWc"
    Attrs = SubpixelConv3DAttrs
    kernel = "subpixel_conv3d_ncdhwc"
    axes = 3


@dataclass(frozen=True)
class SubpixelProductAttrs:
    phases: tuple[int, int] = (1, 1)


@register
class SubpixelProduct(Op[SubpixelProductAttrs]):
    """A transposed convolution of data in the usual layout whose windows lie side by side.

    ``out[n, o, y * r + i, x * s + j] = sum over c of data[n, c, y, x] * weight[c, (o * r + i) * s + j]``, where ``phases`` are
    (r, s). Kernel family ``subpixel_product``.
    """

    name = "nn.contrib_subpixel_product"
    data, weight = Operand(accepts="float32", rank=4), Operand(accepts="float32", rank=2)
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    category = Category.CONTRACTION
    kernel = "subpixel_product"

    def infer(self, attrs: SubpixelProductAttrs, data: Value, weight: Value) -> TensorTypes:
        batch, channels, height, width = data.shape
        require_equal(self.name, f"rows of the weight for data {data.type}", weight.shape[0], channels)
        high, wide = tuple_of(self.name, "phases", attrs.phases, 2)
        if min(high, wide) < 1 or not dims.equal(weight.shape[1] % (high * wide), 0):
            raise fail(self.name, "attribute phases", attrs.phases, f"positive numbers that divide {weight.shape[1]} columns")
        return [TensorType((batch, weight.shape[1] // (high * wide), height * high, width * wide), data.dtype)]

    def reference(self, attrs: SubpixelProductAttrs, data: Array, weight: Array) -> Arrays:
        n, _, height, width = data.shape
        high, wide = attrs.phases
        channels = weight.shape[1] // (high * wide)
        pixels = np.einsum("ncyx,coij->noyixj", data, weight.reshape(-1, channels, high, wide))
        return [pixels.reshape(n, channels, height * high, width * wide)]

    def flops(self, attrs: SubpixelProductAttrs, results: TensorTypes, data: Value, weight: Value) -> Dim:
        total: Dim = 2 * data.size * weight.shape[1]
        return total
