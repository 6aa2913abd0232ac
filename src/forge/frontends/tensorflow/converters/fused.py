"""What TensorFlow's own optimizer leaves in graphs: products and what follows them, as single nodes."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose.activations import elu
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.converters.pooling import resize_bilinear
from forge.frontends.tensorflow.converters.products import conv2d, convolved, depthwise
from forge.frontends.tensorflow.converters.shape import mirror_pad
from forge.frontends.tensorflow.registry import converts, refuse
from forge.ir.nodes import Value

for _name in ("_MklConv2D", "_MklMatMul", "_MklFusedConv2D", "_MklFusedMatMul", "_MklNativeConv2D", "_MklNativeFusedConv2D"):
    refuse(_name, "a node of oneDNN's layouts, which TensorFlow makes while it runs; export the graph before that")
refuse("_FusedBatchNormEx", "a kernel for GPUs, which TensorFlow makes while it runs; export the graph before that")

_ACTIVATIONS = {"Relu": "nn.relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "GeluExact": "nn.gelu"}


def _finished(
    g: Context, x: Value, operands: Sequence[Value], fused_ops: Sequence[str], epsilon: float, slope: float, channels: int
) -> Value:
    """``x`` after the operators ``fused_ops``, of which some have operands."""
    rest = list(operands)

    def by_channel() -> Value:
        if not rest:
            raise g.invalid(f"fused_ops {tuple(fused_ops)}: got {len(operands)} operands; expected more")
        value = rest.pop(0)
        return g.reshape(value, tuple(value.shape[0] if k == channels else 1 for k in range(x.rank)))

    for op in fused_ops:
        match op:
            case "BiasAdd":
                x = g.call("add", x, by_channel())
            case "Add":
                x = g.call("add", x, rest.pop(0))
            case "FusedBatchNorm":
                vectors, rest = rest[:4], rest[4:]
                x = g.call("nn.batch_norm", x, *vectors, axis=channels, epsilon=epsilon)
            case "Relu6":
                x = g.call("clip", x, a_min=0.0, a_max=6.0)
            case "Elu":
                x = elu(g, x)
            case "LeakyRelu":
                x = g.call("nn.leaky_relu", x, alpha=slope)
            case "GeluApproximate":
                x = g.call("nn.gelu", x, approximate="tanh")
            case _ if op in _ACTIVATIONS:
                x = g.call(_ACTIVATIONS[op], x)
            case _:
                raise g.unsupported(f"fused_ops: got {op!r}; expected BiasAdd, Add, FusedBatchNorm or an activation function")
    return x


@converts("_FusedConv2D", "_FusedDepthwiseConv2dNative")
def fused_convolution(
    g: Context, x: Value, weight: Value, *operands: Value, strides: tuple[int, ...], padding: str, data_format: str = "NHWC",
    dilations: tuple[int, ...] = (1, 1, 1, 1), explicit_paddings: tuple[int, ...] = (), fused_ops: tuple[str, ...] = (),
    epsilon: float = 1e-4, leakyrelu_alpha: float = 0.2, num_args: int = 0, num_host_args: int = 0, filter_format: str = "HWIO",
) -> Value:
    if filter_format != "HWIO":
        raise g.unsupported(f"filter_format: got {filter_format!r}; expected HWIO")
    make = depthwise if "Depthwise" in g.node.op else _plain
    found = make(g, x, weight, data_format, strides, padding, dilations, explicit_paddings)
    channels = found.rank - 1 if data_format.endswith("C") else 1
    return _finished(g, found, operands, fused_ops, epsilon, leakyrelu_alpha, channels)


def _plain(
    g: Context, x: Value, weight: Value, data_format: str, strides: Sequence[int], padding: str, dilations: Sequence[int],
    explicit: Sequence[int],
) -> Value:
    return convolved(g, x, weight, data_format, "HWIO", strides, padding, dilations, explicit)


@converts("_FusedMatMul")
def fused_matmul(
    g: Context, a: Value, b: Value, *operands: Value, transpose_a: bool = False, transpose_b: bool = False,
    fused_ops: tuple[str, ...] = (), epsilon: float = 1e-4, leakyrelu_alpha: float = 0.2, num_args: int = 0,
) -> Value:
    found = g.call("nn.matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return _finished(g, found, operands, fused_ops, epsilon, leakyrelu_alpha, found.rank - 1)


@converts("FusedPadConv2D")
def fused_pad_convolution(
    g: Context, x: Value, paddings: Value, weight: Value, *, mode: str, strides: tuple[int, ...], padding: str
) -> Value:
    return conv2d(g, mirror_pad(g, x, paddings, mode=mode), weight, strides=strides, padding=padding)


@converts("FusedResizeAndPadConv2D")
def fused_resize_and_pad_convolution(
    g: Context, x: Value, size: Value, paddings: Value, weight: Value, *, mode: str, strides: tuple[int, ...], padding: str,
    resize_align_corners: bool = False,
) -> Value:
    resized = g.cast(resize_bilinear(g, x, size, align_corners=resize_align_corners), x.dtype)
    return fused_pad_convolution(g, resized, paddings, weight, mode=mode, strides=strides, padding=padding)
