"""Reductions of consecutive parts of an axis."""

from __future__ import annotations

import math

from forge import dims
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


@converts("segment_reduce.default")
def segment_reduce(
    g: Context, data: Value, lengths: Value | None = None, indices: Value | None = None, offsets: Value | None = None,
    *, reduce: str, axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Value:
    """Parts of ``axis``, the last one of ``lengths`` [..., S] or ``offsets`` [..., S + 1]; where both are absent, torch fails.

    An empty part gives ``initial``, else what is neutral, and NaN as mean. ``initial`` counts in a sum, and so in a mean.
    """
    if indices is not None:
        raise g.unsupported("indices: got a tensor; supported: lengths or offsets")
    ends = _cumulated(g, lengths) if lengths is not None else offsets
    if ends is None:
        raise g.invalid("got neither lengths nor offsets; expected one of them")
    at = g.axis(axis, data.rank, "axis")
    lead, rows, rest = data.shape[:at], data.shape[at], data.shape[at + 1 :]
    batch, parts = dims.product(lead), ends.shape[at] - 1
    bounds = g.reshape(ends, (batch, parts + 1))
    positions = g.call("broadcast_to", g.count(g.tensor(rows), rows), shape=(batch, rows))
    number = Term(g, g.call("searchsorted", bounds, positions, right=True, dtype="int64")) - 1
    first = Term(g, g.reshape(g.count(g.tensor(batch), batch), (batch, 1))) * Term(g, g.tensor(parts, "int64"))
    inside = (number >= 0).both(number < Term(g, g.tensor(parts, "int64")))
    ids = inside.where(number + first, -1).reshape(dims.product((batch, rows))).value
    start = None if initial is None else g.scalar(initial, data)
    total = Term(g, g.call(
        "segment_reduce", g.reshape(data, (dims.product((batch, rows)), *rest)), ids, start,
        reduction="sum" if reduce == "mean" else reduce, num_segments=batch * parts,
    ))
    if reduce == "mean":
        begin, end = (g.call("strided_slice", bounds, begin=(k,), end=(parts + k,), strides=(1,), axes=(1,)) for k in (0, 1))
        count = (Term(g, end) - Term(g, begin)).reshape(batch * parts, *(1,) * len(rest)).cast(data.dtype)
        nothing = math.nan if initial is None else initial
        total = (count > 0).where(total / count, nothing)
    return g.reshape(total.value, (*lead, parts, *rest))


def _cumulated(g: Context, lengths: Value) -> Value:
    """0, and the sums of the first 1, 2, .. lengths."""
    sums = g.call("cumsum", g.cast(lengths, "int64"), axis=lengths.rank - 1)
    zero = g.call("broadcast_to", g.constant(0, "int64"), shape=(*lengths.shape[:-1], 1))
    return g.call("concatenate", zero, sums, axis=lengths.rank - 1)
