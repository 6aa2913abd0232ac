"""Attention written as two matrix products and a softmax becomes one operator, which keeps its scores in the cache.

``matmul(softmax(scale * matmul(q, transpose(k)) + mask), v)`` --> ``nn.contrib_attention(q, k, v, mask)``

Between the products may stand, in this order: scales, a soft cap, masks that are added or selected by, and reshapes that split
rows into heads and rows. A transposition after that brings rows before heads is done as results are written. Keys and values that
are repeated, so that several heads of queries share one, are read where they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

from forge import dims
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.edits.rewrite import Declined, Replace, RuleBuilder, only_use, rule
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.cast import Cast
from forge.ops.elementwise.select import Where
from forge.ops.nn.matmul import Matmul
from forge.ops.nn.softmax import Softmax
from forge.ops.shape.broadcast import BroadcastTo
from forge.ops.shape.reshape import Reshape
from forge.passes.base import rewriting
from forge.passes.matching import made_by, operand, pairs, reduced, scalar, with_scalar
from forge.passes.view_rules import reshaped, transposed, unswapped, viewed

MAX_WIDTH = 256
"""Of queries and values: that much of a block of rows lies on the stack."""
SCORE_TYPES = {"float32": "float32", "float64": "float64", "bfloat16": "float32"}
"""By the type of the operands."""
MIN_KEYS = 256
"""With fewer, three kernels are as fast: all that they write stays in the second-level cache."""


SHARED = Declined("scores or probabilities are read elsewhere too, or reshaped along their last axis")


@dataclass
class _Scores:
    """What stands between the products.

    Attributes:
        form: shape of the scores where masks are applied; empty: there is no mask.
    """

    scale: float = 1.0
    softcap: float = 0.0
    form: tuple[Dim, ...] = ()
    added: list[Value] = field(default_factory=list)
    selected: Value | None = None
    fill: float = -math.inf
    zero_unseen: bool = False


@rule(Matmul)
def fuse_attention(builder: RuleBuilder, last: Matmul) -> Replace | Declined | None:
    """matmul(softmax(scale * matmul(q, transpose(k)) + mask), v) == attention(q, k, v, mask)"""
    graph = builder.graph
    shares, seen = _where_seen(_widened(graph, _through_reshapes(graph, last.a)))
    softmax = None if shares is None else Softmax.of(shares.producer)
    if softmax is None:
        return None
    if last.attrs.transpose_a or last.attrs.transpose_b or last.result.dtype != last.b.dtype:
        return Declined("the second product transposes an operand, or has another type than the values")
    if only_use(graph, softmax.result) is None:
        return SHARED
    if softmax.attrs.axis not in (-1, softmax.result.rank - 1):
        return Declined("softmax is not over the last axis")
    scores = _Scores()
    first = _first_product(graph, softmax.data, scores)
    if isinstance(first, Declined):
        return first
    reason = _unsuitable(first, last)
    if reason:
        return Declined(reason)
    if seen is not None and not _is_seen(seen, scores):
        return Declined("what zeroes probabilities is not the mask of the scores")
    scores.zero_unseen = seen is not None
    heads = _heads(first.result.shape, scores.form)
    if heads is None:
        return Declined("the masks do not split the rows of the scores into heads")
    return _fused(builder, first, last, scores, *heads)


def _widened(graph: Graph, value: Value | None) -> Value | None:
    """What float32 is rounded to bfloat16 for the second product; other values as they are."""
    cast = None if value is None else Cast.of(value.producer)
    if cast is None or cast.attrs.dtype != "bfloat16" or cast.data.dtype != "float32":
        return value
    return _through_reshapes(graph, cast.data)


def _where_seen(value: Value | None) -> tuple[Value | None, Value | None]:
    """(x, condition) of where(condition, x, 0); (value, None) of others."""
    where = None if value is None else Where.of(value.producer)
    if where is None or scalar(where.y) != 0.0 or where.x.type != where.result.type:
        return value, None
    return where.x, where.condition


def _is_seen(seen: Value, scores: _Scores) -> bool:
    """Whether ``seen`` is False for just the rows whose scores the masks make -inf: any(selected), any(added > -inf)."""
    condition, axes = reduced(seen, "any") or (None, ())
    if condition is None or axes != (condition.rank - 1,):
        return False
    if scores.selected is not None:
        return condition is scores.selected and scores.fill == -math.inf
    return any([added] == scores.added and least == -math.inf for added, least in with_scalar(condition, "greater"))


def _through_reshapes(graph: Graph, value: Value) -> Value | None:
    """What ``value`` is reshaped from, with the same last axis; None where somebody else reads what lies between."""
    while only_use(graph, value) is not None:
        view = Reshape.of(value.producer)
        if view is None:
            return value
        if not view.data.rank or view.data.shape[-1:] != value.shape[-1:]:
            return None
        value = view.data
    return None


def _first_product(graph: Graph, value: Value, found: _Scores) -> Matmul | Declined:
    """The product that the scores ``value`` are of; notes in ``found`` what is done to it."""
    while (source := _through_reshapes(graph, value)) is not None:
        node = source.producer
        if node is None:
            return Declined("the scores are not a product")
        if (product := Matmul.of(node)) is not None:
            return product
        step = STEPS.get(node.op)
        before = None if step is None else step(found, node)
        if before is None:
            return Declined(f"{node.op} after the first product is not a scale, soft cap or mask in its place")
        value = before
    return SHARED


def _scaled(found: _Scores, node: Node) -> Value | None:
    """x * number, x / number; number * tanh(..)"""
    for x, number in with_scalar(node.result, node.op):
        if number == 0.0 or x.type != node.result.type:
            continue
        bent = made_by(x, "tanh")
        if bent is not None and node.op == "multiply" and found.scale == 1.0 and not found.softcap:
            return _softcapped(found, bent, number)
        found.scale *= number if node.op == "multiply" else 1 / number
        return x
    return None


def _softcapped(found: _Scores, bent: Node, bound: float) -> Value | None:
    """bound * tanh(x / bound), or with a product where 1 / bound is a number"""
    inner = made_by(operand(bent), "divide", "multiply")
    if inner is None or bound <= 0 or len(bent.result.uses) != 1 or len(inner.result.uses) != 1:
        return None
    for x, factor in with_scalar(inner.result, inner.op):
        if x.type == inner.result.type and (factor == bound if inner.op == "divide" else factor * bound == 1.0):
            found.softcap = bound
            return x
    return None


def _masked(found: _Scores, node: Node) -> Value | None:
    """x + mask: x is the side that is computed from a product."""
    for x, mask in pairs(node):
        if _leads_to_product(x) and _may_be_masked(found, x, mask, node):
            found.added.append(mask)
            return x
    return None


def _selected(found: _Scores, node: Node) -> Value | None:
    """where(mask, x, fill)"""
    mask, x, fill = operand(node), operand(node, 1), scalar(operand(node, 2))
    if fill is None or mask.dtype != "bool" or found.added or not _may_be_masked(found, x, mask, node):
        return None
    found.selected, found.fill = mask, fill
    return x


STEPS: Mapping[str, Callable[[_Scores, Node], Value | None]] = {
    "multiply": _scaled, "divide": _scaled, "add": _masked, "where": _selected,
}
"""By the operator that stands between the products: notes what it does to the scores, and gives those before."""


def _may_be_masked(found: _Scores, x: Value, mask: Value, node: Node) -> bool:
    """Whether ``node`` masks the scores before they are scaled, and keeps their shape, which is the one of the masks after it."""
    plain = found.scale == 1.0 and not found.softcap and found.selected is None
    if not plain or x.type != node.result.type or found.form not in ((), x.shape) or mask.rank > x.rank:
        return False
    found.form = x.shape
    return True


def _leads_to_product(value: Value, depth: int = 8) -> bool:
    node = value.producer
    if node is None or depth == 0:
        return False
    if node.op == "nn.matmul":
        return True
    return node.op in ("reshape", "multiply", "divide", "add", "tanh") and any(
        v is not None and _leads_to_product(v, depth - 1) for v in node.operands)


def _unsuitable(first: Matmul, last: Matmul) -> str:
    """Why the kernel does not take these operands, or does not gain by it; empty: it does both."""
    query, key, value = first.a, first.b, last.b
    types = [v.dtype for v in (query, key, value, first.result)]
    if first.attrs.transpose_a or len(set(types[:3])) > 1 or SCORE_TYPES.get(types[0]) != types[3]:
        return f"no kernel for queries, keys, values and scores of {', '.join(types)}, or transposed queries"
    if value.rank < 2 or last.a.shape != first.result.shape:
        return "the probabilities do not have the shape of the first product"
    sizes = (query.shape[-1], value.shape[-1])
    if not all(isinstance(s, int) and 0 < s <= MAX_WIDTH for s in sizes):
        return f"queries and values are {sizes[0]} and {sizes[1]} wide; expected at most {MAX_WIDTH}"
    keys = value.shape[-2]
    few = isinstance(keys, int) and keys < MIN_KEYS
    return f"{keys} keys; three kernels are as fast for fewer than {MIN_KEYS}" if few else ""


def _fused(builder: RuleBuilder, first: Matmul, last: Matmul, scores: _Scores, batch: tuple[Dim, ...], rows: Dim) -> Replace:
    """One node of the fused operator in the place of a matched pattern."""
    builder.move_before(_transposition(builder.graph, last, batch, rows)[0])
    query, query_scale = unscaled(builder, first.a)
    key, key_scale = unscaled(builder, first.b)
    transpose_key, value = first.attrs.transpose_b, last.b
    if (source := unswapped(key)) is not None:
        key, transpose_key = source, not transpose_key
    shared = _shared(key, value, batch)
    if shared is not None:
        key, value, batch = shared
    target, inner = _transposition(builder.graph, last, batch, rows)
    if len(batch) + 2 > first.result.rank:
        query = _divided(builder, query, (*batch, rows))
        key, value = (_split_axis(builder, v, v.rank - 3, (v.shape[-3], 1)) if v.rank > 2 else v for v in (key, value))
    operands = [_as_read(builder, v) for v in (query, key, value)]
    result = builder.call(
        "nn.contrib_attention", *operands, _mask(builder, scores, batch),
        name=last.node.name, scale=scores.scale * query_scale * key_scale, softcap=scores.softcap, fill=scores.fill,
        zero_unseen=scores.zero_unseen, transpose_key=transpose_key, inner=inner)
    return Replace(target, reshaped(builder, result, target.result.shape))


def _heads(shape: tuple[Dim, ...], form: tuple[Dim, ...]) -> tuple[tuple[Dim, ...], Dim] | None:
    """The leading axes and the rows of the fused operator, in which masks for scores of ``form`` broadcast."""
    batch, rows = shape[:-2], shape[-2]
    if form in ((), shape):
        return batch, rows
    group = 1 if rows == form[-2] else dims.floordiv(rows, form[-2])
    if group * form[-2] != rows or not batch:
        return None
    split = (*batch, group)
    merged = (*batch[:-1], batch[-1] * group)
    return (split, form[-2]) if form[:-2] in (split, merged) else None


def _mask(builder: Builder, scores: _Scores, batch: tuple[Dim, ...]) -> Value | None:
    """The mask, with the heads' axis split as those of the operands."""
    masks = scores.added if scores.selected is None else [scores.selected]
    if len(scores.form) != len(batch) + 2:
        masks = [_aligned(builder, mask, batch) for mask in masks]
    return reduce(partial(builder.call, "add"), masks) if masks else None


