"""Operators that read or change a shape."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.errors import option
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts

INT64_MAX = (1 << 63) - 1


@converts("Reshape", since=1)
def reshape_1(g: Context, x: Value, *, shape: tuple[int, ...] = ()) -> Value:
    return _reshape(g, x, shape, allowzero=False)


@converts("Reshape", since=5, introduced={"allowzero": 14})
def reshape(g: Context, x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    known = g.dims(shape)
    if known is None:
        return g.call("reshape", x, shape, newshape=None, allowzero=bool(allowzero))
    return _reshape(g, x, known, bool(allowzero))


def _reshape(g: Context, x: Value, wanted: Sequence[Dim], allowzero: bool) -> Value:
    return g.reshape(x, resolved_shape(g, x.shape, wanted, allowzero))


def resolved_shape(g: Context, shape: Sequence[Dim], wanted: Sequence[Dim], allowzero: bool) -> tuple[Dim, ...]:
    """``wanted`` with 0 (keep, unless ``allowzero``) and one -1 (what remains) replaced by sizes."""
    sizes = list(wanted)
    for axis, size in enumerate(sizes):
        if is_value(size, 0) and not allowzero:
            if axis >= len(shape):
                raise g.invalid(
                    f"shape {shape_text(wanted)}: 0 at position {axis} copies a dimension; the input has rank {len(shape)}"
                )
            sizes[axis] = shape[axis]
    open_axes = [axis for axis, size in enumerate(sizes) if is_value(size, -1)]
    if len(open_axes) > 1:
        raise g.invalid(f"shape {shape_text(wanted)}: got {len(open_axes)} times -1; expected at most one")
    if open_axes:
        others = dims.product(size for axis, size in enumerate(sizes) if axis != open_axes[0])
        total = dims.product(shape)
        if is_value(others, 0) or dims.different(dims.floormod(total, others), 0):
            got = f"{shape_text(shape)} has {total} elements"
            raise g.invalid(f"shape {shape_text(wanted)}: {got}; expected a multiple of {others}")
        sizes[open_axes[0]] = dims.floordiv(total, others)
    return tuple(sizes)


def is_value(size: Dim, number: int) -> bool:
    return isinstance(size, int) and size == number


def shape_text(shape: Sequence[Dim]) -> str:
    return f"[{', '.join(str(d) for d in shape)}]"


@converts("Flatten", since=1)
def flatten(g: Context, x: Value, *, axis: int = 1) -> Value:
    if not -x.rank <= axis <= x.rank:
        raise g.invalid(f"axis: got {axis}; expected {-x.rank} to {x.rank} for rank {x.rank}")
    first = axis + x.rank if axis < 0 else axis
    if first == 1 and x.rank >= 2:
        return g.call("nn.batch_flatten", x)
    return g.reshape(x, (dims.product(x.shape[:first]), dims.product(x.shape[first:])))


@converts("Squeeze", since=1, attribute_before={"axes": 13})
def squeeze(g: Context, x: Value, axes: Value | None = None) -> Value:
    known = g.ints(axes)
    if axes is not None and known is None:
        return g.call("squeeze", x, axes, axis=None)
    if known is None:
        x, chosen = _axes_of_one(g, x)
    else:
        chosen = [g.axis(a, x.rank, "axes") for a in known]
    return g.call("squeeze", x, axis=tuple(chosen)) if chosen else x


def _axes_of_one(g: Context, x: Value) -> tuple[Value, list[int]]:
    """``x`` and its axes of size 1, where no list of axes is given.

    Whether a symbolic size is one of them, the rank says that the model declares of the result; a call with other sizes fails.
    Without one, a call fails in which a symbolic size is 1, since the rank would depend on it.
    """
    ones = [axis for axis, size in enumerate(x.shape) if is_value(size, 1)]
    symbolic = [axis for axis, size in enumerate(x.shape) if not isinstance(size, int)]
    missing = 0 if g.declared_rank is None else x.rank - len(ones) - g.declared_rank
    if not symbolic or (g.declared_rank is not None and missing <= 0):
        return x, ones
    if missing not in (0, len(symbolic)):
        raise g.unsupported(
            f"got {x.type} and a result of rank {g.declared_rank}; supported: as many axes of symbolic size as become fewer; "
            f"fix sizes with {option('shape=')}"
        )
    for axis in symbolic:
        bounds = {"least": 1, "most": 1} if missing else {"least": 2}
        x = g.call("check_size", x, axis=axis, label=f"{x.shape[axis]}, which decides the rank of {g.name}", **bounds)
    return x, sorted([*ones, *symbolic] if missing else ones)


@converts("Unsqueeze", since=1, attribute_before={"axes": 13})
def unsqueeze(g: Context, x: Value, axes: Value) -> Value:
    known = g.ints(axes)
    return g.call("expand_dims", x, axes, axis=None) if known is None else insert_axes(g, x, known)


def insert_axes(g: Context, x: Value, axes: Sequence[int]) -> Value:
    """``x`` with axes of size 1 at these positions of the result."""
    rank = x.rank + len(axes)
    places = sorted(g.axis(a, rank, "axes") for a in axes)
    if len(set(places)) != len(places):
        raise g.invalid(f"axes: got {list(axes)}; expected distinct axes")
    if places and places == list(range(places[0], places[0] + len(places))):
        return g.call("expand_dims", x, axis=places[0], num_newaxis=len(places))
    rest = iter(x.shape)
    return g.reshape(x, [1 if i in places else next(rest) for i in range(rank)])


@converts("Shape", introduced={"start": 15, "end": 15})
def shape(g: Context, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    sizes = g.call("shape_of", x, dtype="int64")
    first, last, _ = slice(start, end).indices(x.rank)
    if (first, last) == (0, x.rank):
        return sizes
    return g.call("strided_slice", sizes, begin=(first,), end=(max(first, last),), strides=(1,), axes=(0,))


@converts("Size", since=1)
def size(g: Context, x: Value) -> Value:
    return g.call("ndarray_size", x, dtype="int64")
