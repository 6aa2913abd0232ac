"""Which operators give views, and how a value of a view is put back into what it is a view of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose.axes import moved
from forge.compose.bits import bitcast
from forge.dims import Dim
from forge.frontends.state.strides import Layout, same_layout, shares
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.core.strided import Place, place, resized
from forge.frontends.torch.program import TensorMeta
from forge.ir.nodes import Value

PutBack = Callable[[Context, Value, Value, Mapping[str, Any], int], Value]
"""Of the old value of the base, the new one of the view, the arguments after the first and the number of the result."""

ALIASES = frozenset(f"aten.{op}.default" for op in ("alias", "detach", "lift", "lift_fresh", "positive"))
"""Operators whose result is their first argument."""

_SAME_OR_COPY = ("to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as.default", "conj_physical.default",
                 "dropout.default", "alpha_dropout.default", "feature_dropout.default", "feature_alpha_dropout.default")
SAME_OR_COPY = frozenset(f"aten.{op}" for op in _SAME_OR_COPY)
"""Operators whose result is their first argument where they have nothing to do, and else has memory of its own."""

def _unless_complex(old: Layout | None, new: Layout | None) -> bool | None:
    return None if isinstance(new, TensorMeta) and dtypes.is_complex(new.dtype) else True


MAYBE_VIEWS: Mapping[str, Callable[[Layout | None, Layout | None], bool | None]] = MappingProxyType({
    **{f"aten.{op}": shares for op in ("reshape.default", "flatten.using_ints", "reshape_as.default", "ravel.default")},
    "aten.contiguous.default": same_layout,
    **{f"aten.{op}.default": _unless_complex for op in ("resolve_conj", "resolve_neg")},
})
"""Operators whose result shares memory with their first argument, or is a copy -> which of both; None: strides are not known."""


def _given(g: Context, arguments: Mapping[str, Any]) -> Place:
    return place(g, "self", arguments["size"], arguments["stride"], arguments.get("storage_offset"))


def _resized(g: Context, arguments: Mapping[str, Any]) -> Place | None:
    return resized(g)


STRIDED: Mapping[str, Callable[[Context, Mapping[str, Any]], Place | None]] = MappingProxyType({
    "aten.as_strided.default": _given, "aten.as_strided_.default": _given, "aten.resize_.default": _resized,
    "aten.resize_as_.default": _resized,
})
"""Operators whose result lies in the memory of their first argument, as strides say -> where; None: it got memory of its own."""

_REBINDING = ("t_.default", "transpose_.default", "swapaxes_.default", "swapdims_.default", "squeeze_.default", "squeeze_.dim",
              "squeeze_.dims", "unsqueeze_.default", "detach_.default", "as_strided_.default", "resize_.default",
              "resize_as_.default")
REBINDS = frozenset(f"aten.{op}" for op in _REBINDING)
"""In-place operators that write nothing: from then on the tensor is another view of its memory."""

_READ_ONLY = ("narrow.Tensor", "mH.default", "adjoint.default", "matrix_H.default",
              "tensor_split.tensor_indices_or_sections")
READ_ONLY_VIEWS = frozenset(f"aten.{op}" for op in _READ_ONLY)
"""Operators whose result shares memory with their first argument, and that no write goes through."""

_RUNNING = ("running_mean", "running_var")
WRITES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType({
    "aten.batch_norm.default": ("training", _RUNNING),
    "aten._native_batch_norm_legit.default": ("training", _RUNNING),
    "aten.native_batch_norm.default": ("training", _RUNNING),
    "aten._batch_norm_with_update.default": ("", _RUNNING),
    "aten.instance_norm.default": ("use_input_stats", _RUNNING),
    "aten.rrelu_with_noise.default": ("training", ("noise",)),
})
"""Operators that write to other arguments than their first: the argument that says whether they do, if any, and their names."""


def _reshaped(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return g.reshape(new, old.shape)


def _permuted(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    axes = [g.axis(int(a), old.rank) for a in rest["dims"]]
    return g.call("transpose", new, axes=tuple(int(k) for k in np.argsort(axes)))


def _swapped(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    axes = list(range(old.rank))
    names = ("axis0", "axis1") if "axis0" in rest else ("dim0", "dim1")
    a, b = (g.axis(rest.get(name, default), old.rank) for name, default in zip(names, (-2, -1)))
    axes[a], axes[b] = b, a
    return g.call("transpose", new, axes=tuple(axes))


def _moved_back(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    sources, targets = (g.axes(rest[name], old.rank) for name in ("source", "destination"))
    return g.call("transpose", new, axes=moved(old.rank, targets, sources))


def _turned(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return g.call("transpose", new, axes=tuple(reversed(range(new.rank)))) if new.rank > 1 else new


def set_slice(g: Context, old: Value, new: Value, axis: int, begin: Dim, end: Dim, step: int = 1) -> Value:
    """``old`` with ``new`` in the place of begin:end:step along ``axis``."""
    place: dict[str, Any] = {"begin": (begin,), "end": (end,), "strides": (step,), "axes": (axis,)}
    shape = g.call("strided_slice", old, **place).shape  # min(1, n) where torch knows that n is at least 1
    fitting = new if new.shape == shape else g.call("broadcast_to", new, shape=shape, exact=True)
    return g.call("strided_set", old, fitting, **place)


def slice_end(end: Dim | None, size: Dim) -> Dim:
    """The end of a slice; torch's largest integer, too, stands for that of the axis."""
    return size if end is None or isinstance(end, int) and end >= 1 << 62 else end


