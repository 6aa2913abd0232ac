"""Attention written as two matrix products and a softmax becomes one operator, which keeps its scores in the cache.

``matmul(softmax(scale * matmul(q, transpose(k)) + mask), v)`` --> ``nn.contrib_attention(q, k, v, mask)``

Between the products may stand, in this order: scales, a soft cap, masks that are added or selected by, and reshapes that split
rows into heads and rows. A transposition behind that brings rows before heads is done as results are written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from forge import dims
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.edits.rewrite import Declined, Replace, RuleBuilder, only_use, rewrite, rule
from forge.ir.nodes import Graph, Node, Value
from forge.options import CompileOptions
from forge.passes.matching import made_by, operand, reduced_axes, scalar

MOST_WIDTH = 256
"""Of queries and values: that much of a block of rows lies on the stack."""
SCORE_TYPES = {"float32": "float32", "float64": "float64", "bfloat16": "float32"}
"""By the type of the operands."""
LEAST_KEYS = 256
"""With fewer, three kernels are as fast: all that they write stays in the second-level cache."""


def run(graph: Graph, options: CompileOptions) -> int:
    return rewrite(graph, [fuse_attention])


SHARED = Declined("scores or probabilities are read elsewhere too, or reshaped along their last axis")


@dataclass
class _Scores:
    """What stands between the products, from the softmax back to the first one.

    Attributes:
        product: the first product; until it is found, the softmax.
        form: shape of the scores where masks are applied; None: there is no mask.
    """

    product: Node
    scale: float = 1.0
    softcap: float = 0.0
    form: tuple[Dim, ...] | None = None
    added: list[Value] = field(default_factory=list)
    selected: Value | None = None
    fill: float = -math.inf
    zero_unseen: bool = False


@rule("nn.matmul")
def fuse_attention(builder: RuleBuilder, node: Node) -> Replace | Declined | None:
    graph = builder.graph
    probabilities, value = operand(node), operand(node, 1)
    shares, seen = _where_seen(_widened(graph, _through_reshapes(graph, probabilities)))
    softmax = made_by(shares, "nn.softmax")
    if softmax is None:
        return None
    if node.attributes["transpose_a"] or node.attributes["transpose_b"] or node.result.dtype != value.dtype:
        return Declined("the second product transposes an operand, or has another type than the values")
    if not _only_for(graph, softmax.result):
        return SHARED
    if softmax.attributes["axis"] not in (-1, softmax.result.rank - 1):
        return Declined("softmax is not over the last axis")
    scores = _scores(graph, softmax)
    if isinstance(scores, Declined):
        return scores
    reason = _unsuitable(scores.product, value, probabilities)
    if reason:
        return Declined(reason)
    if seen is not None and not _is_seen(seen, scores):
        return Declined("what zeroes probabilities is not the mask of the scores")
    scores.zero_unseen = seen is not None
    return _Fusion(builder, node, scores).run()


def _widened(graph: Graph, value: Value | None) -> Value | None:
    """What float32 is rounded to bfloat16 for the second product; other values as they are."""
    node = made_by(value, "cast")
    if node is None or node.result.dtype != "bfloat16" or operand(node).dtype != "float32":
        return value
    return _through_reshapes(graph, operand(node))


def _where_seen(value: Value | None) -> tuple[Value | None, Value | None]:
    """(x, condition) of where(condition, x, 0); (value, None) of others."""
    node = made_by(value, "where")
    if node is None or scalar(operand(node, 2)) != 0.0 or operand(node, 1).type != node.result.type:
        return value, None
    return operand(node, 1), operand(node)


def _is_seen(seen: Value, scores: _Scores) -> bool:
    """Whether ``seen`` is False for just the rows whose scores the masks make -inf: any(selected), any(added > -inf)."""
    node = made_by(seen, "any")
    if node is None or not node.attributes["keepdims"] or reduced_axes(node) != (operand(node).rank - 1,):
        return False
    condition = operand(node)
    if scores.selected is not None:
        return condition is scores.selected and scores.fill == -math.inf
    compared = made_by(condition, "greater")
    return compared is not None and scalar(operand(compared, 1)) == -math.inf and [operand(compared)] == scores.added


def _only_for(graph: Graph, value: Value) -> bool:
    return graph.use_count(value) == 1 and not graph.is_output(value)


def _through_reshapes(graph: Graph, value: Value) -> Value | None:
    """What ``value`` is reshaped from, with the same last axis; None where somebody else reads what lies between."""
    while True:
        if not _only_for(graph, value):
            return None
        node = made_by(value, "reshape")
        if node is None:
            return value
        source = operand(node)
        if not source.rank or not value.rank or not dims.equal(source.shape[-1], value.shape[-1]):
            return None
        value = source


def _scores(graph: Graph, softmax: Node) -> _Scores | Declined:
    """The expression of the scores, taken apart."""
    found, value = _Scores(softmax), operand(softmax)
    while True:
        source = _through_reshapes(graph, value)
        if source is None:
            return SHARED
        if source.producer is None:
            return Declined("the scores are no product")
        if source.producer.op == "nn.matmul":
            found.product = source.producer
            return found
        following = _step(found, source.producer)
        if following is None:
            return Declined(f"{source.producer.op} after the first product is no scale, soft cap or mask in its place")
        value = following


def _step(found: _Scores, node: Node) -> Value | None:
    """Notes what ``node`` does to the scores, and gives those before."""
    if node.op in ("multiply", "divide"):
        return _scaled(found, node)
    plain = found.scale == 1.0 and not found.softcap
    if node.op == "add" and plain and found.selected is None:
        return _masked(found, node)
    if node.op == "where" and plain and found.selected is None:
        return _selected(found, node)
    return None


def _scaled(found: _Scores, node: Node) -> Value | None:
    x, number = operand(node), scalar(operand(node, 1))
    if number is None and node.op == "multiply":
        x, number = operand(node, 1), scalar(operand(node))
    if number is None or number == 0.0 or x.type != node.result.type:
        return None
    bent = made_by(x, "tanh")
    if bent is not None and node.op == "multiply" and found.scale == 1.0 and not found.softcap:
        return _softcapped(found, bent, number)
    found.scale *= number if node.op == "multiply" else 1 / number
    return x


def _softcapped(found: _Scores, bent: Node, bound: float) -> Value | None:
    """bound * tanh(x / bound), or with a product where 1 / bound is a number"""
    inner = operand(bent).producer
    if inner is None or inner.op not in ("divide", "multiply") or bound <= 0:
        return None
    if len(bent.result.uses) != 1 or len(inner.result.uses) != 1 or operand(inner).type != inner.result.type:
        return None
    factor = scalar(operand(inner, 1))
    if factor is None or (factor != bound if inner.op == "divide" else factor * bound != 1.0):
        return None
    found.softcap = bound
    return operand(inner)


def _masked(found: _Scores, node: Node) -> Value | None:
    """x + mask: the side that a product is behind is x."""
    for position in (0, 1):
        x, mask = operand(node, position), operand(node, 1 - position)
        if _leads_to_product(x) and _keeps_form(found, x, node) and mask.rank <= x.rank:
            found.added.append(mask)
            return x
    return None


def _selected(found: _Scores, node: Node) -> Value | None:
    """where(mask, x, fill)"""
    mask, x, fill = operand(node), operand(node, 1), scalar(operand(node, 2))
    if fill is None or mask.dtype != "bool" or found.added or not _keeps_form(found, x, node) or mask.rank > x.rank:
        return None
    found.selected, found.fill = mask, fill
    return x


def _keeps_form(found: _Scores, x: Value, node: Node) -> bool:
    """Whether ``node`` keeps the shape of ``x``, and that is the one of the masks before."""
    if x.type != node.result.type or found.form not in (None, x.shape):
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


def _unsuitable(product: Node, value: Value, probabilities: Value) -> str:
    """Why the kernel does not take these operands, or does not gain by it; empty: it does both."""
    query, key = operand(product), operand(product, 1)
    types = [v.dtype for v in (query, key, value, product.result)]
    if product.attributes["transpose_a"] or len(set(types[:3])) > 1 or SCORE_TYPES.get(types[0]) != types[3]:
        return f"no kernel for queries, keys, values and scores of {', '.join(types)}, or transposed queries"
    if value.rank < 2 or probabilities.shape != product.result.shape:
        return "the probabilities do not have the shape of the first product"
    sizes = (query.shape[-1], value.shape[-1])
    if not all(isinstance(s, int) and 0 < s <= MOST_WIDTH for s in sizes):
        return f"queries and values are {sizes[0]} and {sizes[1]} wide; expected at most {MOST_WIDTH}"
    keys = value.shape[-2]
    few = isinstance(keys, int) and keys < LEAST_KEYS
    return f"{keys} keys; three kernels are as fast for fewer than {LEAST_KEYS}" if few else ""


class _Fusion:
    """One node of the fused operator in the place of a matched pattern."""

    def __init__(self, builder: RuleBuilder, node: Node, scores: _Scores) -> None:
        self.builder, self.last, self.scores = builder, node, scores
        self.value = operand(node, 1)
        self.shape: tuple[Dim, ...] = scores.product.result.shape

    def run(self) -> Replace | Declined:
        heads = self._heads()
        if heads is None:
            return Declined("the masks do not split the rows of the scores into heads")
        batch, rows = heads
        target, inner = self._transposition(batch, rows)
        builder, scores, product = self.builder, self.scores, self.scores.product
        builder.move_before(target)
        (query, first), (key, second) = (unscaled(builder, operand(product, k)) for k in (0, 1))
        if len(batch) + 2 > len(self.shape):
            query = _reshaped(builder, query, (*batch, rows, query.shape[-1]))
            key, value = (_spread(builder, v) for v in (key, self.value))
        else:
            value = self.value
        result = builder.call(
            "nn.contrib_attention", *(without_leading_ones(v) for v in (query, key, value)), self._mask(batch),
            name=self.last.name, scale=scores.scale * first * second, softcap=scores.softcap, fill=scores.fill,
            zero_unseen=scores.zero_unseen, transpose_key=bool(product.attributes["transpose_b"]), inner=inner)
        if result.shape != target.result.shape:
            result = builder.call("reshape", result, newshape=target.result.shape)
        return Replace(target, result)

    def _heads(self) -> tuple[tuple[Dim, ...], Dim] | None:
        """The leading axes and the rows of the fused operator, in which the masks broadcast."""
        batch, rows, form = self.shape[:-2], self.shape[-2], self.scores.form
        if form is None or form == self.shape:
            return batch, rows
        group = _quotient(rows, form[-2])
        if group is None or not batch:
            return None
        split = (*batch, group)
        merged = (*batch[:-1], batch[-1] * group)
        return (split, form[-2]) if form[:-2] in (split, merged) else None

    def _mask(self, batch: tuple[Dim, ...]) -> Value | None:
        if self.scores.selected is not None:
            return self._aligned(self.scores.selected, batch)
        mask = None
        for added in self.scores.added:
            aligned = self._aligned(added, batch)
            mask = aligned if mask is None else self.builder.call("add", mask, aligned)
        return mask

    def _aligned(self, mask: Value, batch: tuple[Dim, ...]) -> Value:
        """``mask`` with the heads' axis split as those of the operands."""
        form = self.scores.form
        assert form is not None
        if len(form) == len(batch) + 2 or mask.rank < 3:
            return mask
        heads = (1, 1) if dims.equal(mask.shape[-3], 1) else batch[-2:]
        return _reshaped(self.builder, mask, (*mask.shape[:-3], *heads, *mask.shape[-2:]))

    def _transposition(self, batch: tuple[Dim, ...], rows: Dim) -> tuple[Node, int]:
        """The transposition that brings rows before heads, if that follows, and how many axes it moves rows across."""
        graph, value = self.builder.graph, self.last.result
        user = only_use(graph, value)
        if user is not None and user.op == "reshape" and _only_for(graph, value):
            value, user = user.result, only_use(graph, user.result)
        if user is None or user.op != "transpose" or not _only_for(graph, value):
            return self.last, 0
        moved = _moved_rows(value.shape, user.attributes["axes"], rows, self.value.shape[-1])
        if moved is None:
            return self.last, 0
        inner = next((n for n in range(len(batch) + 1) if dims.equal(dims.product(batch[len(batch) - n:]), moved)), None)
        return (self.last, 0) if not inner else (user, inner)


