"""Reads and writes by indices along one axis."""

from __future__ import annotations

from forge.compose import indexing
from forge.compose.axes import part, ravel
from forge.compose.checks import checked_indices
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min", "mean": "mean"}


def reduction(g: Context, name: str) -> str:
    if name not in _REDUCTIONS:
        raise g.invalid(f"reduce: got {name!r}; expected one of {', '.join(_REDUCTIONS)}")
    return _REDUCTIONS[name]


def _vector(g: Context, value: Value) -> Value:
    return value if value.rank else g.reshape(value, (1,))


@converts("index_select.default", "index_select_copy.default")
def index_select(g: Context, self: Value, index: Value, *, dim: int) -> Value:
    if self.rank == 0:
        return self
    axis = g.axis(dim, self.rank, "dim")
    return g.call("take", self, checked_indices(g, _vector(g, index), self.shape[axis], from_end=False), axis=axis)


@converts("gather.default")
def gather(g: Context, self: Value, index: Value, *, dim: int, sparse_grad: bool = False) -> Value:
    if 0 in index.shape:
        return g.call("zeros", shape=index.shape, dtype=self.dtype)
    data, axis = _vector(g, self), g.axis(dim, self.rank, "dim")
    found = g.call("gather", data, checked_indices(g, _vector(g, index), data.shape[axis], from_end=False), axis=axis)
    return g.reshape(found, index.shape)


def _scattered(
    g: Context, old: Value, index: Value, new: Value, dim: int, mode: str = "update", include_self: bool = True
) -> Value:
    """Of ``new`` as much as there are indices."""
    axis = g.axis(dim, old.rank, "dim")
    data, index, new = (_vector(g, v) for v in (old, index, g.cast(new, old.dtype)))
    index = checked_indices(g, index, data.shape[axis], from_end=False)
    for k, size in enumerate(index.shape):
        new = part(g, new, k, 0, size)
    return g.reshape(indexing.scatter(g, data, index, new, axis, mode, include_self=include_self), old.shape)


def _filled(g: Context, index: Value, value: Operand, dtype: str) -> Value:
    return g.call("broadcast_to", g.tensor(value, dtype), shape=index.shape)


@converts("scatter.src", "scatter.reduce")
def scatter(g: Context, self: Value, index: Value, src: Value, *, dim: int, reduce: str | None = None) -> Value:
    return _scattered(g, self, index, src, dim, "update" if reduce is None else reduction(g, reduce))


@converts("scatter.value", "scatter.value_reduce")
def scatter_value(g: Context, self: Value, index: Value, value: Operand, *, dim: int, reduce: str | None = None) -> Value:
    return scatter(g, self, index, _filled(g, index, value, self.dtype), dim=dim, reduce=reduce)


@converts("scatter_add.default")
def scatter_add(g: Context, self: Value, index: Value, src: Value, *, dim: int) -> Value:
    return _scattered(g, self, index, src, dim, "add")


@converts("scatter_reduce.two")
def scatter_reduce(
    g: Context, self: Value, index: Value, src: Value, *, dim: int, reduce: str, include_self: bool = True
) -> Value:
    return _scattered(g, self, index, src, dim, reduction(g, reduce), include_self)


def _by_rows(
    g: Context, old: Value, index: Value, source: Value, dim: int, mode: str, include_self: bool = True
) -> Value:
    axis, data = g.axis(dim, old.rank, "dim"), _vector(g, old)
    index = checked_indices(g, _vector(g, index), data.shape[axis], from_end=False)
    source = g.cast(source, old.dtype)
    return g.reshape(indexing.scatter_slices(g, data, index, source, axis, mode, include_self=include_self), old.shape)


@converts("index_add.default")
def index_add(g: Context, self: Value, index: Value, source: Value, alpha: Operand = 1, *, dim: int) -> Value:
    if alpha != 1:
        source = g.call("logical_and" if source.dtype == "bool" else "multiply", source, g.tensor(alpha, source.dtype))
    return _by_rows(g, self, index, source, dim, "add")


@converts("index_copy.default")
def index_copy(g: Context, self: Value, index: Value, source: Value, *, dim: int) -> Value:
    return _by_rows(g, self, index, source, dim, "update")


@converts("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(g: Context, self: Value, index: Value, value: Operand, *, dim: int) -> Value:
    return _by_rows(g, self, index, g.tensor(value, self.dtype), dim, "update")


@converts("index_reduce.default")
def index_reduce(
    g: Context, self: Value, index: Value, source: Value, *, dim: int, reduce: str, include_self: bool = True
) -> Value:
    return _by_rows(g, self, index, source, dim, reduction(g, reduce), include_self)


@converts("take.default")
def take(g: Context, self: Value, index: Value) -> Value:
    data = ravel(g, self)
    return g.call("take", data, checked_indices(g, index, data.shape[0]), axis=0)


@converts("put.default")
def put(g: Context, self: Value, index: Value, source: Value, *, accumulate: bool = False) -> Value:
    updates = ravel(g, g.cast(source, self.dtype))
    found = _scattered(g, ravel(g, self), ravel(g, index), updates, 0, "add" if accumulate else "update")
    return g.reshape(found, self.shape)


@converts("take_along_dim.default")
def take_along_dim(g: Context, self: Value, indices: Value, *, dim: int | None = None) -> Value:
    """Without ``dim`` of vectors, whose indices do not count from the end; sizes along other axes broadcast."""
    if dim is None:
        return gather(g, ravel(g, self), ravel(g, indices), dim=0)
    axis = g.axis(dim, self.rank, "dim")
    indices = checked_indices(g, indices, self.shape[axis])
    return indexing.take_along_axis(g, self, indices, axis)
