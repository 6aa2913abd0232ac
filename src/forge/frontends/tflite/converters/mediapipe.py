"""Custom operators of MediaPipe's models. Their options are not FlexBuffers, but the numbers of a C structure, 32 bits each."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from forge.compose.windows import same_padding
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.converters.activations import activated
from forge.frontends.tflite.converters.products import checked
from forge.frontends.tflite.registry import CUSTOM, converts
from forge.ir.nodes import Value

_SAME, _VALID = 1, 2
_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")


def _options(g: Context, count: int) -> tuple[int, ...]:
    """The first ``count`` numbers of the options, of which the first one is the kind of padding."""
    given = g.operator.custom_options
    if len(given) < 4 * count:
        raise g.invalid(f"custom options: got {len(given)} bytes; expected {4 * count} or more")
    found = struct.unpack_from(f"<{count}i", given)
    if found[0] not in (_SAME, _VALID):
        raise g.invalid(f"custom options: got the padding {found[0]}; expected {_SAME} (same) or {_VALID} (valid)")
    return found


def _image(g: Context, x: Value) -> tuple[int, int]:
    """Height and width of [batch, height, width, channels]."""
    if x.rank != 4 or not isinstance(x.shape[1], int) or not isinstance(x.shape[2], int):
        raise g.unsupported(f"got {x.type}; expected four dimensions, with a known height and width")
    return x.shape[1], x.shape[2]


@converts("Convolution2DTransposeBias", domain=CUSTOM)
def transpose_conv_bias(g: Context, x: Value, weight: Value, bias: Value) -> Value:
    """A transposed convolution. SAME leaves out what the last step of a convolution's window would reach beyond the image."""
    padding, *steps = _options(g, 3)
    strides = tuple(reversed(steps))
    checked(g, strides=strides)
    sizes, kernel = _image(g, x), _image(g, weight)
    cut = [max(0, k - (n - 1) % s - 1) if padding == _SAME else 0 for n, k, s in zip(sizes, kernel, strides)]
    before = [n // 2 for n in cut]
    found = g.call(
        "nn.conv2d_transpose", x, weight, strides=strides, padding=(*before, *(n - b for n, b in zip(cut, before))),
        kernel_size=kernel, channels=weight.shape[0], data_layout="NHWC", kernel_layout="OHWI")
    return g.call("add", found, bias)


def _pool_options(g: Context) -> tuple[int, tuple[int, int], tuple[int, int], str]:
    """Padding, strides, sizes of the window and the activation function."""
    padding, stride_w, stride_h, width, height, activation = _options(g, 6)
    checked(g, strides=(stride_h, stride_w), filter=(height, width))
    if not 0 <= activation < len(_ACTIVATIONS):
        raise g.invalid(f"custom options: got the activation function {activation}; expected 0 to {len(_ACTIVATIONS) - 1}")
    return padding, (stride_h, stride_w), (height, width), _ACTIVATIONS[activation]


@converts("MaxPoolingWithArgmax2D", domain=CUSTOM)
def max_pool_with_argmax(g: Context, x: Value) -> list[Value]:
    """The maxima, and the place of each in its window, row by row, with 0.1 added: floats, which are cut off where read."""
    padding, strides, window, activation = _pool_options(g)
    sizes = _image(g, x)
    around = same_padding(sizes, window, strides, (1, 1)) if padding == _SAME else (0, 0, 0, 0)
    values, flat = g.multi(
        "nn.max_pool2d_with_indices", g.moved(x, (0, 3, 1, 2)), pool_size=window, strides=strides, padding=around, layout="NCHW")
    values, flat = (g.moved(v, (0, 2, 3, 1)) for v in (values, flat))
    row = g.call("floor_mod", g.call("floor_divide", flat, g.scalar(sizes[1], flat)), g.scalar(sizes[0], flat))
    column = g.call("floor_mod", flat, g.scalar(sizes[1], flat))
    places = [
        g.call("subtract", at, g.constant(_origins(values, axis, strides, around), "int64"))
        for axis, at in enumerate((row, column))]
    place = g.call("add", g.call("multiply", places[0], g.scalar(window[1], flat)), places[1])
    return [activated(g, values, activation), g.call("add", g.cast(place, x.dtype), g.constant(0.1, x.dtype))]


def _origins(result: Value, axis: int, strides: Sequence[int], around: Sequence[object]) -> np.ndarray:
    """Where the windows begin along a spatial axis, for [height, width, channels]."""
    count, before = result.shape[1 + axis], around[axis]
    assert isinstance(count, int) and isinstance(before, int)
    return (np.arange(count) * strides[axis] - before).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))


@converts("MaxUnpooling2D", domain=CUSTOM)
def max_unpool(g: Context, x: Value, places: Value) -> Value:
    """Each element at its place in its window, and zeros elsewhere. Places that are out of the window are of no element."""
    _, strides, window, _ = _pool_options(g)
    sizes = _image(g, x)
    if strides != window:
        raise g.unsupported(f"got strides of {strides} for windows of {window}; expected windows side by side")
    numbers = g.call("expand_dims", g.cast(places, "int32"), axis=4)
    is_here = g.call("equal", numbers, g.constant(np.arange(window[0] * window[1]), "int32"))
    spread = g.call("where", is_here, g.call("expand_dims", x, axis=4), g.constant(0, x.dtype))
    batch, channels = x.shape[0], x.shape[3]
    apart = g.reshape(spread, (batch, *sizes, channels, *window))
    return g.reshape(
        g.moved(apart, (0, 1, 4, 2, 5, 3)), (batch, sizes[0] * window[0], sizes[1] * window[1], channels))
