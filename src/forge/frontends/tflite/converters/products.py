"""Convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.compose.windows import same_padding, transposed_padding
from forge.dims import Dim
from forge.frontends.tflite import quantized
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.converters.activations import activated
from forge.frontends.tflite.registry import converts
from forge.ir.nodes import Value

_SPATIAL = {1: "HW", 2: "HW", 3: "DHW"}


def padding_of(
    x: Value, kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int], padding: str
) -> tuple[Dim, ...]:
    """Padding before all spatial axes, then after them."""
    if padding == "VALID":
        return (0,) * (2 * len(kernel))
    return same_padding(x.shape[1:-1], kernel, strides, dilations)


def checked(g: Context, **numbers: Sequence[int]) -> None:
    """Strides and the like must be positive."""
    for name, given in numbers.items():
        if min(given) < 1:
            raise g.invalid(f"{name}: got {tuple(given)}; expected positive numbers")


def _convolved(
    g: Context, x: Value, weight: Value, bias: Value | None, kernel_layout: str, groups: int, padding: str,
    strides: Sequence[int], dilations: Sequence[int], activation: str,
) -> Value:
    checked(g, strides=strides, dilations=dilations)
    spatial = len(strides)
    if x.rank != spatial + 2 or weight.rank != spatial + 2:
        raise g.invalid(f"got {x.type} and {weight.type}; expected tensors of rank {spatial + 2}")
    letters = _SPATIAL[spatial]
    kernel = [weight.shape[kernel_layout.index(letter)] for letter in letters]
    found = g.call(
        f"nn.conv{spatial}d", x, weight, strides=tuple(strides), dilation=tuple(dilations), groups=groups,
        padding=padding_of(x, kernel, strides, dilations, padding), data_layout=f"N{letters}C", kernel_layout=kernel_layout,
        **_known_sizes(weight, kernel_layout, kernel))
    return activated(g, _biased(g, found, bias, 2), activation)


def _known_sizes(weight: Value, layout: str, kernel: Sequence[Dim]) -> dict[str, object]:
    channels = weight.shape[layout.index("O")]
    known: dict[str, object] = {"channels": channels} if isinstance(channels, int) else {}
    return {**known, "kernel_size": tuple(kernel)} if dims.is_static(*kernel) else known


def _biased(g: Context, x: Value, bias: Value | None, position: int, *factors: int) -> Value:
    factors = factors or (0, 1)
    rounded = quantized.real_product if g.operator.name == "FULLY_CONNECTED" else quantized.fixed_point
    rounded(g, *factors)
    numbers = quantized.bias(g, position, bias, *factors)
    return x if numbers is None else g.call("add", x, numbers)


@converts("CONV_2D")
def conv_2d(
    g: Context, x: Value, weight: Value, bias: Value | None = None, *, padding: str = "SAME", stride_w: int = 0,
    stride_h: int = 0, fused_activation_function: str = "NONE", dilation_w_factor: int = 1, dilation_h_factor: int = 1,
) -> Value:
    return _convolved(
        g, x, weight, bias, "OHWI", _groups(g, _channels(g, x), _channels(g, weight)), padding, (stride_h, stride_w),
        (dilation_h_factor, dilation_w_factor), fused_activation_function)


def _channels(g: Context, x: Value) -> Dim:
    """The size of the last axis."""
    if not x.rank:
        raise g.invalid(f"got {x.type}; expected a tensor with channels")
    found: Dim = x.shape[-1]
    return found


def _groups(g: Context, channels: Dim, of_group: Dim) -> int:
    """How many groups of channels there are, of which a kernel reads one."""
    if not isinstance(channels, int) or not isinstance(of_group, int):
        return 1
    if of_group < 1 or channels % of_group:
        raise g.invalid(f"got {channels} channels for a kernel of {of_group}; expected a multiple")
    return channels // of_group


@converts("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(
    g: Context, x: Value, weight: Value, bias: Value | None = None, *, padding: str = "SAME", stride_w: int = 0,
    stride_h: int = 0, depth_multiplier: int = 0, fused_activation_function: str = "NONE", dilation_w_factor: int = 1,
    dilation_h_factor: int = 1,
) -> Value:
    channels = _channels(g, x)
    if not isinstance(channels, int):
        raise g.unsupported(f"got {x.type}; expected a known number of channels")
    return _convolved(
        g, x, weight, bias, "IHWO", channels, padding, (stride_h, stride_w), (dilation_h_factor, dilation_w_factor),
        fused_activation_function)


@converts("CONV_3D")
def conv_3d(
    g: Context, x: Value, weight: Value, bias: Value | None = None, *, padding: str = "SAME", stride_d: int = 0,
    stride_w: int = 0, stride_h: int = 0, fused_activation_function: str = "NONE", dilation_d_factor: int = 1,
    dilation_w_factor: int = 1, dilation_h_factor: int = 1,
) -> Value:
    return _convolved(
        g, x, weight, bias, "DHWIO", 1, padding, (stride_d, stride_h, stride_w),
        (dilation_d_factor, dilation_h_factor, dilation_w_factor), fused_activation_function)


@converts("TRANSPOSE_CONV")
def transpose_conv(
    g: Context, output_shape: Value, weight: Value, x: Value, bias: Value | None = None, *, padding: str = "SAME",
    stride_w: int = 0, stride_h: int = 0, fused_activation_function: str = "NONE",
) -> Value:
    found = _transposed(g, output_shape, weight, x, "OHWI", padding, (stride_h, stride_w), (1, 1))
    return activated(g, _biased(g, found, bias, 3, 2, 1), fused_activation_function)


@converts("CONV_3D_TRANSPOSE")
def conv_3d_transpose(
    g: Context, output_shape: Value, weight: Value, x: Value, bias: Value | None = None, *, padding: str = "SAME",
    stride_d: int = 0, stride_w: int = 0, stride_h: int = 0, fused_activation_function: str = "NONE", dilation_d_factor: int = 1,
    dilation_w_factor: int = 1, dilation_h_factor: int = 1,
) -> Value:
    dilations = (dilation_d_factor, dilation_h_factor, dilation_w_factor)
    found = _transposed(g, output_shape, weight, x, "DHWOI", padding, (stride_d, stride_h, stride_w), dilations)
    return activated(g, _biased(g, found, bias, 3, 2, 1), fused_activation_function)


def _transposed(
    g: Context, output_shape: Value, weight: Value, x: Value, kernel_layout: str, padding: str, strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    checked(g, strides=strides, dilations=dilations)
    wanted = g.dims(output_shape)
    if wanted is None or len(wanted) != x.rank or x.rank != len(strides) + 2:
        raise g.unsupported(f"the output shape is {'computed at run time' if wanted is None else wanted} for {x.type}; expected "
                            "sizes that are known")
    letters = _SPATIAL[len(strides)]
    kernel = [weight.shape[kernel_layout.index(letter)] for letter in letters]
    extra = [0] * len(kernel)
    pads, added = transposed_padding(x.shape[1:-1], kernel, strides, dilations, extra, wanted[1:-1], True)
    del padding  # the output's sizes say what it is
    return g.call(
        f"nn.conv{len(strides)}d_transpose", x, weight, strides=tuple(strides), padding=pads, output_padding=added,
        dilation=tuple(dilations), data_layout=f"N{letters}C", kernel_layout=kernel_layout,
        **_known_sizes(weight, kernel_layout, kernel))


@converts("FULLY_CONNECTED")
def fully_connected(
    g: Context, x: Value, weight: Value, bias: Value | None = None, *, fused_activation_function: str = "NONE",
    weights_format: str = "DEFAULT", keep_num_dims: bool = False,
) -> Value:
    if weights_format != "DEFAULT":
        raise g.unsupported(f"weights_format: got {weights_format}; expected DEFAULT; convert the model again")
    if weight.rank != 2:
        raise g.invalid(f"weight: got {weight.type}; expected a matrix")
    rows = x if keep_num_dims or x.rank == 2 and dims.equal(x.shape[-1], weight.shape[1]) else g.call(
        "reshape", x, newshape=(-1, weight.shape[1]))
    return activated(g, _biased(g, g.call("nn.dense", rows, weight), bias, 2), fused_activation_function)


@converts("BATCH_MATMUL")
def batch_matmul(g: Context, x: Value, y: Value, *, adj_x: bool = False, adj_y: bool = False) -> Value:
    quantized.fixed_point(g, 0, 1)
    return g.call("nn.matmul", x, y, transpose_a=adj_x, transpose_b=adj_y)
