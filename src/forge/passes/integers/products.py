"""Matrix products of integers, by a constant weight or of two activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.ir.edits.rewrite import Declined, RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.core.product import Product
from forge.ops.packed.pairs import MULTIPLE
from forge.passes.integers.operands import LONGEST, WIDE, operands_of, weight_of
from forge.passes.integers.parts import sum_of_parts
from forge.passes.integers.terms import longer, plus_offset, scaled, shifted, signed, unsigned, whole_groups, without_zero


@rule("nn.dense", "nn.matmul")
def product_to_integers(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """Sums a product of quantized data with a constant matrix as integers."""
    product: Product[Any] | None = Product.of(node)
    if product is None or not product.is_by_matrix:
        return None
    swapped, operands = product.weight_axis == 1, operands_of(node)
    if not isinstance(operands, tuple):
        return operands
    data, weight = operands
    if data.zero is not None and data.zero.size != 1 and data.zero.shape[-1] != 1:
        return Declined("the zero points of the data differ along the depth")
    found = weight_of(weight, 1 if swapped else 0)
    if isinstance(found, Declined):
        return found
    matrix = found.array.T if swapped else found.array
    if data.data.dtype in WIDE:
        return sum_of_parts(
            builder, data, found, matrix, data.data.rank - 1, lambda source, part, shift: builder.call(
                "nn.dense", *whole_groups(builder, source, part), name=node.name, out_dtype="int32"))
    depth = matrix.shape[1]
    if depth > found.longest:
        return Declined(f"the depth is {depth}; expected at most {found.longest}")
    source, shift = unsigned(builder, data.data)
    total = builder.call("nn.dense", *whole_groups(builder, source, matrix), name=node.name, out_dtype="int32")
    if not found.is_plain:
        rows = builder.call("sum", builder.call("cast", source, dtype="int32"), axis=(-1,), keepdims=True)
        total = plus_offset(builder, total, rows, found.offset)
    sums = matrix.sum(axis=1, dtype=np.int32) + depth * found.offset
    return scaled(builder, without_zero(builder, total, data.zero, shift, sums), data, found.scale)


@rule("nn.dense", "nn.matmul", "nn.batch_matmul")
def activations_to_integers(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    """Sums a product of two activations as integers: the sums that zero points add are taken from both."""
    operands = operands_of(node)
    if not isinstance(operands, tuple) or operands[1].data.constant is not None:
        return operands if isinstance(operands, Declined) else None
    a, b = operands
    if a.data.dtype in WIDE or b.data.dtype in WIDE:
        return Declined("two activations, and one of them has 16 bits")
    product: Product[Any] | None = Product.of(node)
    assert product is not None
    swapped, other = product.depth_axis != product.left.rank - 1, product.weight_axis != product.right.rank - 1
    depth = a.data.shape[-2 if swapped else -1]
    if a.data.rank < 2 or not isinstance(depth, int) or depth > LONGEST // 2:
        return Declined(f"the depth is {depth}; expected a number of at most {LONGEST // 2}, of matrices")
    if any(v is not None and v.size != 1 for v in (a.zero, b.zero, b.scale)):
        return Declined("an operand has several scales or zero points")
    scale = None if b.scale is None else b.scale.constant
    if b.scale is not None and scale is None:
        return Declined("the scale of the second operand is known at run time only")
    (left, left_shift), (right, right_shift) = unsigned(builder, a.data), signed(builder, b.data)
    spare = -depth % MULTIPLE
    padded = [longer(builder, v, axis, spare) for v, axis in ((left, -2 if swapped else -1), (right, -1 if other else -2))]
    total = builder.call("nn.matmul", *padded, name=node.name, out_dtype="int32", transpose_a=swapped, transpose_b=other)
    zeros = [_zero(builder, a.zero, left_shift), _zero(builder, b.zero, right_shift)]
    if zeros[1] is not None:
        total = builder.call("subtract", total, builder.call("multiply", _sums(builder, left, swapped, 0), zeros[1]))
    if zeros[0] is not None:
        sums = _sums(builder, right, other, 1)
        if zeros[1] is not None:
            count = builder.constant(np.int32(depth))
            sums = builder.call("subtract", sums, builder.call("multiply", zeros[1], count))
        total = builder.call("subtract", total, builder.call("multiply", sums, zeros[0]))
    return scaled(builder, total, a, None if scale is None else scale.reshape(()))


def _zero(builder: RuleBuilder, zero: Value | None, shift: int) -> Value | None:
    """A zero point of what was shifted, of int32; None: it is 0."""
    known = np.int32(0) if zero is None else zero.constant
    if known is not None:
        whole = int(known.reshape(())) + shift
        return builder.constant(np.int32(whole)) if whole else None
    assert zero is not None
    return shifted(builder, builder.call("reshape", zero, newshape=()), shift)


def _sums(builder: RuleBuilder, data: Value, swapped: bool, place: int) -> Value:
    """Sums along the depth of operand ``place`` of a product, which broadcast to the result."""
    whole = builder.call("cast", data, dtype="int32")
    axis = -2 if swapped == (place == 0) else -1
    sums = builder.call("sum", whole, axis=(axis,))
    return builder.call("expand_dims", sums, axis=-2 if place else -1)
