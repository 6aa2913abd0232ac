"""Numbers that are quantized to int8 and back are quantized to uint8, as products of integers take them.

``qnn.dequantize(qnn.quantize(%x, s, z), t, y)`` of int8 --> ``qnn.dequantize(qnn.quantize(%x, s, z + 128), t, y + 128)`` of
uint8: the same real numbers.
"""

from __future__ import annotations

import numpy as np

from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.graph import Graph
from forge.ir.nodes import Value
from forge.ops.quantized.quantize import Dequantize, Quantize
from forge.options import CompileOptions
from forge.passes import eliminate_common_subexpr
from forge.passes.base import rewriting


@rule(Dequantize)
def to_unsigned(builder: RuleBuilder, found: Dequantize) -> Value | None:
    """dequantize(quantize(x, s, z), t, y) of int8 == dequantize(quantize(x, s, z + 128), t, y + 128) of uint8"""
    made = Quantize.of(found.data.producer)
    if made is None or found.data.dtype != "int8" or made.attrs.block_size:
        return None
    known = np.int8(0) if made.zero_point is None else made.zero_point.constant
    own = np.int8(0) if found.zero_point is None else found.zero_point.constant
    if known is None or own is None:
        return None
    zeros = [builder.constant((z.astype(np.int16) + 128).astype(np.uint8)) for z in (known, own)]
    scales = (made.scale, found.scale)
    whole = builder.call("qnn.quantize", made.data, scales[0], _like(builder, zeros[0], scales[0]), axis=made.attrs.axis,
                         out_dtype="uint8", away=made.attrs.away)
    return builder.call("qnn.dequantize", whole, scales[1], _like(builder, zeros[1], scales[1]), name=found.node.name,
                        **found.node.attributes)


def _like(builder: RuleBuilder, zero: Value, scale: Value) -> Value:
    """A zero point for each of the scales."""
    if zero.shape == scale.shape or zero.constant is None or scale.size == 1:
        return zero
    return builder.constant(np.broadcast_to(zero.constant, [d for d in scale.shape if isinstance(d, int)]))


_rewrite = rewriting(to_unsigned)


def run(graph: Graph, options: CompileOptions) -> int:
    """Keeps numbers that several dequantize one tensor, so that what is computed of them is seen to be a function of it."""
    changes = _rewrite(graph, options)
    return changes + eliminate_common_subexpr.run(graph, options) if changes else 0
