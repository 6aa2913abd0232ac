"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from forge import dims, dtypes
from forge.dims import Dim
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.core.integers import Centred, bytes_of, centred, product
from forge.exporters.onnx.operators.core.layouts import begins_and_ends, constant_transposed, moved, padded, permutation
from forge.exporters.onnx.operators.shape.reshape import data_shape
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node, Value
from forge.ops.linalg.einsum import Einsum
from forge.ops.nn.bias_add import BiasAdd
from forge.ops.nn.convolution import Conv, Conv1D, Conv2D, Conv3D
from forge.ops.nn.deformable_convolution import DeformableConv2D
from forge.ops.nn.matmul import BatchMatmulAttrs, MatmulAttrs
from forge.ops.nn.transposed_convolution import Conv1DTranspose, Conv2DTranspose, Conv3DTranspose, ConvTranspose

CHANNELS_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
OUTPUTS_FIRST = {1: "OIW", 2: "OIHW", 3: "OIDHW"}
INPUTS_FIRST = {1: "IOW", 2: "IOHW", 3: "IODHW"}


def _wide(g: Emitter, node: Node, *x: Ref) -> list[Ref]:
    """Operands as the element type of the result."""
    return [g.cast(v, node.result.dtype) for v in x]


def _centred(g: Emitter, node: Node) -> tuple[Centred, list[Centred]] | None:
    """Both operands of a product of integers of 8 bits, the second in parts."""
    if node.result.dtype != "int32":
        return None
    a, b = (centred(g, v) for v in node.operands[:2])
    return (a[0], b) if len(a) == 1 and b else None


@exports("nn.dense")
def dense(g: Emitter, node: Node, x: Ref, weight: Ref) -> Ref:
    """Of matrices of floats a Gemm, which takes the weight as it is."""
    if (parts := _centred(g, node)) is not None:
        return product(g, "MatMulInteger", parts[0], [p.transposed(g, [1, 0]) for p in parts[1]])
    x, weight = _wide(g, node, x, weight)
    if len(data_shape(node)) == 2 and dtypes.is_float(x.dtype):
        return g.op("Gemm", x, weight, transB=1)
    return g.op("MatMul", x, constant_transposed(g, weight, [1, 0]))


