"""Tensors that are given by strides over the memory of another: numbers of elements, counted in its storage.

Values have no strides. The storage is that of the tensor that was made with it, which all views go back to: its axes in the order
of torch's strides, as one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.frontends.state import strides
from forge.frontends.state.cells import Cell
from forge.frontends.torch.context import Context
from forge.frontends.torch.program import TensorMeta
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@dataclass(frozen=True)
class Storage:
    """The memory of a tensor.

    Attributes:
        root: the tensor that was made with it.
        order: axes of the root in the order in which its elements lie there.
        offset: number of the root's first element.
    """

    root: Cell
    order: tuple[int, ...]
    offset: Dim

    def flat(self, g: Context, value: Value) -> Value:
        """The elements of a value of the root in their order in memory."""
        in_order = g.call("transpose", value, axes=self.order) if self.order != tuple(range(value.rank)) else value
        return g.reshape(in_order, (dims.product(value.shape),))

    def restored(self, g: Context, flat: Value, like: Value) -> Value:
        """The value of the root, whose old one is ``like``, with the elements ``flat``."""
        shape = tuple(like.shape[axis] for axis in self.order)
        value = g.reshape(flat, shape)
        back = tuple(int(k) for k in np.argsort(self.order))
        return g.call("transpose", value, axes=back) if back != tuple(range(like.rank)) else value


@dataclass(frozen=True)
class Place:
    """Elements of a storage: ``offset``, relative to its root, plus the sum of indices times ``strides``."""

    storage: Storage
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    offset: Dim

    @property
    def overlaps(self) -> bool:
        """Whether elements may share a place."""
        return strides.overlaps(self.shape, self.strides)

    def read(self, g: Context, value: Value) -> Value:
        """These elements of a value of the root."""
        return self._taken(g, self.storage.flat(g, value))

    def written(self, g: Context, old: Value, new: Value) -> Value:
        """``old``, a value of the root, with ``new`` in the place of these elements."""
        if self.overlaps:
            return put_back_where_changed(g, old, new, lambda value: self.read(g, value))
        flat = self.storage.flat(g, old)
        count = (dims.product(self.shape),)
        ends = (g.constant(0, "int64"), g.scope.size(g, flat.shape[0]), g.constant(1, "int64"))
        places = g.reshape(self._taken(g, g.call("arange", *ends, dtype="int64")), count)
        return self.storage.restored(g, g.call("scatter_elements", flat, places, g.reshape(new, count), axis=0), old)

    def _taken(self, g: Context, flat: Value) -> Value:
        return g.call("as_strided", flat, size=self.shape, stride=self.strides, storage_offset=self.offset)


def put_back_where_changed(g: Context, old: Value, new: Value, view: Callable[[Value], Value]) -> Value:
    """``old`` with the elements that ``new``, a value of ``view(old)``, does not have in common with it.

    Elements of the view may share a place: a write to one of them is one to that place.
    """
    count = dims.product(old.shape)
    places = g.reshape(g.count(g.scope.size(g, count), count), old.shape)
    size = dims.product(new.shape)
    before, after, at = (g.reshape(v, (size,)) for v in (bits(g, view(old)), bits(g, new), view(places)))
    spare = g.call("where", g.call("not_equal", before, after), at, g.cast(g.scope.size(g, count), "int64"))
    flat = g.call("concatenate", g.reshape(old, (count,)), g.call("zeros", shape=(1,), dtype=old.dtype), axis=0)
    written = g.call("scatter_elements", flat, spare, g.reshape(new, (size,)), axis=0)
    kept = g.call("strided_slice", written, begin=(0,), end=(count,), strides=(1,), axes=(0,))
    return g.reshape(kept, old.shape)


def bits(g: Context, value: Value) -> Value:
    """What is compared of elements: NaN are equal to themselves, zeros of either sign are not."""
    if not dtypes.is_float(value.dtype):
        return value
    return g.call("reinterpret", value, dtype=f"uint{dtypes.bits(value.dtype)}")


def storage(g: Context, argument: str) -> Storage:
    """The memory of the tensor that is an argument of the step.

    Raises:
        OpAttributeUnimplemented: its order is not known.
    """
    root = g.scope.cell(g.step.arguments[argument].name).root
    metas = (g.scope.meta(g.program.metas.get(name)) for name in g.scope.names_of(root))
    meta = next((m for m in metas if isinstance(m, TensorMeta)), None)
    if meta is None or meta.strides is None:
        raise g.unsupported("the strides of the tensor that has the memory are not known; supported: tensors of this graph")
    order = strides.storage_order(meta.shape, meta.strides)
    if order is None:
        raise g.unsupported(
            f"the tensor that has the memory is of shape {list(map(str, meta.shape))} with strides "
            f"{list(map(str, meta.strides))}; supported: those without gaps, whose elements share no memory")
    return Storage(root, order, meta.offset)


def place(
    g: Context, argument: str, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None = None
) -> Place:
    """Where elements are that are given by strides over the memory of an argument.

    Raises:
        OpAttributeUnimplemented: they are not in the memory of a tensor that the program has.
    """
    found = storage(g, argument)
    if storage_offset is None:
        own = g.scope.meta(g.program.metas[g.step.arguments[argument].name])
        storage_offset = own.offset if isinstance(own, TensorMeta) else 0
    begin = storage_offset - found.offset
    last = begin + sum((n - 1) * step for n, step in zip(size, stride))
    elements = dims.product(found.root.read().shape)
    outside = dims.is_static(last, elements) and last >= elements or isinstance(begin, int) and begin < 0  # type: ignore[operator]
    if outside and 0 not in size:
        raise g.unsupported(
            f"it has elements {storage_offset} to {last + found.offset} of a storage of which the program has "
            f"{found.offset} to {elements + found.offset - 1}; supported: elements of tensors of the program; pass the whole "
            "tensor")
    return Place(found, tuple(size), tuple(stride), 0 if 0 in size else begin)


Sharing = tuple[Cell, Callable[[Value], Value], Callable[[Value, Value], Value]]
"""The tensor with the memory, and how a view is computed from it and put back."""


def shared(g: Context, at: Place) -> Sharing:
    """What a view of a place in memory is made from."""
    return at.storage.root, lambda value: at.read(g, value), lambda old, new: at.written(g, old, new)


@converts("as_strided.default", "as_strided_copy.default")
def as_strided(
    g: Context, self: Value, *, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None = None
) -> Value:
    at = place(g, "self", size, stride, storage_offset)
    return at.read(g, at.storage.root.read())


@converts("as_strided_scatter.default")
def as_strided_scatter(
    g: Context, self: Value, src: Value, *, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None = None
) -> Value:
    """``self``, in a copy of its whole storage in which ``src`` was written."""
    own = g.scope.meta(g.program.metas[g.step.arguments["self"].name])
    at = place(g, "self", size, stride, storage_offset)
    assert isinstance(own, TensorMeta)
    assert own.strides is not None
    whole = at.written(g, at.storage.root.read(), g.cast(src, self.dtype))
    return place(g, "self", own.shape, own.strides, own.offset).read(g, whole)


def resized(g: Context) -> Place | None:
    """Where a tensor lies after its size was changed; None where it has more elements than its memory had."""
    meta = g.meta()
    assert meta.strides is not None
    found = storage(g, "self")
    needed = meta.offset - found.offset + dims.product(meta.shape)
    held = dims.product(found.root.read().shape)
    if not (dims.equal(needed, held) or (dims.bounds(held - needed)[0] or -1) >= 0):
        if not dims.is_static(needed, held):
            raise g.unsupported(f"it changes {held} elements to {needed}; supported: sizes of which is known which is larger")
        return None
    return place(g, "self", meta.shape, meta.strides, meta.offset)


@converts("resize_.default", "resize_as_.default")
def resize(g: Context, self: Value, template: Value | None = None, *, size: Sequence[Dim] = ()) -> Value:
    """The first elements of the memory, and after all that are there zeros: torch leaves what is new as it finds it."""
    at = resized(g)
    root = storage(g, "self").root.read()
    if at is not None:
        return at.read(g, root)
    meta, found = g.meta(), storage(g, "self")
    more = dims.product(meta.shape) + meta.offset - found.offset - dims.product(root.shape)
    flat = g.call("concatenate", found.flat(g, root), g.constant(np.zeros(int(more)), root.dtype), axis=0)  # type: ignore[arg-type]
    assert meta.strides is not None
    return g.call("as_strided", flat, size=meta.shape, stride=meta.strides, storage_offset=meta.offset - found.offset)


@converts("sym_is_contiguous.default")
def sym_is_contiguous(g: Context, self: Value, *, memory_format: str | None = None) -> bool:
    """Raises OpAttributeUnimplemented: strides do not say it."""
    meta = g.scope.meta(g.program.metas[g.step.arguments["self"].name])
    known = strides.is_contiguous(meta.shape, meta.strides) if isinstance(meta, TensorMeta) and meta.strides is not None else None
    if known is None or memory_format not in (None, "contiguous_format"):
        raise g.unsupported(f"it asks for memory format {memory_format}; supported: contiguous_format, where strides are known")
    return known
