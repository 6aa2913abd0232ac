"""Convolutions and pools with what was fused into them, and with channels last."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.core.windows import ConvAttributes, ConvTransposeAttributes
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.microsoft.activations import activated
from forge.frontends.onnx.converters.nn import pool as pooling
from forge.frontends.onnx.converters.nn.convolution import conv, conv_transpose
from forge.frontends.onnx.converters.nn.pool import MaxPoolAttributes
from forge.frontends.onnx.converters.shape.slice import slice_
from forge.frontends.onnx.registry import converts

MAX_TAPS = 256
"""Elements of a window that is written out."""


@dataclass(frozen=True, kw_only=True)
class FusedConvAttributes(ConvAttributes):
    activation: str | None = None
    activation_params: tuple[float, ...] = ()


@converts("FusedConv", domain=DOMAIN)
def fused_conv(
    g: Context, x: Value, weight: Value, bias: Value | None = None, addend: Value | None = None, *, attrs: FusedConvAttributes
) -> Value:
    """activation(convolution + addend)."""
    total = conv(g, x, weight, bias, attrs=attrs)
    if addend is not None:
        total = g.call("add", total, addend)
    return activated(g, total, attrs.activation, attrs.activation_params)


@converts("NhwcConv", domain=DOMAIN)
def nhwc_conv(g: Context, x: Value, weight: Value, bias: Value | None = None, *, attrs: ConvAttributes) -> Value:
    return channels_behind(g, conv(g, channels_first(g, x), weight, bias, attrs=attrs))


@converts("NhwcFusedConv", domain=DOMAIN)
def nhwc_fused_conv(
    g: Context, x: Value, weight: Value, bias: Value | None = None, addend: Value | None = None, *, attrs: FusedConvAttributes
) -> Value:
    """Data, addend and result have channels last; the weight is that of FusedConv."""
    total = None if addend is None else channels_first(g, addend)
    return channels_behind(g, fused_conv(g, channels_first(g, x), weight, bias, total, attrs=attrs))


def channels_first(g: Context, x: Value) -> Value:
    """``[N, ..., C]`` as ``[N, C, ...]``."""
    return g.call("transpose", x, axes=(0, x.rank - 1, *range(1, x.rank - 1)))


def channels_behind(g: Context, x: Value) -> Value:
    """``[N, C, ...]`` as ``[N, ..., C]``."""
    return g.call("transpose", x, axes=(0, *range(2, x.rank), 1))


@converts("NhwcMaxPool", domain=DOMAIN, lacks=("storage_order",))
def nhwc_max_pool(g: Context, x: Value, *, attrs: MaxPoolAttributes) -> Value:
    (result, *_) = pooling.max_pool(g, channels_first(g, x), attrs=attrs)
    return channels_behind(g, result)


@converts("MaxpoolWithMask", domain=DOMAIN, lacks=("ceil_mode", "dilations"))
def max_pool_with_mask(g: Context, x: Value, mask: Value, *, attrs: MaxPoolAttributes) -> Value:
    """Along the last axis a window ends where the mask is 0; the first element of an image counts all the same.

    onnxruntime reads a mask of several channels at offsets that belong to none of them, so only one of one channel has a meaning.
    """
    if mask.rank != x.rank or tuple(mask.shape[:2]) != (1, 1):
        raise g.unsupported(f"mask: got {mask.type} for {x.type}; supported: one mask for all images and channels, [1, 1, ...]")
    kernel = attrs.kernel_shape
    if math.prod(kernel) > MAX_TAPS:
        raise g.unsupported(f"attribute 'kernel_shape': got {list(kernel)}; supported: at most {MAX_TAPS} elements")
    strides, _, pads = attrs.window(g, x, kernel)
    taps = _Taps(g, kernel, strides, pads)
    lowest = g.scalar(float(np.finfo(np.float32).min), x)
    data = taps.padded(x, lowest)
    open_ = taps.padded(_first_is_open(g, mask), g.constant(True))
    best: Value | None = None
    for row in itertools.product(*(range(k) for k in kernel[:-1])):
        going: Value | None = None
        for place in range(kernel[-1]):
            here = taps.cut(open_, x.shape[2:], (*row, place))
            going = here if going is None else g.call("logical_and", going, here)
            found = g.call("where", going, taps.cut(data, x.shape[2:], (*row, place)), lowest)
            best = found if best is None else g.call("maximum", best, found)
    assert best is not None
    return best


def _first_is_open(g: Context, mask: Value) -> Value:
    """Whether the mask is not 0, or the element is the first of its image."""
    spatial = mask.shape[2:]
    size = dims.product(spatial)
    places = g.reshape(g.count(g.extent(g.reshape(mask, (*mask.shape[:2], size)), 2), size), (1, 1, *spatial))
    first = g.call("equal", places, g.scalar(0, places))
    return g.call("logical_or", first, g.call("not_equal", mask, g.scalar(0, mask)))


@dataclass(frozen=True)
class _Taps:
    """The elements of windows, one position in the window at a time."""

    g: Context
    kernel: Sequence[int]
    strides: Sequence[int]
    pads: Sequence[Dim]

    def padded(self, x: Value, fill: Value) -> Value:
        count = len(self.kernel)
        pairs = ((0, 0), (0, 0), *zip(self.pads[:count], self.pads[count:]))
        return self.g.call("nn.pad", x, fill, pad_width=pairs, pad_mode="constant")

    def cut(self, padded: Value, spatial: Sequence[Dim], place: Sequence[int]) -> Value:
        """The elements at ``place`` of all windows of an image of sizes ``spatial``."""
        count = len(place)
        totals = [size + a + b for size, a, b in zip(spatial, self.pads[:count], self.pads[count:])]
        ends = [
            dims.floordiv(total - taps, stride) * stride + start + 1
            for total, taps, stride, start in zip(totals, self.kernel, self.strides, place)
        ]
        axes = tuple(range(2, 2 + count))
        return self.g.call("strided_slice", padded, begin=tuple(place), end=tuple(ends), strides=tuple(self.strides), axes=axes)


@converts("ConvTransposeWithDynamicPads", domain=DOMAIN, lacks=("output_shape", "pads"))
def conv_transpose_with_dynamic_pads(
    g: Context, x: Value, weight: Value, pads: Value | None = None, bias: Value | None = None, *, attrs: ConvTransposeAttributes
) -> Value:
    """Padding that arrives at run time cuts the whole result."""
    if pads is None:
        raise g.invalid("input 2 (Pads) is absent; it is required, although the schema calls it optional")
    known = g.ints(pads)
    if known is not None:
        return conv_transpose(g, x, weight, bias, attrs=replace(attrs, pads=known))
    if attrs.auto_pad not in ("NOTSET", ""):
        raise g.unsupported(
            f"attribute 'auto_pad': got {attrs.auto_pad!r} with pads that arrive at run time; supported: 'NOTSET'")
    whole = conv_transpose(g, x, weight, bias, attrs=attrs)
    count = x.rank - 2
    before, after = g.multi("split", g.cast(pads, "int64"), indices_or_sections=2, axis=0)
    sizes = g.call("strided_slice", g.call("shape_of", whole, dtype="int64"), begin=(2,), end=(x.rank,), strides=(1,), axes=(0,))
    axes = g.constant(list(range(2, 2 + count)), "int64")
    return slice_(g, whole, before, g.call("subtract", sizes, after), axes)
