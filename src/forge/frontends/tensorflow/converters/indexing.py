"""Operators that read and write at positions."""

from __future__ import annotations

from forge.compose import axes, tuples
from forge.compose.checks import checked_indices
from forge.frontends.converter import forwarding
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value


@converts("Gather")
def gather(g: Context, x: Value, indices: Value) -> Value:
    return _taken(g, x, indices, 0, 0)


@converts("GatherV2")
def gather_v2(g: Context, x: Value, indices: Value, axis: Value, *, batch_dims: int = 0) -> Value:
    shared = batch_dims + indices.rank if batch_dims < 0 else batch_dims
    if not 0 <= shared <= min(indices.rank, x.rank - 1):
        raise g.invalid(f"batch_dims: got {batch_dims} for {x.type} and {indices.type}")
    return _taken(g, x, indices, g.axis(g.one_int(axis, "axis"), x.rank), shared)


def _taken(g: Context, x: Value, indices: Value, axis: int, batch_dims: int) -> Value:
    if indices.dtype not in ("int32", "int64"):
        indices = g.cast(indices, "int32")
    places = checked_indices(g, indices, x.shape[axis], from_end=False)
    return g.call("take", x, places, axis=axis, batch_dims=batch_dims)


def checked_tuples(g: Context, x: Value, indices: Value) -> Value:
    """Index tuples for the first dimensions of ``x``; a call with others fails."""
    length = indices.shape[-1] if indices.rank else None
    if not isinstance(length, int) or length > x.rank:
        raise g.invalid(f"got indices {indices.type} for {x.type}; expected tuples of at most {x.rank} numbers")
    if indices.dtype not in ("int32", "int64"):
        indices = g.cast(indices, "int32")
    first = checked_indices(g, tuples.along_first(g, indices), *x.shape[:length], from_end=False)
    return g.moved(first, (*range(1, first.rank), 0))


@converts("GatherNd")
def gather_nd(g: Context, x: Value, indices: Value, *, bad_indices_policy: str = "") -> Value:
    if bad_indices_policy not in ("", "DEFAULT", "ERROR"):
        raise g.unsupported(f"bad_indices_policy: got {bad_indices_policy!r}; expected ERROR, or none")
    return tuples.gathered(g, x, checked_tuples(g, x, indices))


@converts("ScatterNd")
def scatter_nd(g: Context, indices: Value, updates: Value, shape: Value, *, bad_indices_policy: str = "") -> Value:
    if bad_indices_policy not in ("", "DEFAULT", "ERROR"):
        raise g.unsupported(f"bad_indices_policy: got {bad_indices_policy!r}; expected ERROR, or none")
    start = tuples.filled(g, shape, g.constant(0, updates.dtype))
    return tuples.scattered(g, shape, checked_tuples(g, start, indices), updates)


@converts("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax", "TensorScatterMin")
def tensor_scatter(g: Context, x: Value, indices: Value, updates: Value, *, bad_indices_policy: str = "") -> Value:
    if bad_indices_policy not in ("", "DEFAULT", "ERROR"):
        raise g.unsupported(f"bad_indices_policy: got {bad_indices_policy!r}; expected ERROR, or none")
    kind = g.node.op.removeprefix("TensorScatter").lower()
    new = g.call("negative", updates) if kind == "sub" else updates
    wanted = (*indices.shape[:-1], *x.shape[int(indices.shape[-1]) if isinstance(indices.shape[-1], int) else x.rank :])
    return tuples.updated(g, x, checked_tuples(g, x, indices), g.broadcast(new, wanted), "add" if kind == "sub" else kind)


@converts("OneHot")
def one_hot(g: Context, indices: Value, depth: Value, on: Value, off: Value, *, axis: int = -1) -> Value:
    return tuples.one_hot(g, indices, depth, on, off, axis)


@converts("Where")
def where(g: Context, condition: Value) -> Value:
    return g.call("argwhere", condition)


@converts("InvertPermutation")
def invert_permutation(g: Context, x: Value) -> Value:
    return g.call("invert_permutation", checked_indices(g, x, x.shape[0], from_end=False))


converts("UnravelIndex")(forwarding("unravel_index", 2))


@converts("SparseToDense")
def sparse_to_dense(g: Context, indices: Value, shape: Value, values: Value, default: Value) -> Value:
    return tuples.dense(g, indices, shape, values, default)


@converts("Roll")
def roll(g: Context, x: Value, shift: Value, axis: Value) -> Value:
    places = [g.axis(k, x.rank) for k in g.required_ints(axis, "axis")]
    known = g.dims(shift)
    if known is not None and len(set(places)) == len(places) == len(known):
        return g.call("roll", x, shift=known, axis=tuple(places))
    steps = g.reshape(g.cast(shift, "int64"), (len(places),))
    for number, place in enumerate(places):
        step = g.call("take", steps, g.constant(number, "int64"), axis=0)
        source = g.call("subtract", axes.places(g, x, place), step)
        x = g.call("take", x, source, axis=place, mode="wrap")
    return x
