"""Weights of recurrent layers that are dequantized stay integers of 8 bits, and the products of the input are taken out.

``nn.lstm(%x, qnn.dequantize(w, s), qnn.dequantize(r, t), ...)`` -->
``nn.lstm(nn.dense(%x, qnn.dequantize(w, s)), None, r, ..., None, None, t)``: the layer reads codes of int8 with a scale for each
row, and the product is one that later passes compute with packed codes, or with integers where %x is quantized. Where the layer
rounds its input itself (``dynamic_quantization``), %x is rounded before the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import Declined, RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.quantized.quantize import Dequantize
from forge.passes.base import rewriting
from forge.passes.split_recurrent import LAYERS


@rule(*LAYERS)
def keep_codes(builder: RuleBuilder, node: Node) -> Sequence[Value] | Declined | None:
    """lstm(x, dequantize(w, s), ..) == lstm(x, w, .., s), and the same for the weights of the state"""
    given = dict(zip([o.name for o in node.op_def.operands], node.op_def.arguments(node.operands)))
    found = {name: Dequantize.of(value.producer) for name in ("w", "r") if (value := given[name]) is not None}
    if not any(found.values()):
        return None
    for name, weight in found.items():
        if weight is None:
            continue
        rows = _rows(weight)
        if isinstance(rows, Declined):
            return rows
        given |= {name + part: None if array is None else builder.constant(array) for part, array in rows.items()}
    return builder.call_multi(node.op, *given.values(), name=node.name, **node.attributes)


@rule(*LAYERS)
def take_out_products(builder: RuleBuilder, node: Node) -> Sequence[Value] | None:
    """lstm(x, w, ..) == lstm(dense(x, w), None, ..)"""
    op: Any = node.op_def
    values: Sequence[Value] | None = op.decompose(builder, node.attrs, *op.arguments(node.operands))
    return values


def _rows(weight: Dequantize) -> dict[str, np.ndarray | None] | Declined:
    """Codes of int8 ``[D, N, K]``, scales and zero points ``[D, N]``, by what the names of these operands add to the weight's."""
    codes, scale = weight.data.constant, weight.scale.constant
    zero = None if weight.zero_point is None else weight.zero_point.constant
    if codes is None or scale is None or (zero is None) != (weight.zero_point is None):
        return Declined("the weight is not constant")
    if weight.data.dtype not in ("int8", "uint8"):
        return Declined(f"the weight is of {weight.data.dtype}")
    axis = weight.attrs.axis % 3
    if weight.attrs.block_size or axis == 2 and max(scale.size, 1 if zero is None else zero.size) > 1:
        return Declined("scales or zero points are not those of rows of the weight")

    def by_row(parameter: np.ndarray) -> np.ndarray:
        shape = [-1 if k == axis and parameter.size > 1 else 1 for k in range(2)]
        return np.ascontiguousarray(np.broadcast_to(parameter.reshape(shape), codes.shape[:2]))

    whole = codes.astype(np.int16)
    points = np.zeros(codes.shape[:2], np.int16) if zero is None else by_row(zero).astype(np.int16)
    low, high = dtypes.integer_range("int8")
    centred = whole - points[..., None]
    if centred.size == 0 or centred.min() >= low and centred.max() <= high:
        return {"": centred.astype(np.int8), "_scale": by_row(scale), "_zero_point": None}
    middle = 128 if weight.data.dtype == "uint8" else 0
    shifted = [(array - middle).astype(np.int8) for array in (whole, points)]
    return {"": shifted[0], "_scale": by_row(scale), "_zero_point": shifted[1]}


run = rewriting(keep_codes, take_out_products)
