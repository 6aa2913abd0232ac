"""Views: the same elements in another shape or order."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.core.views import slice_end
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def sized(g: Context, shape: Sequence[Dim], value: Value) -> tuple[Dim, ...]:
    """``shape`` with the size that -1 stands for."""
    if -1 not in shape:
        return tuple(shape)
    rest = dims.product(d for d in shape if not (isinstance(d, int) and d == -1))
    known = g.shape[list(shape).index(-1)]
    total = dims.product(value.shape)
    inferred = known if isinstance(rest, int) and rest == 0 else dims.floordiv(total, rest)
    return tuple(inferred if isinstance(d, int) and d == -1 else d for d in shape)


@converts("view.default", "_unsafe_view.default", "reshape.default")
def reshape(g: Context, self: Value, *, size: Sequence[Dim] = (), shape: Sequence[Dim] = ()) -> Value:
    return g.reshape(self, sized(g, size or shape, self))


@converts("permute.default")
def permute(g: Context, self: Value, *, dims: Sequence[int]) -> Value:
    return g.call("transpose", self, axes=g.axes(dims, self.rank)) if dims else self


@converts("transpose.int")
def transpose(g: Context, self: Value, *, dim0: int, dim1: int) -> Value:
    axes = list(range(self.rank))
    if axes:
        a, b = g.axis(dim0, self.rank, "dim0"), g.axis(dim1, self.rank, "dim1")
        axes[a], axes[b] = b, a
    return self if axes == sorted(axes) else g.call("transpose", self, axes=tuple(axes))


@converts("t.default", "numpy_T.default")
def matrix_transpose(g: Context, self: Value) -> Value:
    return g.call("transpose", self, axes=tuple(reversed(range(self.rank)))) if self.rank > 1 else self


@converts("unsqueeze.default")
def unsqueeze(g: Context, self: Value, *, dim: int) -> Value:
    return g.call("expand_dims", self, axis=g.axis(dim, self.rank + 1, "dim"))


@converts("expand.default")
def expand(g: Context, self: Value, *, size: Sequence[Dim]) -> Value:
    shape = g.extents(self, size)
    return self if shape == self.shape else g.call("broadcast_to", self, shape=shape)


@converts("slice.Tensor")
def slice_(g: Context, self: Value, *, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    size = self.shape[axis]
    stop = slice_end(end, size)
    if (start is None or start == 0) and stop is size and step == 1:
        return self
    return g.call("strided_slice", self, begin=(start or 0,), end=(stop,), strides=(step,), axes=(axis,))


@converts("select.int")
def select(g: Context, self: Value, *, dim: int, index: Dim) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    if not isinstance(index, int):
        return g.call("take", self, g.tensor(index), axis=axis)
    end = index + 1 if index != -1 else self.shape[axis]
    one = g.call("strided_slice", self, begin=(index,), end=(end,), strides=(1,), axes=(axis,))
    return g.call("squeeze", one, axis=(axis,))


@converts(*(f"{op}.default" for op in ("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "lift_fresh", "positive")))
def same(g: Context, self: Value) -> Value:
    return self


@converts("to.dtype", "to.dtype_layout", "to.device", "_to_copy.default", "to.other", "type_as.default")
def to(g: Context, self: Value, other: Value | None = None, *, dtype: str | None = None, copy: bool = False) -> Value:
    return g.cast(self, g.dtype)


@converts("fill.Scalar", "fill.Tensor", "copy.default")
def fill(g: Context, self: Value, value: Value, *, non_blocking: bool = False) -> Value:
    return g.call("broadcast_to", g.tensor(value, self.dtype), shape=self.shape)


@converts("zero.default")
def zero(g: Context, self: Value) -> Value:
    return g.call("broadcast_to", g.constant(0, self.dtype), shape=self.shape)


@converts("cat.default")
def cat(g: Context, tensors: Sequence[Value], *, dim: int = 0) -> Value:
    kept = [t for t in tensors if t.shape != (0,)] or list(tensors[:1])
    return g.call("concatenate", *(g.cast(t, g.dtype) for t in kept), axis=g.axis(dim, kept[0].rank, "dim"))
