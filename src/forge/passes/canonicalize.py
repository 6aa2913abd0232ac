"""One form for equal things, and no operator that does nothing. Repeats until nothing changes.

Each rule is a function of one node that returns the value (or one value per result) to use in its place, or None; its
docstring is the equation. Those for shapes, transposes and slices are in ``view_rules``, for contractions of one term in
``product_rules``.
"""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.ir.nodes import Graph, Node, Value
from forge.ops.index.gather import in_bounds
from forge.passes import product_rules, view_rules
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs, remove_unused, replace
from forge.passes.view_rules import Rule, data_of

MAX_ROUNDS = 16


def run(graph: Graph, context: PassContext) -> int:
    return on_all_graphs(graph, _canonicalize)


def _canonicalize(graph: Graph) -> int:
    total = 0
    for _ in range(MAX_ROUNDS):
        count = sum(_apply(graph, node) for node in live_nodes(graph))
        total += count
        if not count:
            break
    return total


def _apply(graph: Graph, node: Node) -> int:
    for rule in RULES.get(node.op, ()) + (view_rules.MAP_RULES if node.op_def.is_map else ()):
        made = len(graph.nodes)
        found = rule(graph, node)
        if found is None:
            continue
        values = [found] if isinstance(found, Value) else list(found)
        if replace(graph, node, *values):
            return 1
        for value in values if len(graph.nodes) > made else ():
            if value.producer is not None:
                remove_unused(graph, value.producer)
    return 0


def identity(graph: Graph, node: Node) -> Value | None:
    """copy(x) == nn.dropout(x) == x"""
    return data_of(node)


def same_type(graph: Graph, node: Node) -> Value | None:
    """An operator that keeps or moves whole elements keeps all of them in place when it keeps the type."""
    return data_of(node) if node.result.type == data_of(node).type else None


def cast_of_cast(graph: Graph, node: Node) -> Value | None:
    """cast(cast(x, wider), d) == cast(x, d); an integer out of the range of d wraps, its value as a float would not"""
    inner = data_of(node).producer
    if inner is None or inner.op != "cast":
        return None
    source, middle, target = data_of(inner), data_of(node).dtype, node.result.dtype
    wraps = dtypes.is_float(middle) and dtypes.is_integer(source.dtype) and dtypes.is_integer(target)
    if not dtypes.represents(middle, source.dtype) or (wraps and not dtypes.represents(target, source.dtype)):
        return None
    return before(graph, node).call("cast", source, dtype=target, saturate=node.attrs.saturate)


def layout_round_trip(graph: Graph, node: Node) -> Value | None:
    """layout_transform(layout_transform(x, a, b), b, a) == x, when the type comes back; layout_transform(x, a, a) == x"""
    attributes = node.attributes
    data = data_of(node)
    if attributes["src_layout"] == attributes["dst_layout"] and data.type == node.result.type:
        return data
    inner = data.producer
    if inner is None or inner.op != "layout_transform" or inner.attributes["dst_layout"] != attributes["src_layout"]:
        return None
    source = data_of(inner)
    back = inner.attributes["src_layout"] == attributes["dst_layout"]
    return source if back and source.type == node.result.type else None


def neutral_operand(value: float, both_sides: bool) -> Rule:
    """x op value == x (and value op x == x with ``both_sides``), where the shape stays."""

    def rule(graph: Graph, node: Node) -> Value | None:
        for kept, other in ((0, 1), (1, 0))[: 2 if both_sides else 1]:
            x, y = node.operands[kept], node.operands[other]
            assert x is not None and y is not None
            array = y.constant
            neutral = array is not None and array.size > 0 and array.dtype != object and np.all(array == value)
            if neutral and x.type == node.result.type:
                return x
        return None

    return rule


def single_operand(graph: Graph, node: Node) -> Value | None:
    """concatenate(x) == x"""
    return node.operands[0] if len(node.operands) == 1 else None


def whole_slice(graph: Graph, node: Node) -> Value | None:
    """A slice with steps of 1 that keeps the shape == x"""
    strides = node.attributes.get("strides")
    has_operands = any(v is not None for v in node.operands[1:])
    if has_operands or (strides is not None and any(s != 1 for s in strides)):
        return None
    return same_type(graph, node)


