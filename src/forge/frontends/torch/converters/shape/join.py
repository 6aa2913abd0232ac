"""Tensors one after the other, or in a grid."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import axes
from forge.compose.axes import at_least
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("cat.default", "concat.default", "concatenate.default")
def cat(g: Context, tensors: Sequence[Value], *, dim: int = 0) -> Value:
    kept = [t for t in tensors if t.shape != (0,)] or list(tensors[:1])
    return g.call("concatenate", *(g.cast(t, g.dtype) for t in kept), axis=g.axis(dim, kept[0].rank, "dim"))


@converts("stack.default")
def stack(g: Context, tensors: Sequence[Value], *, dim: int = 0) -> Value:
    return g.call("stack", *(g.cast(t, g.dtype) for t in tensors), axis=g.axis(dim, tensors[0].rank + 1, "dim"))


@converts("hstack.default")
def hstack(g: Context, tensors: Sequence[Value]) -> Value:
    rows = [at_least(g, t, 1) for t in tensors]
    return cat(g, rows, dim=0 if rows[0].rank == 1 else 1)


@converts("vstack.default", "row_stack.default")
def vstack(g: Context, tensors: Sequence[Value]) -> Value:
    return cat(g, [at_least(g, t, 2) for t in tensors])


@converts("dstack.default")
def dstack(g: Context, tensors: Sequence[Value]) -> Value:
    return cat(g, [at_least(g, t, 3) for t in tensors], dim=2)


@converts("column_stack.default")
def column_stack(g: Context, tensors: Sequence[Value]) -> Value:
    return cat(g, [t if t.rank > 1 else g.reshape(t, (*(t.shape or (1,)), 1)) for t in tensors], dim=1)


def _atleast(rank: int) -> None:
    @converts(f"atleast_{rank}d.default")
    def convert(g: Context, self: Value) -> Value:
        return at_least(g, self, rank)


for _rank in (1, 2, 3):
    _atleast(_rank)


@converts("meshgrid.default", "meshgrid.indexing")
def meshgrid(g: Context, tensors: Sequence[Value], *, indexing: str = "ij") -> list[Value]:
    return axes.meshgrid(g, [at_least(g, t, 1) for t in tensors], indexing)


@converts("broadcast_tensors.default")
def broadcast_tensors(g: Context, tensors: Sequence[Value]) -> list[Value]:
    shape = next(g.meta(k).shape for k in range(g.num_outputs) if g.wants(k))
    return [axes.broadcast(g, t, shape) for t in tensors]
