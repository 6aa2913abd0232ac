"""Layers of experts: each row of the data goes through the few networks, of many, that its scores choose."""

from __future__ import annotations

from collections.abc import Callable

from forge import dims
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer

Layer = Callable[[Value, Value], Value]
"""(rows [M, H], expert of each row [M]) -> rows [M, N]"""


def product(g: Composer, rows: Value, weight: Value, expert: Value) -> Value:
    """Each of the rows [M, K] times the matrix of its expert, of weight [E, K, N]."""
    return g.cast(g.call("nn.indexed_matmul", rows, weight, expert), rows.dtype)


def grouped_product(g: Composer, rows: Value, weight: Value, ends: Value) -> Value:
    """Rows ``ends[i - 1]`` to ``ends[i]`` of ``[M, K]`` times matrix i of ``[E, K, N]``."""
    row = g.count(g.extent(rows, 0), rows.shape[0])
    return product(g, rows, weight, g.call("searchsorted", g.cast(ends, "int64"), row, right=True))


def projection(g: Composer, rows: Value, weight: Value, bias: Value | None, expert: Value) -> Value:
    """``product`` with the transposes of weight [E, N, K], plus the expert's row of bias [E, N]."""
    total = product(g, rows, g.call("transpose", weight, axes=(0, 2, 1)), expert)
    return total if bias is None else g.call("add", total, taken(g, bias, expert))


def best(g: Composer, scores: Value, count: int) -> tuple[Value, Value]:
    """The greatest ``count`` of each row of scores [T, E] and their places; of equal ones, the last."""
    backwards = g.call("reverse", scores, axis=1)
    values, places = g.multi("topk", backwards, k=count, axis=1, ret_type="both", is_ascend=False, dtype="int64")
    experts = scores.shape[1]
    assert isinstance(experts, int)
    return values, g.call("subtract", g.scalar(experts - 1, places), places)


def mixture(g: Composer, x: Value, expert: Value, share: Value, layer: Layer) -> Value:
    """The sum over j of ``share[t, j] * layer(x[t], expert[t, j])``: x [T, H], expert and share [T, k].

    Rows are sorted by their experts, so that the weights of one are read once for all its rows.
    """
    tokens, count = expert.shape
    flat = g.reshape(expert, (dims.product(expert.shape),))
    if tokens == 1:
        results = layer(g.call("broadcast_to", x, shape=(count, x.shape[1])), flat)
    else:
        order = g.call("argsort", flat, axis=0, dtype="int64")
        token = g.call("floor_divide", order, g.scalar(int(count), order))
        by_expert = layer(taken(g, x, token), taken(g, flat, order))
        results = taken(g, by_expert, g.call("argsort", order, axis=0, dtype="int64"))
    by_token = g.reshape(results, (tokens, count, results.shape[1]))
    weighted = g.call("multiply", by_token, g.cast(g.reshape(share, (tokens, count, 1)), by_token.dtype))
    return g.call("sum", weighted, axis=(1,), keepdims=False)


def taken(g: Composer, table: Value, rows: Value) -> Value:
    """Some rows of a table."""
    return g.call("take", table, rows, axis=0, mode="clip")
