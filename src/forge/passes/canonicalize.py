"""One form for equal things, and no operator that does nothing. Repeats until nothing changes.

Each rule is a function of one node that returns the value (or one value per result) to use in its place, or None; its
docstring is the equation. Those for shapes, transposes and slices are in ``view_rules``, for contractions of one term in
``product_rules``.
"""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.cast import Cast
from forge.ops.index.gather import Take, in_bounds
from forge.ops.shape.layout_transform import LayoutTransform
from forge.ops.shape.slice import StridedSlice
from forge.passes import product_rules, view_rules
from forge.passes.base import rewriting, rules_of
from forge.passes.matching import has_only_data, operand, pairs


@rule("copy", "nn.dropout", "cast", "broadcast_to", "tile", "reshape")
def same_type(builder: RuleBuilder, node: Node) -> Value | None:
    """An operator that keeps or moves whole elements keeps all of them in place when it keeps the type."""
    return _if_same_type(node)


def _if_same_type(node: Node) -> Value | None:
    return operand(node) if node.result.type == operand(node).type else None


@rule(Cast)
def cast_of_cast(builder: RuleBuilder, outer: Cast) -> Value | None:
    """cast(cast(x, wider), d) == cast(x, d); an integer out of the range of d wraps, its value as a float would not"""
    inner = Cast.of(outer.data.producer)
    if inner is None:
        return None
    source, middle, target = inner.data, inner.result.dtype, outer.result.dtype
    wraps = dtypes.is_float(middle) and dtypes.is_integer(source.dtype) and dtypes.is_integer(target)
    if not dtypes.represents(middle, source.dtype) or (wraps and not dtypes.represents(target, source.dtype)):
        return None
    return builder.call("cast", source, dtype=target, saturate=outer.attrs.saturate)


@rule(LayoutTransform)
def layout_round_trip(builder: RuleBuilder, outer: LayoutTransform) -> Value | None:
    """layout_transform(layout_transform(x, a, b), b, a) == x, when the type comes back; layout_transform(x, a, a) == x"""
    attrs, inner = outer.attrs, LayoutTransform.of(outer.data.producer)
    if attrs.src_layout == attrs.dst_layout and outer.data.type == outer.result.type:
        return outer.data
    if inner is None or (inner.attrs.dst_layout, inner.attrs.src_layout) != (attrs.src_layout, attrs.dst_layout):
        return None
    return inner.data if inner.data.type == outer.result.type else None


NEUTRAL = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1, "power": 1}


@rule(*NEUTRAL)
def neutral_operand(builder: RuleBuilder, node: Node) -> Value | None:
    """x + 0 == 0 + x == x - 0 == x; x * 1 == 1 * x == x / 1 == power(x, 1) == x, where the shape stays."""
    for kept, other in pairs(node):
        array = other.constant
        is_neutral = array is not None and array.size > 0 and array.dtype != object and np.all(array == NEUTRAL[node.op])
        if is_neutral and kept.type == node.result.type:
            return kept
    return None


@rule("concatenate")
def single_operand(builder: RuleBuilder, node: Node) -> Value | None:
    """concatenate(x) == x"""
    return node.operands[0] if len(node.operands) == 1 else None


@rule("strided_slice")
def whole_slice(builder: RuleBuilder, node: Node) -> Value | None:
    """A slice with steps of 1 that keeps the shape == x"""
    return _if_same_type(node) if has_only_data(node) and all(s == 1 for s in node.attrs.strides or ()) else None


@rule(StridedSlice)
def slice_of_whole_axes(builder: RuleBuilder, part: StridedSlice) -> Value | None:
    """x[:, b:e] == the slice along the second axis only"""
    attrs = part.attrs
    if attrs.begin is None or attrs.end is None or attrs.axes is None or attrs.slice_mode != "end":
        return None
    if not has_only_data(part.node):
        return None
    bounds = list(zip(attrs.axes, attrs.begin, attrs.end, attrs.strides or (1,) * len(attrs.axes)))
    kept = [bound for bound in bounds if bound[1:] != (0, part.data.shape[bound[0]], 1)]
    if len(bounds) != len(attrs.axes) or len(kept) in (0, len(bounds)):
        return None
    axes, begin, end, strides = zip(*kept)
    return builder.call("strided_slice", part.data, name=part.node.name, begin=begin, end=end, strides=strides, axes=axes)


@rule("nn.pad")
def no_padding(builder: RuleBuilder, node: Node) -> Value | None:
    """nn.pad by nothing == x"""
    widths = node.attrs.pad_width
    return None if widths is None or any(w != 0 for pair in widths for w in pair) else _if_same_type(node)


@rule(Take)
def regular_take(builder: RuleBuilder, take: Take) -> Value | None:
    """take(x, [0 0 1 1 ..]) == repeat(x, 2); take(x, [a a + s ..]) == a slice of x"""
    data, indices, attrs = take.data, take.indices, take.attrs
    if indices.constant is None or attrs.batch_dims or attrs.axis is None or indices.rank != 1:
        return None
    axis, count, name = attrs.axis % data.rank, indices.shape[0], take.node.name
    extent = data.shape[axis]
    if not isinstance(extent, int) or count < 2 or extent == 0:
        return None
    places = in_bounds(indices.constant, extent, attrs.mode).astype(np.int64)
    repeats, rest = divmod(count, extent)
    if rest == 0 and repeats > 1 and np.array_equal(places, np.arange(count) // repeats):
        return builder.call("repeat", data, repeats=repeats, axis=axis, name=name)
    first, step = int(places[0]), int(places[1] - places[0])
    if step < 1 or not np.array_equal(places, first + step * np.arange(count)):
        return None
    end = int(places[-1]) + 1
    return builder.call("strided_slice", data, begin=(first,), end=(end,), strides=(step,), axes=(axis,), name=name)


@rule("divide")
def division_by_power_of_two(builder: RuleBuilder, node: Node) -> Value | None:
    """x / c == x * (1 / c), exactly, where c is a power of two"""
    array = operand(node, 1).constant
    if array is None or array.dtype.kind != "f" or array.size != 1:
        return None
    mantissa, exponent = np.frexp(array)
    if abs(float(mantissa.reshape(()))) != 0.5 or abs(int(exponent.reshape(()))) > 14:
        return None
    return builder.call("multiply", operand(node), builder.constant(np.asarray(1 / array, array.dtype)), name=node.name)


@rule("power")
def power_as_products(builder: RuleBuilder, node: Node) -> Value | None:
    """power(x, 2) == x * x; power(x, 3) == x * x * x, for real x"""
    data, array = operand(node), operand(node, 1).constant
    if array is None or array.size != 1 or not dtypes.is_float(data.dtype) or data.type != node.result.type:
        return None
    exponent = float(array.reshape(()))
    if exponent not in (2.0, 3.0):
        return None
    product = builder.call("multiply", data, data)
    return product if exponent == 2.0 else builder.call("multiply", product, data)


@rule("add", "multiply", "maximum", "minimum")
def constant_second(builder: RuleBuilder, node: Node) -> Value | None:
    """c op x == x op c, where the operator commutes"""
    a, b = operand(node), operand(node, 1)
    return builder.call(node.op, b, a, name=node.name) if a.constant is not None and b.constant is None else None


run = rewriting(*rules_of(__name__), *rules_of(view_rules.__name__), *rules_of(product_rules.__name__))
