"""Operations of ``keras.ops`` of networks: activations, windows, normalizations, products, Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from forge import dtypes
from forge.compose import norms
from forge.compose.attention import attention as joined_attention
from forge.compose.reductions import vector_norm
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters import activations, convolutions, pooling
from forge.frontends.keras.converters.normalization import unit
from forge.frontends.keras.converters.ops_reduce import axes_of
from forge.frontends.keras.promotion import FLOAT, real, together, value
from forge.frontends.keras.registry import OPS, converts
from forge.ir.nodes import Value

_NAMES = {
    "SparseSigmoid": "sparse_sigmoid", "Softplus": "softplus", "Softsign": "softsign",
    "SparsePlus": "sparse_plus", "Silu": "silu", "LogSigmoid": "log_sigmoid",
    "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_silu",
    "Selu": "selu", "TanhShrink": "tanh_shrink", "HardTanh": "hard_tanh"}


def _named(name: str) -> Any:
    return lambda g, x: activations.ACTIVATIONS[name](g, real(g, x))


for _op, _name in _NAMES.items():
    converts(_op, domain=OPS)(_named(_name))


@converts("Relu", "Relu6", domain=OPS)
def relu(g: Context, x: Any) -> Value:
    data = value(g, x)
    if dtypes.is_float(data.dtype):
        return activations.ACTIVATIONS[g.layer.class_name.lower()](g, data)
    found = g.call("maximum", data, g.scalar(0, data))
    return found if g.layer.class_name == "Relu" else g.call("minimum", found, g.scalar(6, data))


@converts("Squareplus", domain=OPS)
def squareplus(g: Context, x: Any, *, b: float = 4.0) -> Value:
    return activations.squareplus(g, real(g, x), b)


@converts("LeakyRelu", domain=OPS)
def leaky_relu(g: Context, x: Any, *, negative_slope: float = 0.2) -> Value:
    return g.call("nn.leaky_relu", real(g, x), alpha=float(negative_slope))


@converts("Elu", "Celu", domain=OPS)
def elu(g: Context, x: Any, *, alpha: float = 1.0) -> Value:
    return g.call(f"nn.{g.layer.class_name.lower()}", real(g, x), alpha=float(alpha))


@converts("Gelu", domain=OPS)
def gelu(g: Context, x: Any, *, approximate: bool = True) -> Value:
    return g.call("nn.gelu", real(g, x), approximate="tanh" if approximate else "none")


@converts("Glu", domain=OPS)
def glu(g: Context, x: Any, *, axis: int = -1) -> Value:
    return activations.glu(g, real(g, x), axis)


@converts("SoftShrink", "HardShrink", domain=OPS)
def shrink(g: Context, x: Any, *, threshold: float = 0.5) -> Value:
    bias = float(threshold) if g.layer.class_name == "SoftShrink" else 0.0
    return g.call("nn.shrink", real(g, x), lambd=float(threshold), bias=bias)


@converts("Threshold", domain=OPS)
def threshold(g: Context, x: Any, *, threshold: float, default_value: float) -> Value:
    return activations.threshold(g, real(g, x), threshold, default_value)


@converts("Softmax", "LogSoftmax", domain=OPS)
def softmax(g: Context, x: Any, *, axis: Any = None) -> Value:
    data = real(g, x)
    op = "nn.softmax" if g.layer.class_name == "Softmax" else "nn.log_softmax"
    if "axis" in g.layer.config and axis is None or isinstance(axis, tuple):
        over = axes_of(g, axis, data.rank)
        total = g.call("logsumexp", data, axis=over, keepdims=True)
        found = g.call("subtract", data, total)
        return g.call("exp", found) if op == "nn.softmax" else found
    return g.call(op, data, axis=g.axis(-1 if axis is None else axis, data.rank))


@converts("Sparsemax", domain=OPS)
def sparsemax(g: Context, x: Any, *, axis: int = -1) -> Value:
    return activations.sparsemax(g, real(g, x), axis)


@converts("MaxPool", "AveragePool", domain=OPS)
def pool(
    g: Context, inputs: Any, *, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: Any = None
) -> Value:
    data = value(g, inputs)
    kind = "max" if g.layer.class_name == "MaxPool" else "avg"
    return pooling.pooled(g, kind, data, data.rank - 2, pool_size, strides, padding, data_format)


@converts("AdaptiveMaxPool", "AdaptiveAveragePool", domain=OPS)
def adaptive_pool(g: Context, inputs: Any, *, output_size: Any, data_format: Any = None) -> Value:
    data = value(g, inputs)
    kind = "max" if g.layer.class_name == "AdaptiveMaxPool" else "avg"
    found: Value = pooling.adaptive(kind, data.rank - 2)(g, data, output_size=output_size, data_format=data_format)
    return found


@converts("Conv", domain=OPS)
def conv(
    g: Context, inputs: Any, kernel: Any, *, strides: Any = None, padding: str = "valid", data_format: Any = None,
    dilation_rate: Any = None,
) -> Value:
    data, weight = together(g, inputs, kernel)
    channels = data.shape[1 if convolutions.is_first(g, data_format) else -1]
    groups = channels // weight.shape[-2] if isinstance(channels, int) and isinstance(weight.shape[-2], int) else 1
    return convolutions.convolved(g, data, weight, data.rank - 2, data_format, padding, strides, dilation_rate, groups)


@converts("DepthwiseConv", domain=OPS)
def depthwise_conv(
    g: Context, inputs: Any, kernel: Any, *, strides: Any = None, padding: str = "valid", data_format: Any = None,
    dilation_rate: Any = None,
) -> Value:
    data, weight = together(g, inputs, kernel)
    return convolutions.depthwise(g, data, weight, data.rank - 2, data_format, padding, strides, dilation_rate)


@converts("SeparableConv", domain=OPS)
def separable_conv(
    g: Context, inputs: Any, depthwise_kernel: Any, pointwise_kernel: Any, *, strides: Any = None, padding: str = "valid",
    data_format: Any = None, dilation_rate: Any = None,
) -> Value:
    data, first, second = together(g, inputs, depthwise_kernel, pointwise_kernel)
    found = convolutions.depthwise(g, data, first, data.rank - 2, data_format, padding, strides, dilation_rate)
    return convolutions.convolved(g, found, second, data.rank - 2, data_format, "valid", 1, 1, 1)


@converts("ConvTranspose", domain=OPS)
def conv_transpose(
    g: Context, inputs: Any, kernel: Any, *, strides: Any = None, padding: str = "valid", output_padding: Any = None,
    data_format: Any = None, dilation_rate: Any = None,
) -> Value:
    data, weight = together(g, inputs, kernel)
    return convolutions.transposed(g, data, weight, data.rank - 2, data_format, padding, strides, dilation_rate, output_padding)


@converts("OneHot", domain=OPS)
def one_hot(g: Context, x: Any, *, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False) -> Value:
    indices = value(g, x)
    kind = FLOAT if dtype is None else dtypes.canonical(dtype)
    return encoded(g, indices, num_classes, axis, kind)


def encoded(g: Context, indices: Value, depth: int, axis: int, dtype: str) -> Value:
    """1 at the place of each index along a new axis, else 0; nothing for an index out of range."""
    place = g.axis(axis, indices.rank + 1)
    shape = [1] * (indices.rank + 1)
    shape[place] = depth
    places = g.reshape(g.constant(np.arange(depth), indices.dtype), shape)
    return g.cast(g.call("equal", g.call("expand_dims", indices, axis=place), places), dtype)


@converts("MultiHot", domain=OPS)
def multi_hot(
    g: Context, inputs: Any, *, num_classes: Any = None, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Value:
    indices = value(g, inputs)
    if num_classes is None:
        raise g.invalid("num_classes: got None; expected a number")
    over = 1 if indices.rank > 1 else 0
    hot = encoded(g, indices, num_classes, axis, FLOAT if dtype is None else dtypes.canonical(dtype))
    return g.call("max", hot, axis=(over,))


@converts("BatchNorm", domain=OPS)
def batch_norm(
    g: Context, x: Any, mean: Any, variance: Any, offset: Any = None, scale: Any = None, *, axis: int, epsilon: float = 1e-3
) -> Value:
    data, average, spread = (real(g, v) for v in (x, mean, variance))
    gamma = g.full(average.shape, 1.0, data.dtype) if scale is None else real(g, scale)
    beta = g.full(average.shape, 0.0, data.dtype) if offset is None else real(g, offset)
    return g.call("nn.batch_norm", data, gamma, beta, average, spread, axis=g.axis(axis, data.rank), epsilon=float(epsilon))


@converts("LayerNorm", domain=OPS)
def layer_norm(
    g: Context, x: Any, gamma: Any = None, beta: Any = None, *, axis: Any = None, epsilon: Any = None, rms_scaling: bool = False
) -> Value:
    data = real(g, x)
    over = axes_of(g, -1 if axis is None else axis, data.rank)
    least = 1e-7 if epsilon is None else float(epsilon)
    if rms_scaling or over != tuple(range(over[0], data.rank)):
        raise g.unsupported("got rms_scaling, or axes that are not the last ones; not supported")
    scale, bias = (None if v is None else real(g, v) for v in (gamma, beta))
    return norms.layer_norm(g, data, scale, bias, first=over[0], epsilon=least)


@converts("RMSNorm", domain=OPS)
def rms_norm(g: Context, x: Any, scale: Any = None, *, axis: Any = None, epsilon: Any = None) -> Value:
    data = real(g, x)
    over = axes_of(g, -1 if axis is None else axis, data.rank)
    root = norms.inverse_root_mean_square(g, data, over, 1e-7 if epsilon is None else float(epsilon))
    found = g.call("multiply", data, root)
    return found if scale is None else g.call("multiply", found, real(g, scale))


@converts("Normalize", domain=OPS)
def normalize(g: Context, x: Any, *, axis: Any = None, order: Any = None, epsilon: Any = None) -> Value:
    data = real(g, x)
    least = 1e-7 if epsilon is None else float(epsilon)
    over = axes_of(g, -1 if axis is None else axis, data.rank)
    if order in (None, 2):
        return unit(g, data, over, least * least)
    size = vector_norm(g, data, float(order), over, True)
    return g.call("divide", data, g.call("maximum", size, g.scalar(least, size)))


@converts("DotProductAttention", domain=OPS)
def dot_product_attention(
    g: Context, query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, scale: Any = None, *,
    is_causal: bool = False, flash_attention: Any = None, attn_logits_soft_cap: Any = None,
) -> Value:
    parts = [g.call("transpose", v, axes=(0, 2, 1, 3)) for v in together(g, query, key, value)]
    added: Value | None = None
    if mask is not None:
        hidden = g.cast(g.call("logical_not", mask), parts[0].dtype)
        added = g.call("multiply", hidden, g.scalar(-3e4 if hidden.dtype == "float16" else -1e9, hidden))
    if bias is not None:
        added = g.cast(bias, parts[0].dtype) if added is None else g.call("add", added, g.cast(bias, added.dtype))
    factor = 1 / math.sqrt(int(parts[0].shape[-1])) if scale is None else float(scale)
    found = joined_attention(
        g, *parts, mask=added, scale=factor, is_causal=is_causal, softcap=float(attn_logits_soft_cap or 0.0),
        num_heads=None)
    return g.call("transpose", found.out, axes=(0, 2, 1, 3))


@converts("DepthToSpace", "SpaceToDepth", domain=OPS)
def depth_to_space(g: Context, x: Any, *, block_size: int, data_format: Any = None) -> Value:
    layout = "NCHW" if convolutions.is_first(g, data_format) else "NHWC"
    op = "nn.depth_to_space" if g.layer.class_name == "DepthToSpace" else "nn.space_to_depth"
    options = {"mode": "DCR"} if op == "nn.depth_to_space" else {}
    return g.call(op, value(g, x), block_size=block_size, layout=layout, **options)
