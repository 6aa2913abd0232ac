"""Convolutions in every layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from forge import dims, dtypes, te
from forge.ops.core.complex_products import split_product
from forge.ops.core.inference import expect_rank, fail, require_equal, require_positive, tuple_of
from forge.ops.core.lowering import cast_result
from forge.ops.core.op import Accuracy, Kind, Operand, Precision, register
from forge.ops.core.product import Product
from forge.ops.core.signatures import (
    Array,
    Arrays,
    Builder,
    Conditions,
    Dim,
    Expr,
    Lowered,
    Tensor,
    TensorType,
    TensorTypes,
    Value,
    Values,
)
from forge.ops.core.window_geometry import Window, compute_dtype, fits, padded_read, sliding_windows, windows
from forge.ops.shape.layout_transform import unblocked
from forge.te import Axis

if TYPE_CHECKING:
    from forge.ops.nn.transposed_convolution import Conv2DTransposeAttrs


@dataclass(frozen=True)
class Conv2DAttrs:
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[Dim, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[Dim, ...] | None = None
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: str = ""
    pad_value: int = 0


@dataclass(frozen=True)
class Conv1DAttrs(Conv2DAttrs):
    strides: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)
    data_layout: str = "NCW"
    kernel_layout: str = "OIW"


@dataclass(frozen=True)
class Conv3DAttrs(Conv2DAttrs):
    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[Dim, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "OIDHW"


@dataclass(frozen=True)
class ConvShape:
    """The geometry of one convolution; extents are dimensions (integers in a reference, expressions in a lowering)."""

    data: str  # layouts
    kernel: str
    out: str
    groups: int
    channels: Any  # of the result
    in_channels: Any
    taps: tuple[Window, ...]

    @property
    def spatial(self) -> str:
        """Letters of the spatial axes, in the order of strides and padding."""
        return "".join(letter for letter in "DHW" if letter in self.data)


def conv_result_dtype(op: str, data: Value | TensorType, weight: Value | TensorType, out_dtype: str) -> str:
    """The dtype of a contraction; operands may differ only when both are integers and ``out_dtype`` says the result's.

    Raises:
        TypeInferenceError: they do not fit.
    """
    if out_dtype and dtypes.is_complex(data.dtype) and not dtypes.is_complex(out_dtype):
        raise fail(op, "out_dtype of complex operands", out_dtype, "a complex type")
    mixed_integers = out_dtype and dtypes.is_integer(data.dtype) and dtypes.is_integer(weight.dtype)
    if data.dtype != weight.dtype and not mixed_integers:
        raise fail(op, "dtypes", f"{data.dtype} and {weight.dtype}", "equal ones (or two integer types and out_dtype)")
    return out_dtype or data.dtype


C = TypeVar("C", bound="Conv2DAttrs | Conv2DTransposeAttrs")


class ConvBase(Product[C]):
    """What forward and transposed convolutions share."""

    data, weight = Operand(accepts="number or bool"), Operand(accepts="number or bool")
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.REDUCTION
    precision = Precision.NARROWS
    spatial: ClassVar[str]
    weight_groups_axis: ClassVar[str]  # the kernel axis that holds only one group

    @property
    def groups(self) -> int:
        return int(self.attrs.groups)

    @property
    def depth_axis(self) -> int:
        return str(self.attrs.data_layout).index("C")

    @property
    def weight_axis(self) -> int:
        return str(self.attrs.kernel_layout).index("O")

    @property
    def channel_axis(self) -> int:
        return str(self.attrs.out_layout or self.attrs.data_layout).index("C")

    def decompose(self, builder: Builder, attrs: C, data: Value, weight: Value) -> Values | None:
        return split_product(self, builder, attrs, data, weight)

    def shape(self, data: Sequence[Any], weight: Sequence[Any], attrs: C) -> ConvShape:
        """The geometry for operands of these shapes.

        Raises:
            TypeInferenceError: layouts, groups or window attributes do not fit.
        """
        layout = unblocked(attrs.data_layout, "NC" + self.spatial, self.name, "data_layout")
        kernel = unblocked(attrs.kernel_layout, "OI" + self.spatial, self.name, "kernel_layout")
        out = unblocked(attrs.out_layout or layout, "NC" + self.spatial, self.name, "out_layout")
        extents = dict(zip(kernel, weight))
        extents[self.weight_groups_axis] = extents[self.weight_groups_axis] * attrs.groups
        sizes = [extents[letter] for letter in self.spatial]
        taps = windows(self.name, sizes, attrs.strides, attrs.dilation, attrs.padding)
        return ConvShape(layout, kernel, out, attrs.groups, extents["O"], extents["I"], taps)

    def check(self, data: Value, attrs: C, shape: ConvShape) -> None:
        if attrs.groups < 1:
            raise fail(self.name, "groups", attrs.groups, "at least 1")
        channels = data.shape[shape.data.index("C")]
        require_equal(self.name, f"channels of data {data.type} in layout {shape.data}", channels, shape.in_channels)
        for what, extent in (("output channels", shape.channels), ("input channels", shape.in_channels)):
            require_equal(self.name, f"{what} {extent} modulo groups {attrs.groups}", dims.floormod(extent, attrs.groups), 0)
        if attrs.channels is not None:
            require_equal(self.name, "channels of the weight", shape.channels, attrs.channels)
        if attrs.kernel_size is not None:
            for tap, size in zip(shape.taps, tuple_of(self.name, "kernel_size", attrs.kernel_size, len(shape.taps))):
                require_equal(self.name, "kernel size of the weight", tap.size, size)

    def out_extents(self, extents: dict[str, Dim], shape: ConvShape, attrs: C) -> list[Any]:
        """Extents of the result along the spatial axes, for data of ``extents`` by letter."""
        raise NotImplementedError

    def infer(self, attrs: C, data: Value, weight: Value) -> TensorTypes:
        rank = len(self.spatial) + 2
        expect_rank(self.name, data.tensor_type, "data", rank)
        expect_rank(self.name, weight.tensor_type, "weight", rank)
        shape = self.shape(data.shape, weight.shape, attrs)
        self.check(data, attrs, shape)
        extents = dict(zip(shape.data, data.shape))
        sizes = self.out_extents(extents, shape, attrs)
        require_positive(self.name, f"window over {data.type}", sizes)
        result = {"N": extents["N"], "C": shape.channels, **dict(zip(self.spatial, sizes))}
        dtype = conv_result_dtype(self.name, data, weight, attrs.out_dtype)
        return [TensorType(tuple(result[letter] for letter in shape.out), dtype)]

    def requires(self, attrs: C, results: TensorTypes, data: TensorType, weight: TensorType) -> Conditions:
        out = self.shape(data.shape, weight.shape, attrs).out
        return fits(data, [results[0].shape[out.index(s)] for s in self.spatial])

    def reference(self, attrs: C, data: Array, weight: Array) -> Arrays:
        shape = self.shape(data.shape, weight.shape, attrs)
        require_positive(
            self.name, f"window over data {data.shape}", self.out_extents(dict(zip(shape.data, data.shape)), shape, attrs))
        dtype = compute_dtype(attrs.out_dtype or dtypes.canonical(data.dtype))
        x = np.moveaxis(data, [shape.data.index(s) for s in "NC" + self.spatial], range(data.ndim))
        w = np.moveaxis(weight, [shape.kernel.index(s) for s in "OI" + self.spatial], range(weight.ndim))
        as_type = dtypes.numpy_dtype(dtype)
        y = self.contract(x.astype(as_type), w.astype(as_type), shape, attrs)
        return [np.moveaxis(y, range(y.ndim), [shape.out.index(s) for s in "NC" + self.spatial])]

    def contract(self, x: np.ndarray, w: np.ndarray, shape: ConvShape, attrs: C) -> np.ndarray:
        """The convolution of ``x[N, C, spatial]`` and ``w[O, I, spatial]``, batch and channels first."""
        raise NotImplementedError

    def lower(self, attrs: C, results: TensorTypes, data: Tensor, weight: Tensor) -> Lowered:
        shape = self.shape(data.shape, weight.shape, attrs)
        dtype = results[0].dtype
        total = self.lower_sum(attrs, data, weight, shape, te.shape_of(results[0].shape), compute_dtype(dtype))
        return [cast_result(total, dtype)]

    def lower_sum(self, attrs: C, data: Tensor, weight: Tensor, shape: ConvShape, out: Sequence[Expr], dtype: str) -> Tensor:
        """The sum over input channels and taps as a compute of extents ``out``."""
        raise NotImplementedError

    def flops(self, attrs: C, results: TensorTypes, data: Value, weight: Value) -> Dim:
        channels = dict(zip(attrs.kernel_layout, weight.shape))
        return 2 * self.flops_positions(data, results) * dims.product(
            extent for letter, extent in channels.items() if letter != self.flops_free_axis
        )

    flops_free_axis: ClassVar[str]

    def flops_positions(self, data: Value, results: TensorTypes) -> Dim:
        return results[0].size


def check_pad_value(op: str, data: Value, attrs: Conv2DAttrs) -> None:
    """Only integers have zero points.

    Raises:
        TypeInferenceError: ``pad_value`` is not 0, and data do not hold it.
    """
    low, high = dtypes.integer_range(data.dtype) if dtypes.is_integer(data.dtype) else (0, 0)
    if not low <= attrs.pad_value <= high:
        raise fail(op, f"pad_value of {data.dtype}", attrs.pad_value, f"a number between {low} and {high}")


def reduction_axis(extent: Expr, name: str, axes: list[Axis]) -> Expr:
    """The variable of a new axis of ``axes``; 0 without an axis when it has one step only."""
    if getattr(extent, "value", None) == 1:
        return te.const(0)
    axes.append(te.reduce_axis(extent, name))
    return axes[-1].var


def tap_axes(shape: ConvShape, weight: Tensor, axes: list[Axis]) -> list[Expr]:
    """The tap along each window, from new axes of ``axes``."""
    return [reduction_axis(weight.shape[shape.kernel.index(s)], f"r{s.lower()}", axes) for s in shape.spatial]


class Conv(ConvBase[Conv2DAttrs]):
    r"""Convolution (cross-correlation) with window positions ``p = o * stride + k * dilation - padding``.

    ``out[n, o, p] = sum over i < C / groups and taps k of data[n, g * C / groups + i, p(k)] * weight[o, i, k]``,
    where ``g = o // (O / groups)`` and data outside of its extents is ``pad_value``, 0 unless data are integers. Operands: data
    (``data_layout``), weight (``kernel_layout``). ``padding`` has one number per axis, or all begins and then all ends.
    ``channels`` and ``kernel_size`` restate what the weight's shape says. float16 and bfloat16 are accumulated in float32.
    """

    weight_groups_axis = "I"
    flops_free_axis = "O"

    def check(self, data: Value, attrs: Conv2DAttrs, shape: ConvShape) -> None:
        super().check(data, attrs, shape)
        check_pad_value(self.name, data, attrs)

    def out_extents(self, extents: dict[str, Any], shape: ConvShape, attrs: Conv2DAttrs) -> list[Any]:
        return [tap.positions(extents[letter]) for letter, tap in zip(self.spatial, shape.taps)]

    def contract(self, x: np.ndarray, w: np.ndarray, shape: ConvShape, attrs: Conv2DAttrs) -> np.ndarray:
        n = len(shape.taps)
        axes = range(2, 2 + n)
        counts = [tap.positions(x.shape[axis]) for axis, tap in zip(axes, shape.taps)]
        view = sliding_windows(x, axes, shape.taps, counts, attrs.pad_value)
        per_group, outs = x.shape[1] // shape.groups, w.shape[0] // shape.groups
        if per_group == 1 and outs == 1:
            letters = "defghijk"[: 2 * n]
            product: np.ndarray = np.einsum(f"nc{letters},c{letters[n:]}->nc{letters[:n]}", view, w[:, 0])
            return product
        parts = [
            np.tensordot(view[:, g * per_group : (g + 1) * per_group], w[g * outs : (g + 1) * outs],
                         ([1, *range(2 + n, 2 + 2 * n)], range(1, 2 + n)))
            for g in range(shape.groups)
        ]
        return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)

    def lower_sum(self, attrs: Conv2DAttrs, data: Tensor, weight: Tensor, shape: ConvShape, out: Sequence[Expr],
                  dtype: str) -> Tensor:
        axes: list[Axis] = []
        per_group = weight.shape[shape.kernel.index("I")]
        channel = reduction_axis(per_group, "ri", axes)
        taps = tap_axes(shape, weight, axes)
        outs = weight.shape[shape.kernel.index("O")] // shape.groups
        overhang = dict(zip(shape.spatial, (w.may_overhang() for w in shape.taps)))

        def body(*indices: Expr) -> Expr:
            at = dict(zip(shape.out, indices))
            first = te.const(0) if shape.groups == 1 else at["C"] // outs * per_group
            source = {"N": at["N"], "C": first + channel}
            kernel = {"O": at["C"], "I": channel, **dict(zip(shape.spatial, taps))}
            for letter, tap, window in zip(shape.spatial, taps, shape.taps):
                source[letter] = window.position(at[letter], tap)
            x = padded_read(data, [source[s] for s in shape.data], [overhang.get(s, False) for s in shape.data],
                            attrs.pad_value)
            w = weight[tuple(kernel[s] for s in shape.kernel)]
            return te.reduce("sum", te.cast(x, dtype) * te.cast(w, dtype), axes)

        return te.compute(out, body, name="conv", dtype=dtype)


@register
class Conv1D(Conv):
    __doc__ = Conv.__doc__
    name = "nn.conv1d"
    Attrs = Conv1DAttrs
    spatial = "W"


@register
class Conv2D(Conv):
    __doc__ = Conv.__doc__
    name = "nn.conv2d"
    Attrs = Conv2DAttrs
    spatial = "HW"


@register
class Conv3D(Conv):
    __doc__ = Conv.__doc__
    name = "nn.conv3d"
    Attrs = Conv3DAttrs
    spatial = "DHW"
