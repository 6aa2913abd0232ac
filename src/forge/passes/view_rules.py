"""Rules of ``canonicalize`` for operators that change shapes or move whole axes.

Reshapes go up through slices and down through arithmetic, so that they meet and cancel; slices go up through transposes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import dims
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.edits.rewrite import RuleBuilder, new_symbols, rule
from forge.ir.nodes import Node, Value
from forge.ir.op import OpDef
from forge.passes.matching import has_only_data, made_by, operand


@rule("reshape")
def view_of_view(builder: RuleBuilder, node: Node) -> Value | None:
    """reshape(reshape(x, s), t) == reshape(x, t), and the same for the other operators that only change the shape."""
    inner = operand(node).producer
    if inner is None or not inner.op_def.is_view or not is_plain_view(node) or not is_plain_view(inner):
        return None
    return reshaped(builder, node, operand(inner))


@rule("squeeze", "expand_dims", "nn.batch_flatten")
def view_as_reshape(builder: RuleBuilder, node: Node) -> Value | None:
    """squeeze(x) == expand_dims(x) == nn.batch_flatten(x) == reshape(x, their shape)"""
    return reshaped(builder, node, operand(node)) if is_plain_view(node) else None


def is_plain_view(node: Node) -> bool:
    """Whether the result's shape follows from the operand's type and the attributes alone."""
    return has_only_data(node) and not new_symbols(node)


def reshaped(builder: Builder, node: Node, data: Value, shape: Sequence[Dim] | None = None) -> Value:
    """``data`` in ``shape``, which is that of the node's result by default."""
    shape = node.result.shape if shape is None else tuple(shape)
    if data.shape == shape:
        return data
    keeps_zero = any(isinstance(d, int) and d == 0 for d in shape)
    attributes: dict[str, Any] = {"allowzero": True} if keeps_zero else {}
    return builder.call("reshape", data, newshape=shape, **attributes)


@rule("reshape")
def explicit_newshape(builder: RuleBuilder, node: Node) -> Value | None:
    """reshape(x, (0, -1)) == reshape(x, the shape that results)"""
    attributes = node.attributes
    if attributes["newshape"] in (None, node.result.shape) or not is_plain_view(node):
        return None
    return reshaped(builder, node, operand(node))


def permutation(node: Node) -> tuple[int, ...]:
    """Axes of a transpose, counted from the front."""
    axes, rank = node.attributes["axes"], node.result.rank
    return tuple(reversed(range(rank))) if axes is None else tuple(a % rank for a in axes)


@rule("transpose")
def transpose_of_transpose(builder: RuleBuilder, node: Node) -> Value | None:
    """transpose(transpose(x, p), q) == transpose(x, p[q]), and transpose(x, identity) == x"""
    axes = permutation(node)
    source = operand(node)
    inner = source.producer
    if inner is not None and inner.op == "transpose":
        outer, axes, source = axes, permutation(inner), operand(inner)
        axes = tuple(axes[k] for k in outer)
    elif axes != tuple(range(len(axes))):
        return None
    if axes == tuple(range(len(axes))):
        return source
    return builder.call("transpose", source, axes=axes)


@rule("transpose")
def transpose_as_reshape(builder: RuleBuilder, node: Node) -> Value | None:
    """A transpose that moves axes of extent 1 only == reshape"""
    data = operand(node)
    moved = [k for k in permutation(node) if data.shape[k] != 1]
    return reshaped(builder, node, data) if moved == sorted(moved) else None


@rule("nn.dense")
def dense_of_view(builder: RuleBuilder, node: Node) -> Value | None:
    """dense(reshape(x), w) == reshape(dense(x, w)), where the reshape keeps the last axis"""
    inner = made_by(operand(node), "reshape")
    if inner is None or not is_plain_view(inner) or operand(inner).rank < 2:
        return None
    data = operand(inner)
    if data.shape[-1] != inner.result.shape[-1]:
        return None
    product = builder.call(node.op, data, node.operands[1], name=node.name, **node.attributes)
    return reshaped(builder, node, product)


def _is_map(op: OpDef[Any]) -> bool:
    """Whether the operands of ``op`` broadcast."""
    return op.is_map


@rule(_is_map)
def elementwise_of_view(builder: RuleBuilder, node: Node) -> Value | None:
    """f(reshape(x), c) == reshape(f(x, c)) for element-wise f and constants c: scalars, or along a last axis that stays

    x is computed: f may join the kernel that does. A view of an input stays, as f may join its readers.
    """
    inner = made_by(operand(node), "reshape")
    if inner is None or not is_plain_view(inner) or node.result.shape != inner.result.shape:
        return None
    data, others = operand(inner), node.operands[1:]
    if data.producer is None or data.producer.op_def.is_view:
        return None
    keeps_last = data.rank > 0 and inner.result.rank > 0 and data.shape[-1] == inner.result.shape[-1]
    if not all(v is None or _goes_along_last(v, keeps_last) for v in others):
        return None
    value = builder.call(node.op, data, *others, name=node.name, **node.attributes)
    return reshaped(builder, node, value)


