"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dims
from forge.compose import pooling
from forge.compose.windows import same_padding
from forge.dims import Dim
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.functions import arguments
from forge.nn.functions.arguments import integer, integers
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context

Sizes = int | Sequence[int] | None
OutputSizes = int | Dim | None | Sequence[int | Dim | None]
Padding = int | Sequence[int] | str | None


def _each(given: Any, rank: int, what: str, default: int = 1) -> tuple[int, ...]:
    """A number for each of ``rank`` axes, not below ``default``."""
    return integers(default if given is None else given, what, rank, default)


def _padding(given: Padding, value: Value, kernel: Sequence[Dim], strides: Sequence[int], steps: Sequence[int], what: str) -> Any:
    """Numbers of zeros before all axes, then after them."""
    rank = len(kernel)
    if isinstance(given, str):
        if given.lower() not in ("same", "valid"):
            raise OptionError(f"{what}: padding: got {given!r}; expected numbers, 'same' or 'valid'")
        return (0,) * rank if given.lower() == "valid" else same_padding(value.shape[2:], kernel, strides, steps)
    if isinstance(given, list | tuple) and len(given) == 2 * rank:
        return _each(given, 2 * rank, f"{what}: padding", 0)
    return _each(given, rank, f"{what}: padding", 0)


def _channels_first(g: Context, value: Value, layout: str, plain: str) -> Value:
    """``(n, c, ...)`` of data in ``layout``."""
    last = f"N{plain[2:]}C"
    if layout not in (plain, last):
        raise OptionError(f"{g.name}: data_layout: got {layout!r}; expected {plain!r} or {last!r}")
    if layout == plain:
        return value
    return g.call("transpose", value, axes=(0, value.rank - 1, *range(1, value.rank - 1)))


def _back(g: Context, value: Value, layout: str, plain: str) -> Value:
    return value if layout == plain else g.call("transpose", value, axes=(0, *range(2, value.rank), 1))


def _checked(g: Context, x: Value, weight: Value, rank: int, given: int | None, transposed: bool = False) -> int:
    """The number of groups, which fits."""
    groups = 1 if given is None else integer(given, f"{g.name}: groups", 1)
    if x.rank != rank + 2 or weight.rank != rank + 2:
        raise OptionError(f"{g.name}: got {x.type} and weight {weight.type}; expected {rank + 2} axes each")
    wanted = weight.shape[0] if transposed else weight.shape[1] * groups
    if dims.different(x.shape[1], wanted):
        raise OptionError(f"{g.name}: got {x.shape[1]} channels; expected {wanted}, which the weight {weight.type} has")
    outputs = weight.shape[0]
    if isinstance(outputs, int) and outputs % groups:
        raise OptionError(f"{g.name}: groups: got {groups}; expected a number that divides the channels {outputs}")
    return groups


def _conv(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Padding, dilation: Sizes, groups: int | None,
    layout: str, plain: str, name: str,
) -> Tensor:  # fmt: skip
    g = Context(name)
    rank = len(plain) - 2
    data, kernel = g.alike(x, weight)
    data = _channels_first(g, data, layout, plain)
    parts = _checked(g, data, kernel, rank, groups)
    strides, steps = _each(stride, rank, f"{name}: stride"), _each(dilation, rank, f"{name}: dilation")
    pads = _padding(padding, data, kernel.shape[2:], strides, steps, name)
    result = g.call(
        f"nn.conv{rank}d", data, kernel, strides=strides, padding=pads, dilation=steps, groups=parts,
        kernel_size=kernel.shape[2:])  # fmt: skip
    return _biased(g, result, bias, layout, plain)


