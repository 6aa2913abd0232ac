"""Sorting and choosing."""

from __future__ import annotations

from forge.compose import order_statistics
from forge.compose.axes import part
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def ordered(g: Context, value: Value, dim: int, descending: bool) -> list[Value]:
    """The elements in order along ``dim``, and their positions; equal ones keep their order."""
    if value.rank == 0:
        return [value, g.constant(0, "int64")]
    return [*order_statistics.sort(g, value, g.axis(dim, value.rank, "dim"), descending)]


@converts("sort.default", "sort.stable")
def sort(g: Context, self: Value, *, dim: int = -1, descending: bool = False, stable: bool | None = None) -> list[Value]:
    return ordered(g, self, dim, descending)


@converts("argsort.default", "argsort.stable")
def argsort(g: Context, self: Value, *, dim: int = -1, descending: bool = False, stable: bool = False) -> Value:
    return ordered(g, self, dim, descending)[1]


@converts("msort.default")
def msort(g: Context, self: Value) -> Value:
    return ordered(g, self, 0, False)[0]


@converts("topk.default")
def topk(g: Context, self: Value, *, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:  # noqa: A002
    if self.rank == 0:
        return ordered(g, self, dim, False)
    return g.multi("topk", self, k=k, axis=g.axis(dim, self.rank, "dim"), ret_type="both", is_ascend=not largest, dtype="int64")


@converts("kthvalue.default")
def kthvalue(g: Context, self: Value, *, k: Dim, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """The ``k``-th smallest, counted from 1."""
    found = ordered(g, self, dim, False)
    if self.rank == 0:
        return found
    axis = g.axis(dim, self.rank, "dim")
    at = [part(g, v, axis, k - 1, k) for v in found]
    return at if keepdim else [g.call("squeeze", v, axis=(axis,)) for v in at]
