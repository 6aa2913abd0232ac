"""``x[i, :, mask]`` and writes to it: tensors of indices and masks for some axes, in any position."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import indexing
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Indices = Sequence[Value | None]


@converts("index.Tensor")
def index(g: Context, self: Value, *, indices: Indices, checks: bool = True) -> Value:
    return self if all(i is None for i in indices) else indexing.index(g, self, _masked(g, indices), checks=checks)


@converts("_unsafe_index.Tensor")
def unsafe_index(g: Context, self: Value, *, indices: Indices) -> Value:
    return index(g, self, indices=indices, checks=False)


def _masked(g: Context, indices: Indices) -> list[Value | None]:
    """``indices``, of which torch takes uint8 for masks; those of rank 0 are not supported."""
    found = [g.cast(i, "bool") if i is not None and i.dtype == "uint8" else i for i in indices]
    if any(i is not None and i.rank == 0 and i.dtype == "bool" for i in found):
        raise g.unsupported("indices: got a mask of rank 0; supported: masks with axes; use torch.where")
    return found


@converts("index_put.default", "_unsafe_index_put.default")
def index_put(g: Context, self: Value, values: Value, *, indices: Indices, accumulate: bool = False) -> Value:
    new = g.cast(values, self.dtype)
    if any(i is not None for i in indices):
        return indexing.put(g, self, _masked(g, indices), new, accumulate=accumulate)
    new = g.call("broadcast_to", new, shape=self.shape)
    return g.call("add", self, new) if accumulate else new
