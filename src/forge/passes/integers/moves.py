"""Views, selections, concatenations and averages take integers."""

from __future__ import annotations

import numpy as np

from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.quantized.quantize import Dequantize
from forge.ops.shape.transpose import Transpose
from forge.passes.integers.numbers import numbers_of, parameters
from forge.passes.integers.operands import BYTES
from forge.passes.integers.terms import centred
from forge.passes.matching import again, has_only_data


@rule()
def select_integers(builder: RuleBuilder, node: Node) -> Value | None:
    """``nn.max_pool2d(qnn.dequantize(%x, s, z))`` --> ``qnn.dequantize(nn.max_pool2d(%x), s, z)``"""
    op = node.op_def
    moves = op.is_view or op.is_permutation
    if not (moves or op.is_selection) or len(node.results) != 1 or node.operands[0] is None:
        return None
    found = numbers_of(node.operands[0])
    if found is None or found.scale.constant is None and not moves:
        return None
    whole = again(builder, node, found.data, *node.operands[1:])
    return builder.call("qnn.dequantize", whole, found.scale, found.zero_point, axis=-1)


@rule(Transpose)
def transpose_weights(builder: RuleBuilder, transpose: Transpose) -> Value | None:
    """Transposes the integers of a constant, with scales along an axis."""
    found = Dequantize.of(transpose.data.producer)
    if found is None or found.data.constant is None or found.attrs.block_size:
        return None
    axes = transpose.permutation(transpose.attrs, found.data.rank)
    place = axes.index(found.attrs.axis % found.data.rank)
    whole = builder.constant(np.transpose(found.data.constant, axes), name=found.data.name)
    return builder.call("qnn.dequantize", whole, found.scale, found.zero_point, axis=place)


@rule("concatenate")
def concatenate_integers(builder: RuleBuilder, node: Node) -> Value | None:
    """Concatenates integers with one scale and zero point."""
    found = [None if v is None else numbers_of(v) for v in node.operands]
    parts = [f for f in found if f is not None]
    if len(parts) < len(found) or len({parameters(f) for f in parts}) != 1:
        return None
    whole = again(builder, node, *(f.data for f in parts))
    return builder.call("qnn.dequantize", whole, parts[0].scale, parts[0].zero_point, axis=-1)


@rule()
def average_integers(builder: RuleBuilder, node: Node) -> Value | None:
    """``nn.global_avg_pool2d(qnn.dequantize(%x, s, z))`` --> ``multiply(nn.global_avg_pool2d(cast(%x) - z), s)``"""
    if not node.op_def.is_average or len(node.results) != 1 or node.operands[0] is None or not has_only_data(node):
        return None
    found = numbers_of(node.operands[0])
    if found is None or found.scale.constant is None or found.data.dtype not in BYTES:
        return None
    real = builder.call("cast", centred(builder, found.data, found.zero_point), dtype="float32")
    mean = again(builder, node, real)
    return builder.call("multiply", mean, builder.constant(found.scale.constant.reshape(())))
