"""Rows of convolutions: plain, transposed, blocked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case, Draw, bf16, f16, f32, f64, i8, row, u8
from tests.ops.cases.nn.matmul import parts_of
from tests.ops.onnx_oracle import onnx_node

ONNX_NAMES = {"strides": "strides", "dilation": "dilations", "groups": "group", "output_padding": "output_padding"}


def onnx_conv(kind: str, rank: int, attrs: dict[str, Any]) -> Callable[..., Any]:
    """onnxruntime's convolution with Relay's attributes."""
    options = {ONNX_NAMES[k]: v for k, v in attrs.items() if k in ONNX_NAMES}
    padding = attrs.get("padding", (0,) * rank)
    return onnx_node(kind, pads=padding * 2 if len(padding) == rank else padding, **options)


def conv(rank: int, data: tuple[int, ...], weight: tuple[int, ...], symbolic: bool = True, **attrs: Any) -> Case:
    return row(f"nn.conv{rank}d", [f32(*data), f32(*weight)], onnx_conv("Conv", rank, attrs), symbolic=symbolic, **attrs)


def transposed(rank: int, data: tuple[int, ...], weight: tuple[int, ...], symbolic: bool = True, **attrs: Any) -> Case:
    oracle = onnx_conv("ConvTranspose", rank, attrs)
    return row(f"nn.conv{rank}d_transpose", [f32(*data), f32(*weight)], oracle, symbolic=symbolic, **attrs)


def plain_rows() -> list[Case]:
    return [
        conv(1, (2, 5, 9), (4, 5, 3)),
        conv(1, (1, 4, 8), (6, 2, 2), symbolic=False, groups=2, strides=(2,), padding=(1,)),
        conv(1, (2, 3, 11), (4, 3, 3), dilation=(2,), padding=(2, 1)),
        conv(2, (2, 4, 7, 6), (5, 4, 3, 2), padding=(1, 0)),
        conv(2, (1, 3, 17, 19), (7, 3, 5, 3), strides=(2, 3), padding=(2, 1, 0, 1)),
        conv(2, (1, 4, 9, 8), (4, 1, 3, 3), symbolic=False, groups=4, padding=(1, 1), strides=(2, 2)),
        conv(2, (1, 2, 8, 9), (6, 1, 3, 3), symbolic=False, groups=2, dilation=(2, 1), padding=(2, 1)),
        conv(2, (1, 6, 8, 9), (4, 3, 3, 3), symbolic=False, groups=2, padding=(1, 1)),
        conv(2, (1, 8, 5, 5), (3, 8, 1, 1)),
        conv(2, (1, 1, 4, 4), (1, 1, 4, 4)),
        conv(3, (1, 4, 5, 6, 7), (3, 4, 2, 3, 2), strides=(1, 2, 1), padding=(1, 0, 1)),
        conv(3, (1, 2, 4, 4, 4), (2, 1, 3, 3, 3), symbolic=False, groups=2, padding=(1, 1, 1)),
        row("nn.conv2d", [f64(1, 3, 6, 5), f64(2, 3, 3, 3)], padding=(1, 1)),
        row("nn.conv2d", [f16(1, 3, 6, 5), f16(2, 3, 3, 3)], padding=(1, 1)),
        row("nn.conv2d", [bf16(1, 3, 6, 5), bf16(2, 3, 3, 3)], padding=(1, 1)),
        row("nn.conv2d", [u8(1, 3, 6, 5, low=0, high=255), i8(2, 3, 3, 3, low=-128, high=127)], padding=(1, 1),
            out_dtype="int32"),
        row("nn.conv2d", [u8(1, 3, 6, 5, low=0, high=255), i8(2, 3, 3, 3, low=-128, high=127)], padding=(1, 2, 0, 1),
            out_dtype="int32", pad_value=200),
        row("nn.conv2d", [f32(1, 6, 5, 3), f32(3, 3, 3, 2)], channels_last, data_layout="NHWC", kernel_layout="HWIO",
            symbolic=False),
    ]


def channels_last(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    plain = onnx_node("Conv")(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1))[0]
    return plain.transpose(0, 2, 3, 1)


def transposed_rows() -> list[Case]:
    return [
        transposed(1, (2, 3, 5), (3, 4, 3), strides=(2,)),
        transposed(1, (2, 4, 5), (4, 3, 3), symbolic=False, strides=(2,), groups=2, output_padding=(1,)),
        transposed(2, (1, 3, 4, 5), (3, 6, 2, 2), strides=(2, 2)),
        transposed(2, (1, 4, 4, 3), (4, 3, 3, 3), symbolic=False, groups=2, strides=(2, 1), padding=(1, 1),
            output_padding=(1, 0)),
        transposed(2, (1, 2, 4, 5), (2, 3, 3, 2), dilation=(2, 1), padding=(1, 0)),
        transposed(2, (2, 5, 3, 3), (5, 4, 4, 4), strides=(2, 2), padding=(1, 1)),
        transposed(3, (1, 2, 2, 3, 4), (2, 3, 2, 2, 2), strides=(2, 1, 2)),
        row("nn.conv2d_transpose", [f16(1, 3, 4, 5), f16(3, 2, 2, 2)], strides=(2, 2)),
        row("nn.conv2d_transpose", [f32(2, 3, 0, 4), f32(3, 2, 2, 2)], lambda x, w: np.zeros((2, 2, 1, 5), np.float32),
            note="of nothing"),
    ]


def blocked(x: np.ndarray, block: int) -> np.ndarray:
    """``[N, C, spatial]`` as ``[N, C / block, spatial, block]``, with a large number in the padded lanes."""
    n, c, *spatial = x.shape
    padded = np.pad(x, ((0, 0), (0, -c % block), *[(0, 0)] * len(spatial)), constant_values=1e3)
    return np.ascontiguousarray(np.moveaxis(padded.reshape(n, -1, block, *spatial), 2, -1))


def packed(w: np.ndarray, inner: int, outer: int) -> np.ndarray:
    o, i, *taps = w.shape
    padded = np.pad(w, ((0, -o % outer), (0, -i % inner), *[(0, 0)] * len(taps)))
    shape = (-(-o // outer), outer, -(-i // inner), inner, *taps)
    return np.ascontiguousarray(np.moveaxis(padded.reshape(shape), (3, 1), (-2, -1)))


def array(*shape: int) -> np.ndarray:
    return Draw(shape).array(np.random.default_rng(shape))


def blocked_row(channels: int, outputs: int, kernel: int, size: tuple[int, int], inner: int = 16, outer: int = 16,
    **attrs: Any) -> Case:
    """A blocked convolution; the oracle blocks onnxruntime's result (output channels divide evenly)."""
    x, w = array(2, channels, *size), array(outputs, channels, kernel, kernel)
    plain = onnx_conv("Conv", 2, attrs)
    return row("nn.contrib_conv2d_NCHWc", [blocked(x, inner), packed(w, inner, outer)], lambda *_: blocked(plain(x, w)[0], outer),
               symbolic=False, channels=outputs, in_channels=channels, kernel_size=(kernel, kernel), **attrs)