def _reshaped(builder: Builder, value: Value, shape: tuple[Dim, ...]) -> Value:
    return builder.call("reshape", value, newshape=shape)


def _spread(builder: Builder, value: Value) -> Value:
    """With an axis of 1 where queries that share keys are told apart."""
    return _reshaped(builder, value, (*value.shape[:-2], 1, *value.shape[-2:])) if value.rank > 2 else value


def _quotient(rows: Dim, length: Dim) -> Dim | None:
    """rows / length, where that is a whole number."""
    if dims.equal(rows, length):
        return 1
    quotient = dims.floordiv(rows, length)
    return quotient if dims.equal(quotient * length, rows) else None


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
    """(x, c) with value == c * x, looking through movements of elements that nobody else reads."""
    node = value.producer
    if node is None or builder.graph.use_count(value) != 1:
        return value, 1.0
    if node.op == "multiply":
        for x, c in ((operand(node), scalar(operand(node, 1))), (operand(node, 1), scalar(operand(node)))):
            if c and math.isfinite(c) and x.type == value.type:
                return x, c
    if node.op not in ("reshape", "transpose") or len(node.operands) != 1:
        return value, 1.0
    x, c = unscaled(builder, operand(node))
    return (value, 1.0) if c == 1.0 else (builder.call(node.op, x, **node.attributes), c)


def without_leading_ones(value: Value) -> Value:
    """What ``value`` was before a reshape that put axes of 1 in front: kernels read it through movements behind that."""
    node = made_by(value, "reshape")
    if node is None or len(node.operands) != 1:
        return value
    source = operand(node)
    added = value.rank - source.rank
    kept = source.rank >= 2 and added > 0 and value.shape[added:] == source.shape
    return source if kept and all(dims.equal(d, 1) for d in value.shape[:added]) else value
