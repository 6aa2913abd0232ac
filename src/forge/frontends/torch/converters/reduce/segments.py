"""Reductions of consecutive parts of an axis."""

from __future__ import annotations

from forge.compose import cumulative, reductions
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("segment_reduce.default")
def segment_reduce(
    g: Context, data: Value, lengths: Value | None = None, indices: Value | None = None, offsets: Value | None = None,
    *, reduce: str, axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Value:
    """Parts of ``axis``, the last one of ``lengths`` [..., S] or ``offsets`` [..., S + 1]; where both are absent, torch fails."""
    if indices is not None:
        raise g.unsupported("indices: got a tensor; supported: lengths or offsets")
    ends = cumulative.offsets(g, lengths) if lengths is not None else offsets
    if ends is None:
        raise g.invalid("got neither lengths nor offsets; expected one of them")
    return reductions.segment_reduce(g, data, ends, reduce, g.axis(axis, data.rank, "axis"), initial)