def _goes_along_last(value: Value | None, allowed: bool) -> bool:
    if value is None or value.constant is None:
        return False
    return value.rank == 0 or value.shape == (1,) or (allowed and value.rank == 1)


@rule(_is_map)
def sum_of_views(builder: RuleBuilder, node: Node) -> Value | None:
    """reshape(x) + reshape(y) == reshape(x + y) for x and y of one shape"""
    if len(node.operands) != 2:
        return None
    inner = [v.producer for v in node.operands if v is not None and v.producer is not None and v.producer.op == "reshape"]
    if len(inner) != 2 or any(n.result.shape != node.result.shape or not is_plain_view(n) for n in inner):
        return None
    sources = [operand(n) for n in inner]
    if sources[0].type != sources[1].type:
        return None
    return reshaped(builder, node, builder.call(node.op, *sources, name=node.name, **node.attributes))


@rule("split")
def split_as_slices(builder: RuleBuilder, node: Node) -> Sequence[Value] | None:
    """split(x) == its slices"""
    axis = node.attributes["axis"] % operand(node).rank
    extents = [v.shape[axis] for v in node.results]
    if not has_only_data(node) or not dims.is_static(*extents):
        return None
    parts: list[Value] = []
    first = 0
    for extent in extents:
        parts.append(builder.call("strided_slice", operand(node), begin=(first,), end=(first + extent,), axes=(axis,)))
        first += extent
    return parts


@rule("take")
def take_of_transpose(builder: RuleBuilder, node: Node) -> Value | None:
    """take(transpose(x, p), k, axis=a) == transpose(take(x, k, axis=p[a]), the rest of p), for a number k"""
    found = _number_taken(node)
    inner = operand(node).producer
    if found is None or inner is None or inner.op != "transpose":
        return None
    axes = permutation(inner)
    source = axes[found]
    part = builder.call("take", operand(inner), node.operands[1], **{**node.attributes, "axis": source})
    rest = tuple(a - (a > source) for a in axes if a != source)
    return builder.call("transpose", part, axes=rest)


@rule("take")
def take_of_view(builder: RuleBuilder, node: Node) -> Value | None:
    """take(reshape(transpose(x)), k) == reshape(take(transpose(x), k)), where the reshape adds or drops axes of extent 1 only"""
    found = _number_taken(node)
    inner = operand(node).producer
    if found is None or inner is None or inner.op != "reshape" or not is_plain_view(inner):
        return None
    source = operand(inner)
    axis = _same_axis(inner.result.shape, source.shape, found)
    if axis is None or source.producer is None or source.producer.op != "transpose":
        return None
    part = builder.call("take", source, node.operands[1], **{**node.attributes, "axis": axis})
    return reshaped(builder, node, part)


def _number_taken(node: Node) -> int | None:
    """The axis of a take with one constant index, which drops it."""
    index = node.operands[1]
    attributes = node.attributes
    if index is None or index.constant is None or index.rank != 0 or attributes["axis"] is None or attributes["batch_dims"]:
        return None
    return int(attributes["axis"] % operand(node).rank)


def _same_axis(shape: Sequence[Dim], source: Sequence[Dim], axis: int) -> int | None:
    """The axis of ``source`` that is ``axis`` of ``shape``, when both differ in axes of extent 1 only."""
    ours, theirs = ([k for k, d in enumerate(s) if d != 1] for s in (shape, source))
    if axis not in ours or [shape[k] for k in ours] != [source[k] for k in theirs]:
        return None
    return theirs[ours.index(axis)]


def _is_empty(value: Value) -> bool:
    """Whether an extent is 0: the number of elements then says nothing of the other extents."""
    return any(d == 0 for d in value.shape)


@rule("reshape")
def view_of_take(builder: RuleBuilder, node: Node) -> Value | None:
    """reshape(take(x, k, axis=a), s) == take(reshape(x, s with the axis of x), k, axis), for a number k"""
    inner = operand(node).producer
    axis = _number_taken(inner) if inner is not None and inner.op == "take" else None
    if inner is None or axis is None or not is_plain_view(node) or _is_empty(operand(inner)):
        return None
    source, shape = operand(inner), node.result.shape
    place = _boundary(shape, dims.product(source.shape[:axis]))
    if place is None:
        return None
    view = builder.call("reshape", source, newshape=(*shape[:place], source.shape[axis], *shape[place:]))
    return builder.call("take", view, inner.operands[1], **{**inner.attributes, "axis": place})


