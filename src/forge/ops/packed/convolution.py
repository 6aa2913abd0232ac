"""Convolutions on blocked channels, which target-dependent passes produce.

Data is ``[N, ceil(C / c), H, W, c]`` (layout ``NCHW<c>c``), of volumes ``[N, ceil(C / c), D, H, W, c]`` (``NCDHW<c>c``). Lanes
beyond the true number of channels are undefined in data: sums over input channels stop at ``in_channels``. In weights they are
zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.ops.core.inference import expect_rank, fail, require_equal, require_positive
from forge.ops.core.lowering import cast_result
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Value
from forge.ops.core.window_geometry import Window, compute_dtype, fits, padded_read, sliding_windows, windows
from forge.ops.nn.convolution import Conv2DAttrs, Conv3DAttrs, check_pad_value, conv_result_dtype, reduction_axis
from forge.ops.packed import pairs
from forge.te import Axis


@dataclass(frozen=True)
class PackedConv2DAttrs(Conv2DAttrs):
    """``channels`` and ``in_channels`` are the true numbers of output and input channels; layouts name the blocks."""

    in_channels: int | None = None


@dataclass(frozen=True)
class PackedConv3DAttrs(Conv3DAttrs, PackedConv2DAttrs):
    __doc__ = PackedConv2DAttrs.__doc__


class _PackedConv(Op[PackedConv2DAttrs]):
    data, weight = Operand(accepts="numeric or bool", rank=5), Operand(accepts="number or bool")
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    category = Category.CONTRACTION
    kernel_axes: tuple[int, ...]  # positions of the taps in the weight, along each spatial axis
    weight_rank: int

    def taps(self, weight_shape: Sequence[Any], attrs: PackedConv2DAttrs) -> tuple[Window, ...]:
        sizes = [weight_shape[axis] for axis in self.kernel_axes]
        return windows(self.name, sizes, attrs.strides, attrs.dilation, attrs.padding)

    def weight_type(self, weight: TensorType, attrs: PackedConv2DAttrs) -> TensorType:
        """The type of the weight, without groups."""
        expect_rank(self.name, weight, "weight", self.weight_rank)
        return weight

    def blocks(self, weight: TensorType, attrs: PackedConv2DAttrs) -> tuple[Dim, Dim, Dim, Dim]:
        """(input blocks, input block size, output blocks, output block size) of the weight."""
        raise NotImplementedError

    def result_dtype(self, data: Value, weight: TensorType, attrs: PackedConv2DAttrs) -> str:
        return conv_result_dtype(self.name, data, weight, attrs.out_dtype)

    def infer(self, attrs: PackedConv2DAttrs, data: Value, weight: Value) -> TensorTypes:
        check_pad_value(self.name, data, attrs)
        plain = self.weight_type(weight.tensor_type, attrs)
        if attrs.channels is None or attrs.in_channels is None:
            raise fail(self.name, "attributes", f"channels {attrs.channels}, in_channels {attrs.in_channels}", "both")
        in_blocks, in_block, out_blocks, out_block = self.blocks(plain, attrs)
        require_equal(self.name, f"channel block of data {data.type}", data.shape[-1], in_block)
        require_equal(self.name, f"channel blocks of data {data.type}", data.shape[1], in_blocks)
        for what, channels, found, block in (
            ("input channels", attrs.in_channels, in_blocks, in_block), ("channels", attrs.channels, out_blocks, out_block),
        ):
            require_equal(self.name, f"blocks of {channels} {what}", found, dims.ceildiv(channels, block))
        sizes = [tap.positions(extent) for tap, extent in zip(self.taps(plain.shape, attrs), data.shape[2:-1])]
        require_positive(self.name, f"window over {data.type}", sizes)
        dtype = self.result_dtype(data, plain, attrs)
        return [TensorType((data.shape[0], out_blocks, *sizes, out_block), dtype)]

    def requires(self, attrs: PackedConv2DAttrs, results: TensorTypes, data: TensorType, weight: TensorType) -> Conditions:
        return fits(data, results[0].shape[2:-1])

    def view(self, x: np.ndarray, weight: np.ndarray, attrs: PackedConv2DAttrs) -> np.ndarray:
        """Windows over data, as [N, C / c, H, W, c, kh, kw]."""
        taps = self.taps(weight.shape, attrs)
        counts = [tap.positions(extent) for tap, extent in zip(taps, x.shape[2:-1])]
        require_positive(self.name, f"window over data {x.shape}", counts)
        return sliding_windows(x, range(2, x.ndim - 1), taps, counts, attrs.pad_value)

    def accumulator(self, data: np.ndarray, attrs: PackedConv2DAttrs) -> np.dtype[Any]:
        return dtypes.numpy_dtype(compute_dtype(attrs.out_dtype or dtypes.canonical(data.dtype)))


@register
class Conv2DNCHWc(_PackedConv):
    """Convolution on blocked channels.

    ``out[n, O, y, x, o] = sum over input channels i < in_channels and taps (v, u) of data[n, i // a, y * sh + v * dh - ph,
    x * sw + u * dw - pw, i % a] * weight[O, i // a, v, u, i % a, o]`` with ``pad_value`` outside of data's extents.

    Operands: data ``[N, ceil(I / a), H, W, a]``, weight ``[ceil(O / b), ceil(I / a), kh, kw, a, b]``, zero beyond the true
    channels, or in groups of input channels ``[ceil(O / b), ceil(I / a), kh, kw, a / g, b, g]``. Attributes: those of nn.conv2d
    (groups 1), ``channels`` = O, ``in_channels`` = I. Kernel family ``conv2d_nchwc``.
    """

    name = "nn.contrib_conv2d_NCHWc"
    kernel = "conv2d_nchwc"
    kernel_axes: tuple[int, ...] = (2, 3)
    weight_rank = 6
    may_pair = True

    def weight_type(self, weight: TensorType, attrs: PackedConv2DAttrs) -> TensorType:
        return super().weight_type(pairs.plain_type(weight, self.weight_rank) if self.may_pair else weight, attrs)

    def blocks(self, weight: TensorType, attrs: PackedConv2DAttrs) -> tuple[Dim, Dim, Dim, Dim]:
        shape = weight.shape
        return shape[1], shape[-2], shape[0], shape[-1]

    def infer(self, attrs: Any, data: Value, weight: Value) -> TensorTypes:
        if attrs.groups != 1:
            raise fail(self.name, "groups", attrs.groups, "1")
        return super().infer(attrs, data, weight)

    def reference(self, attrs: Any, data: Array, weight: Array) -> Arrays:
        data, weight = (v.astype(self.accumulator(data, attrs)) for v in (data, weight))
        weight = pairs.plain_array(weight, len(self.kernel_axes) + 4)
        _, blocks, *extents, block = data.shape
        true_lane = (np.arange(blocks * block) < attrs.in_channels).reshape(blocks, *(1 for _ in extents), block)
        view = self.view(np.where(true_lane, data, 0), weight, attrs)
        axes = range(data.ndim, view.ndim)
        out = np.tensordot(view, weight, ([1, *axes, data.ndim - 1], range(1, len(axes) + 3)))
        return [np.moveaxis(out, -2, 1)]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor, weight: Tensor) -> Lowered:
        dtype = compute_dtype(results[0].dtype)
        axes: list[Axis] = []
        channel = reduction_axis(te.const(attrs.in_channels), "ri", axes)
        letters = "dhw"[-len(self.kernel_axes):]
        taps = [reduction_axis(weight.shape[axis], f"r{letter}", axes) for axis, letter in zip(self.kernel_axes, letters)]
        spec = self.taps(weight.shape, attrs)
        overhang = (False, False, *(window.may_overhang() for window in spec), False)
        block = data.shape[-1]

        def body(n: Expr, out_block: Expr, *indices: Expr) -> Expr:
            *places, lane = indices
            positions = (window.position(place, tap) for window, place, tap in zip(spec, places, taps))
            value = padded_read(data, (n, channel // block, *positions, channel % block), overhang, attrs.pad_value)
            factor = pairs.element(weight, self.weight_rank, (out_block, channel // block, *taps, channel % block, lane))
            return te.reduce("sum", te.cast(value, dtype) * te.cast(factor, dtype), axes)

        total = te.compute(te.shape_of(results[0].shape), body, name="conv_nchwc")
        return [cast_result(total, results[0].dtype)]

    def flops(self, attrs: Any, results: TensorTypes, data: Value, weight: Value) -> Any:
        n, _, *places, _ = results[0].shape
        taps = [weight.shape[axis] for axis in self.kernel_axes]
        return 2 * n * dims.product((*places, *taps)) * attrs.channels * attrs.in_channels


@register
class Conv2DPartsNCHWc(Conv2DNCHWc):
    """Convolution of float32 on blocked channels with a weight that two or three of bfloat16 add up to.

    As nn.contrib_conv2d_NCHWc with the sum of the parts.

    Operands: data ``[N, ceil(I / a), H, W, a]`` of float32, weight ``[P, ceil(O / b), ceil(I / a), kh, kw, a / 2, b, 2]`` of
    bfloat16. Kernel family ``conv2d_parts_nchwc``.
    """

    name = "nn.contrib_conv2d_parts_NCHWc"
    kernel = "conv2d_parts_nchwc"

    def weight_type(self, weight: TensorType, attrs: PackedConv2DAttrs) -> TensorType:
        expect_rank(self.name, weight, "weight", self.weight_rank + 2)
        if weight.dtype != "bfloat16" or weight.shape[0] not in (2, 3):
            raise fail(self.name, "weight", f"{weight}", "2 or 3 parts of pairs of bfloat16")
        whole = TensorType(weight.shape[1:], "bfloat16")
        return TensorType(super().weight_type(whole, attrs).shape, "float32")

    def reference(self, attrs: Any, data: Array, weight: Array) -> Arrays:
        return super().reference(attrs, data, pairs.parts_sum(weight))

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor, weight: Tensor) -> Lowered:
        raise NotImplementedError(f"{self.name} has a kernel family only")

    def flops(self, attrs: Any, results: TensorTypes, data: Value, weight: Value) -> Any:
        n, _, *places, _ = results[0].shape
        return 2 * n * dims.product((*places, *weight.shape[3:5])) * attrs.channels * attrs.in_channels


@register
class Conv3DNCDHWc(Conv2DNCHWc):
    """Convolution of volumes on blocked channels: as nn.contrib_conv2d_NCHWc, with one more axis before the others.

    Operands: data ``[N, ceil(I / a), D, H, W, a]``, weight ``[ceil(O / b), ceil(I / a), kd, kh, kw, a, b]``, zero beyond the true
    channels, or in groups of input channels. Attributes: those of nn.conv3d (groups 1), ``channels`` = O, ``in_channels`` = I.
    Kernel family ``conv3d_ncdhwc``.
    """

    name = "nn.contrib_conv3d_NCDHWc"
    data = Operand(accepts="numeric or bool", rank=6)
    Attrs = PackedConv3DAttrs
    kernel = "conv3d_ncdhwc"
    kernel_axes = (2, 3, 4)
    weight_rank = 7


@register
class DepthwiseConv2DNCHWc(_PackedConv):
    """Depthwise convolution on blocked channels: one filter per channel, as many outputs as inputs; or m filters per channel.

    ``out[n, C, y, x, c] = sum over taps (v, u) of data[n, C, y * sh + v * dh - ph, x * sw + u * dw - pw, c] *
    weight[C, v, u, c]``; of m filters, output channel k has input channel k // m.

    Operands: data ``[N, ceil(C / c), H, W, c]``, weight ``[ceil(m * C / c), kh, kw, c]``, or of int8 in groups of taps, the last
    of which ends with zeros: ``[ceil(C / c), kh, ceil(kw / g), c, g]``. Attributes: those of nn.conv2d, ``groups`` =
    ``in_channels`` = C, ``channels`` = m * C, where m divides c and is 1 for int8. Kernel family ``depthwise_conv2d_nchwc``.
    """

    name = "nn.contrib_depthwise_conv2d_NCHWc"
    kernel = "depthwise_conv2d_nchwc"
    kernel_axes: tuple[int, ...] = (1, 2)
    weight_rank = 4

    def blocks(self, weight: TensorType, attrs: PackedConv2DAttrs) -> tuple[Dim, Dim, Dim, Dim]:
        shape = weight.shape
        return dims.ceildiv(attrs.in_channels or 0, shape[-1]), shape[-1], shape[0], shape[-1]

    def infer(self, attrs: Any, data: Value, weight: Value) -> TensorTypes:
        numbers, filters, block = (attrs.groups, attrs.channels, attrs.in_channels), self.filters(attrs), data.shape[-1]
        repeats = filters > 1 and isinstance(block, int) and block % filters == 0 and weight.rank == self.weight_rank
        if numbers[0] != numbers[2] or numbers[1] != filters * numbers[2] or not (filters == 1 or repeats):
            raise fail(self.name, "groups, channels, in_channels", numbers, "equal numbers, or filters that divide a block")
        return super().infer(attrs, data, weight)

    def filters(self, attrs: PackedConv2DAttrs) -> int:
        """Filters of each channel of the data."""
        return (attrs.channels or 0) // attrs.in_channels if attrs.in_channels else 0

    def weight_type(self, weight: TensorType, attrs: PackedConv2DAttrs) -> TensorType:
        plain = super().weight_type(pairs.plain_type(weight, self.weight_rank), attrs)
        if plain == weight or attrs.kernel_size is None:
            return plain
        return TensorType((*plain.shape[:-2], attrs.kernel_size[-1], plain.shape[-1]), plain.dtype)

    def reference(self, attrs: Any, data: Array, weight: Array) -> Arrays:
        data, weight = (v.astype(self.accumulator(data, attrs)) for v in (data, weight))
        if weight.ndim > self.weight_rank:
            weight = pairs.plain_array(weight, self.weight_rank)[..., : attrs.kernel_size[-1], :]
        batch, _, *extents, block = data.shape
        channels = np.moveaxis(data, -1, 2).reshape(batch, -1, *extents).repeat(self.filters(attrs), axis=1)
        data = np.moveaxis(channels[:, : len(weight) * block].reshape(batch, len(weight), block, *extents), 2, -1)
        places, taps = "dhw"[-len(self.kernel_axes) :], "tvu"[-len(self.kernel_axes) :]
        return [np.einsum(f"nb{places}c{taps},b{taps}c->nb{places}c", self.view(data, weight, attrs), weight)]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor, weight: Tensor) -> Lowered:
        dtype = compute_dtype(results[0].dtype)
        axes: list[Axis] = []
        sizes = [weight.shape[axis] for axis in self.kernel_axes]
        if len(weight.shape) > self.weight_rank:
            sizes[-1] = te.const(attrs.kernel_size[-1])
        taps = [reduction_axis(size, f"r{letter}", axes) for size, letter in zip(sizes, "dhw"[-len(sizes) :])]
        spec = self.taps((weight.shape[0], *sizes), attrs)
        overhang = (False, False, *(window.may_overhang() for window in spec), False)

        def body(n: Expr, block: Expr, *indices: Expr) -> Expr:
            *places, lane = indices
            positions = (window.position(place, tap) for window, place, tap in zip(spec, places, taps))
            source = [block, lane]
            if (filters := self.filters(attrs)) > 1:
                source = [block // filters, (block % filters * data.shape[-1] + lane) // filters]
            value = padded_read(data, (n, source[0], *positions, source[1]), overhang, attrs.pad_value)
            factor = pairs.element(weight, self.weight_rank, (block, *taps, lane))
            return te.reduce("sum", te.cast(value, dtype) * te.cast(factor, dtype), axes)

        total = te.compute(te.shape_of(results[0].shape), body, name="depthwise_nchwc")
        return [cast_result(total, results[0].dtype)]

    def flops(self, attrs: Any, results: TensorTypes, data: Value, weight: Value) -> Any:
        n, _, *places, _ = results[0].shape
        taps = [*weight.shape[1 : self.kernel_axes[-1]], (attrs.kernel_size or weight.shape[1 : 1 + len(places)])[-1]]
        return 2 * n * dims.product((*places, *taps)) * attrs.channels


@register
class DepthwiseConv3DNCDHWc(DepthwiseConv2DNCHWc):
    """Depthwise convolution of volumes on blocked channels: as nn.contrib_depthwise_conv2d_NCHWc, with one more axis.

    Operands: data ``[N, ceil(C / c), D, H, W, c]``, weight ``[ceil(C / c), kd, kh, kw, c]``, of floating-point numbers. Kernel
    family ``depthwise_conv3d_ncdhwc``.
    """

    name = "nn.contrib_depthwise_conv3d_NCDHWc"
    data = Operand(accepts="float", rank=6)
    Attrs = PackedConv3DAttrs
    kernel = "depthwise_conv3d_ncdhwc"
    kernel_axes = (1, 2, 3)
    weight_rank = 5
