"""One form for equal things, and no operator that does nothing. Repeats until nothing changes.

Each rule is a function of one node that returns the value to use in its place, or None; its docstring is the equation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forge import dtypes
from forge.ir.nodes import Graph, Node, Value
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, new_symbols, on_all_graphs, remove_unused, replace

Rule = Callable[[Graph, Node], Value | None]
MAX_ROUNDS = 16

VIEWS = ("reshape", "squeeze", "expand_dims", "nn.batch_flatten")
"""Operators that only change the shape."""


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
    for rule in RULES.get(node.op, ()):
        made = len(graph.nodes)
        value = rule(graph, node)
        if value is None:
            continue
        if replace(graph, node, value):
            return 1
        if len(graph.nodes) > made and value.producer is not None:
            remove_unused(graph, value.producer)
    return 0


def _data(node: Node) -> Value:
    value = node.operands[0]
    assert value is not None
    return value


def identity(graph: Graph, node: Node) -> Value | None:
    """copy(x) == nn.dropout(x) == x"""
    return _data(node)


def same_type(graph: Graph, node: Node) -> Value | None:
    """An operator that keeps or moves whole elements keeps all of them in place when it keeps the type."""
    return _data(node) if node.result.type == _data(node).type else None


def cast_of_cast(graph: Graph, node: Node) -> Value | None:
    """cast(cast(x, wider), d) == cast(x, d)"""
    inner = _data(node).producer
    if inner is None or inner.op != "cast":
        return None
    source = _data(inner)
    if not _is_exact(source.dtype, _data(node).dtype):
        return None
    return before(graph, node).call("cast", source, dtype=node.result.dtype)


def _is_exact(source: str, target: str) -> bool:
    """Whether every value of ``source`` is one of ``target``."""
    plain = (dtypes.is_integer, dtypes.is_float, lambda d: d == "bool")
    if not all(any(test(d) for test in plain) for d in (source, target)):
        return False
    return bool(np.can_cast(dtypes.numpy_dtype(source), dtypes.numpy_dtype(target), "safe"))


def view_of_view(graph: Graph, node: Node) -> Value | None:
    """reshape(reshape(x, s), t) == reshape(x, t), and the same for the other operators that only change the shape."""
    inner = _data(node).producer
    if inner is None or inner.op not in VIEWS or not _is_plain_view(node) or not _is_plain_view(inner):
        return None
    return _reshaped(graph, node, _data(inner))


def view_as_reshape(graph: Graph, node: Node) -> Value | None:
    """squeeze(x) == expand_dims(x) == nn.batch_flatten(x) == reshape(x, their shape)"""
    return _reshaped(graph, node, _data(node)) if _is_plain_view(node) else None


def _is_plain_view(node: Node) -> bool:
    """Whether the result's shape follows from the operand's type and the attributes alone."""
    absent = all(v is None for v in node.operands[1:])
    return absent and not new_symbols(node)


def _reshaped(graph: Graph, node: Node, data: Value) -> Value:
    shape = node.result.shape
    if data.type == node.result.type:
        return data
    keeps_zero = any(isinstance(d, int) and d == 0 for d in shape)
    return before(graph, node).call("reshape", data, newshape=shape, **({"allowzero": True} if keeps_zero else {}))


def explicit_newshape(graph: Graph, node: Node) -> Value | None:
    """reshape(x, (0, -1)) == reshape(x, the shape that results)"""
    attributes = node.attributes
    if attributes["newshape"] in (None, node.result.shape) or not _is_plain_view(node):
        return None
    return _reshaped(graph, node, _data(node))


def permutation(node: Node) -> tuple[int, ...]:
    """Axes of a transpose, counted from the front."""
    axes, rank = node.attributes["axes"], node.result.rank
    return tuple(reversed(range(rank))) if axes is None else tuple(a % rank for a in axes)


def transpose_of_transpose(graph: Graph, node: Node) -> Value | None:
    """transpose(transpose(x, p), q) == transpose(x, p[q]), and transpose(x, identity) == x"""
    axes = permutation(node)
    source = _data(node)
    inner = source.producer
    if inner is not None and inner.op == "transpose":
        outer, axes, source = axes, permutation(inner), _data(inner)
        axes = tuple(axes[k] for k in outer)
    elif axes != tuple(range(len(axes))):
        return None
    if axes == tuple(range(len(axes))):
        return source
    return before(graph, node).call("transpose", source, axes=axes)


def transpose_as_reshape(graph: Graph, node: Node) -> Value | None:
    """A transpose that moves axes of extent 1 only == reshape"""
    data = _data(node)
    moved = [k for k in permutation(node) if data.shape[k] != 1]
    return _reshaped(graph, node, data) if moved == sorted(moved) else None


def layout_round_trip(graph: Graph, node: Node) -> Value | None:
    """layout_transform(layout_transform(x, a, b), b, a) == x, when the type comes back; layout_transform(x, a, a) == x"""
    attributes = node.attributes
    data = _data(node)
    if attributes["src_layout"] == attributes["dst_layout"] and data.type == node.result.type:
        return data
    inner = data.producer
    if inner is None or inner.op != "layout_transform" or inner.attributes["dst_layout"] != attributes["src_layout"]:
        return None
    source = _data(inner)
    back = inner.attributes["src_layout"] == attributes["dst_layout"]
    return source if back and source.type == node.result.type else None


def neutral_operand(value: float, both_sides: bool) -> Rule:
    """x op value == x (and value op x == x with ``both_sides``), where the shape stays."""

    def rule(graph: Graph, node: Node) -> Value | None:
        for kept, other in ((0, 1), (1, 0))[: 2 if both_sides else 1]:
            x, y = node.operands[kept], node.operands[other]
            assert x is not None and y is not None
            array = y.constant
            if array is not None and array.size and array.dtype != object and np.all(array == value) and x.type == node.result.type:
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


def matmul_of_transpose(graph: Graph, node: Node) -> Value | None:
    """matmul(a, swap(b)) == matmul(a, b, transpose_b=True), where swap exchanges the last two axes; so for a"""
    flags = {"a": node.attributes["transpose_a"], "b": node.attributes["transpose_b"]}
    operands = list(node.operands)
    for position, name in enumerate("ab"):
        value = operands[position]
        assert value is not None
        inner = value.producer
        if inner is not None and inner.op == "transpose" and value.constant is None and _swaps_last_two(permutation(inner)):
            operands[position] = _data(inner)
            flags[name] = not flags[name]
    if operands == node.operands:
        return None
    attributes = {**node.attributes, "transpose_a": flags["a"], "transpose_b": flags["b"]}
    return before(graph, node).call(node.op, *operands, **attributes)


def _swaps_last_two(axes: tuple[int, ...]) -> bool:
    rank = len(axes)
    return rank >= 2 and axes == (*range(rank - 2), rank - 1, rank - 2)




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


def dense_of_view(graph: Graph, node: Node) -> Value | None:
    """dense(reshape(x), w) == reshape(dense(x, w)), where the reshape keeps the last axis"""
    inner = _data(node).producer
    if inner is None or inner.op != "reshape" or not _is_plain_view(inner) or _data(inner).rank < 2:
        return None
    data = _data(inner)
    if data.shape[-1] != inner.result.shape[-1]:
        return None
    product = before(graph, node).call(node.op, data, node.operands[1], name=node.name, **node.attributes)
    return _reshaped(graph, node, product)


def elementwise_of_view(graph: Graph, node: Node) -> Value | None:
    """f(reshape(x), c) == reshape(f(x, c)) for an element-wise f and constants c that are scalars or go along a last axis that stays"""
    inner = _data(node).producer
    if inner is None or inner.op != "reshape" or not _is_plain_view(inner) or node.result.shape != inner.result.shape:
        return None
    data, others = _data(inner), node.operands[1:]
    keeps_last = data.rank > 0 and inner.result.rank > 0 and data.shape[-1] == inner.result.shape[-1]
    if not all(v is None or _goes_along_last(v, keeps_last) for v in others):
        return None
    value = before(graph, node).call(node.op, data, *others, name=node.name, **node.attributes)
    return _reshaped(graph, node, value)


def _goes_along_last(value: Value, allowed: bool) -> bool:
    return value.constant is not None and (value.rank == 0 or (allowed and value.rank == 1))


def sum_of_views(graph: Graph, node: Node) -> Value | None:
    """reshape(x) + reshape(y) == reshape(x + y) for x and y of one shape"""
    inner = [v.producer for v in node.operands if v is not None and v.producer is not None and v.producer.op == "reshape"]
    if len(inner) != 2 or any(n.result.shape != node.result.shape or not _is_plain_view(n) for n in inner):
        return None
    sources = [_data(n) for n in inner]
    if sources[0].type != sources[1].type:
        return None
    return _reshaped(graph, node, before(graph, node).call(node.op, *sources, name=node.name, **node.attributes))


ACTIVATIONS = ("nn.relu", "nn.gelu", "nn.silu", "sigmoid", "tanh", "erf", "clip", "nn.leaky_relu", "nn.hardswish", "exp", "sqrt", "negative")

RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(ACTIVATIONS, (elementwise_of_view,)),
    "copy": (identity,),
    "nn.dropout": (identity,),
    "cast": (same_type, cast_of_cast),
    "broadcast_to": (same_type,),
    "tile": (same_type,),
    "reshape": (same_type, view_of_view, explicit_newshape),
    "squeeze": (view_as_reshape,),
    "expand_dims": (view_as_reshape,),
    "nn.batch_flatten": (view_as_reshape,),
    "transpose": (transpose_of_transpose, transpose_as_reshape),
    "layout_transform": (layout_round_trip,),
    "add": (neutral_operand(0, both_sides=True), elementwise_of_view, sum_of_views),
    "subtract": (neutral_operand(0, both_sides=False), elementwise_of_view, sum_of_views),
    "multiply": (neutral_operand(1, both_sides=True), elementwise_of_view, sum_of_views),
    "divide": (neutral_operand(1, both_sides=False), division_by_power_of_two, elementwise_of_view),
    "power": (neutral_operand(1, both_sides=False), power_as_products),
    "nn.dense": (dense_of_view,),
    "concatenate": (single_operand,),
    "strided_slice": (whole_slice,),
    "nn.pad": (no_padding,),
    "nn.matmul": (matmul_of_transpose,),
    "nn.batch_matmul": (matmul_of_transpose,),
}