def parts_row(channels: int, outputs: int, kernel: int, size: tuple[int, int], parts: int, **attrs: Any) -> Case:
    """A blocked convolution with a weight in parts."""
    x, w = array(2, channels, *size), array(outputs, channels, kernel, kernel)
    found, whole = parts_of(packed(w, 16, 16), parts)
    pairs = [np.moveaxis(part.reshape(*part.shape[:-2], -1, 2, 16), -2, -1) for part in found]
    plain = onnx_conv("Conv", 2, attrs)
    sums = np.moveaxis(whole, (-2, -1), (3, 1)).reshape(outputs, -1, kernel, kernel)[:, :channels]
    return row("nn.contrib_conv2d_parts_NCHWc", [blocked(x, 16), np.ascontiguousarray(np.stack(pairs))],
               lambda *_: blocked(plain(x, sums)[0], 16), symbolic=False, channels=outputs, in_channels=channels,
               kernel_size=(kernel, kernel), **attrs)


def depthwise_row(channels: int, kernel: int, size: tuple[int, int], block: int = 16, filters: int = 1, **attrs: Any) -> Case:
    x, w = array(1, channels, *size), array(filters * channels, 1, kernel, kernel)
    weight = np.ascontiguousarray(w.reshape(-1, block, kernel, kernel).transpose(0, 2, 3, 1))
    plain = onnx_conv("Conv", 2, {**attrs, "groups": channels})
    return row("nn.contrib_depthwise_conv2d_NCHWc", [blocked(x, block), weight], lambda *_: blocked(plain(x, w)[0], block),
               symbolic=False, channels=filters * channels, in_channels=channels, groups=channels, **attrs)


def blocked_rows() -> list[Case]:
    return [
        blocked_row(3, 16, 3, (9, 7), inner=3, padding=(1, 1), strides=(2, 2)),
        blocked_row(24, 32, 3, (7, 7), padding=(1, 1)),
        blocked_row(16, 48, 1, (5, 9)),
        blocked_row(40, 16, 3, (8, 6), dilation=(2, 2), padding=(2, 2)),
        blocked_row(8, 8, 3, (6, 5), inner=8, outer=8, padding=(0, 1, 2, 1)),
        parts_row(24, 32, 3, (7, 6), 3, padding=(1, 1)),
        parts_row(32, 16, 1, (5, 9), 2, strides=(2, 2)),
        depthwise_row(32, 3, (9, 7), padding=(1, 1), strides=(2, 2)),
        depthwise_row(16, 5, (7, 7), padding=(2, 2)),
        depthwise_row(8, 3, (6, 5), block=8, dilation=(2, 1), padding=(2, 1)),
        depthwise_row(24, 3, (6, 5), block=8, filters=4, padding=(1, 1)),
    ]


