"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forge import dims
from forge.compose.windows import same_padding, transposed_padding
from forge.dims import Dim
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.activations import activated
from forge.frontends.keras.registry import converts
from forge.ir.nodes import Value

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def per_axis(g: Context, given: Any, rank: int, what: str) -> tuple[int, ...]:
    """One number for each spatial axis."""
    given = 1 if given is None else given
    found = tuple(given) if isinstance(given, tuple | list) else (given,) * rank
    if len(found) != rank or any(type(n) is not int or n < 1 for n in found):
        raise g.invalid(f"{what}: got {given!r}; expected {rank} positive numbers")
    return found


def is_first(g: Context, data_format: Any) -> bool:
    """Whether channels come before the spatial axes."""
    if data_format not in (None, "channels_last", "channels_first"):
        raise g.invalid(f"data_format: got {data_format!r}; expected channels_last or channels_first")
    return bool(data_format == "channels_first")


def layout_of(rank: int, first: bool) -> str:
    return f"NC{SPATIAL[rank]}" if first else f"N{SPATIAL[rank]}C"


def spatial_of(x: Value, first: bool) -> tuple[Dim, ...]:
    return x.shape[2:] if first else x.shape[1:-1]


def padded(
    g: Context, padding: Any, x: Value, first: bool, kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Dim, ...]:
    """Padding before all spatial axes, then after them."""
    if padding == "same":
        return same_padding(spatial_of(x, first), kernel, strides, dilations)
    if padding == "causal":
        return (*((k - 1) * d for k, d in zip(kernel, dilations)), *(0 for _ in kernel))
    if padding != "valid":
        raise g.invalid(f"padding: got {padding!r}; expected valid, same or causal")
    return (0,) * (2 * len(kernel))


def biased(g: Context, x: Value, bias: Value, first: bool) -> Value:
    """A number for each channel is added."""
    if first:
        bias = g.reshape(bias, (bias.shape[0], *(1 for _ in range(x.rank - 2))))
    return g.call("add", x, bias)


def checked_rank(g: Context, x: Value, rank: int) -> None:
    if x.rank != rank + 2:
        raise g.invalid(f"got {x.type}; expected a tensor of rank {rank + 2}")


def convolved(
    g: Context, x: Value, kernel: Value, rank: int, data_format: Any, padding: Any, strides: Any, dilation: Any, groups: int,
    kernel_layout: str = "",
) -> Value:
    """The convolution with a kernel whose axes are spatial, input channels, output channels."""
    checked_rank(g, x, rank)
    first = is_first(g, data_format)
    steps, gaps = per_axis(g, strides, rank, "strides"), per_axis(g, dilation, rank, "dilation_rate")
    size = kernel.shape[:rank]
    return g.call(
        f"nn.conv{rank}d", x, kernel, strides=steps, dilation=gaps, groups=groups, kernel_size=tuple(size),
        padding=padded(g, padding, x, first, size, steps, gaps), data_layout=layout_of(rank, first),
        kernel_layout=kernel_layout or f"{SPATIAL[rank]}IO")


@dataclass(frozen=True)
class Common:
    """What all layers of convolutions have."""

    kernel_size: Any
    strides: Any = None
    padding: str = "valid"
    data_format: Any = None
    dilation_rate: Any = None
    activation: Any = None
    use_bias: bool = True
    rank: Any = None

    @property
    def window(self) -> tuple[Any, Any, Any, Any]:
        return self.data_format, self.padding, self.strides, self.dilation_rate

    def finished(self, g: Context, x: Value) -> Value:
        """The result of a convolution with the bias and the activation function."""
        found = biased(g, x, g.weight("bias"), is_first(g, self.data_format)) if self.use_bias else x
        return activated(g, found, self.activation)


def _conv(of_rank: int) -> Any:
    def convert(g: Context, x: Value, *, common: Common, filters: int, groups: int = 1) -> Value:
        return common.finished(g, convolved(g, x, g.weight("kernel"), of_rank, *common.window, groups))

    return convert


for _rank in SPATIAL:
    converts(f"Conv{_rank}D", f"Convolution{_rank}D")(_conv(_rank))