def _aligned(builder: Builder, mask: Value, batch: tuple[Dim, ...]) -> Value:
    if mask.rank < 3:
        return mask
    heads = (1, 1) if mask.shape[-3] == 1 else batch[-2:]
    return reshaped(builder, mask, (*mask.shape[:-3], *heads, *mask.shape[-2:]))


def _transposition(graph: Graph, last: Matmul, batch: tuple[Dim, ...], rows: Dim) -> tuple[Node, int]:
    """The transposition that brings rows before heads, if that follows, and how many axes it moves rows across."""
    value = last.result
    user = only_use(graph, value)
    if user is not None and user.op == "reshape":
        value, user = user.result, only_use(graph, user.result)
    moved = None
    if user is not None and user.op == "transpose":
        moved = _moved_rows(value.shape, user.attrs.axes, rows, last.b.shape[-1])
    inner = next((n for n in range(len(batch) + 1) if dims.product(batch[len(batch) - n:]) == moved), 0)
    return (user, inner) if user is not None and inner else (last.node, 0)


def _shared(key: Value, value: Value, batch: tuple[Dim, ...]) -> tuple[Value, Value, tuple[Dim, ...]] | None:
    """Keys and values before they were repeated, and the leading axes with the heads' split into those and the repetitions."""
    keys, values = _repeated(key), _repeated(value)
    if keys is None or values is None or keys[1:] != values[1:] or not batch or not dims.equal(batch[-1], dims.product(keys[1:])):
        return None
    return keys[0], values[0], (*batch[:-1], *keys[1:])