@exports("nn.matmul", "nn.batch_matmul")
def matmul(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    attrs: MatmulAttrs | BatchMatmulAttrs = node.attrs
    axes = [_swapped(len(data_shape(node, k)), flag) for k, flag in enumerate((attrs.transpose_a, attrs.transpose_b))]
    if (parts := _centred(g, node)) is not None:
        return product(g, "MatMulInteger", parts[0].transposed(g, axes[0]), [p.transposed(g, axes[1]) for p in parts[1]])
    return g.op("MatMul", *(constant_transposed(g, x, order) for x, order in zip(_wide(g, node, a, b), axes)))


def _swapped(rank: int, swap: bool) -> list[int]:
    """The axes of a batch of matrices, transposed where ``swap``."""
    return [*range(rank - 2), rank - 1, rank - 2] if swap else list(range(rank))


@exports(BiasAdd)
def bias_add(g: Emitter, op: BiasAdd, x: Ref, bias: Ref) -> Ref:
    """The bias of the convolution or product before it, if nothing else reads that; else an addition."""
    rank = op.result.rank
    axis = op.attrs.axis % rank
    data = op.node.operands[0]
    product = _own_product(g, op.node, data, x)
    if product is not None and (product.op_type != "Gemm" or axis == 1) and axis == 1:
        return _with_bias(g, product, x, bias)
    return g.op("Add", x, g.unsqueeze(bias, *range(1, rank - axis)))


@exports("add")
def add(g: Emitter, node: Node, a: Ref, b: Ref) -> Ref:
    """To a product of matrices that nothing else reads, its C."""
    for position, (x, other) in enumerate(((a, b), (b, a))):
        data, added = node.operands[position], node.operands[1 - position]
        product = _own_product(g, node, data, x)
        if product is not None and product.op_type == "Gemm" and added is not None and _broadcasts(added, node.result):
            return _with_bias(g, product, x, other)
    return g.op("Add", a, b)


def _broadcasts(added: Value, result: Value) -> bool:
    """Whether ``added`` is a row that broadcasts to the matrix ``result``."""
    return added.rank in (1, 2) and added.shape[-1] in (1, result.shape[-1]) and (added.rank == 1 or added.shape[0] == 1)


def _own_product(g: Emitter, node: Node, data: Value | None, x: Ref) -> onnx.NodeProto | None:
    """The ONNX node that makes ``data``, if it takes a bias, has none, and only ``node`` reads it."""
    graph = node.graph
    if data is None or graph is None or graph.use_count(data) != 1 or data.producer is None:
        return None
    made = next((n for n in reversed(g.nodes) if x.name in n.output), None)
    if made is None or made.op_type not in ("Conv", "ConvTranspose", "Gemm", "DeformConv"):
        return None
    place = 3 if made.op_type == "DeformConv" else 2
    return made if len(made.input) <= place or not made.input[place] else None


def _with_bias(g: Emitter, product: onnx.NodeProto, x: Ref, bias: Ref) -> Ref:
    """The node with a bias, moved to the end, where the bias is known."""
    g.take_up(product)
    if product.op_type == "DeformConv" and len(product.input) > 3:
        product.input[3] = bias.name
    else:
        product.input.append(bias.name)
    return x


@exports(Conv1D, Conv2D, Conv3D)
def conv(g: Emitter, op: Conv, x: Ref, weight: Ref) -> Ref:
    attrs, dtype = op.attrs, op.result.dtype
    rank = len(attrs.strides)
    plain, pads = CHANNELS_FIRST[rank], begins_and_ends(attrs.padding, rank)
    first, axes = permutation(g, attrs.data_layout, plain), permutation(g, attrs.kernel_layout, OUTPUTS_FIRST[rank])
    is_integer = dtypes.is_integer(dtype)
    parts = _centred(g, op.node)
    if parts is not None and dims.is_static(*pads) and (not attrs.pad_value or parts[0].zero is None):
        image, around = padded(g, parts[0].transposed(g, first).data, pads, attrs.pad_value)
        taps = [p.transposed(g, axes) for p in parts[1]]
        result = product(g, "ConvInteger", Centred(image, parts[0].zero), taps, pads=around, **_steps(attrs))
    elif dtype == "int32" and x.dtype == "int16" and dims.is_static(*pads) and (wide := centred(g, op.node.operands[1])):
        taps = [p.transposed(g, axes) for p in wide]
        sums = []
        for part, value in zip(bytes_of(g, g.transpose(x, first)), (attrs.pad_value % 256, attrs.pad_value // 256)):
            image, around = padded(g, part, pads, value)
            sums.append(product(g, "ConvInteger", Centred(image, None), taps, pads=around, **_steps(attrs)))
        result = g.op("Add", sums[0], g.op("Mul", sums[1], g.const(256, "int32")))
    elif is_integer and dtypes.bits(dtype) > 32:
        raise g.unsupported(f"ONNX's Conv takes no {dtype}")
    else:
        work = "float64" if is_integer else dtype
        image, around = padded(g, g.transpose(g.cast(x, work), first), pads, attrs.pad_value)
        result = g.op("Conv", image, constant_transposed(g, g.cast(weight, work), axes), pads=around, **_steps(attrs))
        result = g.cast(g.cast(result, "int64"), dtype) if is_integer else result
    return moved(g, result, plain, attrs.out_layout or attrs.data_layout)


def _steps(attrs: Any) -> dict[str, Any]:
    return {"strides": list(attrs.strides), "dilations": list(attrs.dilation), "group": attrs.groups}


@exports(Conv1DTranspose, Conv2DTranspose, Conv3DTranspose)
def conv_transpose(g: Emitter, op: ConvTranspose, x: Ref, weight: Ref) -> Ref:
    attrs = op.attrs
    rank = len(attrs.strides)
    plain = CHANNELS_FIRST[rank]
    if dtypes.is_integer(op.result.dtype) and not _is_exact_in_float32(op):
        raise g.unsupported(f"ONNX's ConvTranspose takes no {op.result.dtype}")
    work = "float32" if dtypes.is_integer(op.result.dtype) else op.result.dtype
    data, taps = g.cast(x, work), g.cast(weight, work)
    data = moved(g, data, attrs.data_layout, plain)
    taps = constant_transposed(g, taps, permutation(g, attrs.kernel_layout, INPUTS_FIRST[rank]))
    pads = _numbers(g, begins_and_ends(attrs.padding, rank), "padding")
    extra = _numbers(g, attrs.output_padding, "output_padding")
    result = g.cast(g.op("ConvTranspose", data, taps, pads=pads, output_padding=extra, **_steps(attrs)), op.result.dtype)
    return moved(g, result, plain, attrs.out_layout or attrs.data_layout)


def _is_exact_in_float32(op: ConvTranspose) -> bool:
    """Whether float32 holds all sums of products of integers of 8 bits and a constant weight."""
    data, weight = op.node.operands[:2]
    if data is None or weight is None or weight.constant is None or dtypes.bits(data.dtype) > 8:
        return False
    channel = op.attrs.kernel_layout.index("O")
    sums = np.abs(weight.constant.astype(np.int64)).sum(axis=tuple(k for k in range(weight.rank) if k != channel))
    return int(sums.max(initial=0)) * 256 <= 1 << 24


def _numbers(g: Emitter, sizes: Sequence[Dim], what: str) -> list[int]:
    if not all(isinstance(s, int) for s in sizes):
        raise g.unsupported(f"{what} is symbolic; ONNX has numbers only")
    return [int(s) for s in sizes]  # type: ignore[arg-type]


@exports(DeformableConv2D)
def deformable_conv(g: Emitter, op: DeformableConv2D, x: Ref, offset: Ref, weight: Ref, mask: Ref | None = None) -> Any:
    if not g.has("DeformConv"):
        return NotImplemented
    attributes = {"pads": begins_and_ends(op.attrs.padding, 2), "offset_group": op.attrs.offset_groups, **_steps(op.attrs)}
    return g.op("DeformConv", x, weight, offset, None, mask, **attributes)


@exports(Einsum)
def einsum(g: Emitter, op: Einsum, *x: Ref) -> Any:
    """ONNX says nothing of labels whose sizes are 1 in one operand, and equal ellipses only."""
    terms = op.attrs.equation.replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, set[Any]] = {}
    for number, term in enumerate(terms):
        for label, size in zip(term, data_shape(op.node, number)):
            sizes.setdefault(label, set()).add(size)
    if "." in op.attrs.equation or any(len(found) > 1 for found in sizes.values()):
        return NotImplemented
    return g.op("Einsum", *x, equation=op.attrs.equation)