def depthwise(
    g: Context, x: Value, kernel: Value, rank: int, data_format: Any, padding: Any, strides: Any, dilation: Any
) -> Value:
    """Each channel with kernels of its own, [spatial, channels, multiplier]."""
    channels, multiplier = kernel.shape[-2], kernel.shape[-1]
    own = g.reshape(kernel, (*kernel.shape[:rank], 1, channels * multiplier))
    return convolved(g, x, own, rank, data_format, padding, strides, dilation, channels)


def _depthwise(of_rank: int) -> Any:
    def convert(
        g: Context, x: Value, *, common: Common, depth_multiplier: int = 1, filters: Any = None, groups: Any = None
    ) -> Value:
        return common.finished(g, depthwise(g, x, g.weight("kernel"), of_rank, *common.window))

    return convert


def _separable(of_rank: int) -> Any:
    def convert(
        g: Context, x: Value, *, common: Common, filters: int, depth_multiplier: int = 1, groups: Any = None
    ) -> Value:
        found = depthwise(g, x, g.weight("depthwise_kernel"), of_rank, *common.window)
        found = convolved(g, found, g.weight("pointwise_kernel"), of_rank, common.data_format, "valid", 1, 1, 1)
        return common.finished(g, found)

    return convert


for _rank in (1, 2):
    converts(f"DepthwiseConv{_rank}D")(_depthwise(_rank))
    converts(f"SeparableConv{_rank}D", f"SeparableConvolution{_rank}D")(_separable(_rank))


def transposed_size(size: Dim, kernel: Dim, stride: int, padding: str, extra: int | None, dilation: int) -> Dim:
    """The size of a transposed convolution's result along one axis, as Keras states it."""
    span = kernel + (kernel - 1) * (dilation - 1)
    if extra is None:
        return size * stride if padding == "same" else size * stride + dims.maximum(span - stride, 0)
    inner = (size - 1) * stride + span + extra
    if padding == "same":
        return inner - 2 * dims.floordiv(span, 2)
    return inner


def transposed(
    g: Context, x: Value, kernel: Value, rank: int, data_format: Any, padding: Any, strides: Any, dilation: Any, extra: Any
) -> Value:
    """The transposed convolution with a kernel whose axes are spatial, output channels, input channels."""
    checked_rank(g, x, rank)
    if padding not in ("same", "valid"):
        raise g.invalid(f"padding: got {padding!r}; expected valid or same")
    first = is_first(g, data_format)
    steps, gaps = per_axis(g, strides, rank, "strides"), per_axis(g, dilation, rank, "dilation_rate")
    added = extra if isinstance(extra, tuple) else (extra,) * rank
    size, spatial = kernel.shape[:rank], spatial_of(x, first)
    wanted = [transposed_size(s, k, t, padding, e, d) for s, k, t, e, d in zip(spatial, size, steps, added, gaps)]
    *pads, more = _transposed_pads(spatial, size, steps, gaps, padding, added, wanted)
    return g.call(
        f"nn.conv{rank}d_transpose", x, kernel, strides=steps, padding=(*pads[0], *pads[1]), output_padding=more, dilation=gaps,
        kernel_size=tuple(size), channels=kernel.shape[-2], data_layout=layout_of(rank, first),
        kernel_layout=f"{SPATIAL[rank]}OI")


def _transposed_pads(
    spatial: Sequence[Dim], kernel: Sequence[Dim], steps: Sequence[int], gaps: Sequence[int], padding: str,
    added: Sequence[int | None], wanted: Sequence[Dim],
) -> tuple[tuple[Dim, ...], tuple[Dim, ...], tuple[Dim, ...]]:
    if all(extra is None for extra in added):
        pads, more = transposed_padding(spatial, kernel, steps, gaps, [0] * len(kernel), wanted, True)
        half = len(pads) // 2
        return pads[:half], pads[half:], more
    spans = [k + (k - 1) * (d - 1) for k, d in zip(kernel, gaps)]
    around = tuple(dims.floordiv(span, 2) if padding == "same" else 0 for span in spans)
    return around, around, tuple(extra or 0 for extra in added)


def _conv_transpose(of_rank: int) -> Any:
    def convert(
        g: Context, x: Value, *, common: Common, filters: int, output_padding: Any = None, groups: Any = None
    ) -> Value:
        return common.finished(g, transposed(g, x, g.weight("kernel"), of_rank, *common.window, output_padding))

    return convert


for _rank in SPATIAL:
    converts(f"Conv{_rank}DTranspose", f"Convolution{_rank}DTranspose")(_conv_transpose(_rank))
