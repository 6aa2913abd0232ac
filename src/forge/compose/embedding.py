"""Rows of tables, summed in bags."""

from __future__ import annotations

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term

MODES = ("sum", "mean", "max")


def embedding_bag(
    g: Composer,
    table: Value,
    indices: Value,
    offsets: Value | None = None,
    weights: Value | None = None,
    *,
    mode: str = "sum",
) -> Value:
    """``out[b] = sum (mean, max) over the indices i of bag b of weights[i] * table[i]``; an empty bag gives 0.

    ``table`` is ``[V, D]``. ``indices`` is ``[B, L]``, a bag a row, or ``[I]`` with ``offsets`` ``[B]``, where bags begin.
    ``weights``, for sums only, has the shape of ``indices``. The result is ``[B, D]``.

    Raises:
        OpAttributeInvalid: an unknown mode, weights with another mode than sum, or offsets that do not fit the rank of indices.
    """
    if mode not in MODES:
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected one of {', '.join(MODES)}")
    if weights is not None and mode != "sum":
        raise g.invalid(f"weights: got some with mode {mode!r}; expected them with sum only")
    if (indices.rank, offsets is None) not in ((2, True), (1, False)):
        raise g.invalid(f"indices: got rank {indices.rank}; expected 2 without offsets, or 1 with offsets")
    rows = g.call("take", table, indices, axis=0, mode="clip")
    if weights is not None:
        rows = g.call("multiply", rows, g.call("expand_dims", weights, axis=indices.rank))
    return g.call(mode, rows, axis=(1,), keepdims=False) if offsets is None else _by_offset(g, rows, offsets, mode)


def _by_offset(g: Composer, rows: Value, offsets: Value, mode: str) -> Value:
    """Row i belongs to the last bag that begins at i or before."""
    count, bags, size = rows.shape[0], offsets.shape[0], rows.shape[1]
    places = Term(g, g.reshape(g.count(g.extent(rows, 0), count), (count, 1)))
    starts = Term(g, g.reshape(g.cast(offsets, "int64"), (1, bags)))
    begun = (starts <= places).cast("int64").sum(1) - 1
    index = g.call("broadcast_to", begun.value, shape=(count, size))
    largest = mode == "max"
    start = g.call("full", g.scalar(float("-inf") if largest else 0, rows), shape=(bags, size))
    total = Term(g, g.call("scatter_elements", start, index, rows, axis=0, reduction="max" if largest else "add"))
    ones = g.call("full", g.scalar(1, rows), shape=(count, 1))
    zeros = g.call("full", g.scalar(0, rows), shape=(bags, 1))
    members = Term(g, g.call("scatter_elements", zeros, begun.value, ones, axis=0, reduction="add"))
    if largest:
        return members.equals(0).where(0, total).value
    return (total / members.maximum(1)).value if mode == "mean" else total.value
