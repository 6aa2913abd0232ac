"""What random ONNX graphs are made of."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.random_onnx import Network, Unfit

FLOAT_UNARY = ("Abs Neg Exp Log Sqrt Sigmoid Tanh Erf Ceil Floor Relu LeakyRelu Elu Selu Softplus Softsign HardSigmoid Sin Cos "
               "Atan Reciprocal Sign IsNaN ThresholdedRelu Identity Round HardSwish Celu Mish Gelu Acos Sinh Asinh IsInf").split()
APPROXIMATED = ("Sigmoid", "Tanh", "Mish", "Gelu", "Erf", "Softplus")
"""Where onnxruntime's results are right relative to 1 only."""

INTEGER_UNARY = ("Abs", "Neg", "Sign", "Identity", "BitwiseNot")
FLOAT_BINARY = "Add Sub Mul Div Pow Min Max Equal Less Greater LessOrEqual GreaterOrEqual PRelu".split()
INTEGER_BINARY = ("Add", "Sub", "Mul", "Min", "Max", "Equal", "Less", "Greater", "LessOrEqual", "BitwiseAnd", "BitwiseOr")
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare")
CASTS = ("float32", "float64", "int64", "int32", "bool", "uint8", "int8", "float16")


def unary(net: Network) -> None:
    x = net.value()
    kind = net.arrays[x].dtype.kind
    if kind == "b":
        net.node("Not", x)
        return
    op = net.pick(*(FLOAT_UNARY if kind == "f" else INTEGER_UNARY))
    far = op in APPROXIMATED and net.arrays[x].size and not (np.abs(net.arrays[x]) < 8).all()
    single = op == "HardSwish" and net.arrays[x].dtype == np.float64  # onnxruntime's sixth is a float32
    if not _exists(op, net.opset) or far or single:
        raise Unfit
    net.node(op, x)


def _exists(op: str, opset: int) -> bool:
    """Whether the standard has the operator; onnxruntime knows some in opsets that came before them."""
    try:
        return bool(onnx.defs.get_schema(op, opset).since_version)
    except onnx.defs.SchemaError:
        return False


def binary(net: Network) -> None:
    x = net.value()
    a = net.arrays[x]
    others = [n for n in net.arrays if net.arrays[n].dtype == a.dtype and _broadcast(a, net.arrays[n])]
    y = net.pick(*others) if net.rng.random() < 0.6 else net.constant(net.contents(a.shape[-1:], a.dtype.name))
    ops = {"f": FLOAT_BINARY, "b": ("And", "Or", "Xor", "Equal")}.get(a.dtype.kind, INTEGER_BINARY)
    op = net.pick(*ops)
    left, right = (x, y) if net.rng.random() < 0.7 else (y, x)
    if op == "PRelu" and np.broadcast_shapes(a.shape, net.arrays[y].shape) != net.arrays[left].shape:
        raise Unfit
    net.node(op, left, right)


def _broadcast(a: np.ndarray, b: np.ndarray) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a.shape[::-1], b.shape[::-1], strict=False))


def integer_division(net: Network) -> None:
    """By constants that are not 0."""
    x = net.value(lambda a: a.dtype.kind == "i")
    by = net.constant(net.pick(1, 2, 3, -3, 7), net.arrays[x].dtype.name)
    op = net.pick("Div", "Mod")
    net.node(op, x, by, fmod=net.pick(0, 1) if op == "Mod" else None)


def select(net: Network) -> None:
    x = net.value(lambda a: a.dtype.kind in "fi")
    a = net.arrays[x]
    (condition,) = net.node("Greater", x, net.constant(np.zeros((), a.dtype)))
    net.node("Where", condition, x, net.constant(net.contents(a.shape[-1:], a.dtype.name)))


def clip(net: Network) -> None:
    x = net.value(lambda a: a.dtype.kind in "fi")
    name = net.arrays[x].dtype.name
    low, high = net.pick(("", 2), (-1, ""), (-1, 2), (2, -1))
    if net.opset < 11:
        net.node("Clip", x, min=None if low == "" else float(low), max=None if high == "" else float(high))
    else:
        net.node("Clip", x, *(b if b == "" else net.constant(b, name) for b in (low, high)))


