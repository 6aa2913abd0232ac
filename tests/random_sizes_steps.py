"""What random networks with symbolic sizes are made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import numpy_helper

from tests import random_onnx_steps as steps
from tests.random_sizes import SizedNetwork, Step, Unfit

MOST = 8.0
"""Values of a larger magnitude are not read by what would make them larger still."""


def features(net: SizedNetwork, *ranks: int) -> str:
    """A recent value ``(batch, channels, ...)`` with known channels."""
    name = net.value(lambda a: a.dtype == np.float32 and a.ndim in (ranks or (3, 4, 5)) and bool((np.abs(a) <= MOST).all()))
    if not net.is_fixed(name, 1):
        raise Unfit
    return name


def weight(net: SizedNetwork, shape: tuple[int, ...], terms: int) -> str:
    """Random numbers that keep the scale of what they are summed with."""
    return net.constant((net.rng.standard_normal(shape) / math.sqrt(max(1, terms))).astype(np.float32))


def check_windows(net: SizedNetwork, x: str, kernel: list[int], pads: list[int]) -> None:
    """Onnxruntime rounds the number of windows towards 0, and gives one where none fits.

    Raises:
        Unfit: at some sizes, the padded value is smaller than a window.
    """
    spatial = len(kernel)
    if any(net.least(x, 2 + k) + pads[k] + pads[k + spatial] < kernel[k] for k in range(spatial)):
        raise Unfit


def activation(net: SizedNetwork, x: str) -> None:
    kind = net.pick("", "Relu", "Sigmoid", "HardSwish", "LeakyRelu", "PRelu", "Swish", "Clip")
    if kind == "PRelu":
        net.node(kind, x, weight(net, (net.arrays[x].shape[1], *(1 for _ in net.arrays[x].shape[2:])), 4))
    elif kind == "Swish":
        net.node("Mul", x, *net.node("Sigmoid", x))
    elif kind == "Clip":
        net.node(kind, x, net.constant(0, "float32"), net.constant(6, "float32"))
    elif kind and (kind != "HardSwish" or net.opset >= 14):
        net.node(kind, x)


def convolution(net: SizedNetwork) -> None:
    """With padding that keeps sizes, or other padding; dense, grouped or of each channel alone."""
    x = features(net)
    spatial = net.arrays[x].ndim - 2
    channels = net.arrays[x].shape[1]
    groups = net.pick(1, 1, 1, channels, *(g for g in (2, 4) if channels % g == 0))
    out = channels if groups == channels else groups * -(-net.pick(3, 8, 16, 17, 24, 32) // groups)
    kernel = [net.pick(1, 3, 3, 3, 5, 7) if spatial < 3 else net.pick(1, 3) for _ in range(spatial)]
    kernel = kernel if net.rng.random() < 0.3 else [kernel[0]] * spatial
    stride, dilation = net.pick(1, 1, 2, 3), net.pick(1, 1, 1, 2)
    around = [dilation * (k - 1) // 2 for k in kernel]
    same, after = {"pads": around * 2}, {"pads": [0] * spatial + around}
    padding: dict[str, Any] = net.pick(same, same, same, after, {}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"})
    dilations = [1 if "auto_pad" in padding else dilation] * spatial
    if "auto_pad" not in padding:
        check_windows(net, x, [dilation * (k - 1) + 1 for k in kernel], padding.get("pads", [0] * (2 * spatial)))
    w = weight(net, (out, channels // groups, *kernel), channels // groups * math.prod(kernel))
    bias = [weight(net, (out,), 4)] if net.rng.random() < 0.6 else []
    (y,) = net.node("Conv", x, w, *bias, strides=[stride] * spatial, dilations=dilations, group=groups, **padding)
    activation(net, y)


def transposed(net: SizedNetwork) -> None:
    x = features(net)
    spatial = net.arrays[x].ndim - 2
    channels = net.arrays[x].shape[1]
    kernel, stride = net.pick((2, 2), (4, 2), (3, 2), (3, 1), (5, 3), (1, 2), (9, 4) if spatial == 1 else (2, 2))
    groups = net.pick(1, 1, 1, channels, 2 if channels % 2 == 0 else 1)
    out = net.pick(1, 2) if groups > 1 else net.pick(1, 3, 8, 16, 17)
    padding = net.pick(0, max(0, (kernel - stride) // 2), kernel // 2)
    dilation = net.pick(1, 1, 1, 2)
    w = weight(net, (channels, out, *[kernel] * spatial), channels // groups * max(1, kernel // stride) ** spatial)
    bias = [weight(net, (out * groups,), 4)] if net.rng.random() < 0.6 else []
    more = net.pick(None, [min(stride, 2) - 1] * spatial)
    strides = [stride] * (spatial - 1) + [net.pick(stride, stride, 1 if more is None else stride)]
    (y,) = net.node("ConvTranspose", x, w, *bias, strides=strides, pads=[padding] * (2 * spatial), group=groups,
                    dilations=[dilation] * spatial, output_padding=more)
    activation(net, y)


def byte_convolution(net: SizedNetwork) -> None:
    """Of bytes by bytes, quantized before and after, with scales that are powers of two, so that every sum is exact."""
    x = features(net)
    spatial, channels = net.arrays[x].ndim - 2, net.arrays[x].shape[1]
    groups = net.pick(1, 1, 1, channels)
    out = channels if groups > 1 else net.pick(1, 3, 8, 16, 17, 33)
    kernel, stride = net.pick(1, 3, 3, 5 if spatial < 3 else 3), net.pick(1, 1, 2)
    pads = net.pick([kernel // 2] * (2 * spatial), [0] * (2 * spatial))
    check_windows(net, x, [kernel] * spatial, pads)
    dtype = net.pick("uint8", "int8")
    (real,) = rounded(net, x, 1 / 16, 128 if dtype == "uint8" else net.pick(0, -3), dtype)
    codes = net.rng.integers(-127, 128, (out, channels // groups, *[kernel] * spatial)).astype(np.int8)
    scale = net.constant(2.0 ** np.round(np.log2(1 / (64 * math.sqrt(codes[0].size)))), "float32")
    (w,) = net.node("DequantizeLinear", net.constant(codes), scale, net.constant(0, "int8"))
    bias = [net.constant(net.rng.integers(-9, 9, out) / 16, "float32")] if net.rng.random() < 0.6 else []
    (y,) = net.node("Conv", real, w, *bias, strides=[stride] * spatial, pads=pads, group=groups)
    (y,) = net.node("Relu", y) if net.rng.random() < 0.5 else [y]
    rounded(net, y, 1 / 16, net.pick(0, 5, 128), "uint8")


def rounded(net: SizedNetwork, x: str, scale: float, zero: int, dtype: str) -> list[str]:
    """To bytes and back."""
    numbers = net.constant(scale, "float32"), net.constant(zero, dtype)
    return net.node("DequantizeLinear", *net.node("QuantizeLinear", x, *numbers), *numbers)


def pooling(net: SizedNetwork) -> None:
    x = features(net)
    spatial = net.arrays[x].ndim - 2
    op = net.pick("MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
    options: dict[str, Any] = {}
    if "Global" not in op:
        kernel, stride = net.pick((2, 2), (3, 2), (3, 1), (5, 1), (2, 1), (3, 3))
        pads = net.pick([0] * (2 * spatial), [kernel // 2] * (2 * spatial), [0] * spatial + [kernel // 2] * spatial)
        check_windows(net, x, [kernel] * spatial, pads)
        options = {"kernel_shape": [kernel] * spatial, "strides": [stride] * spatial, "pads": pads}
        options["ceil_mode"] = net.pick(0, 0, 1)
        if op == "AveragePool":
            options["count_include_pad"] = net.pick(0, 1)
    net.node(op, x, **options)


def resize(net: SizedNetwork) -> None:
    """By powers of two, where onnxruntime's single precision is exact; the nearest to the sizes of another value."""
    x = features(net)
    like = net.value(lambda a: a.ndim == net.arrays[x].ndim and a.shape[:2] == net.arrays[x].shape[:2])
    if like != x and net.rng.random() < 0.5:
        net.node("Resize", x, "", "", *net.node("Shape", like), mode="nearest",
                 coordinate_transformation_mode=net.pick("half_pixel", "asymmetric"))
        return
    spatial = net.arrays[x].ndim - 2
    mode = net.pick("nearest", "linear", "linear", "cubic" if spatial == 2 else "linear")
    scale = net.pick(2, 2, 4, 0.5)
    if net.rng.random() < 0.3:
        (extents,) = net.node("Mul", *net.node("Shape", x), net.constant([1, 1, *[2] * spatial], "int64"))
        net.node("Resize", x, "", "", extents, mode=mode, coordinate_transformation_mode=net.pick("half_pixel", "asymmetric"))
        return
    scales = net.constant([1, 1, *[scale] * spatial], "float32")
    net.node("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=net.pick("half_pixel", "asymmetric"))


def pad(net: SizedNetwork) -> None:
    x = features(net)
    spatial = net.arrays[x].ndim - 2
    mode = net.pick("constant", "constant", "edge", "reflect", *["wrap"] * (net.opset >= 19))
    least = -1 if mode == "constant" else 0
    widths = [[0, 0, *(net.pick(least, 0, 1, 2, 3) for _ in range(spatial))] for _ in range(2)]
    fill = [net.constant(net.pick(0, 1.5), "float32")] if mode == "constant" else []
    net.node("Pad", x, net.constant(np.ravel(widths), "int64"), *fill, mode=mode)


def join(net: SizedNetwork) -> None:
    """Along channels, or another axis, with values that have the same sizes in all runs."""
    x = features(net)
    axis = net.pick(1, 1, 1, net.arrays[x].ndim - 1)

    def fits(name: str) -> bool:
        pairs = [(run.arrays[x].shape, run.arrays[name].shape) for run in net.runs]
        return all(len(p) == len(q) and all(k == axis or p[k] == q[k] for k in range(len(p))) for p, q in pairs)

    others = [n for n in net.arrays if net.arrays[n].dtype == np.float32 and fits(n)]
    net.node("Concat", x, *(net.pick(*others) for _ in range(net.pick(1, 2))), axis=axis)


def slice_of(net: SizedNetwork) -> None:
    """From or up to a constant place from either end, every second, backwards, or the first half, whose size is computed."""
    x = features(net)
    axis = int(net.rng.integers(1, net.arrays[x].ndim))
    axes = net.constant([axis], "int64")
    far = 2**31 - 1
    start, end, step = net.pick((1, far, 1), (0, -1, 1), (-3, far, 1), (0, 4, 1), (0, far, 2), (1, far, 2), (-1, -far, -1))
    stop = net.constant([end], "int64")
    if net.rng.random() < 0.25:
        (extent,) = net.node("Gather", *net.node("Shape", x), net.constant([axis], "int64"))
        (stop,) = net.node("Div", extent, net.constant([2], "int64"))
        start, step = 0, 1
    net.node("Slice", x, net.constant([start], "int64"), stop, axes, net.constant([step], "int64"))


def split(net: SizedNetwork) -> None:
    x = features(net)
    channels = net.arrays[x].shape[1]
    if channels < 2:
        raise Unfit
    first = net.pick(channels // 2, 1)
    sizes = [first, channels - first]
    if net.opset < 13:
        net.node("Split", x, outputs=2, axis=1, split=sizes)
    else:
        net.node("Split", x, net.constant(sizes, "int64"), outputs=2, axis=1)


def shuffle(net: SizedNetwork) -> None:
    """Pixels to channels and back."""
    x = features(net, 4)
    if net.arrays[x].shape[1] % 4 == 0 and net.rng.random() < 0.7:
        net.node("DepthToSpace", x, blocksize=2, mode=net.pick("DCR", "CRD"))
    else:
        net.node("SpaceToDepth", x, blocksize=2)


def norm(net: SizedNetwork) -> None:
    """Of channels that vary: of equal values, onnxruntime's instance norm leaves rounding errors times 1 / sqrt(epsilon)."""
    x = features(net)
    channels = net.arrays[x].shape[1]
    scale, bias = weight(net, (channels,), 1), weight(net, (channels,), 4)
    spatial = tuple(range(2, net.arrays[x].ndim))
    if net.rng.random() < 0.4:
        variances = net.constant(np.full(channels, 0.8, np.float32))
        net.node("BatchNormalization", x, scale, bias, weight(net, (channels,), 4), variances)
    elif all((np.ptp(run.arrays[x], axis=spatial) > 0.1).all() for run in net.runs):
        net.node("InstanceNormalization", x, scale, bias)


def group_norm(net: SizedNetwork) -> None:
    """As PyTorch exports it: an instance norm of groups, then a number for each channel."""
    x = features(net)
    channels = net.arrays[x].shape[1]
    groups = net.pick(*(g for g in (1, 2, 4, 8) if channels % g == 0))
    (grouped,) = net.node("Reshape", x, net.constant([0, groups, -1], "int64"))
    if not all((np.ptp(run.arrays[grouped], axis=2) > 0.1).all() for run in net.runs):
        raise Unfit
    ones, zeros = net.constant(np.ones(groups, np.float32)), net.constant(np.zeros(groups, np.float32))
    normal = net.node("InstanceNormalization", grouped, ones, zeros)
    (y,) = net.node("Reshape", *normal, *net.node("Shape", x))
    each = (channels, *(1 for _ in net.arrays[x].shape[2:]))
    (scaled,) = net.node("Mul", y, weight(net, each, 1))
    net.node("Add", scaled, weight(net, each, 4))


def softmax(net: SizedNetwork) -> None:
    x = features(net)
    net.node("Softmax", x, axis=int(net.rng.integers(1, net.arrays[x].ndim)) if net.opset >= 13 else net.arrays[x].ndim - 1)


def broadcast(net: SizedNetwork) -> None:
    """With a number for each channel, with a mean over an axis, or with another value."""
    x = features(net)
    ones = [1 for _ in net.arrays[x].shape[2:]]
    axis = int(net.rng.integers(net.arrays[x].ndim))
    kind = net.pick("channel", "mean", "other")
    if kind == "channel":
        y = weight(net, (net.arrays[x].shape[1], *ones), 1)
    elif kind == "mean" and net.opset >= 18:
        (y,) = net.node("ReduceMean", x, net.constant([axis], "int64"))
    elif kind == "mean":
        (y,) = net.node("ReduceMean", x, axes=[axis])
    else:
        y = net.value(lambda a: a.dtype == np.float32 and a.ndim == net.arrays[x].ndim)
    net.node(net.pick("Add", "Mul", "Sub", "Max"), *net.pick((x, y), (y, x)))


def gate(net: SizedNetwork) -> None:
    """Squeeze and excite; onnxruntime's sigmoid is right to 1e-7, which is not an accuracy at all where it is next to 0."""
    x = features(net)
    channels = net.arrays[x].shape[1]
    (mean,) = net.node("GlobalAveragePool", x)
    ones = [1 for _ in net.arrays[x].shape[2:]]
    (hidden,) = net.node("Relu", *net.node("Conv", mean, weight(net, (4, channels, *ones), channels)))
    (logits,) = net.node("Conv", hidden, weight(net, (channels, 4, *ones), 4))
    if any((np.abs(run.arrays[logits]) > MOST).any() for run in net.runs):
        raise Unfit
    net.node("Mul", x, *net.node("Sigmoid", logits))


def tokens(net: SizedNetwork) -> None:
    """Positions as one axis, then channels last, or the positions first, as recurrent layers have them."""
    x = features(net)
    (flat,) = net.node("Reshape", x, net.constant([0, 0, -1], "int64")) if net.arrays[x].ndim > 3 else [x]
    net.node("Transpose", flat, perm=net.pick([0, 2, 1], [2, 0, 1]))


def dense(net: SizedNetwork) -> None:
    x = net.value(lambda a: a.dtype == np.float32 and a.ndim == 3 and bool((np.abs(a) <= MOST).all()))
    if not net.is_fixed(x, 2):
        raise Unfit
    depth = net.arrays[x].shape[2]
    columns = net.pick(1, 8, 16, 17, 33)
    (y,) = net.node("MatMul", x, weight(net, (depth, columns), depth))
    if net.rng.random() < 0.5:
        net.node("Add", y, weight(net, (columns,), 4))
    elif net.opset >= 17 and columns > 1:
        net.node("LayerNormalization", y, weight(net, (columns,), 1), axis=-1)


def attention(net: SizedNetwork) -> None:
    """Of the tokens of a value with themselves."""
    x = net.value(lambda a: a.dtype == np.float32 and a.ndim == 3 and bool((np.abs(a) <= MOST).all()))
    (turned,) = net.node("Transpose", x, perm=[0, 2, 1])
    (scores,) = net.node("MatMul", x, turned)
    (scaled,) = net.node("Mul", scores, net.constant(net.pick(0.1, 0.25), "float32"))
    net.node("MatMul", *net.node("Softmax", scaled, axis=2), x)


def heads(net: SizedNetwork) -> None:
    """Attention in several heads, as transformers export it, maybe causal."""
    x = net.value(lambda a: a.dtype == np.float32 and a.ndim == 3 and bool((np.abs(a) <= MOST).all()))
    if not net.is_fixed(x, 2):
        raise Unfit
    features_ = net.arrays[x].shape[2]
    count = net.pick(*(c for c in (1, 2, 4) if features_ % c == 0))

    def projected(perm: list[int]) -> str:
        (y,) = net.node("MatMul", x, weight(net, (features_, features_), features_))
        (split_,) = net.node("Reshape", y, net.constant([0, 0, count, features_ // count], "int64"))
        return net.node("Transpose", split_, perm=perm)[0]

    (scores,) = net.node("MatMul", projected([0, 2, 1, 3]), projected([0, 2, 3, 1]))
    (scaled,) = net.node("Mul", scores, net.constant(1 / math.sqrt(features_ // count), "float32"))
    if net.opset >= 14 and net.rng.random() < 0.3:
        (ones,) = net.node("ConstantOfShape", *net.node("Shape", scaled), value=numpy_helper.from_array(np.ones(1, np.float32)))
        (lower,) = net.node("Trilu", ones, upper=0)
        (hidden,) = net.node("Mul", *net.node("Sub", lower, net.constant(1, "float32")), net.constant(1e4, "float32"))
        (scaled,) = net.node("Add", scaled, hidden)
    (mixed,) = net.node("MatMul", *net.node("Softmax", scaled, axis=3), projected([0, 2, 1, 3]))
    (joined,) = net.node("Transpose", mixed, perm=[0, 2, 1, 3])
    net.node("Reshape", joined, net.constant([0, 0, features_], "int64"))


def recurrent(net: SizedNetwork) -> None:
    x = net.value(lambda a: a.dtype == np.float32 and a.ndim == 3 and bool((np.abs(a) < 4).all()))
    if not net.is_fixed(x, 2):
        raise Unfit
    op, gates = net.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    hidden, directions = net.pick(1, 4, 8, 16, 17), net.pick(1, 2)
    features_ = net.arrays[x].shape[2]
    w, r = (weight(net, (directions, gates * hidden, k), 4 * k) for k in (features_, hidden))
    net.node(op, x, w, r, outputs=2, hidden_size=hidden, direction=("forward", "bidirectional")[directions - 1])


STEPS: tuple[Step, ...] = (
    *[convolution] * 10, *[transposed] * 3, *[pooling] * 2, *[resize] * 2, pad, *[join] * 2, slice_of, split, shuffle,
    *[norm] * 2, *[broadcast] * 2, gate, tokens, dense, dense, attention, heads, recurrent,
    byte_convolution, group_norm, softmax,
    steps.unary, steps.binary, steps.reduction, steps.rearrange, steps.select, steps.clip, steps.sizes,
)
