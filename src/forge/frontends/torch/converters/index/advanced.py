"""``x[i, :, mask]`` and writes to it: tensors of indices and masks for some axes, in any position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.core.views import moved
from forge.frontends.torch.converters.index.along import reduced
from forge.frontends.torch.converters.shape.order import transposed
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.broadcast import common_size


@dataclass
class Places:
    """Places in a tensor.

    Attributes:
        axes: that have indices.
        indices: one vector for each of them, all of one shape.
        result_axis: where the axes of the indices are in what is read there.
    """

    axes: list[int]
    indices: list[Value]
    result_axis: int

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.indices[0].shape


def places(g: Context, value: Value, indices: Sequence[Value | None], checks: bool = True) -> Places:
    """The places that ``indices`` name: integers count along an axis; a mask covers as many as it has itself.

    ``checks``: integers that arrive at run time may be out of range, where a call fails.
    """
    axes: list[int] = []
    found: list[Value] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
            continue
        if index.dtype in ("bool", "uint8"):
            columns = nonzero_columns(g, index)
        else:
            columns = [checked_indices(g, g.cast(index, "int64"), value.shape[axis]) if checks else g.cast(index, "int64")]
        axes += range(axis, axis + len(columns))
        found += columns
        axis += max(len(columns), 1)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    return Places(axes, _broadcast(g, found), axes[0] if together else 0)


def nonzero_columns(g: Context, mask: Value) -> list[Value]:
    """The indices of the elements that are not 0, one vector for each axis."""
    found = g.call("argwhere", mask)
    if mask.rank == 1:
        return [g.reshape(found, found.shape[:1])]
    return [g.reshape(c, found.shape[:1]) for c in g.multi("split", found, indices_or_sections=mask.rank, axis=1)]


def _broadcast(g: Context, values: Sequence[Value]) -> list[Value]:
    rank = max(v.rank for v in values)
    columns = [[v.shape[k - rank + v.rank] for v in values if k >= rank - v.rank] for k in range(rank)]
    shape = tuple(map(common_size, columns))
    return [v if v.shape == shape else g.call("broadcast_to", v, shape=shape) for v in values]


def _gathered(g: Context, value: Value, at: Places) -> Value:
    """What is at the places, their axes first."""
    if len(at.axes) == 1:
        return g.call("take", transposed(g, value, moved(value.rank, at.axes, [0])), at.indices[0], axis=0)
    first = transposed(g, value, moved(value.rank, at.axes, range(len(at.axes))))
    return g.call("gather_nd", first, g.call("stack", *at.indices, axis=0), index_rank=len(at.axes))


@converts("index.Tensor")
def index(g: Context, self: Value, *, indices: Sequence[Value | None], checks: bool = True) -> Value:
    if all(i is None for i in indices):
        return self
    at = places(g, self, _full_masks(g, indices), checks)
    if len(at.axes) == 1:
        return g.call("take", self, at.indices[0], axis=at.axes[0])
    found = _gathered(g, self, at)
    rank = len(at.shape)
    return transposed(g, found, moved(found.rank, range(rank), range(at.result_axis, at.result_axis + rank)))


@converts("_unsafe_index.Tensor")
def unsafe_index(g: Context, self: Value, *, indices: Sequence[Value | None]) -> Value:
    return index(g, self, indices=indices, checks=False)


def _full_masks(g: Context, indices: Sequence[Value | None]) -> list[Value | None]:
    """Masks of rank 0 are not supported."""
    for i in indices:
        if i is not None and i.rank == 0 and i.dtype in ("bool", "uint8"):
            raise g.unsupported("indices: got a mask of rank 0; supported: masks with axes; use torch.where")
    return list(indices)


@converts("index_put.default", "_unsafe_index_put.default")
def index_put(
    g: Context, self: Value, values: Value, *, indices: Sequence[Value | None], accumulate: bool = False
) -> Value:
    if all(i is None for i in indices):
        return _whole(g, self, values, accumulate)
    new = g.cast(values, self.dtype)
    indices = _full_masks(g, indices)
    masked = None if accumulate else _masked(g, self, new, indices)
    if masked is not None:
        return masked
    at = places(g, self, indices)
    count, rank = len(at.axes), len(at.shape)
    rest = [d for k, d in enumerate(self.shape) if k not in at.axes]
    shape = (*rest[: at.result_axis], *at.shape, *rest[at.result_axis :])
    new = new if new.shape == shape else g.call("broadcast_to", new, shape=shape)
    new = transposed(g, new, moved(len(shape), range(at.result_axis, at.result_axis + rank), range(rank)))
    order = moved(self.rank, at.axes, range(count))
    first = transposed(g, self, order)
    where = g.call("stack", *at.indices, axis=0)
    result = reduced(g, lambda old, updates, mode: g.call("scatter_nd", old, where, updates, mode=mode), first, new,
                     "add" if accumulate else "update")
    return transposed(g, result, [order.index(k) for k in range(self.rank)])


def _whole(g: Context, old: Value, values: Value, accumulate: bool) -> Value:
    new = g.call("broadcast_to", g.cast(values, old.dtype), shape=old.shape)
    return g.call("add", old, new) if accumulate else new


def _masked(g: Context, old: Value, new: Value, indices: Sequence[Value | None]) -> Value | None:
    """A write of what does not depend on the number of places, by one mask; None where it is something else."""
    given = [(k, i) for k, i in enumerate(indices) if i is not None]
    ((axis, mask),) = given if len(given) == 1 else ((0, None),)
    if mask is None or mask.dtype not in ("bool", "uint8"):
        return None
    rest = old.rank - axis - mask.rank
    if new.rank > rest and not (new.rank == rest + 1 and new.shape[0] == 1) or new.rank and axis:
        return None
    if new.rank > rest:
        new = g.reshape(new, new.shape[1:])
    condition = g.reshape(g.cast(mask, "bool"), (*mask.shape, *(1,) * rest))
    return g.call("where", condition, new, old)
