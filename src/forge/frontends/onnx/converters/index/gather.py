"""Operators that read by index."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Gather", since=1)
def gather(g: Context, x: Value, indices: Value, *, axis: int = 0) -> Value:
    return g.call("take", x, indices, axis=g.axis(axis, x.rank), mode="wrap_negative")


@converts("GatherElements", since=11)
def gather_elements(g: Context, x: Value, indices: Value, *, axis: int = 0) -> Value:
    return g.call("gather", x, indices, axis=g.axis(axis, x.rank))


@converts("GatherND", since=11, introduced={"batch_dims": 12})
def gather_nd(g: Context, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    return g.call("gather_nd", x, index_vectors_first(g, indices), batch_dims=batch_dims)


def index_vectors_first(g: Context, indices: Value) -> Value:
    """ONNX keeps an index vector in the last axis, the operator in the first."""
    return g.call("transpose", indices, axes=(indices.rank - 1, *range(indices.rank - 1))) if indices.rank > 1 else indices
