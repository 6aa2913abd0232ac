"""Reads and writes by indices along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge import dims, dtypes
from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.converters.shape.parts import part
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.reduce.window import neutral

Write = Callable[[Value, Value, str], Value]
"""Of the old value, the updates and the reduction."""

_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min", "mean": "mean"}
_OF_BOOL = {"add": "max", "mul": "min", "max": "max", "min": "min", "mean": "mean"}
_NEUTRAL = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


def reduced(g: Context, write: Write, old: Value, new: Value, mode: str) -> Value:
    """``write`` of any element type: that of bool is done with numbers."""
    if old.dtype != "bool" or mode == "update":
        return write(old, new, mode)
    return g.cast(write(g.cast(old, "uint8"), g.cast(new, "uint8"), _OF_BOOL[mode]), "bool")


def reduced_without(g: Context, write: Write, old: Value, new: Value, mode: str, include_self: bool) -> Value:
    """As `reduced`; without ``include_self`` old elements that are written to do not take part."""
    if old.dtype == "bool":
        return g.cast(reduced_without(g, write, g.cast(old, "uint8"), g.cast(new, "uint8"), _OF_BOOL[mode], include_self), "bool")
    if mode == "mean":
        return _mean(g, write, old, new, include_self)
    if not include_self:
        start = g.call("broadcast_to", g.constant(neutral(_NEUTRAL[mode], old.dtype), old.dtype), shape=new.shape)
        old = write(old, start, "update")
    return reduced(g, write, old, new, mode)


def _mean(g: Context, write: Write, old: Value, new: Value, include_self: bool) -> Value:
    ones, zeros = (g.call("broadcast_to", g.constant(k, old.dtype), shape=new.shape) for k in (1, 0))
    count = g.call("broadcast_to", g.constant(1, old.dtype), shape=old.shape)
    if not include_self:
        old, count = write(old, zeros, "update"), write(count, zeros, "update")
    total, number = write(old, new, "add"), write(count, ones, "add")
    return g.call("floor_divide" if dtypes.is_integer(old.dtype) else "divide", total, number)


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
    axis = g.axis(dim, old.rank, "dim")
    data, index, new = (_vector(g, v) for v in (old, index, g.cast(new, old.dtype)))
    index = checked_indices(g, index, data.shape[axis], from_end=False)
    for k, size in enumerate(index.shape):
        new = part(g, new, k, 0, size)

    def write(value: Value, updates: Value, how: str) -> Value:
        return g.call("scatter_elements", value, index, updates, axis=axis, reduction=how)

    result = write(data, new, mode) if mode == "update" else reduced_without(g, write, data, new, mode, include_self)
    return g.reshape(result, old.shape)


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


def _rows(g: Context, old: Value, index: Value, source: Value, dim: int) -> tuple[Value, Value, Value, int]:
    """What scatters whole slices: data, an index for every element of the source, the source, and the axis."""
    axis = g.axis(dim, old.rank, "dim")
    data = _vector(g, old)
    flat = checked_indices(g, _vector(g, index), data.shape[axis], from_end=False)
    source = g.cast(source, old.dtype)
    shape = (*data.shape[:axis], flat.shape[0], *data.shape[axis + 1 :])
    source = source if source.shape == shape else g.call("broadcast_to", source, shape=shape)
    lined_up = g.reshape(flat, tuple(flat.shape[0] if k == axis else 1 for k in range(data.rank)))
    return data, g.call("broadcast_to", lined_up, shape=shape), source, axis


def _by_rows(
    g: Context, old: Value, index: Value, source: Value, dim: int, mode: str, include_self: bool = True
) -> Value:
    data, index, source, axis = _rows(g, old, index, source, dim)
    return g.reshape(_scattered(g, data, index, source, axis, mode, include_self), old.shape)


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


def flat(g: Context, value: Value) -> Value:
    """``value`` as a vector."""
    return g.reshape(value, (dims.product(value.shape),))


@converts("take.default")
def take(g: Context, self: Value, index: Value) -> Value:
    data = flat(g, self)
    return g.call("take", data, checked_indices(g, index, data.shape[0]), axis=0)


@converts("put.default")
def put(g: Context, self: Value, index: Value, source: Value, *, accumulate: bool = False) -> Value:
    updates = flat(g, g.cast(source, self.dtype))
    found = _scattered(g, flat(g, self), flat(g, index), updates, 0, "add" if accumulate else "update")
    return g.reshape(found, self.shape)


@converts("take_along_dim.default")
def take_along_dim(g: Context, self: Value, indices: Value, *, dim: int | None = None) -> Value:
    """Without ``dim`` of vectors; sizes along other axes broadcast."""
    if dim is None:
        return gather(g, flat(g, self), flat(g, indices), dim=0)
    axis = g.axis(dim, self.rank, "dim")
    indices = checked_indices(g, indices, self.shape[axis], from_end=False)
    data, index = (_wide(g, a, b, axis) for a, b in ((self, indices), (indices, self)))
    return g.call("gather", data, index, axis=axis)


def _wide(g: Context, value: Value, other: Value, axis: int) -> Value:
    shape: Sequence[Dim] = [
        b if k != axis and isinstance(a, int) and a == 1 else a for k, (a, b) in enumerate(zip(value.shape, other.shape))
    ]
    return value if tuple(shape) == value.shape else g.call("broadcast_to", value, shape=tuple(shape))
