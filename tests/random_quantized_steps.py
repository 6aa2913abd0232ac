"""The layers that random quantized graphs are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.random_onnx import Unfit
from tests.random_quantized import MICROSOFT, Codes, QuantizedNetwork, Weight

BYTES = ("uint8", "int8")
Step = Callable[[QuantizedNetwork], None]


def is_image(a: np.ndarray) -> bool:
    """Whether every window below fits into it."""
    return bool(a.ndim == 4 and a.size and min(a.shape[2:]) >= 4)


def is_sequence(a: np.ndarray) -> bool:
    return bool(a.ndim == 3 and a.size)


ACTIVATIONS: dict[str, dict[str, Any]] = {
    "Relu": {}, "LeakyRelu": {"alpha": 0.1}, "Sigmoid": {}, "Tanh": {}, "HardSigmoid": {}, "HardSwish": {}, "Gelu": {}, "Elu": {},
    "Softplus": {}, "Mish": {},
}


def activated(net: QuantizedNetwork, x: str) -> str:
    """``x``, or what an activation makes of it."""
    op = net.pick("", "", "Relu", "Relu", "Relu", "Clip", "swish", "erf", "PRelu", *ACTIVATIONS)
    if op == "":
        return x
    if op == "Clip":
        low = net.pick(0.0, 0.0, -1.0)
        return net.node("Clip", x, net.constant(np.float32(low)), net.constant(np.float32(net.pick(6.0, 1.0))))[0]
    if op == "swish":
        return net.node("Mul", x, *net.node("Sigmoid", x))[0]
    if op == "erf":
        (inner,) = net.node("Erf", *net.node("Div", x, net.constant(np.float32(np.sqrt(2)))))
        (sum_,) = net.node("Add", inner, net.constant(np.float32(1)))
        return net.node("Mul", *net.node("Mul", x, sum_), net.constant(np.float32(0.5)))[0]
    if op == "PRelu":
        channels = net.arrays[x].shape[1] if net.arrays[x].ndim == 4 else 1
        return net.node("PRelu", x, net.constant(net.rng.random((channels, 1, 1) if channels > 1 else 1).astype(np.float32)))[0]
    return net.node(op, x, **ACTIVATIONS[op])[0]


def finished(net: QuantizedNetwork, real: str) -> None:
    """The end of a layer: an activation, perhaps of a quantized tensor of its own, and a quantization."""
    if net.chance(0.25):
        real = net.real_of(net.quantized(real))
    net.quantized(activated(net, real))


def _kernel(net: QuantizedNetwork, channels: int, spatial: int) -> tuple[tuple[int, ...], int]:
    """The shape of a weight of a convolution, and its groups."""
    groups = net.pick(1, 1, 1, channels, next((g for g in (2, 4) if channels % g == 0), 1))
    if channels % groups:
        groups = 1
    outer = groups * net.pick(1, 2) if groups > 1 else net.pick(1, 4, 8, 17, 24, 32)
    if 1 < groups < channels:
        outer = groups * net.pick(channels // groups, 16)
    size = net.pick((1,) * spatial, (3,) * spatial, (3,) * spatial, (2, 3, 1)[:spatial])
    return (outer, channels // groups, *size), groups


def _windows(net: QuantizedNetwork, spatial: int, groups: int, size: tuple[int, ...]) -> dict[str, Any]:
    if net.chance(0.15):
        return {"auto_pad": net.pick("SAME_UPPER", "SAME_LOWER", "VALID"), "strides": [net.pick(1, 2)] * spatial, "group": groups}
    pads = net.pick([k // 2 for k in size] * 2, [0] * 2 * spatial, [net.pick(0, 1) for _ in range(2 * spatial)])
    dilations = [net.pick(1, 1, 1, 2) for _ in range(spatial)]
    return {"pads": pads, "strides": [net.pick(1, 1, 2) for _ in range(spatial)], "dilations": dilations, "group": groups}


def convolution(net: QuantizedNetwork) -> None:
    x = net.latest(lambda a: is_image(a) or (a.ndim == 3 and a.shape[2] >= 5 and a.shape[1] > 1))
    shape = net.arrays[x.name].shape
    kernel, groups = _kernel(net, shape[1], len(shape) - 2)
    w = net.weight(kernel, 0, int(np.prod(kernel[1:])))
    options = _windows(net, len(shape) - 2, groups, kernel[2:])
    bias = net.pick("", "int32", "int32", "float32")
    whole, scale = net.bias(kernel[0], x, w)

    def real(bias: str = bias) -> str:
        operands = [net.real_of(x), net.real_weight(w)]
        if bias:
            operands.append(_real_bias(net, whole, scale) if bias == "int32" else net.constant(
                (whole * np.broadcast_to(scale, whole.shape)).astype(np.float32)))
        return net.node("Conv", *operands, **options)[0]

    own = net.chance(net.own_form)
    if own and net.chance(0.25):
        _integer_sums(net, "ConvInteger", x, w, options)
    elif own:
        biases = [net.constant(whole)] if bias else []
        net.operator("QLinearConv", lambda: real("int32" if bias else ""), lambda made: [
            x.name, *net.numbers(x), *_numbers(net, w), *net.numbers(made), *biases], dtype=x.dtype, **options)
    else:
        finished(net, real())


def _real_bias(net: QuantizedNetwork, whole: np.ndarray, scale: np.ndarray) -> str:
    attributes = {"axis": 0} if scale.ndim else {}
    zeros = [net.constant(np.zeros(scale.shape, np.int32))] if net.chance(0.5) else []
    return net.node("DequantizeLinear", net.constant(whole), net.constant(scale), *zeros, **attributes)[0]


def _numbers(net: QuantizedNetwork, w: Weight) -> list[str]:
    """A weight, its scale and its zero point, as operators on integers take them."""
    if w.array.dtype.name not in BYTES:
        raise Unfit
    zero = np.zeros(w.scale.shape, w.array.dtype) if w.zero is None else w.zero
    return [net.constant(w.array), net.constant(w.scale), net.constant(zero)]


def _integer_sums(net: QuantizedNetwork, op: str, x: Codes, w: Weight, options: dict[str, Any]) -> None:
    """Sums of 32 bits, which are exact, and as real numbers of a scale."""
    name, scale, zero = _numbers(net, w)
    along = net.arrays[scale].ndim > 0
    (total,) = net.node(op, x.name, name, net.numbers(x)[1], zero, **options)
    net.exact[total] = op
    (wide,) = net.node("Cast", total, to=1)
    factor = np.float32(x.scale) * w.scale
    rank = net.arrays[total].ndim
    if along and op == "ConvInteger":
        factor = factor.reshape(-1, *[1] * (rank - 2))
    finished(net, net.node("Mul", wide, net.constant(np.asarray(factor, np.float32)))[0])


def transposed(net: QuantizedNetwork) -> None:
    x = net.latest(is_image)
    channels = net.arrays[x.name].shape[1]
    groups = net.pick(1, 1, 1, channels)
    size = net.pick(2, 3)
    kernel = (channels, net.pick(1, 2) if groups > 1 else net.pick(3, 8, 16), size, size)
    w = net.weight(kernel, 0 if groups > 1 else 1, kernel[0] // groups * size)
    if groups > 1 and w.scale.ndim:
        raise Unfit
    options = {"strides": [net.pick(1, 2)] * 2, "pads": net.pick([0] * 4, [1, 0, 0, 1]), "group": groups}
    bias = []
    if w.scale.ndim or net.chance(0.5):
        bias = [_real_bias(net, *net.bias(kernel[1] * groups, x, w))]
    finished(net, net.node("ConvTranspose", net.real_of(x), net.real_weight(w), *bias, **options)[0])


def product(net: QuantizedNetwork) -> None:
    """By a constant."""
    x = net.latest(lambda a: a.ndim in (2, 3) and a.size > 0)
    depth, units = net.arrays[x.name].shape[-1], net.pick(1, 5, 16, 17, 32)
    gemm = net.arrays[x.name].ndim == 2 and net.chance(0.6)
    swapped = gemm and net.chance(0.6)
    w = net.weight((units, depth) if swapped else (depth, units), 0 if swapped else 1, depth)
    whole, scale = net.bias(units, x, w)

    def real() -> str:
        if gemm:
            alpha = net.pick(1.0, 1.0, 0.5)
            return net.node("Gemm", net.real_of(x), net.real_weight(w), _real_bias(net, whole, scale), transB=int(swapped),
                            alpha=alpha)[0]
        (total,) = net.node("MatMul", net.real_of(x), net.real_weight(w))
        return net.node("Add", total, _real_bias(net, whole, scale))[0] if net.chance(0.5) else total

    if not net.chance(net.own_form):
        finished(net, real())
    elif net.chance(0.3):
        _dynamic(net, w) if swapped is False and net.chance(0.5) else _integer_sums(net, "MatMulInteger", x, w, {})
    elif gemm:
        net.operator("QGemm", lambda: _gemm(net, x, w, whole, scale, swapped), lambda made: [
            x.name, *net.numbers(x), *_numbers(net, w), net.constant(whole), *net.numbers(made)], domain=MICROSOFT, dtype=x.dtype,
            transB=int(swapped))
    else:
        net.operator("QLinearMatMul", lambda: net.node("MatMul", net.real_of(x), net.real_weight(w))[0], lambda made: [
            x.name, *net.numbers(x), *_numbers(net, w), *net.numbers(made)], dtype=x.dtype)


def _gemm(net: QuantizedNetwork, x: Codes, w: Weight, whole: np.ndarray, scale: np.ndarray, swapped: bool) -> str:
    return net.node("Gemm", net.real_of(x), net.real_weight(w), _real_bias(net, whole, scale), transB=int(swapped))[0]


def _dynamic(net: QuantizedNetwork, w: Weight) -> None:
    """A product of real numbers that get their scale at run time."""
    x = net.real_of(net.latest(lambda a: a.ndim in (2, 3) and a.shape[-1] == w.array.shape[0]))
    name, scale, zero = _numbers(net, w)
    if net.chance(0.4):
        (total,) = net.node("DynamicQuantizeMatMul", x, name, scale, zero, domain=MICROSOFT)
        finished(net, total)
        return
    codes, step, shift = net.node("DynamicQuantizeLinear", x, outputs=3)
    if net.chance(0.4):
        (real,) = net.node("MatMulIntegerToFloat", codes, name, step, scale, shift, zero, domain=MICROSOFT)
    else:
        (total,) = net.node("MatMulInteger", codes, name, shift, zero)
        net.exact[total] = "MatMulInteger"
        (real,) = net.node("Mul", *net.node("Cast", total, to=1), *net.node("Mul", step, scale))
    finished(net, real)


def scores(net: QuantizedNetwork) -> None:
    """A product of two tensors, as attention has them."""
    x = net.latest(is_sequence)
    other = net.latest(lambda a: a.shape[:1] == net.arrays[x.name].shape[:1] and a.shape[2:] == net.arrays[x.name].shape[2:])
    (turned,) = net.node("Transpose", net.real_of(other), perm=[0, 2, 1])
    if net.chance(0.5):
        turned = net.real_of(net.quantized(turned))
    (real,) = net.node("MatMul", net.real_of(x), turned)
    if net.chance(0.6):
        (real,) = net.node("Softmax", net.node("Mul", real, net.constant(np.float32(0.3)))[0], axis=-1)
    net.quantized(real)


BINARY = {"Add": "QLinearAdd", "Mul": "QLinearMul", "Sub": "", "Max": "", "Div": ""}


def binary(net: QuantizedNetwork) -> None:
    """Of two tensors with scales of their own, or of one and a constant."""
    x = net.latest()
    shape = net.arrays[x.name].shape
    y = net.latest(lambda a: _fits(a.shape, shape)) if net.chance(0.8) else None
    op = net.pick("Add", "Add", "Add", "Mul", "Sub", "Max")
    if y is None:
        other = (net.rng.random(shape[1:2] if len(shape) == 2 else (shape[1], 1, 1)[: len(shape) - 1]) + 0.5).astype(np.float32)
        net.quantized(activated(net, net.node(net.pick("Add", "Mul", "Div"), net.real_of(x), net.constant(other))[0]))
        return
    if not BINARY[op] or not net.chance(net.own_form):
        finished(net, net.node(op, net.real_of(x), net.real_of(y))[0])
        return
    net.operator(BINARY[op], lambda: net.node(op, net.real_of(x), net.real_of(y))[0], lambda made: [
        x.name, *net.numbers(x), y.name, *net.numbers(y), *net.numbers(made)], domain=MICROSOFT, dtype=x.dtype)


def _fits(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(shape) == len(other) and all(a == b or a == 1 for a, b in zip(shape, other, strict=True))


def concatenation(net: QuantizedNetwork) -> None:
    x = net.latest()
    shape = net.arrays[x.name].shape
    axis = int(net.rng.integers(1, len(shape))) if net.chance(0.3) else 1
    rest = np.delete(shape, axis).tolist()
    others = [net.latest(lambda a: a.ndim == len(shape) and np.delete(a.shape, axis).tolist() == rest)
              for _ in range(net.pick(1, 1, 2))]
    parts = [x, *others]
    if not net.chance(net.own_form):
        (joined,) = net.node("Concat", *map(net.real_of, parts), axis=axis)
        net.quantized(joined) if net.chance(0.6) else net.quantized(joined, x.dtype, x.scale, x.zero)
        return
    net.operator("QLinearConcat", lambda: net.node("Concat", *map(net.real_of, parts), axis=axis)[0], lambda made: [
        *net.numbers(made), *(n for p in parts for n in (p.name, *net.numbers(p)))], domain=MICROSOFT, dtype=x.dtype, axis=axis)


def pooling(net: QuantizedNetwork) -> None:
    x = net.latest(is_image)
    op = net.pick("MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean")
    options: dict[str, Any] = {}
    if op == "ReduceMean":
        options = {"axes": [2, 3], "keepdims": net.pick(0, 1)} if net.opset < 18 else {"keepdims": 1}
    elif op != "GlobalAveragePool":
        options = {"kernel_shape": [net.pick(2, 3), 2], "strides": [net.pick(1, 2)] * 2, "pads": net.pick([0] * 4, [1, 0, 1, 1]),
                   "ceil_mode": net.pick(0, 0, 1)}
        if op == "AveragePool":
            options["count_include_pad"] = net.pick(0, 1)
    operands = [net.constant([2, 3], "int64")] if op == "ReduceMean" and net.opset >= 18 else []

    def real() -> str:
        return net.node(op, net.real_of(x), *operands, **options)[0]

    if net.chance(net.own_form) and op == "MaxPool":
        (name,) = net.node(op, x.name, **options)
        net.shown(Codes(name, x.scale, x.zero), op)
    elif net.chance(net.own_form) and op in ("AveragePool", "GlobalAveragePool"):
        net.operator(f"QLinear{op}", real, lambda made: [x.name, *net.numbers(x), *net.numbers(made)], domain=MICROSOFT,
                     dtype=x.dtype, **options)
    elif net.chance(0.4):
        net.quantized(real(), x.dtype, x.scale, x.zero)
    else:
        net.quantized(real())


UNARY = {"LeakyRelu": "QLinearLeakyRelu", "Sigmoid": "QLinearSigmoid"}


def function(net: QuantizedNetwork) -> None:
    """Of one tensor, element by element."""
    x = net.latest()
    op = net.pick(*UNARY)
    if net.chance(net.own_form):
        attributes = ACTIVATIONS[op]
        net.operator(UNARY[op], lambda: net.node(op, net.real_of(x), **attributes)[0], lambda made: [
            x.name, *net.numbers(x), *net.numbers(made)], domain=MICROSOFT, dtype=x.dtype, **attributes)
    else:
        net.quantized(activated(net, net.real_of(x)))


def moves(net: QuantizedNetwork) -> None:
    """Elements go to other places; scales stay, or do not."""
    x = net.latest(lambda a: a.ndim >= 2 and a.size > 0)
    shape = net.arrays[x.name].shape
    rank = len(shape)
    kinds = ["Reshape", "Transpose", "Slice", "Flatten", "Pad", "Split", "Unsqueeze", "Gather"]
    kind = net.pick(*kinds, "Resize", "Resize", "DepthToSpace") if rank == 4 else net.pick(*kinds)
    inner = net.chance(net.own_form)
    source = x.name if inner else net.real_of(x)
    if kind == "Reshape":
        target = [shape[0], -1] if rank == 4 and net.chance(0.3) else [*shape[:-2], shape[-1], shape[-2]]
        names = net.node(kind, source, net.constant(target, "int64"))
    elif kind == "Transpose":
        names = net.node(kind, source, perm=[0, *(net.rng.permutation(rank - 1) + 1).tolist()])
    elif kind == "Flatten":
        names = net.node(kind, source, axis=1)
    elif kind == "Slice":
        axis = int(net.rng.integers(1, rank))
        ends = net.pick(0, 1), shape[axis], axis, net.pick(1, 1, 2)
        names = net.node(kind, source, *(net.constant([v], "int64") for v in ends))
    elif kind == "Pad":
        widths = [0] * (2 * rank)
        widths[rank - 1], widths[-1] = 1, net.pick(0, 2)
        names = net.node(kind, source, net.constant(widths, "int64"), mode=net.pick("constant", "edge", "reflect"))
    elif kind == "Split":
        if shape[1] % 2 or net.opset >= 18:
            raise Unfit
        names = net.node(kind, source, outputs=2, axis=1)
    elif kind == "Unsqueeze":
        if net.opset < 13 or rank > 3:
            raise Unfit
        names = net.node("Squeeze", *net.node(kind, source, net.constant([1], "int64")), net.constant([1], "int64"))
    elif kind == "Gather":
        names = net.node(kind, source, net.constant(net.rng.integers(0, shape[1], net.pick(1, 3, 8)), "int64"), axis=1)
    else:
        names = _larger(net, kind, source)
    for name in names:
        if inner:
            net.shown(Codes(name, x.scale, x.zero), kind)
        elif net.chance(0.6):
            net.quantized(name, x.dtype, x.scale, x.zero)
        else:
            net.quantized(name)


def _larger(net: QuantizedNetwork, kind: str, source: str) -> list[str]:
    if kind == "DepthToSpace":
        return net.node(kind, source, blocksize=2)
    mode = net.pick("nearest", "nearest", "linear")
    scales = net.constant([1, 1, 2, 2], "float32")
    place = net.pick("half_pixel", "asymmetric")
    empty = net.constant(np.zeros(0, np.float32)) if net.opset < 13 else ""
    return net.node("Resize", source, empty, scales, mode=mode, coordinate_transformation_mode=place)


def normalization(net: QuantizedNetwork) -> None:
    """What is computed with real numbers, along an axis; onnxruntime does not give the mean of one number exactly."""
    x = net.latest(lambda a: a.size > 0)
    a = net.arrays[x.name]
    kind = net.pick("Softmax", "LayerNormalization", "BatchNormalization", "InstanceNormalization")
    real = net.real_of(x)
    if kind == "Softmax":
        if net.chance(net.own_form) and net.opset >= 13:
            net.operator("QLinearSoftmax", lambda: net.node(kind, real, axis=-1)[0], lambda made: [
                x.name, *net.numbers(x), *net.numbers(made)], domain=MICROSOFT, dtype=x.dtype, axis=-1, opset=net.opset)
        else:
            net.quantized(net.node(kind, real, axis=-1)[0])
        return
    size = a.shape[-1] if kind == "LayerNormalization" else a.shape[1]
    if kind[0] == "I" and np.prod(a.shape[2:]) < 2:
        raise Unfit
    scale, bias = ((net.rng.random(size) + low).astype(np.float32) for low in (0.5, -0.5))
    moments = [net.constant(bias), net.constant(scale)] if kind[0] == "B" else []
    if (kind[0] == "L" and net.opset < 17) or (kind[0] in "BI" and a.ndim < 3) or float(np.ptp(a.astype(np.float64))) < 20:
        raise Unfit
    axis = {"axis": -1} if kind[0] == "L" else {}
    finished(net, net.node(kind, real, net.constant(scale), net.constant(bias), *moments, **axis)[0])


def choice(net: QuantizedNetwork) -> None:
    x = net.latest()
    y = net.latest(lambda a: a.shape == net.arrays[x.name].shape)
    condition = net.constant(net.rng.random(net.arrays[x.name].shape[-1:]) < 0.5)
    if x.dtype != y.dtype or not net.chance(net.own_form):
        net.quantized(net.node("Where", condition, net.real_of(x), net.real_of(y))[0])
        return
    net.operator("QLinearWhere", lambda: net.node("Where", condition, net.real_of(x), net.real_of(y))[0], lambda made: [
        condition, x.name, *net.numbers(x), y.name, *net.numbers(y), *net.numbers(made)], domain=MICROSOFT, dtype=x.dtype)


IMAGE_STEPS: tuple[Step, ...] = (
    convolution, convolution, convolution, convolution, convolution, convolution, transposed, product, binary, binary, binary,
    concatenation, pooling, pooling, function, moves, moves, normalization, choice,
)
SEQUENCE_STEPS: tuple[Step, ...] = (
    product, product, product, product, product, convolution, scores, binary, binary, concatenation, function, moves, moves,
    normalization, normalization, choice,
)
