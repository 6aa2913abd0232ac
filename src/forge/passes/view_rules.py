"""Rules of ``canonicalize`` for operators that change shapes or move whole axes.

Reshapes go up through slices and down through arithmetic, so that they meet and cancel; slices go up through transposes.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence

from forge import dims, dtypes
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.edits.rewrite import RuleBuilder, new_symbols, only_use, rule
from forge.ir.nodes import Node, Value
from forge.ir.op import Trait
from forge.ops.index.gather import Take
from forge.ops.nn.matmul import Dense, Matmul
from forge.ops.reduce.reduction import Reduction, reduced_axes, reduced_shape
from forge.ops.shape.concatenate import Concatenate, Split
from forge.ops.shape.reshape import Reshape
from forge.ops.shape.slice import StridedSliceAttrs
from forge.ops.shape.transpose import Transpose
from forge.passes.matching import again, has_only_data, operand


def is_plain_view(node: Node) -> bool:
    """Returns whether the result's shape follows from the operand's type and the attributes alone, without a check."""
    return has_only_data(node) and not new_symbols(node) and Trait.MAY_FAIL not in node.op_def.traits


def viewed(value: Value | None) -> Value | None:
    """Returns x of reshape(x), where attributes alone give the shape."""
    view = None if value is None else Reshape.of(value.producer)
    return view.data if view is not None and is_plain_view(view.node) else None


def transposed(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """Returns (x, axes counted from the front) of transpose(x, axes)."""
    found = Transpose.of(value.producer)
    return None if found is None else (found.data, found.permutation(found.attrs, value.rank))


def unswapped(value: Value) -> Value | None:
    """Returns x of a transposition of x that exchanges its last two axes, and leaves the others."""
    found = transposed(value)
    return found[0] if found is not None and len(found[1]) >= 2 and found[1] == _exchanged(range(value.rank)) else None


def reshaped(builder: Builder, data: Value, shape: Sequence[Dim]) -> Value:
    """Returns ``data`` in ``shape``."""
    return data if data.shape == shape else builder.call("reshape", data, newshape=shape, allowzero=0 in shape)


@rule("reshape")
def view_of_view(builder: RuleBuilder, node: Node) -> Value | None:
    """reshape(reshape(x, s), t) == reshape(x, t), and the same for the other operators that only change the shape."""
    inner = operand(node).producer
    if inner is None or not inner.op_def.is_view or not is_plain_view(node) or not is_plain_view(inner):
        return None
    return reshaped(builder, operand(inner), node.result.shape)


@rule(Reshape)
def view_of_reduction(builder: RuleBuilder, view: Reshape) -> Value | None:
    """reshape(mean(x, axes), s) == mean(x, axes, keepdims=True), where s has extents of 1 for these axes"""
    found = Reduction.of(view.data.producer)
    if found is None or found.axes is not None or found.attrs.keepdims or only_use(builder.graph, view.data) is None:
        return None
    axes = reduced_axes(found.name, found.attrs, found.data.rank)
    if view.result.shape != reduced_shape(found.data.shape, axes, True) or not is_plain_view(view.node):
        return None
    return again(builder, found.node, found.data, keepdims=True)


@rule("reshape", "squeeze", "expand_dims", "nn.batch_flatten")
def view_as_reshape(builder: RuleBuilder, node: Node) -> Value | None:
    """squeeze(x) == expand_dims(x) == nn.batch_flatten(x) == reshape(x, (0, -1)) == reshape(x, the shape that results)"""
    is_explicit = node.op == "reshape" and node.attrs.newshape in (None, node.result.shape)
    return None if is_explicit or not is_plain_view(node) else reshaped(builder, operand(node), node.result.shape)


@rule(Transpose)
def transpose_of_transpose(builder: RuleBuilder, outer: Transpose) -> Value | None:
    """transpose(transpose(x, p), q) == transpose(x, p[q]), and transpose(x, identity) == x"""
    axes, source = outer.permutation(outer.attrs, outer.result.rank), outer.data
    inner, identity = transposed(source), tuple(range(len(axes)))
    if inner is not None:
        source, axes = inner[0], tuple(inner[1][k] for k in axes)
    elif axes != identity:
        return None
    return source if axes == identity else builder.call("transpose", source, axes=axes)


@rule(Transpose)
def transpose_as_reshape(builder: RuleBuilder, node: Transpose) -> Value | None:
    """A transpose that moves axes of extent 1 only == reshape"""
    moved = [k for k in node.permutation(node.attrs, node.data.rank) if node.data.shape[k] != 1]
    return reshaped(builder, node.data, node.result.shape) if moved == sorted(moved) else None


@rule(Dense)
def dense_of_view(builder: RuleBuilder, dense: Dense) -> Value | None:
    """dense(reshape(x), w) == reshape(dense(x, w)), where the reshape keeps the last axis"""
    data = viewed(dense.data)
    if data is None or data.rank < 2 or data.shape[-1] != dense.data.shape[-1]:
        return None
    return reshaped(builder, again(builder, dense.node, data, dense.weight), dense.result.shape)


@rule(lambda op: op.is_map)
def elementwise_of_view(builder: RuleBuilder, node: Node) -> Value | None:
    """f(reshape(x), c) == reshape(f(x, c)) for element-wise f and constants c: scalars, or along a last axis that stays

    x is computed: f may join the kernel that does. A view of an input stays, as f may join its readers, and so does one under
    an f that widens its elements, of which the kernel would store more bytes.
    """
    view, others = operand(node), node.operands[1:]
    data = viewed(view)
    if data is None or dtypes.itemsize(node.result.dtype) > dtypes.itemsize(view.dtype):
        return None
    if node.result.shape != view.shape or data.producer is None or data.producer.op_def.is_view:
        return None
    keeps_last = data.shape[-1:] == view.shape[-1:] != ()
    if not all(v is None or _goes_along_last(v, keeps_last) for v in others):
        return None
    return reshaped(builder, again(builder, node, data, *others), node.result.shape)


def _goes_along_last(value: Value | None, allowed: bool) -> bool:
    if value is None or value.constant is None:
        return False
    return value.rank == 0 or value.shape == (1,) or (allowed and value.rank == 1)


@rule(lambda op: op.is_map)
def sum_of_views(builder: RuleBuilder, node: Node) -> Value | None:
    """reshape(x) + reshape(y) == reshape(x + y) for x and y of one shape"""
    if len(node.operands) != 2 or (x := viewed(node.operands[0])) is None or (y := viewed(node.operands[1])) is None:
        return None
    if x.type != y.type or any(v is None or v.shape != node.result.shape for v in node.operands):
        return None
    return reshaped(builder, again(builder, node, x, y), node.result.shape)


@rule(Split)
def split_as_slices(builder: RuleBuilder, split: Split) -> Sequence[Value] | None:
    """split(x) == its slices"""
    axis = split.attrs.axis % split.data.rank
    extents = [v.shape[axis] for v in split.results]
    if split.sizes is not None or not dims.is_static(*extents):
        return None
    ends = itertools.accumulate(extents)
    return [builder.call("strided_slice", split.data, begin=(end - extent,), end=(end,), axes=(axis,))
            for extent, end in zip(extents, ends)]


@rule(Take)
def take_of_transpose(builder: RuleBuilder, take: Take) -> Value | None:
    """take(transpose(x, p), k, axis=a) == transpose(take(x, k, axis=p[a]), the rest of p), for a number k"""
    axis, inner = _number_taken(take), transposed(take.data)
    if axis is None or inner is None:
        return None
    source, axes = inner
    rest = tuple(a - (a > axes[axis]) for a in axes if a != axes[axis])
    return builder.call("transpose", _taken(builder, take, source, axes[axis]), axes=rest)


@rule(Take)
def take_of_view(builder: RuleBuilder, take: Take) -> Value | None:
    """take(reshape(transpose(x)), k) == reshape(take(transpose(x), k)), where the reshape adds or drops axes of extent 1 only"""
    axis, source = _number_taken(take), viewed(take.data)
    if axis is None or source is None or transposed(source) is None:
        return None
    place = _same_axis(take.data.shape, source.shape, axis)
    return None if place is None else reshaped(builder, _taken(builder, take, source, place), take.result.shape)


def _number_taken(take: Take) -> int | None:
    """The axis of a take with one constant index, which drops it."""
    index, attrs = take.indices, take.attrs
    return None if index.constant is None or index.rank or attrs.axis is None or attrs.batch_dims else attrs.axis % take.data.rank


def _taken(builder: Builder, take: Take, data: Value, axis: int) -> Value:
    """As ``take`` does, along an axis of ``data``."""
    return builder.call("take", data, take.indices, **{**take.node.attributes, "axis": axis})


def _same_axis(shape: Sequence[Dim], source: Sequence[Dim], axis: int) -> int | None:
    """The axis of ``source`` that is ``axis`` of ``shape``, when both differ in axes of extent 1 only."""
    ours, theirs = ([k for k, d in enumerate(s) if d != 1] for s in (shape, source))
    if axis not in ours or [shape[k] for k in ours] != [source[k] for k in theirs]:
        return None
    return theirs[ours.index(axis)]


@rule(Reshape)
def view_of_take(builder: RuleBuilder, view: Reshape) -> Value | None:
    """reshape(take(x, k, axis=a), s) == take(reshape(x, s with the axis of x), k, axis), for a number k"""
    take = Take.of(view.data.producer)
    axis = None if take is None else _number_taken(take)
    if take is None or axis is None or not _counts(view, take.data):
        return None
    source, shape = take.data, view.result.shape
    place = _boundary(shape, dims.product(source.shape[:axis]))
    if place is None:
        return None
    whole = builder.call("reshape", source, newshape=(*shape[:place], source.shape[axis], *shape[place:]))
    return _taken(builder, take, whole, place)


@rule(Reshape)
def view_of_slice(builder: RuleBuilder, view: Reshape) -> Value | None:
    """reshape(x[.., b : e, ..], s) == reshape(x, t)[.., b / q : e / q, ..], where s cuts the axis into pieces of q elements"""
    found = _single_slice(view.data)
    if found is None or not _counts(view, found[0]):
        return None
    (source, axis, begin, end), shape = found, view.result.shape
    place = _boundary(shape, dims.product(source.shape[:axis]))
    if place is None or place == len(shape) or not isinstance(shape[place], int) or shape[place] == 0:
        return None
    piece, rest = divmod(end - begin, shape[place])
    whole = source.shape[axis]
    if rest or piece == 0 or begin % piece or whole % piece:
        return None
    apart = builder.call("reshape", source, newshape=(*shape[:place], whole // piece, *shape[place + 1 :]))
    return builder.call("strided_slice", apart, begin=(begin // piece,), end=(end // piece,), axes=(place,))


def _counts(view: Reshape, source: Value) -> bool:
    """Whether numbers of elements say what ``view`` does: not where there are none, whatever the other extents are."""
    return is_plain_view(view.node) and 0 not in source.shape


@rule(Concatenate)
def joined_slices(builder: RuleBuilder, whole: Concatenate) -> Value | None:
    """concatenate(.., x[b : c], x[c : d], ..) == concatenate(.., x[b : d], ..)"""
    axis = whole.attrs.axis % whole.result.rank
    parts: list[Value] = []
    for value in filter(None, whole.node.operands):
        joined = _joined(builder, parts[-1], value, axis) if parts else None
        parts[-1:] = [*parts[-1:], value] if joined is None else [joined]
    if len(parts) == len(whole.node.operands):
        return None
    return builder.call("concatenate", *parts, axis=axis, name=whole.node.name)


def _joined(builder: RuleBuilder, first: Value, second: Value, axis: int) -> Value | None:
    """x[b : d], where the values are x[b : c] and x[c : d] along ``axis``."""
    one, other = _single_slice(first), _single_slice(second)
    if one is None or other is None or one[0] is not other[0] or not one[1] == other[1] == axis or one[3] != other[2]:
        return None
    return builder.call("strided_slice", one[0], begin=(one[2],), end=(other[3],), axes=(axis,))


def _single_slice(value: Value) -> tuple[Value, int, int, int] | None:
    """(x, axis, begin, end) of a slice of x with steps of 1 along one axis of a known extent; the bounds lie in it."""
    match value.producer:
        case Node(op="strided_slice", operands=[Value() as data, *_], attrs=StridedSliceAttrs(
                begin=(int(begin),), end=(int(end),), strides=None | (1,), slice_mode="end", axes=axes)) as part:
            axis = (axes or (0,))[0] % data.rank
            extent = data.shape[axis]
            if has_only_data(part) and isinstance(extent, int) and 0 <= begin < end <= extent:
                return data, axis, begin, end
    return None


def _boundary(shape: Sequence[Dim], elements: Dim) -> int | None:
    """How many leading axes of ``shape`` hold ``elements``; of several answers the first."""
    totals: list[Dim] = list(itertools.accumulate(shape, operator.mul, initial=1))
    return totals.index(elements) if elements in totals else None


@rule(Reshape)
def view_of_dense(builder: RuleBuilder, view: Reshape) -> Value | None:
    """reshape(f(dense(reshape(x, s), w)), t) == f(dense(reshape(x, t with the depth), w)) for additions f of constant vectors"""
    chain: list[Node] = []
    value = view.data
    while (step := value.producer) is not None and only_use(builder.graph, value) is not None:
        chain.append(step)
        if step.op == "nn.dense":
            break
        if step.op != "add" or not _goes_along_last(step.operands[1], True):
            return None
        value = operand(step)
    dense, shape = Dense.of(chain[-1] if chain else None), view.result.shape
    if dense is None or viewed(dense.data) is None or not is_plain_view(view.node) or shape[-1:] != dense.result.shape[-1:]:
        return None
    value = builder.call("reshape", dense.data, newshape=(*shape[:-1], dense.data.shape[-1]))
    for step in reversed(chain):
        value = again(builder, step, value, *step.operands[1:])
    return value


@rule(Reshape)
def view_of_swap(builder: RuleBuilder, view: Reshape) -> Value | None:
    """reshape(swap(x), s) == swap(reshape(x, t)), where swap exchanges the last two axes and s splits or merges others only"""
    source, shape = unswapped(view.data), view.result.shape
    if source is None or not is_plain_view(view.node) or shape[-2:] != view.data.shape[-2:]:
        return None
    inner = builder.call("reshape", source, newshape=(*shape[:-2], *source.shape[-2:]), allowzero=0 in shape)
    return builder.call("transpose", inner, axes=_exchanged(range(len(shape))))


@rule(Matmul)
def matmul_of_transpose(builder: RuleBuilder, product: Matmul) -> Value | None:
    """matmul(a, swap(b)) == matmul(a, b, transpose_b=True), where swap exchanges the last two axes; so for a"""
    attributes = product.node.attributes
    operands = {"transpose_a": product.a, "transpose_b": product.b}
    swapped = {flag: source for flag, v in operands.items() if (source := unswapped(v)) is not None}
    if not swapped:
        return None
    attributes |= {flag: not attributes[flag] for flag in swapped}
    return builder.call("nn.matmul", *(swapped.get(flag, v) for flag, v in operands.items()), **attributes)


@rule(Transpose)
def transpose_of_matmul(builder: RuleBuilder, turn: Transpose) -> Value | None:
    """transpose(matmul(a, b), axes) == transpose(matmul(swap(b), swap(a)), others), where axes bring columns before rows"""
    product, rank = Matmul.of(turn.data.producer), turn.data.rank
    if product is None or min(product.a.rank, product.b.rank) < 2 or only_use(builder.graph, turn.data) is None:
        return None
    order, attrs = turn.permutation(turn.attrs, rank), product.attrs
    if order.index(rank - 1) > order.index(rank - 2):
        return None
    a, transpose_a = _swapped(builder, product.b, attrs.transpose_b)
    b, transpose_b = _swapped(builder, product.a, attrs.transpose_a)
    result = again(builder, product.node, a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return builder.call("transpose", result, axes=tuple(_exchanged(range(rank))[a] for a in order))


def _swapped(builder: RuleBuilder, value: Value, is_transposed: bool) -> tuple[Value, bool]:
    """An operand of a product, with its last two axes exchanged, and whether the product has to do it."""
    found = None if is_transposed else transposed(value)
    if found is None:
        return value, not is_transposed
    return builder.call("transpose", found[0], axes=_exchanged(found[1])), False


def _exchanged(axes: Sequence[int]) -> tuple[int, ...]:
    return (*axes[:-2], axes[-1], axes[-2])
