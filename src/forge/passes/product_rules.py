"""Rules of ``canonicalize`` for contractions of one term: they are multiplications, which fuse and run at the speed of memory."""

from __future__ import annotations

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.passes.matching import operand
from forge.passes.view_rules import reshaped

LAYOUTS = {"nn.conv1d": ("NCW", "OIW"), "nn.conv2d": ("NCHW", "OIHW"), "nn.conv3d": ("NCDHW", "OIDHW")}


@rule(*LAYOUTS)
def convolution_of_one_term(builder: RuleBuilder, node: Node) -> Value | None:
    """conv(x, w) == x[..., ::s, ::s] * w, where each result has one weight, of a channel of its own or of the only one"""
    data, weight = node.operands
    assert data is not None and weight is not None
    attributes, spatial = node.attributes, range(2, data.rank)
    layouts = attributes["data_layout"], attributes["kernel_layout"]
    if layouts != LAYOUTS[node.op] or attributes["out_layout"] not in ("", layouts[0]) or not _keeps_dtype(node):
        return None
    own = attributes["groups"] == weight.shape[0] or data.shape[1] == 1
    if any(d != 1 for d in weight.shape[1:]) or not own or any(attributes["padding"]):
        return None
    strides = attributes["strides"]
    if any(s != 1 for s in strides):
        extents = tuple(data.shape[axis] for axis in spatial)
        if not all(isinstance(d, int) and d > 0 for d in extents):
            return None
        data = builder.call("strided_slice", data, begin=(0,) * len(extents), end=extents, strides=strides, axes=tuple(spatial))
    factor = reshaped(builder, node, weight, (weight.shape[0], *(1 for _ in spatial)))
    return builder.call("multiply", data, factor, name=node.name)


@rule("nn.matmul")
def outer_product(builder: RuleBuilder, node: Node) -> Value | None:
    """matmul(x, y) == x * y for a column (of each matrix of a stack) and a row"""
    a, b = node.operands
    assert a is not None and b is not None
    swapped_a, swapped_b = node.attributes["transpose_a"], node.attributes["transpose_b"]
    if a.shape[-2 if swapped_a else -1] != 1 or not _keeps_dtype(node):
        return None
    column = reshaped(builder, node, a, (*a.shape[:-2], a.shape[-1], 1)) if swapped_a else a
    row = reshaped(builder, node, b, (*b.shape[:-2], 1, b.shape[-2])) if swapped_b else b
    return builder.call("multiply", column, row, name=node.name)


@rule("nn.batch_matmul")
def batch_matmul_as_matmul(builder: RuleBuilder, node: Node) -> Value | None:
    """batch_matmul(a, b) == matmul(a, b), which has no bounds on ranks"""
    attributes = {name: node.attributes[name] for name in ("transpose_a", "transpose_b", "out_dtype")}
    return builder.call("nn.matmul", *node.operands, name=node.name, **attributes)


@rule("nn.dense")
def dense_of_one_feature(builder: RuleBuilder, node: Node) -> Value | None:
    """dense(x, w) == x * w for the only feature x"""
    data, weight = operand(node), node.operands[1]
    assert weight is not None
    if data.shape[-1] != 1 or not _keeps_dtype(node):
        return None
    return builder.call("multiply", data, reshaped(builder, node, weight, weight.shape[:1]), name=node.name)


def _keeps_dtype(node: Node) -> bool:
    dtype = node.result.dtype
    return dtypes.is_float(dtype) and all(v is not None and v.dtype == dtype for v in node.operands)


RULES = convolution_of_one_term, outer_product, batch_matmul_as_matmul, dense_of_one_feature