@rule("reshape")
def view_of_slice(builder: RuleBuilder, node: Node) -> Value | None:
    """reshape(x[.., b : e, ..], s) == reshape(x, t)[.., b / q : e / q, ..], where s cuts the axis into pieces of q elements"""
    inner = made_by(operand(node), "strided_slice")
    if inner is None or not is_plain_view(node) or _is_empty(operand(inner)):
        return None
    found = _single_slice(inner)
    source, shape = operand(inner), node.result.shape
    place = None if found is None else _boundary(shape, dims.product(source.shape[: found[0]]))
    if found is None or place is None or place == len(shape) or not isinstance(shape[place], int) or shape[place] == 0:
        return None
    axis, begin, end = found
    piece, rest = divmod(end - begin, shape[place])
    whole = source.shape[axis]
    if rest or piece == 0 or begin % piece or whole % piece:
        return None
    view = builder.call("reshape", source, newshape=(*shape[:place], whole // piece, *shape[place + 1 :]))
    return builder.call("strided_slice", view, begin=(begin // piece,), end=(end // piece,), axes=(place,))


def _single_slice(node: Node) -> tuple[int, int, int] | None:
    """(axis, begin, end) of a slice with steps of 1 along one axis of a known extent; the bounds lie in it."""
    attributes, data = node.attributes, operand(node)
    if not has_only_data(node) or attributes["slice_mode"] != "end" or len(attributes["begin"] or ()) != 1:
        return None
    axis = (attributes["axes"] or (0,))[0] % data.rank
    begin, end = attributes["begin"][0], attributes["end"][0]
    if (attributes["strides"] or (1,))[0] != 1 or not dims.is_static(begin, end, data.shape[axis]):
        return None
    return (axis, begin, end) if 0 <= begin < end <= data.shape[axis] else None


def _boundary(shape: Sequence[Dim], elements: Dim) -> int | None:
    """How many leading axes of ``shape`` hold ``elements``; of several answers the first."""
    total: Dim = 1
    for place, extent in enumerate((*shape, None)):
        if total == elements:
            return place
        if extent is not None:
            total = total * extent
    return None


@rule("reshape")
def view_of_dense(builder: RuleBuilder, node: Node) -> Value | None:
    """reshape(f(dense(reshape(x, s), w)), t) == f(dense(reshape(x, t with the depth), w)) for additions f of constant vectors"""
    chain: list[Node] = []
    value = operand(node)
    while (step := value.producer) is not None and len(value.uses) == 1 and not builder.graph.is_output(value):
        chain.append(step)
        if step.op == "nn.dense":
            break
        if step.op != "add" or not _goes_along_last(step.operands[1], True):
            return None
        value = operand(step)
    if not chain or chain[-1].op != "nn.dense" or not is_plain_view(node):
        return None
    data = operand(chain[-1])
    view = data.producer
    units = chain[-1].result.shape[-1]
    if view is None or view.op != "reshape" or not is_plain_view(view) or not node.result.shape or node.result.shape[-1] != units:
        return None
    value = builder.call("reshape", data, newshape=(*node.result.shape[:-1], data.shape[-1]))
    for step in reversed(chain):
        value = builder.call(step.op, value, *step.operands[1:], name=step.name, **step.attributes)
    return value


@rule("nn.matmul")
def matmul_of_transpose(builder: RuleBuilder, node: Node) -> Value | None:
    """matmul(a, swap(b)) == matmul(a, b, transpose_b=True), where swap exchanges the last two axes; so for a"""
    flags = {"a": node.attributes["transpose_a"], "b": node.attributes["transpose_b"]}
    operands = list(node.operands)
    for position, name in enumerate("ab"):
        value = operands[position]
        assert value is not None
        inner = value.producer
        if inner is not None and inner.op == "transpose" and value.constant is None and _swaps_last_two(permutation(inner)):
            operands[position] = operand(inner)
            flags[name] = not flags[name]
    if operands == node.operands:
        return None
    attributes = {**node.attributes, "transpose_a": flags["a"], "transpose_b": flags["b"]}
    return builder.call(node.op, *operands, **attributes)


def _swaps_last_two(axes: tuple[int, ...]) -> bool:
    rank = len(axes)
    return rank >= 2 and axes == (*range(rank - 2), rank - 1, rank - 2)


RULES = (
    view_of_view, explicit_newshape, view_of_take, view_of_slice, view_of_dense, view_as_reshape, transpose_of_transpose,
    transpose_as_reshape, split_as_slices, take_of_transpose, take_of_view, dense_of_view, matmul_of_transpose,
    elementwise_of_view, sum_of_views,
)