def _repeated(value: Value) -> tuple[Value, Dim, Dim] | None:
    """(x, heads, times) where ``value`` has each head of x that many times: reshape(broadcast_to(reshape(x)))."""
    repeated = viewed(value)
    broadcast = None if repeated is None else BroadcastTo.of(repeated.producer)
    if broadcast is None or broadcast.data.rank != 5 or broadcast.result.rank != 5 or broadcast.attrs.exact:
        return None
    source, (lead, heads, one, *matrix) = viewed(broadcast.data), broadcast.data.shape
    times = broadcast.result.shape[2]
    shapes = [broadcast.result.shape, value.shape, None if source is None else source.shape]
    if one != 1 or shapes != [(lead, heads, times, *matrix), (lead, heads * times, *matrix), (lead, heads, *matrix)]:
        return None
    assert source is not None
    return source, heads, times


def _divided(builder: Builder, query: Value, shape: Sequence[Dim]) -> Value:
    """``query`` with leading axes and rows ``shape``, which split its heads, or its rows."""
    wanted = (*shape, query.shape[-1])
    heads = (*shape[:-3], shape[-3] * shape[-2], shape[-1], query.shape[-1])
    if query.rank + 1 == len(wanted) and all(map(dims.equal, query.shape, heads)):
        return _split_axis(builder, query, query.rank - 3, shape[-3:-1])
    return reshaped(builder, query, wanted)


