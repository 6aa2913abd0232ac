"""Tensors one after the other, or in a grid."""

from __future__ import annotations

from collections.abc import Sequence

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


def with_axes(g: Context, value: Value, rank: int) -> Value:
    """``value`` with ``rank`` axes at least, as ``atleast_1d`` and its kin give them."""
    if value.rank >= rank:
        return value
    if value.rank == 0:
        return g.reshape(value, (1,) * rank)
    return g.reshape(value, (*value.shape, 1) if value.rank == 2 else (1, *value.shape, 1)[:rank])


@converts("hstack.default")
def hstack(g: Context, tensors: Sequence[Value]) -> Value:
    rows = [with_axes(g, t, 1) for t in tensors]
    return cat(g, rows, dim=0 if rows[0].rank == 1 else 1)


@converts("vstack.default", "row_stack.default")
def vstack(g: Context, tensors: Sequence[Value]) -> Value:
    return cat(g, [with_axes(g, t, 2) for t in tensors])


@converts("dstack.default")
def dstack(g: Context, tensors: Sequence[Value]) -> Value:
    return cat(g, [with_axes(g, t, 3) for t in tensors], dim=2)


@converts("column_stack.default")
def column_stack(g: Context, tensors: Sequence[Value]) -> Value:
    return cat(g, [t if t.rank > 1 else g.reshape(t, (*(t.shape or (1,)), 1)) for t in tensors], dim=1)


@converts("atleast_1d.default")
def atleast_1d(g: Context, self: Value) -> Value:
    return with_axes(g, self, 1)


@converts("atleast_2d.default")
def atleast_2d(g: Context, self: Value) -> Value:
    return with_axes(g, self, 2)


@converts("atleast_3d.default")
def atleast_3d(g: Context, self: Value) -> Value:
    return with_axes(g, self, 3)


@converts("meshgrid.default", "meshgrid.indexing")
def meshgrid(g: Context, tensors: Sequence[Value], *, indexing: str = "ij") -> list[Value]:
    """Of vectors; with "xy" the first two axes change places."""
    rows = [with_axes(g, t, 1) for t in tensors]
    order = list(range(len(rows)))
    if indexing == "xy" and len(rows) > 1:
        order[:2] = [1, 0]
    shape = tuple(rows[k].shape[0] for k in order)
    found = []
    for k, row in enumerate(rows):
        place = order.index(k)
        lined_up = g.reshape(row, tuple(row.shape[0] if axis == place else 1 for axis in range(len(rows))))
        found.append(g.call("broadcast_to", lined_up, shape=shape))
    return found


@converts("broadcast_tensors.default")
def broadcast_tensors(g: Context, tensors: Sequence[Value]) -> list[Value]:
    shape = next(g.meta(k).shape for k in range(g.num_outputs) if g.wants(k))
    return [t if t.shape == shape else g.call("broadcast_to", t, shape=shape) for t in tensors]
