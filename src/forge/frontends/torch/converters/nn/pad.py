"""Padding, and what moves elements between channels and space."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import images
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.convolution import batched, per_axis, unbatched
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
_NUMBERED = ("reflect", "replicate", "circular", "constant")
Ints = Sequence[int]


def _padded(g: Context, x: Value, pad: Sequence[Dim], mode: str, value: float = 0.0) -> Value:
    """``pad`` is before and after of the last axis, then of the one in front of it."""
    if len(pad) % 2 or len(pad) > 2 * x.rank:
        raise g.invalid(f"pad: got {len(pad)} numbers; expected two for each of at most {x.rank} axes")
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    widths = (*[(0, 0)] * (x.rank - len(pairs)), *reversed(pairs))
    if all(isinstance(n, int) and n == 0 for pair in pairs for n in pair):
        return x
    if mode == "circular" and any(_is_negative(n) for n in pad):
        x = _padded(g, x, [n if _is_negative(n) else 0 for n in pad], "constant")
        return _padded(g, x, [0 if _is_negative(n) else n for n in pad], mode)
    return g.call("nn.pad", x, g.scalar(value, x), pad_width=widths, pad_mode=_MODES[mode])


def _is_negative(size: Dim) -> bool:
    return isinstance(size, int) and size < 0


@converts("constant_pad_nd.default")
def constant_pad(g: Context, self: Value, *, pad: Sequence[Dim], value: complex = 0j) -> Value:
    """Raises OpAttributeUnimplemented: the value has an imaginary part."""
    number = complex(value)
    if number.imag:
        raise g.unsupported(f"value: got {value}; supported: real numbers")
    return _padded(g, self, pad, "constant", number.real)


def _bordered(mode: str, *targets: str) -> None:
    @converts(*targets)
    def convert(g: Context, self: Value, *, padding: Sequence[Dim] = (), pad: Sequence[Dim] = ()) -> Value:
        return _padded(g, self, padding or pad, mode)


_bordered("reflect", *(f"reflection_pad{n}d.default" for n in (1, 2, 3)))
_bordered("replicate", *(f"replication_pad{n}d.default" for n in (1, 2, 3)))
_bordered("circular", "_pad_circular.default")


@converts("pad.default")
def pad(g: Context, self: Value, *, pad: Sequence[Dim], mode: str = "constant", value: float | None = None) -> Value:
    if mode not in _MODES:
        raise g.invalid(f"mode: got {mode!r}; expected one of {', '.join(_MODES)}")
    return _padded(g, self, pad, mode, 0.0 if value is None else value)


@converts("_pad_enum.default")
def pad_numbered(g: Context, self: Value, *, pad: Sequence[Dim], mode: int, value: float | None = None) -> Value:
    return _padded(g, self, pad, _NUMBERED[mode], 0.0 if value is None else value)


@converts("pixel_shuffle.default")
def pixel_shuffle(g: Context, self: Value, *, upscale_factor: int) -> Value:
    return images.channels_to_space(g, self, upscale_factor)


@converts("pixel_unshuffle.default")
def pixel_unshuffle(g: Context, self: Value, *, downscale_factor: int) -> Value:
    return images.space_to_channels(g, self, downscale_factor)


@converts("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(g: Context, self: Value, *, groups: int) -> Value:
    return g.call("nn.channel_shuffle", self, groups=groups, axis=1)


@converts("im2col.default")
def image_to_columns(g: Context, self: Value, *, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Value:
    x, added = batched(g, self, 2)
    block, strides, pads, steps = (per_axis(given, 2) for given in (kernel_size, stride, padding, dilation))
    return unbatched(g, images.unfold(g, x, block_shape=block, strides=strides, padding=pads, dilation=steps), added)


@converts("col2im.default")
def columns_to_image(
    g: Context, self: Value, *, output_size: Sequence[Dim], kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Value:
    """[N, C * taps, windows] -> [N, C, H, W]; elements of windows that overlap are added."""
    x, added = batched(g, self, 1)
    pads = per_axis(padding, 2)
    result = g.call(
        "nn.fold", x, image_shape=per_axis(output_size, 2), block_shape=per_axis(kernel_size, 2), strides=per_axis(stride, 2),
        padding=(*pads, *pads), dilation=per_axis(dilation, 2),
    )
    return unbatched(g, result, added)
