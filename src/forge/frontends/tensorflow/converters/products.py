"""Convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims, dtypes
from forge.compose.linalg import conjugate
from forge.compose.windows import transposed_padding
from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.converters.windows import Images, images, in_wanted_layout
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

_LETTERS = {1: "W", 2: "HW", 3: "DHW"}


def convolved(
    g: Context, x: Value, weight: Value, data_format: str, kernel_layout: str, strides: Sequence[int], padding: str,
    dilations: Sequence[int], explicit: Sequence[int] = (), *, is_depthwise: bool = False,
) -> Value:
    spatial = weight.rank - 2
    given = images(g, x, data_format, spatial)
    steps, gaps = given.of(g, strides, "strides"), given.of(g, dilations, "dilations")
    letters = _LETTERS[spatial]
    kernel = tuple(weight.shape[kernel_layout.index(letter)] for letter in letters)
    around = given.padding(g, x, kernel, steps, gaps, padding, explicit)
    channels = x.shape[given.channels]
    groups = _whole(g, channels) if is_depthwise else _groups(g, channels, weight.shape[kernel_layout.index("I")])

    def make(data: Value, how: Images) -> Value:
        return g.call(
            f"nn.conv{spatial}d", data, weight, strides=steps, dilation=gaps, groups=groups, padding=around,
            data_layout=how.layout, kernel_layout=kernel_layout, **known_sizes(weight, kernel_layout, kernel))

    return in_wanted_layout(g, x, given, make)


def known_sizes(weight: Value, layout: str, kernel: Sequence[Dim]) -> dict[str, object]:
    """Channels of the result and sizes of the kernel, where they are known."""
    channels = weight.shape[layout.index("O")]
    known: dict[str, object] = {"channels": channels} if isinstance(channels, int) else {}
    return {**known, "kernel_size": tuple(kernel)} if dims.is_static(*kernel) else known


def _whole(g: Context, channels: Dim) -> int:
    if not isinstance(channels, int):
        raise g.unsupported(f"got {channels} channels; expected a known number")
    return channels


def _groups(g: Context, channels: Dim, of_group: Dim) -> int:
    """How many groups of channels there are, of which a kernel reads one."""
    if not isinstance(channels, int) or not isinstance(of_group, int):
        return 1
    if of_group < 1 or channels % of_group:
        raise g.invalid(f"got {channels} channels for a kernel of {of_group}; expected a multiple")
    return channels // of_group


@converts("Conv2D")
def conv2d(
    g: Context, x: Value, weight: Value, *, strides: tuple[int, ...], padding: str, data_format: str = "NHWC",
    dilations: tuple[int, ...] = (1, 1, 1, 1), explicit_paddings: tuple[int, ...] = (),
) -> Value:
    return convolved(g, x, weight, data_format, "HWIO", strides, padding, dilations, explicit_paddings)


@converts("Conv3D")
def conv3d(
    g: Context, x: Value, weight: Value, *, strides: tuple[int, ...], padding: str, data_format: str = "NDHWC",
    dilations: tuple[int, ...] = (1, 1, 1, 1, 1),
) -> Value:
    return convolved(g, x, weight, data_format, "DHWIO", strides, padding, dilations)


@converts("Conv")
def conv(
    g: Context, x: Value, weight: Value, *, strides: tuple[int, ...], padding: str, data_format: str = "CHANNELS_LAST",
    explicit_paddings: tuple[int, ...] = (), dilations: tuple[int, ...] = (), batch_dims: int = 1, groups: int = 1,
) -> Value:
    spatial = weight.rank - 2
    if batch_dims != 1 or spatial not in (2, 3):
        raise g.unsupported(f"got {batch_dims} batch dimensions and {spatial} spatial ones; expected one, and two or three")
    is_last = data_format == "CHANNELS_LAST"
    whole = [1] + [1] * (spatial + 1)
    layout, kernel = ("NHWC" if is_last else "NCHW"), f"{_LETTERS[spatial]}IO"

    def all_axes(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(numbers or whole)

    return convolved(g, x, weight, layout, kernel, all_axes(strides), padding, all_axes(dilations), explicit_paddings)


@converts("DepthwiseConv2dNative")
def depthwise_conv2d(
    g: Context, x: Value, weight: Value, *, strides: tuple[int, ...], padding: str, data_format: str = "NHWC",
    dilations: tuple[int, ...] = (1, 1, 1, 1), explicit_paddings: tuple[int, ...] = (),
) -> Value:
    return depthwise(g, x, weight, data_format, strides, padding, dilations, explicit_paddings)


def depthwise(
    g: Context, x: Value, weight: Value, data_format: str, strides: Sequence[int], padding: str, dilations: Sequence[int],
    explicit: Sequence[int],
) -> Value:
    """Kernels are height, width, channels, and how many results a channel has."""
    height, width, channels, many = weight.shape
    order = g.reshape(weight, (height, width, 1, channels * many))
    return convolved(g, x, order, data_format, "HWIO", strides, padding, dilations, explicit, is_depthwise=True)


@converts("Conv2DBackpropInput")
def conv2d_backprop_input(
    g: Context, output_sizes: Value, weight: Value, y: Value, *, strides: tuple[int, ...], padding: str,
    data_format: str = "NHWC", dilations: tuple[int, ...] = (1, 1, 1, 1), explicit_paddings: tuple[int, ...] = (),
) -> Value:
    sizes = _wanted(g, output_sizes)
    return _transposed(g, sizes, weight, y, data_format, "HWOI", strides, padding, dilations, explicit_paddings)


@converts("Conv3DBackpropInputV2")
def conv3d_backprop_input(
    g: Context, output_sizes: Value, weight: Value, y: Value, *, strides: tuple[int, ...], padding: str,
    data_format: str = "NDHWC", dilations: tuple[int, ...] = (1, 1, 1, 1, 1),
) -> Value:
    return _transposed(g, _wanted(g, output_sizes), weight, y, data_format, "DHWOI", strides, padding, dilations, ())


def _wanted(g: Context, sizes: Value) -> tuple[Dim, ...]:
    wanted = g.dims(sizes)
    if wanted is None:
        raise g.unsupported("the sizes of the result are computed at run time; expected known ones")
    return wanted


def _transposed(
    g: Context, wanted: Sequence[Dim], weight: Value, y: Value, data_format: str, kernel_layout: str, strides: Sequence[int],
    padding: str, dilations: Sequence[int], explicit: Sequence[int],
) -> Value:
    spatial = weight.rank - 2
    given = images(g, y, data_format, spatial)
    sizes = wanted if len(wanted) == spatial else tuple(wanted[axis] for axis in given.axes)
    steps, gaps = given.of(g, strides, "strides"), given.of(g, dilations, "dilations")
    letters = _LETTERS[spatial]
    kernel = [weight.shape[kernel_layout.index(letter)] for letter in letters]
    pads, added = transposed_padding(given.sizes(y), kernel, steps, gaps, [0] * spatial, sizes, True)
    if padding == "EXPLICIT":
        before, after = ([explicit[2 * axis + side] for axis in given.axes] for side in (0, 1))
        pads = (*before, *after)
        added = tuple(
            size - ((n - 1) * step + gap * (k - 1) + 1 - low - high)
            for size, n, step, gap, k, low, high in zip(sizes, given.sizes(y), steps, gaps, kernel, before, after))

    def make(data: Value, how: Images) -> Value:
        return g.call(
            f"nn.conv{spatial}d_transpose", data, weight, strides=steps, padding=pads, output_padding=added, dilation=gaps,
            data_layout=how.layout, kernel_layout=kernel_layout, **known_sizes(weight, kernel_layout, kernel))

    return in_wanted_layout(g, y, given, make)


@converts("MatMul")
def matmul(g: Context, a: Value, b: Value, *, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    if a.rank != 2 or b.rank != 2:
        raise g.invalid(f"got {a.type} and {b.type}; expected matrices")
    if g.scope.state.config.get("use_dense", True) and not transpose_a and g.array(b) is not None and dtypes.is_float(a.dtype):
        return g.call("nn.dense", a, b if transpose_b else g.call("transpose", b, axes=(1, 0)))
    return g.call("nn.matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)


@converts("BatchMatMul", "BatchMatMulV2")
def batch_matmul(
    g: Context, x: Value, y: Value, *, adj_x: bool = False, adj_y: bool = False, grad_x: bool = False, grad_y: bool = False
) -> Value:
    """``grad_x`` and ``grad_y`` say which operand is a gradient."""
    return _batched(g, x, y, adj_x, adj_y)


@converts("BatchMatMulV3")
def batch_matmul_v3(
    g: Context, x: Value, y: Value, *, Tout: str, adj_x: bool = False, adj_y: bool = False,  # noqa: N803
    grad_x: bool = False, grad_y: bool = False,
) -> Value:
    return _batched(g, g.cast(x, Tout), g.cast(y, Tout), adj_x, adj_y)


def _batched(g: Context, x: Value, y: Value, adj_x: bool, adj_y: bool) -> Value:
    x, y = conjugate(g, x) if adj_x else x, conjugate(g, y) if adj_y else y
    if not adj_y and g.scope.state.config.get("use_nt_batch_matmul") and y.rank >= 2:
        y, adj_y = g.moved(y, (*range(y.rank - 2), y.rank - 1, y.rank - 2)), True
    return g.call("nn.matmul", x, y, transpose_a=adj_x, transpose_b=adj_y)


@converts("Einsum")
def einsum(g: Context, *inputs: Value, equation: str) -> Value:
    return g.call("einsum", *inputs, equation=equation)


@converts("BiasAdd", "BiasAddV1")
def bias_add(g: Context, x: Value, bias: Value, *, data_format: str = "NHWC") -> Value:
    if not data_format.startswith("NC") or x.rank == 2:
        return g.call("add", x, bias)
    return g.call("add", x, g.reshape(bias, (bias.shape[0], *(1,) * (x.rank - 2))))