def pixels(x: np.ndarray, phases: tuple[int, ...], crop: tuple[int, ...]) -> np.ndarray:
    """``[N, phases * C, spatial]`` as a larger image of C channels, cropped."""
    n, _, *spatial = x.shape
    axes = len(spatial)
    apart = x.reshape(n, *phases, -1, *spatial)
    order = [0, 1 + axes, *(axis for k in range(axes) for axis in (2 + axes + k, 1 + k))]
    image = apart.transpose(order).reshape(n, -1, *(size * phase for size, phase in zip(spatial, phases)))
    return image[:, :, *(slice(b, size - e) for size, b, e in zip(image.shape[2:], crop[:axes], crop[axes:]))]


def subpixel_row(channels: int, outputs: int, taps: tuple[int, ...], size: tuple[int, ...], phases: tuple[int, ...],
                 crop: tuple[int, ...], depthwise: bool = False, **attrs: Any) -> Case:
    """A convolution whose channels are pixels; the oracle moves them after onnxruntime's convolution."""
    axes, count, block = len(taps), int(np.prod(phases)), 8
    x, w = array(2, channels, *size), array(count * outputs, 1 if depthwise else channels, *taps)
    plain = onnx_conv("Conv", axes, {**attrs, "groups": channels if depthwise else 1})

    def oracle(*_: object) -> np.ndarray:
        if not depthwise:
            return blocked(pixels(plain(x, w)[0], phases, crop), block)
        by_channel = w.reshape(count, outputs, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)
        found = plain(x, by_channel)[0]
        in_order = found.reshape(2, outputs, count, *found.shape[2:]).swapaxes(1, 2).reshape(found.shape)
        return blocked(pixels(in_order, phases, crop), block)

    name = "subpixel_depthwise_conv2d_NCHWc" if depthwise else f"subpixel_conv{axes}d_NC{'DHW'[-axes:]}c"
    weight = np.moveaxis(w.reshape(-1, block, *taps), 1, -1) if depthwise else packed(w, block, block)
    return row(f"nn.contrib_{name}", [blocked(x, block), np.ascontiguousarray(weight)], oracle, symbolic=False, phases=phases,
               crop=crop, channels=outputs, in_channels=channels, groups=channels if depthwise else 1, kernel_size=taps, **attrs)


def subpixel_rows() -> list[Case]:
    return [
        subpixel_row(11, 8, (2, 2), (4, 5), (2, 2), (1, 1, 1, 1), padding=(1, 1)),
        subpixel_row(8, 16, (1, 3), (5, 4), (1, 3), (0, 2, 0, 1), padding=(0, 1, 0, 2)),
        subpixel_row(8, 8, (1, 1), (3, 4), (3, 2), (0, 0, 0, 0)),
        subpixel_row(16, 16, (2, 2), (4, 5), (2, 2), (1, 0, 1, 0), depthwise=True, padding=(1, 1)),
        subpixel_row(12, 8, (2, 1, 2), (3, 4, 5), (2, 1, 2), (1, 0, 1, 1, 0, 1), padding=(1, 0, 1)),
        subpixel_row(8, 16, (3, 2, 3), (5, 6, 7), (1, 1, 1), (0,) * 6, strides=(2, 1, 2), dilation=(2, 1, 1), padding=(2, 0, 1)),
        subpixel_row(8, 8, (1, 1, 3), (3, 4, 6), (1, 1, 1), (0,) * 6, padding=(0, 0, 1)),
    ]


def product_rows() -> list[Case]:
    """Windows side by side, of the usual layout."""

    def product_row(inner: int, outer: int, phases: tuple[int, int], size: tuple[int, int]) -> Case:
        x, w = array(2, inner, *size), array(inner, outer, *phases)
        oracle = onnx_conv("ConvTranspose", 2, {"strides": phases})
        columns = w.reshape(inner, -1)
        return row("nn.contrib_subpixel_product", [x, columns], lambda *_: oracle(x, w)[0], symbolic=False, phases=phases)

    return [product_row(5, 3, (2, 2), (3, 21)), product_row(9, 4, (1, 3), (2, 70)), product_row(1, 1, (3, 1), (2, 5)),
            product_row(24, 7, (2, 4), (2, 133)), product_row(4, 2, (1, 5), (1, 18))]


CASES = [*plain_rows(), *transposed_rows(), *blocked_rows(), *subpixel_rows(), *product_rows()]