def no_padding(graph: Graph, node: Node) -> Value | None:
    """nn.pad by nothing == x"""
    widths = node.attributes["pad_width"]
    if widths is None or any(w != 0 for pair in widths for w in (pair if isinstance(pair, tuple) else (pair,))):
        return None
    return same_type(graph, node)


def regular_take(graph: Graph, node: Node) -> Value | None:
    """take(x, [0 0 1 1 ..]) == repeat(x, 2); take(x, [a a + s ..]) == a slice of x"""
    data, indices = node.operands
    axis = node.attributes["axis"]
    plain = not node.attributes["batch_dims"] and axis is not None
    if data is None or indices is None or indices.constant is None or not plain or indices.rank != 1:
        return None
    axis, count = axis % data.rank, indices.shape[0]
    extent = data.shape[axis]
    if not isinstance(extent, int) or count < 2 or extent == 0:
        return None
    places = in_bounds(indices.constant, extent, node.attributes["mode"]).astype(np.int64)
    repeats, rest = divmod(count, extent)
    if rest == 0 and repeats > 1 and np.array_equal(places, np.arange(count) // repeats):
        return before(graph, node).call("repeat", data, repeats=repeats, axis=axis, name=node.name)
    first, step = int(places[0]), int(places[1] - places[0])
    if step < 1 or not np.array_equal(places, first + step * np.arange(count)):
        return None
    return before(graph, node).call("strided_slice", data, begin=(first,), end=(int(places[-1]) + 1,), strides=(step,),
                                    axes=(axis,), name=node.name)


def division_by_power_of_two(graph: Graph, node: Node) -> Value | None:
    """x / c == x * (1 / c), exactly, where c is a power of two"""
    data, divisor = node.operands
    assert data is not None and divisor is not None
    array = divisor.constant
    if array is None or array.dtype.kind != "f" or array.size != 1:
        return None
    mantissa, exponent = np.frexp(array)
    if abs(float(mantissa.reshape(()))) != 0.5 or abs(int(exponent.reshape(()))) > 14:
        return None
    builder = before(graph, node)
    return builder.call("multiply", data, builder.constant(np.asarray(1 / array, array.dtype)), name=node.name)


def power_as_products(graph: Graph, node: Node) -> Value | None:
    """power(x, 2) == x * x; power(x, 3) == x * x * x, for real x"""
    data, exponent = node.operands
    assert data is not None and exponent is not None
    array = exponent.constant
    if array is None or array.size != 1 or not dtypes.is_float(data.dtype) or data.type != node.result.type:
        return None
    if float(array.reshape(())) not in (2.0, 3.0):
        return None
    builder = before(graph, node)
    product = builder.call("multiply", data, data)
    return product if float(array.reshape(())) == 2.0 else builder.call("multiply", product, data)


def constant_second(graph: Graph, node: Node) -> Value | None:
    """c op x == x op c, where the operator commutes"""
    a, b = node.operands
    if a is None or b is None or a.constant is None or b.constant is not None:
        return None
    return before(graph, node).call(node.op, b, a, name=node.name)


SCALAR_RULES: dict[str, tuple[Rule, ...]] = {
    "copy": (identity,),
    "nn.dropout": (identity,),
    "take": (regular_take,),
    "cast": (same_type, cast_of_cast),
    "broadcast_to": (same_type,),
    "tile": (same_type,),
    "reshape": (same_type,),
    "layout_transform": (layout_round_trip,),
    "add": (neutral_operand(0, both_sides=True), constant_second),
    "subtract": (neutral_operand(0, both_sides=False),),
    "multiply": (neutral_operand(1, both_sides=True), constant_second),
    "maximum": (constant_second,),
    "minimum": (constant_second,),
    "divide": (neutral_operand(1, both_sides=False), division_by_power_of_two),
    "power": (neutral_operand(1, both_sides=False), power_as_products),
    "concatenate": (single_operand,),
    "strided_slice": (whole_slice,),
    "nn.pad": (no_padding,),
}

_TABLES = SCALAR_RULES, view_rules.RULES, product_rules.RULES
RULES = {op: tuple(rule for table in _TABLES for rule in table.get(op, ())) for table in _TABLES for op in table}