def cast(net: Network) -> None:
    x = net.value(lambda a: bool(np.isfinite(a).all() and (np.abs(a.astype(np.float64)) < 100).all()) if a.size else True)
    kind = net.pick(*CASTS)
    if kind == "uint8" and net.arrays[x].dtype.kind != "b":
        (x,) = net.node("Abs", x) if net.arrays[x].dtype.kind in "fi" else [x]
    net.node("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def axes_of(net: Network, rank: int) -> list[int]:
    """Some axes, counted from either end, in any order."""
    chosen = [k for k in range(rank) if net.rng.random() < 0.5]
    return [int(k) - (rank if net.rng.random() < 0.3 else 0) for k in net.rng.permutation(chosen)]


def reduction(net: Network) -> None:
    """Where onnxruntime and NumPy mean the same: nothing has no extremes, NaN is one, and no product underflows."""
    op = net.pick(*REDUCTIONS)
    x = net.value(lambda a: a.dtype.kind == "f" and a.size > 0 and not np.isnan(a).any())
    axes, keep = axes_of(net, net.arrays[x].ndim), net.pick(0, 1)
    if op == "Prod" and not np.abs(net.arrays[x]).min() ** net.arrays[x].size > 1e-30:
        raise Unfit
    if not axes:
        net.node(f"Reduce{op}", x, keepdims=keep)
    elif net.opset >= 18 or (op == "Sum" and net.opset >= 13):
        net.node(f"Reduce{op}", x, net.steer(axes) if keep else net.constant(axes, "int64"), keepdims=keep)
    else:
        net.node(f"Reduce{op}", x, axes=axes, keepdims=keep)


def extreme(net: Network) -> None:
    x = net.value(lambda a: a.dtype.kind in "fi" and a.ndim > 0 and a.size > 0 and not np.isnan(a).any())
    last = net.pick(0, 1) if net.opset >= 12 else None
    axis = int(net.rng.integers(net.arrays[x].ndim))
    net.node(net.pick("ArgMax", "ArgMin"), x, axis=axis, keepdims=net.pick(0, 1), select_last_index=last)


def reshape(net: Network) -> None:
    x = net.value()
    size, shape = net.arrays[x].size, []
    rest = size
    while rest > 1 and len(shape) < 4:
        factor = int(net.pick(*(f for f in range(1, rest + 1) if rest % f == 0)))
        shape.append(factor)
        rest //= factor
    wanted = [*shape, net.pick(rest, -1)] if size else [0]
    net.node("Reshape", x, net.steer(wanted) if net.rng.random() < 0.8 else net.constant(wanted, "int64"))


def rearrange(net: Network) -> None:
    x = net.value()
    rank = net.arrays[x].ndim
    axis = int(net.rng.integers(rank + 1))
    kind = net.pick("Transpose", "Flatten", "Unsqueeze", "Squeeze", "Tile", "Expand")
    if kind == "Transpose":
        net.node(kind, x, perm=[int(k) for k in net.rng.permutation(rank)] if rank else None)
    elif kind == "Flatten":
        net.node(kind, x, axis=axis)
    elif kind in ("Unsqueeze", "Squeeze"):
        axes = [axis] if kind == "Unsqueeze" else [k for k, d in enumerate(net.arrays[x].shape) if d == 1]
        if kind == "Squeeze" and not axes:
            raise Unfit
        net.node(kind, x, net.constant(axes, "int64")) if net.opset >= 13 else net.node(kind, x, axes=axes)
    elif kind == "Tile":
        net.node(kind, x, net.steer([net.pick(1, 1, 2, 3) for _ in range(rank)]))
    else:
        net.node(kind, x, net.steer([net.pick(1, 2), *net.arrays[x].shape]))


def cut(net: Network) -> None:
    """Ends far after the last element only go with steps forward: onnxruntime reads them as the first one otherwise."""
    x = net.value(lambda a: a.ndim > 0)
    a = net.arrays[x]
    axes = list(dict.fromkeys(int(net.rng.integers(a.ndim)) for _ in range(2)))
    pairs = [[int(k) for k in net.rng.integers(-a.shape[axis] - 1, a.shape[axis] + 2, 2)] for axis in axes]
    starts = [p[0] for p in pairs]
    steps = [net.pick(1, 1, 2, -1, -2) if net.opset >= 10 else 1 for _ in axes]
    ends = [net.pick(p[1], *((2**31 - 1, 2**63 - 1) if step > 0 else (-(2**31), -(2**63)))) for p, step in zip(pairs, steps)]
    if net.opset < 10:
        net.node("Slice", x, starts=starts, ends=ends, axes=axes)
    else:
        net.node("Slice", x, net.steer(starts), net.steer(ends), net.constant(axes, "int64"), net.steer(steps))


def join(net: Network) -> None:
    x = net.value(lambda a: a.ndim > 0)
    a = net.arrays[x]
    axis = int(net.rng.integers(a.ndim))
    fitting = [n for n, b in net.arrays.items() if b.dtype == a.dtype and b.ndim == a.ndim
               and all(k == axis or p == q for k, (p, q) in enumerate(zip(a.shape, b.shape, strict=True)))]
    net.node("Concat", x, *(net.pick(*fitting) for _ in range(net.pick(1, 2))), axis=axis - net.pick(0, a.ndim))


def split(net: Network) -> None:
    x = net.value(lambda a: a.ndim > 0 and max(a.shape) > 1)
    a = net.arrays[x]
    axis = int(np.argmax(a.shape))
    first = int(net.rng.integers(0, a.shape[axis] + 1))
    sizes = [first, a.shape[axis] - first]
    if net.opset < 13:
        net.node("Split", x, outputs=2, axis=axis, split=sizes)
    elif net.opset >= 18 and net.rng.random() < 0.5:
        net.node("Split", x, outputs=2, axis=axis, num_outputs=2)
    else:
        net.node("Split", x, net.steer(sizes), outputs=2, axis=axis)


def gather(net: Network) -> None:
    x = net.value(lambda a: a.ndim > 0 and 0 not in a.shape)
    a = net.arrays[x]
    axis = int(net.rng.integers(a.ndim))
    if net.opset >= 11 and net.rng.random() < 0.4:
        shape = [d if k != axis else net.pick(1, 3) for k, d in enumerate(a.shape)]
        indices = net.rng.integers(-a.shape[axis], a.shape[axis], shape)
        net.node("GatherElements", x, net.steer(indices), axis=axis)
    else:
        shape = net.pick((), (1,), (3,), (2, 2))
        net.node("Gather", x, net.steer(net.rng.integers(-a.shape[axis], a.shape[axis], shape)), axis=axis)


def scatter(net: Network) -> None:
    x = net.value(lambda a: a.ndim > 0 and 0 not in a.shape)
    a = net.arrays[x]
    axis = int(net.rng.integers(a.ndim))
    if net.opset < 11:
        raise Unfit
    if net.rng.random() < 0.5:
        count = net.pick(1, a.shape[axis])
        places = net.rng.permutation(a.shape[axis])[:count].reshape([-1 if k == axis else 1 for k in range(a.ndim)])
        indices = np.broadcast_to(places, [count if k == axis else d for k, d in enumerate(a.shape)]).astype(np.int64)
        net.node("ScatterElements", x, net.steer(indices), net.constant(net.contents(indices.shape, a.dtype.name)), axis=axis)
    else:
        indices = net.rng.permutation(a.shape[0])[: net.pick(1, 2)][:, None].astype(np.int64)
        updates = net.constant(net.contents((len(indices), *a.shape[1:]), a.dtype.name))
        net.node("ScatterND", x, net.steer(indices), updates)


def pad(net: Network) -> None:
    x = net.real()
    rank = net.arrays[x].ndim
    mode = net.pick("constant", "edge", "reflect")
    if rank == 0:
        raise Unfit
    widths = [int(k) for k in net.rng.integers(-1 if mode == "constant" else 0, 3, 2 * rank)]
    if net.opset < 11:
        net.node("Pad", x, mode=mode, pads=widths)
    else:
        net.node("Pad", x, net.steer(widths), mode=mode)


def sizes(net: Network) -> None:
    """Arithmetic of shapes: a reshape by what Shape, Gather and Concat give."""
    x = net.value(lambda a: a.ndim >= 2)
    (shape,) = net.node("Shape", x)
    (first,) = net.node("Gather", shape, net.constant([0], "int64"), axis=0)
    (wanted,) = net.node("Concat", first, net.constant([-1], "int64"), axis=0)
    net.node("Reshape", x, wanted)
    if net.rng.random() < 0.5:
        (filled,) = net.node("ConstantOfShape", shape, value=helper.make_tensor("v", onnx.TensorProto.FLOAT, [1], [2.5]))
        net.node("Neg", filled)


INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def narrow_sizes(net: Network) -> None:
    """Arithmetic on sizes in some integer type, with numbers near its limits: what comes out is data, and sizes again."""
    if net.opset < 13:
        raise Unfit
    dtype = net.pick(*INTEGERS)
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    (shape,) = net.node("Shape", net.value(lambda a: a.ndim > 0))
    first = value = _converted(net, shape, dtype)
    for _ in range(int(net.rng.integers(1, 4))):
        number = net.constant([net.pick(1, 2, 3, 5, 100, low, low + 1, low // 2 + 1, high // 2, high - 1, high)], dtype)
        op = net.pick("Add", "Sub", "Mul", "Min", "Max", "Abs", "Div", "Mod", "Neg", "Sign", "Cast", "ReduceSum", "ReduceProd")
        divides = op in ("Div", "Mod") and net.arrays[number].item() in (0, -1)
        exact = {"ReduceSum": sum, "ReduceProd": math.prod}.get(op, min)(net.arrays[value].tolist())
        with contextlib.suppress(Unfit):  # onnxruntime lacks some operators in some types
            if op == "Cast":
                value = _converted(net, _converted(net, value, net.pick(*INTEGERS)), dtype)
            elif op in ("Abs", "Neg", "Sign", "ReduceSum", "ReduceProd"):
                (value,) = net.node(op, value) if low <= exact <= high else [value]  # its sums do not wrap
            elif not divides:
                (value,) = net.node(op, *(net.pick((value, number), (number, value)) if op == "Sub" else (value, number)))
    with contextlib.suppress(Unfit):
        net.node(net.pick("Less", "Greater", "Equal", "LessOrEqual"), value, first)
    (count,) = net.node("Mod", _converted(net, value, "int64"), net.constant([3], "int64"))
    net.node("Expand", net.constant(2.5, "float32"), count)


def _converted(net: Network, value: str, dtype: str) -> str:
    return net.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))[0]


def numbers(net: Network) -> None:
    x = net.value(lambda a: a.ndim > 0)
    (size,) = net.node("Size", x)
    net.node("Range", net.constant(0, "int64"), size, net.constant(net.pick(1, 2, 3), "int64"))


def ordered(net: Network) -> None:
    """Onnxruntime gives NaN no place among numbers."""
    x = net.value(lambda a: a.dtype in (np.float32, np.float64, np.int64) and a.ndim > 0 and 0 not in a.shape)
    axis = int(net.rng.integers(net.arrays[x].ndim))
    kind = net.pick("TopK", "CumSum", "NonZero", "Unique", "OneHot", "Compress", "Trilu")
    if kind in ("TopK", "Unique") and np.isnan(net.arrays[x]).any():
        raise Unfit
    if kind == "TopK" and net.opset >= 11:
        k = net.steer([int(net.rng.integers(1, net.arrays[x].shape[axis] + 1))])
        net.node(kind, x, k, outputs=2, axis=axis, largest=net.pick(0, 1))
    elif kind == "CumSum" and net.opset >= 11:
        net.node(kind, x, net.constant(axis, "int64"), exclusive=net.pick(0, 1), reverse=net.pick(0, 1))
    elif kind == "NonZero":
        net.node(kind, x)
    elif kind == "Unique" and net.opset >= 11:
        net.node(kind, x, outputs=4, axis=net.pick(None, axis), sorted=net.pick(0, 1))
    elif kind == "Compress":
        net.node(kind, x, net.constant(net.contents(net.arrays[x].shape[axis : axis + 1], "bool")), axis=axis)
    elif kind == "Trilu" and net.opset >= 14 and net.arrays[x].ndim >= 2:
        net.node(kind, x, net.steer(net.pick(-1, 0, 1)), upper=net.pick(0, 1))
    elif net.arrays[x].dtype == np.int64:
        net.node("OneHot", x, net.constant(5, "int64"), net.constant([0, 1], "float32"), axis=-1)


def product(net: Network) -> None:
    x = net.real()
    a = net.arrays[x]
    if a.ndim == 0 or a.dtype == np.float16:
        raise Unfit
    columns = net.pick(1, 3, 16, 17)
    w = net.constant(net.contents((a.shape[-1], columns), a.dtype.name))
    if a.ndim == 2 and net.rng.random() < 0.5:
        bias = net.constant(net.contents((columns,), a.dtype.name))
        net.node("Gemm", x, w, bias, alpha=net.pick(1.0, 0.5), beta=net.pick(1.0, 2.0))
    elif a.ndim == 3 and net.opset >= 12 and net.rng.random() < 0.4:
        net.node("Einsum", x, w, equation=net.pick("bij,jk->bik", "bij,jk->kb", "bij,jk->ibk"))
    else:
        net.node("MatMul", x, w)


def is_image(a: np.ndarray) -> bool:
    """Whether every window below fits into it."""
    return bool(a.dtype == np.float32 and a.ndim == 4 and a.size and min(a.shape[2:]) >= 5)


def convolution(net: Network) -> None:
    x = net.value(is_image)
    channels = net.arrays[x].shape[1]
    groups = net.pick(1, channels)
    kernel = [net.pick(1, 2, 3), net.pick(1, 3)]
    options: dict[str, Any] = {"strides": [net.pick(1, 2), 1], "dilations": [1, net.pick(1, 2)], "group": groups}
    padding = net.pick({"auto_pad": "SAME_UPPER", "dilations": [1, 1]}, {"pads": [1, 0, 1, 1]}, {})
    if net.rng.random() < 0.7:
        w = net.constant(net.contents((groups * net.pick(1, 3), channels // groups, *kernel), "float32"))
        bias = [net.constant(net.contents((net.arrays[w].shape[0],), "float32"))] if net.rng.random() < 0.5 else []
        net.node("Conv", x, w, *bias, **{**options, **padding})
    else:
        w = net.constant(net.contents((channels, net.pick(1, 2), *kernel), "float32"))
        net.node("ConvTranspose", x, w, **{**options, "output_padding": net.pick(None, [options["strides"][0] - 1, 0])})


def pooling(net: Network) -> None:
    x = net.value(is_image)
    op = net.pick("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LRN", "DepthToSpace", "SpaceToDepth")
    if "Max" in op and np.isnan(net.arrays[x]).any():  # which onnxruntime skips or not, by its place
        raise Unfit
    if op in ("MaxPool", "AveragePool"):
        options: dict[str, Any] = {"kernel_shape": [net.pick(1, 2, 3), 2], "strides": [net.pick(1, 2), 1]}
        options["pads"] = net.pick(None, [0, 1, 0, 0])
        options["ceil_mode"] = net.pick(0, 1) if net.opset >= 10 else None
        options["count_include_pad"] = net.pick(0, 1) if op == "AveragePool" else None
        net.node(op, x, **options)
    elif op == "LRN":
        net.node(op, x, size=net.pick(1, 3, 5), alpha=0.1, beta=0.75, bias=1.0)
    else:
        net.node(op, x, **({"blocksize": 2} if "Space" in op else {}))


def resize(net: Network) -> None:
    """Onnxruntime computes places in single precision: weights are drawn from scales that are powers of two alone.

    With other scales, two modes of coordinates differ from the standard's reference there: they get sizes.
    """
    x = net.value(lambda a: a.dtype == np.float32 and a.ndim == 4 and not np.isnan(a).any())
    if net.opset < 11:
        raise Unfit
    mode = net.pick("nearest", "linear", "cubic")
    if mode == "nearest" and net.rng.random() < 0.5:
        wanted = [*net.arrays[x].shape[:2], net.pick(2, 5, 9), net.pick(3, 8)]
        coordinates = net.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        net.node("Resize", x, "", "", net.constant(wanted, "int64"), mode=mode, coordinate_transformation_mode=coordinates)
    else:
        scales = net.constant([1, 1, 2, net.pick(0.5, 2, 4)], "float32")
        net.node("Resize", x, "", scales, mode=mode, coordinate_transformation_mode=net.pick("half_pixel", "asymmetric"))


def normalization(net: Network) -> None:
    """Of values that differ: of equal ones, onnxruntime's instance norm leaves rounding errors times 1 / sqrt(epsilon)."""
    x = net.value(lambda a: a.dtype.kind == "f" and not np.isnan(a).any())
    a = net.arrays[x]
    kind = net.pick("Softmax", "LogSoftmax", "Hardmax", "LayerNormalization", "InstanceNormalization", "BatchNormalization")
    if kind == "LayerNormalization" and net.opset >= 17 and a.ndim:
        scale = net.constant(net.contents(a.shape[-1:], a.dtype.name))
        net.node(kind, x, scale, axis=-1)
    elif kind in ("InstanceNormalization", "BatchNormalization") and a.ndim >= 3 and _varies(a):
        scale, bias = (net.constant(net.contents(a.shape[1:2], a.dtype.name)) for _ in range(2))
        moments = [net.constant(net.contents(a.shape[1:2], a.dtype.name)), net.constant(np.full(a.shape[1:2], 0.8, a.dtype))]
        net.node(kind, x, scale, bias, *(moments if kind[0] == "B" else []))
    elif a.ndim and "Norm" not in kind:
        net.node(kind, x, axis=int(net.rng.integers(-1, a.ndim)))


def _varies(a: np.ndarray) -> bool:
    return bool(a.size) and bool((np.ptp(a.astype(np.float64), axis=tuple(range(2, a.ndim))) > 0.1).all())


def recurrent(net: Network) -> None:
    x = net.value(lambda a: a.dtype == np.float32 and a.ndim == 3 and 0 not in a.shape and bool((np.abs(a) < 4).all()))
    op, gates = net.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    hidden, directions = net.pick(1, 4), net.pick(1, 2)
    shapes = [(directions, gates * hidden, k) for k in (net.arrays[x].shape[2], hidden)]
    w, r = (net.constant(net.contents(shape, "float32") * np.float32(0.2)) for shape in shapes)
    net.node(op, x, w, r, outputs=2, hidden_size=hidden, direction=("forward", "bidirectional")[directions - 1])


def quantized(net: Network) -> None:
    x = net.value(lambda a: a.dtype == np.float32 and bool(np.isfinite(a).all()))
    if net.opset < 10:
        raise Unfit
    kind = net.pick("uint8", "int8")
    scale, zero = net.constant(net.pick(0.1, 0.02, 1.0), "float32"), net.constant(net.pick(0, 3), kind)
    (q,) = net.node("QuantizeLinear", x, scale, zero)
    net.node("DequantizeLinear", q, scale, zero)


def condition(net: Network) -> None:
    x = net.real()
    a = net.arrays[x]
    (total,) = net.node("ReduceSum", x, keepdims=0)
    (positive,) = net.node("Greater", total, net.constant(np.zeros((), a.dtype)))
    branches = []
    for name in (f"{positive}_then", f"{positive}_else"):
        inner = helper.make_node(net.pick("Neg", "Relu", "Tanh", "Identity"), [x], [name])
        out = helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), None)
        branches.append(helper.make_graph([inner], "branch", [], [out]))
    net.node("If", positive, then_branch=branches[0], else_branch=branches[1])


def loop(net: Network) -> None:
    """A value is changed some times, and all its states are collected."""
    x = net.value(lambda a: a.dtype == np.float32 and a.size < 100)
    tag = f"loop{len(net.arrays)}"
    info = helper.make_tensor_value_info
    shape = net.arrays[x].shape
    body = helper.make_graph(
        [
            helper.make_node("Tanh", [f"{tag}_state"], [f"{tag}_t"]),
            helper.make_node("Add", [f"{tag}_t", x], [f"{tag}_next"]),
            helper.make_node("Identity", [f"{tag}_c"], [f"{tag}_again"]),
            helper.make_node("Identity", [f"{tag}_t"], [f"{tag}_seen"]),
        ],
        "body",
        [info(f"{tag}_i", 7, []), info(f"{tag}_c", 9, []), info(f"{tag}_state", 1, shape)],
        [info(f"{tag}_again", 9, []), info(f"{tag}_next", 1, shape), info(f"{tag}_seen", 1, shape)],
    )
    net.node("Loop", net.steer(net.pick(0, 1, 3)), net.constant(True), x, outputs=2, body=body)


def scan(net: Network) -> None:
    x = net.value(lambda a: a.dtype == np.float32 and a.ndim >= 2 and 0 not in a.shape)
    tag = f"scan{len(net.arrays)}"
    info = helper.make_tensor_value_info
    shape = net.arrays[x].shape[1:]
    body = helper.make_graph(
        [
            helper.make_node("Add", [f"{tag}_state", f"{tag}_x"], [f"{tag}_next"]),
            helper.make_node("Abs", [f"{tag}_next"], [f"{tag}_y"]),
        ],
        "body",
        [info(f"{tag}_state", 1, shape), info(f"{tag}_x", 1, shape)],
        [info(f"{tag}_next", 1, shape), info(f"{tag}_y", 1, shape)],
    )
    start = net.constant(net.contents(shape, "float32"))
    net.node("Scan", start, x, outputs=2, body=body, num_scan_inputs=1, scan_input_directions=[net.pick(0, 1)])


STEPS: tuple[Callable[[Network], None], ...] = (
    unary, unary, unary, binary, binary, binary, integer_division, select, clip, cast, cast, reduction, reduction, extreme,
    reshape, rearrange, rearrange, cut, join, split, gather, scatter, pad, sizes, narrow_sizes, numbers, ordered, ordered,
    product, product, convolution, pooling, resize, normalization, normalization, recurrent, quantized, condition, loop, scan,
)
