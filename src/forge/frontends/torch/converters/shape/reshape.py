"""Views: the same elements in another shape or order."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims as sizes
from forge import dtypes
from forge.compose.axes import broadcast, ravel, transposed
from forge.compose.bits import bitcast
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.core.views import slice_end
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def sized(g: Context, shape: Sequence[Dim], value: Value) -> tuple[Dim, ...]:
    """``shape`` with the size that -1 stands for."""
    if -1 not in shape:
        return tuple(shape)
    rest = sizes.product(d for d in shape if not (isinstance(d, int) and d == -1))
    known = g.shape[list(shape).index(-1)]
    total = sizes.product(value.shape)
    inferred = known if isinstance(rest, int) and rest == 0 else sizes.floordiv(total, rest)
    return tuple(inferred if isinstance(d, int) and d == -1 else d for d in shape)


@converts("view.default", "_unsafe_view.default", "reshape.default", "view_copy.default", "_reshape_copy.default")
def reshape(g: Context, self: Value, *, size: Sequence[Dim] = (), shape: Sequence[Dim] = ()) -> Value:
    return g.reshape(self, sized(g, size or shape, self))


@converts("permute.default", "permute_copy.default")
def permute(g: Context, self: Value, *, dims: Sequence[int]) -> Value:
    return g.call("transpose", self, axes=g.axes(dims, self.rank)) if dims else self


@converts("transpose.int", "transpose_copy.int", "swapdims.default")
def transpose(g: Context, self: Value, *, dim0: int, dim1: int) -> Value:
    axes = list(range(self.rank))
    if axes:
        a, b = g.axis(dim0, self.rank, "dim0"), g.axis(dim1, self.rank, "dim1")
        axes[a], axes[b] = b, a
    return transposed(g, self, axes)


@converts("swapaxes.default")
def swapaxes(g: Context, self: Value, *, axis0: int, axis1: int) -> Value:
    return transpose(g, self, dim0=axis0, dim1=axis1)


@converts("mT.default")
def matrices_transposed(g: Context, self: Value) -> Value:
    return transpose(g, self, dim0=-2, dim1=-1)


@converts("mH.default", "adjoint.default", "matrix_H.default")
def adjoint(g: Context, self: Value) -> Value:
    turned = transpose(g, self, dim0=-2, dim1=-1) if self.rank else self
    return g.call("complex.conj", turned) if dtypes.is_complex(self.dtype) else turned


@converts("t.default", "numpy_T.default", "t_copy.default")
def matrix_transpose(g: Context, self: Value) -> Value:
    return g.call("transpose", self, axes=tuple(reversed(range(self.rank)))) if self.rank > 1 else self


@converts("squeeze.default", "squeeze.dim", "squeeze.dims", "squeeze_copy.default", "squeeze_copy.dim", "squeeze_copy.dims")
def squeeze(g: Context, self: Value, *, dim: Sequence[int] | int | None = None) -> Value:
    """Axes that have another size stay; a symbolic one has, as torch takes it."""
    axes = range(self.rank) if dim is None else () if self.rank == 0 or dim == () else g.axes(dim, self.rank)
    return g.reshape(self, tuple(d for k, d in enumerate(self.shape) if k not in axes or d != 1))


@converts("flatten.using_ints")
def flatten(g: Context, self: Value, *, start_dim: int = 0, end_dim: int = -1) -> Value:
    if self.rank == 0:
        return g.reshape(self, (1,))
    start, end = g.axis(start_dim, self.rank, "start_dim"), g.axis(end_dim, self.rank, "end_dim")
    return g.reshape(self, (*self.shape[:start], sizes.product(self.shape[start : end + 1]), *self.shape[end + 1 :]))


@converts("ravel.default")
def as_vector(g: Context, self: Value) -> Value:
    return ravel(g, self)


@converts("unflatten.int")
def unflatten(g: Context, self: Value, *, dim: int, sizes: Sequence[Dim]) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    return g.reshape(self, sized(g, (*self.shape[:axis], *sizes, *self.shape[axis + 1 :]), self))


@converts("view_as.default", "reshape_as.default")
def view_as(g: Context, self: Value, other: Value) -> Value:
    return g.reshape(self, other.shape)


@converts("expand_as.default")
def expand_as(g: Context, self: Value, other: Value) -> Value:
    return broadcast(g, self, other.shape)


@converts("unsqueeze.default", "unsqueeze_copy.default")
def unsqueeze(g: Context, self: Value, *, dim: int) -> Value:
    return g.call("expand_dims", self, axis=g.axis(dim, self.rank + 1, "dim"))


@converts("expand.default", "expand_copy.default", "broadcast_to.default")
def expand(g: Context, self: Value, *, size: Sequence[Dim], implicit: bool = False) -> Value:
    return broadcast(g, self, g.extents(self, size))


@converts("slice.Tensor", "slice_copy.Tensor")
def slice_(g: Context, self: Value, *, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    size = self.shape[axis]
    stop = slice_end(end, size)
    if (start is None or start == 0) and stop is size and step == 1:
        return self
    return g.call("strided_slice", self, begin=(start or 0,), end=(stop,), strides=(step,), axes=(axis,))


@converts("select.int", "select_copy.int")
def select(g: Context, self: Value, *, dim: int, index: Dim) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    place = self.shape[axis] + index if isinstance(index, int) and index < 0 else index
    return g.call("take", self, g.tensor(place, "int64"), axis=axis)


_SAME = ("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "lift_fresh", "positive", "alias_copy", "detach_copy")


@converts(*(f"{op}.default" for op in _SAME))
def same(g: Context, self: Value) -> Value:
    return self


@converts("to.dtype", "to.dtype_layout", "to.device", "_to_copy.default", "to.other", "type_as.default")
def to(g: Context, self: Value, other: Value | None = None, *, dtype: str | None = None, copy: bool = False) -> Value:
    """Weights that are made real for a product with scales after it keep their bits."""
    is_packed = self.rank > 1 and dtypes.is_integer(self.dtype) and dtypes.bits(self.dtype) <= 8
    if is_packed and dtypes.is_float(g.dtype) and dtypes.bits(g.dtype) > 8 and _is_weight(self):
        return g.call("qnn.dequantize", self, g.constant(1.0, g.dtype), out_dtype=g.dtype)
    return g.cast(self, g.dtype)


@converts("view.dtype", "view_copy.dtype")
def view_bits(g: Context, self: Value, *, dtype: str) -> Value:
    return bitcast(g, self, dtype)


@converts("convert_element_type.default", domain="prims")
def convert_element_type(g: Context, a: Value, *, dtype: str) -> Value:
    """Torch's own decompositions convert by it."""
    return g.cast(a, dtype)


def _is_weight(value: Value) -> bool:
    """Whether ``value`` is a constant, or a view of one."""
    while value.constant is None and value.producer is not None and len(value.producer.operands) == 1:
        value = value.producer.operands[0]  # type: ignore[assignment]
    return value.constant is not None


@converts("fill.Scalar", "fill.Tensor", "copy.default")
def fill(g: Context, self: Value, value: Value, *, non_blocking: bool = False) -> Value:
    return g.call("broadcast_to", g.tensor(value, self.dtype), shape=self.shape)


@converts("zero.default")
def zero(g: Context, self: Value) -> Value:
    return g.call("broadcast_to", g.constant(0, self.dtype), shape=self.shape)
