"""Operators that read and write by index."""

from __future__ import annotations

from forge.compose.caching import cache_update
from forge.compose.checks import checked_indices
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Gather", since=1)
def gather(g: Context, x: Value, indices: Value, *, axis: int = 0) -> Value:
    axis = g.axis(axis, x.rank)
    return g.call("take", x, checked_indices(g, indices, *x.shape[axis : axis + 1]), axis=axis, mode="wrap_negative")


@converts("GatherElements", since=11)
def gather_elements(g: Context, x: Value, indices: Value, *, axis: int = 0) -> Value:
    axis = g.axis(axis, x.rank)
    return g.call("gather", x, checked_indices(g, indices, *x.shape[axis : axis + 1]), axis=axis)


@converts("GatherND", since=11, introduced={"batch_dims": 12})
def gather_nd(g: Context, x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    return g.call("gather_nd", x, _index_vectors(g, x, indices, batch_dims), batch_dims=batch_dims)


def index_vectors_first(g: Context, indices: Value) -> Value:
    """ONNX keeps an index vector in the last axis, the operator in the first."""
    return g.call("transpose", indices, axes=(indices.rank - 1, *range(indices.rank - 1))) if indices.rank > 1 else indices


def _index_vectors(g: Context, x: Value, indices: Value, batch_dims: int = 0) -> Value:
    """Index vectors of ``x``, checked where the operator takes them."""
    first = index_vectors_first(g, indices)
    length = first.shape[0] if first.rank else None
    if not isinstance(length, int) or batch_dims + length > x.rank:
        return first  # refused by the operator
    return checked_indices(g, first, *x.shape[batch_dims : batch_dims + length])


@converts("OneHot", since=9)
def one_hot(g: Context, indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """``values`` holds the off value and the on value; negative indices count from the end, others beyond ``depth`` give off."""
    place = g.axis(axis, indices.rank + 1)
    wide = g.cast(indices, "int64")
    off, on = (g.reshape(v, ()) for v in g.multi("split", values, indices_or_sections=2, axis=0))
    known = g.dims(g.cast(depth, "int64"))
    if known is not None:
        return g.call("one_hot", wide, on, off, depth=known[0], axis=place, dtype=values.dtype)
    count = g.reshape(g.cast(depth, "int64"), ())
    return g.call("one_hot", wide, on, off, count, depth=None, axis=place, dtype=values.dtype)


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@converts("Scatter", since=9, lacks=("reduction",))
@converts("ScatterElements", since=11, introduced={"reduction": 16})
def scatter_elements(g: Context, x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    kind, axis = _reduction(g, reduction), g.axis(axis, x.rank)
    indices = checked_indices(g, indices, *x.shape[axis : axis + 1])
    return g.call("scatter_elements", x, indices, updates, axis=axis, reduction=kind)


@converts("ScatterND", since=11, introduced={"reduction": 16})
def scatter_nd(g: Context, x: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    return g.call("scatter_nd", x, _index_vectors(g, x, indices), updates, mode=_reduction(g, reduction))


def _reduction(g: Context, name: str) -> str:
    if name not in _REDUCTIONS:
        raise g.invalid(f"attribute 'reduction': got {name!r}; expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]


@converts("TensorScatter", since=24)
def tensor_scatter(
    g: Context, past: Value, update: Value, write_indices: Value | None = None, *, axis: int = -2, mode: str = "linear"
) -> Value:
    if mode not in ("linear", "circular"):
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected linear or circular")
    along, is_circular = g.axis(axis, past.rank), mode == "circular"
    if write_indices is not None:
        room = past.shape[along] if is_circular else past.shape[along] - update.shape[along] + 1
        write_indices = checked_indices(g, write_indices, room, from_end=False)
    return cache_update(g, past, update, write_indices, axis=axis, circular=is_circular)
