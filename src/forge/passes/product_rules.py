"""Rules of ``canonicalize`` for contractions: those of one term are multiplications, which run at the speed of memory."""

from __future__ import annotations

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.core.window_geometry import padding_pairs
from forge.ops.nn.convolution import Conv
from forge.ops.nn.matmul import BatchMatmul, Dense, Matmul
from forge.ops.shape.pad import Pad
from forge.passes.choose_layouts import has_usual_layout
from forge.passes.matching import again, scalar
from forge.passes.view_rules import reshaped


@rule(Conv)
def convolution_of_padding(builder: RuleBuilder, conv: Conv) -> Value | None:
    """conv(nn.pad(x, 0, widths), w, padding) == conv(x, w, padding + widths), for floats"""
    pad, attrs = Pad.of(conv.data.producer), conv.attrs
    widths = None if pad is None or pad.pad_width is not None or pad.attrs.pad_mode != "constant" else pad.attrs.pad_width
    if pad is None or widths is None or len(attrs.data_layout) != pad.data.rank or not dtypes.is_float(pad.data.dtype):
        return None
    by_axis = dict(zip(attrs.data_layout, widths))
    if any(not isinstance(n, int) or n < 0 for pair in widths for n in pair) or (by_axis["N"], by_axis["C"]) != ((0, 0), (0, 0)):
        return None
    if attrs.pad_value or pad.pad_value is not None and scalar(pad.pad_value) != 0:
        return None
    around = padding_pairs(conv.name, attrs.padding, len(conv.spatial))
    padding = tuple(here[side] + by_axis[axis][side] for side in (0, 1) for axis, here in zip(conv.spatial, around))
    return again(builder, conv.node, pad.data, conv.weight, padding=padding)


@rule(Conv)
def convolution_of_one_term(builder: RuleBuilder, conv: Conv) -> Value | None:
    """conv(x, w) == x[..., ::s, ::s] * w, where each result has one weight, of a channel of its own or of the only one"""
    data, weight, attrs = conv.data, conv.weight, conv.attrs
    if not has_usual_layout(conv) or not _keeps_dtype(conv.node):
        return None
    own = attrs.groups == weight.shape[0] or data.shape[1] == 1
    if any(d != 1 for d in weight.shape[1:]) or not own or any(attrs.padding):
        return None
    if any(s != 1 for s in attrs.strides):
        extents, axes = data.shape[2:], tuple(range(2, data.rank))
        if not all(isinstance(d, int) and d > 0 for d in extents):
            return None
        data = builder.call("strided_slice", data, begin=(0,) * len(extents), end=extents, strides=attrs.strides, axes=axes)
    factor = reshaped(builder, weight, (weight.shape[0], *(1 for _ in conv.spatial)))
    return builder.call("multiply", data, factor, name=conv.node.name)


@rule(Matmul)
def outer_product(builder: RuleBuilder, product: Matmul) -> Value | None:
    """matmul(x, y) == x * y for a column (of each matrix of a stack) and a row"""
    a, b, attrs = product.a, product.b, product.attrs
    if a.shape[-2 if attrs.transpose_a else -1] != 1 or not _keeps_dtype(product.node):
        return None
    column = reshaped(builder, a, (*a.shape[:-2], a.shape[-1], 1)) if attrs.transpose_a else a
    row = reshaped(builder, b, (*b.shape[:-2], 1, b.shape[-2])) if attrs.transpose_b else b
    return builder.call("multiply", column, row, name=product.node.name)


@rule(BatchMatmul)
def batch_matmul_as_matmul(builder: RuleBuilder, product: BatchMatmul) -> Value | None:
    """batch_matmul(a, b) == matmul(a, b), which has no bounds on ranks"""
    return builder.call("nn.matmul", product.a, product.b, name=product.node.name, **product.node.attributes)


@rule(Dense)
def dense_of_one_feature(builder: RuleBuilder, dense: Dense) -> Value | None:
    """dense(x, w) == x * w for the only feature x"""
    if dense.data.shape[-1] != 1 or not _keeps_dtype(dense.node):
        return None
    return builder.call("multiply", dense.data, reshaped(builder, dense.weight, dense.weight.shape[:1]), name=dense.node.name)


def _keeps_dtype(node: Node) -> bool:
    dtype = node.result.dtype
    return dtypes.is_float(dtype) and all(v is not None and v.dtype == dtype for v in node.operands)