def _biased(g: Context, result: Value, bias: Tensor | None, layout: str, plain: str) -> Tensor:
    if bias is not None:
        given = g.value(bias)
        result = g.call("nn.bias_add", result, g.reshape(given, (given.size,)))
    return g.tensor(_back(g, result, layout, plain))


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    name: str = "conv1d",
) -> Tensor:
    """The convolution along one axis: ``out[n, o, w] = sum(x[n, c, stride * w + dilation * k] * weight[o, c, k])``.

    Args:
        x: ``(n, in_channels, w)``.
        weight: ``(out_channels, in_channels / groups, kernel)``.
        bias: ``(out_channels,)``.
        padding: zeros at both ends, or before and after; "valid": none; "same": so many that the size is that of ``x`` over
            ``stride``, rounded up.
        dilation: distance of the elements of the kernel.
        groups: parts of the channels that do not see each other.

    Returns:
        ``(n, out_channels, w')``.

    Raises:
        OptionError: sizes do not fit.

    >>> nn.conv1d([[[1.0, 2.0, 3.0, 4.0]]], [[[1.0, 1.0]]], stride=2).numpy().tolist()
    [[[3.0, 7.0]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, "NCW", "NCW", name)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    data_layout: str | None = "NCHW",
    name: str = "conv2d",
) -> Tensor:
    """The convolution along two axes, as `conv1d`.

    Args:
        x: ``(n, in_channels, h, w)``, or ``(n, h, w, in_channels)`` if ``data_layout`` is "NHWC"; so is the result.
        weight: ``(out_channels, in_channels / groups, kernel_h, kernel_w)``.
        bias: ``(out_channels,)``, or of any shape with as many elements.
        stride, padding, dilation: a number, or one for each axis; ``padding`` also as of `conv1d`.

    >>> nn.conv2d(nn.ones((1, 1, 2, 2)), nn.ones((1, 1, 3, 3)), padding='same').numpy().tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_layout or "NCHW", "NCHW", name)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    data_layout: str | None = "NCDHW",
    name: str = "conv3d",
) -> Tensor:
    """The convolution along three axes, as `conv2d`, of ``(n, in_channels, d, h, w)`` or, for "NDHWC", channels last.

    >>> nn.conv3d(nn.ones((1, 2, 2, 2, 2)), nn.ones((1, 2, 2, 2, 2))).numpy().tolist()
    [[[[[16.0]]]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_layout or "NCDHW", "NCDHW", name)


def _conv_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, output_padding: Sizes, dilation: Sizes,
    groups: int | None, plain: str, name: str,
) -> Tensor:  # fmt: skip
    g = Context(name)
    rank = len(plain) - 2
    data, kernel = g.alike(x, weight)
    parts = _checked(g, data, kernel, rank, groups, transposed=True)
    options = {
        "strides": _each(stride, rank, f"{name}: stride"), "padding": _each(padding, rank, f"{name}: padding", 0),
        "output_padding": _each(output_padding, rank, f"{name}: output_padding", 0),
        "dilation": _each(dilation, rank, f"{name}: dilation"),
    }  # fmt: skip
    result = g.call(f"nn.conv{rank}d_transpose", data, kernel, kernel_size=kernel.shape[2:], groups=parts, **options)
    return _biased(g, result, bias, plain, plain)


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    name: str = "conv1d_transpose",
) -> Tensor:
    """The transposed convolution along one axis: the gradient of `conv1d`.

    Args:
        x: ``(n, in_channels, w)``.
        weight: ``(in_channels, out_channels / groups, kernel)``.
        bias: ``(out_channels,)``.
        output_padding: elements more at the end, where several sizes have the same gradient.

    Returns:
        ``(n, out_channels, (w - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1)``.

    >>> nn.conv1d_transpose([[[1.0, 2.0]]], [[[1.0, 1.0, 1.0]]], stride=2).numpy().tolist()
    [[[1.0, 1.0, 3.0, 2.0, 2.0]]]
    """
    return _conv_transpose(x, weight, bias, stride, padding, output_padding, dilation, groups, "NCW", name)


def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    name: str = "conv2d_transpose",
) -> Tensor:
    """The transposed convolution along two axes, as `conv1d_transpose`.

    >>> nn.conv2d_transpose(nn.ones((1, 1, 1, 2)), nn.ones((1, 1, 1, 2))).numpy().tolist()
    [[[[1.0, 2.0, 1.0]]]]
    """
    return _conv_transpose(x, weight, bias, stride, padding, output_padding, dilation, groups, "NCHW", name)


def conv3d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int | None = 1,
    name: str = "conv3d_transpose",
) -> Tensor:
    """The transposed convolution along three axes, as `conv1d_transpose`.

    >>> nn.conv3d_transpose(nn.ones((1, 1, 2, 2, 2)), nn.ones((1, 4, 3, 3, 3))).shape
    (1, 4, 4, 4, 4)
    """
    return _conv_transpose(x, weight, bias, stride, padding, output_padding, dilation, groups, "NCDHW", name)


def _window(
    g: Context, value: Value, rank: int, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> dict[str, Any]:
    if value.rank != rank + 2:
        raise OptionError(f"{g.name}: got {value.type}; expected {rank + 2} axes")
    sizes, steps = _each(kernel_size, rank, f"{g.name}: kernel_size"), _each(dilation, rank, f"{g.name}: dilation")
    pads = _each(padding, rank, f"{g.name}: padding", 0)
    if any(2 * pad > step * (size - 1) + 1 for pad, size, step in zip(pads, sizes, steps)):
        raise OptionError(f"{g.name}: padding: got {padding}; expected at most half of the window of {kernel_size}")
    strides = sizes if stride is None else _each(stride, rank, f"{g.name}: stride")
    return {"pool_size": sizes, "strides": strides, "padding": pads, "dilation": steps, "ceil_mode": ceil_mode}


def _max_pool(rank: int, x: Tensor, name: str, *window: Any) -> Tensor:
    g = Context(name)
    value = g.value(x)
    return g.tensor(g.call(f"nn.max_pool{rank}d", value, **_window(g, value, rank, *window)))


def _avg_pool(rank: int, x: Tensor, name: str, counts: bool, *window: Any) -> Tensor:
    g = Context(name)
    value = g.value(x)
    return g.tensor(g.call(f"nn.avg_pool{rank}d", value, **_window(g, value, rank, *window), count_include_pad=counts))


def max_pool1d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    name: str = "max_pool1d",
) -> Tensor:
    """The largest elements of windows of ``(n, c, w)``.

    Args:
        stride: by default ``kernel_size``.
        padding: at both ends, of what never is the largest.
        ceil_mode: a last window that is only partly inside counts, too.

    >>> nn.max_pool1d([[[1.0, 3.0, 2.0, 5.0]]], 2).numpy().tolist()
    [[[3.0, 5.0]]]
    """
    return _max_pool(1, x, name, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    name: str = "max_pool2d",
) -> Tensor:
    """As `max_pool1d`, of ``(n, c, h, w)``.

    >>> nn.max_pool2d([[[[1.0, 3.0], [2.0, 5.0]]]], 2).numpy().tolist()
    [[[[5.0]]]]
    """
    return _max_pool(2, x, name, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    name: str = "max_pool3d",
) -> Tensor:
    """As `max_pool1d`, of ``(n, c, d, h, w)``.

    >>> nn.max_pool3d(nn.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _max_pool(3, x, name, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    name: str = "avg_pool1d",
) -> Tensor:
    """Means of windows of ``(n, c, w)``.

    Args:
        stride: by default ``kernel_size``.
        padding: zeros at both ends.
        ceil_mode: a last window that is only partly inside counts, too.
        count_include_pad: zeros of the padding count.

    >>> nn.avg_pool1d([[[1.0, 3.0, 2.0, 5.0]]], 2).numpy().tolist()
    [[[2.0, 3.5]]]
    """
    return _avg_pool(1, x, name, count_include_pad, kernel_size, stride, padding, 1, ceil_mode)


def avg_pool2d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    name: str = "avg_pool2d",
) -> Tensor:
    """As `avg_pool1d`, of ``(n, c, h, w)``.

    >>> nn.avg_pool2d([[[[1.0, 3.0], [2.0, 6.0]]]], 2).numpy().tolist()
    [[[[3.0]]]]
    """
    return _avg_pool(2, x, name, count_include_pad, kernel_size, stride, padding, 1, ceil_mode)


def avg_pool3d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    name: str = "avg_pool3d",
) -> Tensor:
    """As `avg_pool1d`, of ``(n, c, d, h, w)``.

    >>> nn.avg_pool3d(nn.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _avg_pool(3, x, name, count_include_pad, kernel_size, stride, padding, 1, ceil_mode)


def _adaptive(kind: str, x: Tensor, output_size: Any, rank: int, name: str) -> Tensor:
    g = Context(name)
    value = g.value(x)
    if value.rank != rank + 2:
        raise OptionError(f"{name}: got {value.type}; expected {rank + 2} axes")
    given = output_size if isinstance(output_size, list | tuple) else [output_size] * rank
    kept = [own if k is None else k for own, k in zip(value.shape[2:], given)] if len(given) == rank else output_size
    sizes = arguments.sizes(kept, f"{name}: output_size", rank, 1)
    if all(size == 1 for size in sizes):
        return g.tensor(pooling.global_pool(g, value, kind))
    return g.tensor(g.call(f"nn.adaptive_{kind}_pool{rank}d", value, output_size=sizes))


def adaptive_avg_pool1d(x: Tensor, output_size: OutputSizes, name: str = "adaptive_avg_pool1d") -> Tensor:
    """Means of windows that divide ``(n, c, w)`` into ``output_size`` parts; None keeps a size.

    >>> nn.adaptive_avg_pool1d([[[1.0, 3.0, 2.0, 6.0]]], 2).numpy().tolist()
    [[[2.0, 4.0]]]
    """
    return _adaptive("avg", x, output_size, 1, name)


def adaptive_avg_pool2d(x: Tensor, output_size: OutputSizes, name: str = "adaptive_avg_pool2d") -> Tensor:
    """As `adaptive_avg_pool1d`, of ``(n, c, h, w)``.

    >>> nn.adaptive_avg_pool2d([[[[1.0, 3.0], [2.0, 6.0]]]], 1).numpy().tolist()
    [[[[3.0]]]]
    """
    return _adaptive("avg", x, output_size, 2, name)


def adaptive_max_pool1d(x: Tensor, output_size: OutputSizes, name: str = "adaptive_max_pool1d") -> Tensor:
    """The largest elements of windows that divide ``(n, c, w)`` into ``output_size`` parts; None keeps a size.

    >>> nn.adaptive_max_pool1d([[[1.0, 3.0, 2.0, 6.0]]], 2).numpy().tolist()
    [[[3.0, 6.0]]]
    """
    return _adaptive("max", x, output_size, 1, name)


def adaptive_max_pool2d(x: Tensor, output_size: OutputSizes, name: str = "adaptive_max_pool2d") -> Tensor:
    """As `adaptive_max_pool1d`, of ``(n, c, h, w)``.

    >>> nn.adaptive_max_pool2d([[[[1.0, 3.0], [2.0, 6.0]]]], (1, None)).numpy().tolist()
    [[[[2.0, 6.0]]]]
    """
    return _adaptive("max", x, output_size, 2, name)