def _split_axis(builder: Builder, value: Value, axis: int, sizes: Sequence[Dim]) -> Value:
    """``value`` with axes of ``sizes`` in the place of one; a transposition stays the last step: kernels read through it."""
    moved = transposed(value)
    if moved is None:
        return reshaped(builder, value, (*value.shape[:axis], *sizes, *value.shape[axis + 1:]))
    source, order = moved
    at, more = order[axis], len(sizes) - 1
    wide = reshaped(builder, source, (*source.shape[:at], *sizes, *source.shape[at + 1:]))
    later = [a + more if a > at else a for a in order]
    later[axis:axis + 1] = range(at, at + len(sizes))
    return builder.call("transpose", wide, axes=later)


def _moved_rows(shape: Sequence[Dim], axes: Sequence[int] | None, rows: Dim, size: Dim) -> Dim | None:
    """The product of the extents that a transposition moves the last axis but one across, if it does nothing else."""
    rank = len(shape)
    if axes is None or rank < 3 or not dims.equal(shape[-2], rows) or not dims.equal(shape[-1], size):
        return None
    order = [a % rank for a in axes if not dims.equal(shape[a], 1) or a % rank >= rank - 2]
    if order[-1] != rank - 1 or rank - 2 not in order:
        return None
    place = order.index(rank - 2)
    if [*order[:place], *order[place + 1:]] != sorted(a for a in order if a != rank - 2):
        return None
    return dims.product([shape[a] for a in order[place + 1:-1]])


def unscaled(builder: Builder, value: Value) -> tuple[Value, float]:
    """Returns (x, c) with value == c * x, looking through movements of elements that nothing else reads."""
    if builder.graph.use_count(value) != 1:
        return value, 1.0
    for x, c in with_scalar(value, "multiply"):
        if c and math.isfinite(c) and x.type == value.type:
            return x, c
    node = made_by(value, "reshape", "transpose")
    if node is None or len(node.operands) != 1:
        return value, 1.0
    x, c = unscaled(builder, operand(node))
    return (value, 1.0) if c == 1.0 else (builder.call(node.op, x, **node.attributes), c)


def _as_read(builder: Builder, value: Value) -> Value:
    """``value`` so that kernels read it through movements: without axes of 1 in front; cast(reshape(x)) for reshape(cast(x))."""
    view = Reshape.of(value.producer)
    if view is not None and view.newshape is None and view.data.rank >= 2:
        added = value.rank - view.data.rank
        value = view.data if added > 0 and value.shape == (1,) * added + view.data.shape else value
    before = viewed(value)
    cast = None if before is None else Cast.of(before.producer)
    return value if cast is None else builder.call("cast", reshaped(builder, cast.data, value.shape), dtype=cast.attrs.dtype)


run = rewriting(fuse_attention)