def _sliced(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    axis = g.axis(rest.get("dim", 0), old.rank)
    end = slice_end(rest.get("end"), old.shape[axis])
    return set_slice(g, old, new, axis, rest.get("start") or 0, end, rest.get("step", 1))


def _selected(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    axis, place = g.axis(rest["dim"], old.rank), rest["index"]
    end = old.shape[axis] if isinstance(place, int) and place == -1 else place + 1
    return set_slice(g, old, g.call("expand_dims", new, axis=axis), axis, place, end)


def _narrowed(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    axis = g.axis(rest["dim"], old.rank)
    start = rest["start"]
    begin = start + old.shape[axis] if isinstance(start, int) and start < 0 else start
    return set_slice(g, old, new, axis, begin, begin + new.shape[axis])


def chunk_size(size: Dim, chunks: int) -> Dim:
    """Of each part but the last of ``chunks``."""
    return dims.ceildiv(size, chunks)


def section_ends(size: Dim, count: int) -> list[Dim]:
    """Where ``count`` parts end whose sizes differ by at most one; larger ones come first."""
    least, larger = dims.floordiv(size, count), dims.floormod(size, count)
    return [(k + 1) * least + dims.minimum(k + 1, larger) for k in range(count)]


def _one_of_many(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    axis = g.axis(rest.get("dim", 0), old.rank)
    if "chunks" in rest:
        begin = index * chunk_size(old.shape[axis], rest["chunks"])
    else:
        sizes = rest.get("split_sizes", rest.get("split_size"))
        begin = sum(sizes[:index]) if isinstance(sizes, list) else index * sizes
    return set_slice(g, old, new, axis, begin, begin + new.shape[axis])


def with_diagonal(g: Context, old: Value, new: Value, offset: int, a: int, b: int) -> Value:
    """``old`` with ``new``, whose last axis runs along it, in the place of a diagonal of axes ``a`` and ``b``."""
    rest = [k for k in range(old.rank) if k not in (a, b)]
    order = [*rest, a, b]
    matrices = g.call("matrix_set_diag", g.call("transpose", old, axes=tuple(order)), new, k1=offset, k2=offset)
    return g.call("transpose", matrices, axes=tuple(int(k) for k in np.argsort(order)))


def _on_diagonal(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    a, b = g.axis(rest.get("dim1", 0), old.rank), g.axis(rest.get("dim2", 1), old.rank)
    return with_diagonal(g, old, new, rest.get("offset", 0), a, b)


def _section(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    axis = g.axis(rest.get("dim", 0), old.rank)
    if "indices" in rest:
        begin = [0, *rest["indices"]][index]
    else:
        begin = [0, *section_ends(old.shape[axis], rest["sections"])][index]
    return set_slice(g, old, new, axis, begin, begin + new.shape[axis])


def _split_along(axis: int) -> PutBack:
    """Of ``hsplit`` and its like: of a vector, the first axis is split."""
    return lambda g, old, new, rest, index: _section(g, old, new, {**rest, "dim": min(axis, old.rank - 1)}, index)


def _on_last_diagonal(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return _on_diagonal(g, old, new, {"dim1": -2, "dim2": -1, **rest}, index)


def _conjugate(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return g.call("complex.conj", new) if dtypes.is_complex(old.dtype) else new


def _real(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return g.call("complex.make", new, g.call("complex.imag", old)) if dtypes.is_complex(old.dtype) else new


def _imaginary(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return g.call("complex.make", g.call("complex.real", old), new)


def _as_real(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return g.call("complex.make", *(g.call("take", new, g.constant(k, "int64"), axis=old.rank) for k in (0, 1)))


def _as_complex(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return g.call("stack", g.call("complex.real", new), g.call("complex.imag", new), axis=new.rank)


def _unbound(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    axis = g.axis(rest.get("dim", 0), old.rank)
    return set_slice(g, old, g.call("expand_dims", new, axis=axis), axis, index, index + 1)


def _with_old_bits(g: Context, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    return bitcast(g, new, old.dtype)


VIEWS: Mapping[str, PutBack] = MappingProxyType({
    f"aten.{op}": put
    for ops, put in (
        (("view.default", "_unsafe_view.default", "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
          "unflatten.int", "view_as.default", *(f"atleast_{n}d.default" for n in (1, 2, 3))), _reshaped),
        (("permute.default",), _permuted),
        (("transpose.int", "swapaxes.default", "swapdims.default", "mT.default"), _swapped),
        (("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist"), _moved_back),
        (("t.default", "numpy_T.default"), _turned),
        (("slice.Tensor",), _sliced),
        (("select.int",), _selected),
        (("narrow.default",), _narrowed),
        (("split.Tensor", "split.sizes", "split_with_sizes.default", "chunk.default", "unsafe_split.Tensor",
          "unsafe_split_with_sizes.default", "unsafe_chunk.default"), _one_of_many),
        (("diagonal.default",), _on_diagonal),
        (("tensor_split.sections", "tensor_split.indices"), _section),
        (("vsplit.int", "vsplit.array"), _split_along(0)),
        (("hsplit.int", "hsplit.array"), _split_along(1)),
        (("dsplit.int", "dsplit.array"), _split_along(2)),
        (("linalg_diagonal.default",), _on_last_diagonal),
        (("conj.default", "_conj.default"), _conjugate),
        (("unbind.int",), _unbound),
        (("view.dtype",), _with_old_bits),
        (("real.default",), _real),
        (("imag.default",), _imaginary),
        (("view_as_real.default",), _as_real),
        (("view_as_complex.default",), _as_complex),
    )
    for op in ops
})


OVERLAPPING = frozenset(f"aten.{op}.default" for op in ("expand", "expand_as", "broadcast_to", "unfold"))
"""Operators that give views whose elements may share memory."""

HIDDEN_VIEWS = frozenset(
    f"aten.{op}" for op in ("einsum.default", "meshgrid.default", "meshgrid.indexing", "broadcast_tensors.default"))
"""Operators that may give views of their arguments: where a program writes to these or those, torch takes them apart."""

SHARING = ALIASES | SAME_OR_COPY | MAYBE_VIEWS.keys() | STRIDED.keys() | READ_ONLY_VIEWS | OVERLAPPING | VIEWS.keys()
"""All of them: results that may share memory with the first argument."""


def put_back(g: Context, target: str, old: Value, new: Value, rest: Mapping[str, Any], index: int) -> Value:
    """``old`` with ``new`` where the view that ``target`` makes of it is."""
    return VIEWS[target](g, old, new, rest, index)
