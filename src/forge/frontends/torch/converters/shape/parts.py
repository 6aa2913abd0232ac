"""Parts of a tensor along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose.axes import broadcast, part, slice_at, split_at
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.core.views import chunk_size, section_ends, set_slice, slice_end
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


def cut(g: Context, value: Value, axis: int, ends: Sequence[Dim]) -> list[Value]:
    """Parts that end at ``ends``, the last of which is the size of ``axis``."""
    if len(ends) == 1:
        return [value]
    return g.multi("split", value, indices_or_sections=tuple(ends[:-1]), axis=axis)


@converts("split_with_sizes.default", "split_with_sizes_copy.default", "unsafe_split_with_sizes.default", "split.sizes")
def split_with_sizes(
    g: Context, self: Value, *, split_sizes: Sequence[Dim] = (), split_size: Sequence[Dim] = (), dim: int = 0
) -> list[Value]:
    sizes = split_sizes or split_size
    return cut(g, self, g.axis(dim, self.rank, "dim"), [sum(sizes[: k + 1]) for k in range(len(sizes))])


@converts("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def split(g: Context, self: Value, *, split_size: Dim, dim: int = 0) -> list[Value]:
    axis = g.axis(dim, self.rank, "dim")
    count = len(g.metas)
    return cut(g, self, axis, [*((k + 1) * split_size for k in range(count - 1)), self.shape[axis]])


@converts("chunk.default", "unsafe_chunk.default")
def chunk(g: Context, self: Value, *, chunks: int, dim: int = 0) -> list[Value]:
    return split(g, self, split_size=chunk_size(self.shape[g.axis(dim, self.rank, "dim")], chunks), dim=dim)


@converts("tensor_split.sections", "tensor_split.indices")
def tensor_split(
    g: Context, self: Value, *, sections: Dim | None = None, indices: Sequence[Dim] | None = None, dim: int = 0
) -> list[Value]:
    axis = g.axis(dim, self.rank, "dim")
    size = self.shape[axis]
    if indices is None:
        return cut(g, self, axis, section_ends(size, sections if isinstance(sections, int) else len(g.metas)))
    bounds = [0, *indices]
    return [part(g, self, axis, a, b) for a, b in zip(bounds, [*indices, size])]


@converts("tensor_split.tensor_indices_or_sections")
def tensor_split_at(g: Context, self: Value, tensor_indices_or_sections: Value, *, dim: int = 0) -> list[Value]:
    """A tensor of rank 0 is the number of parts, which torch exports for constants only; else it has their ends."""
    axis = g.axis(dim, self.rank, "dim")
    if tensor_indices_or_sections.rank == 0:
        return tensor_split(g, self, sections=len(g.metas), dim=dim)
    known = g.ints(tensor_indices_or_sections)
    if known is not None:
        return tensor_split(g, self, indices=known, dim=dim)
    return split_at(g, self, axis, g.cast(tensor_indices_or_sections, "int64"), len(g.metas))


def _split_along(op: str, axis: int) -> None:
    @converts(f"{op}.int", f"{op}.array")
    def convert(g: Context, self: Value, *, sections: Dim | None = None, indices: Sequence[Dim] | None = None) -> list[Value]:
        return tensor_split(g, self, sections=sections, indices=indices, dim=min(axis, self.rank - 1))


_split_along("hsplit", 1)
_split_along("vsplit", 0)
_split_along("dsplit", 2)


@converts("unbind.int", "unbind_copy.int")
def unbind(g: Context, self: Value, *, dim: int = 0) -> list[Value]:
    axis = g.axis(dim, self.rank, "dim")
    return [g.call("take", self, g.constant(k, "int64"), axis=axis) for k in range(len(g.metas))]


@converts("narrow.default", "narrow_copy.default")
def narrow(g: Context, self: Value, *, dim: int, start: Dim, length: Dim) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    begin = start + self.shape[axis] if isinstance(start, int) and start < 0 else start
    return part(g, self, axis, begin, begin + length)


@converts("narrow.Tensor")
def narrow_at(g: Context, self: Value, start: Value, *, dim: int, length: Dim) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    return slice_at(g, self, axis, g.cast(g.reshape(start, ()), "int64"), g.tensor(length), length)


@converts("select_scatter.default")
def select_scatter(g: Context, self: Value, src: Value, *, dim: int, index: Dim) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    end = self.shape[axis] if isinstance(index, int) and index == -1 else index + 1
    return set_slice(g, self, g.call("expand_dims", g.cast(src, self.dtype), axis=axis), axis, index, end)


@converts("slice_scatter.default")
def slice_scatter(
    g: Context, self: Value, src: Value, *, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1
) -> Value:
    axis = g.axis(dim, self.rank, "dim")
    begin, stop = start or 0, slice_end(end, self.shape[axis])
    target = part(g, self, axis, begin, stop, step)
    new = g.cast(src, self.dtype)
    return set_slice(g, self, broadcast(g, new, target.shape), axis, begin, stop, step)
