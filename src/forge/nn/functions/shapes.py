"""Shapes and axes: the same elements in another arrangement, and tensors that are joined and divided."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from forge import dims
from forge.compose import axes as compose
from forge.compose import images
from forge.dims import Dim
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.functions.arguments import integer, integers, size, sizes
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, as_dim, as_dims

Shape = int | Dim | Sequence[int | Dim]


def reshape(x: Tensor, shape: Shape, name: str = "reshape") -> Tensor:
    """The same elements in another shape; one size may be -1, which follows from the others.

    Raises:
        OptionError: the numbers of elements differ, or -1 cannot be known.

    >>> nn.reshape([[1, 2, 3], [4, 5, 6]], (3, -1)).numpy().tolist()
    [[1, 2], [3, 4], [5, 6]]
    """
    g = Context(name)
    value = g.value(x)
    return g.tensor(g.reshape(value, _resolved(value, shape, name)))


def _resolved(value: Value, shape: Any, name: str) -> tuple[Dim, ...]:
    """``shape`` with a number or expression in the place of -1."""
    listed = [as_dim(size, name) for size in (shape if isinstance(shape, Sequence) else [shape])]
    unknown = [axis for axis, size in enumerate(listed) if isinstance(size, int) and size == -1]
    known = dims.product(size for axis, size in enumerate(listed) if axis not in unknown)
    if len(unknown) > 1 or any(isinstance(size, int) and size < -1 for size in listed):
        raise OptionError(f"{name}: shape: got {_shown(listed)}; expected sizes from 0 on, and at most one -1")
    if unknown:
        size = 0 if isinstance(known, int) and known == 0 else dims.floordiv(value.size, known)
        if not dims.equal(size * known, value.size):
            raise OptionError(f"{name}: shape: got {_shown(listed)} for {_shown(value.shape)}, of which -1 does not follow")
        listed[unknown[0]] = size
    elif dims.different(known, value.size):
        raise OptionError(f"{name}: shape: got {_shown(listed)} for {_shown(value.shape)}; expected as many elements")
    return tuple(listed)


def _shown(shape: Sequence[Dim]) -> str:
    return f"({', '.join(map(str, shape))})"


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1, name: str = "flatten") -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` as one.

    >>> nn.flatten([[1, 2], [3, 4]]).numpy().tolist()
    [1, 2, 3, 4]
    """
    g = Context(name)
    value = g.value(x)
    shape = value.shape or (1,)
    first, last = g.axis(start_dim, len(shape), "start_dim"), g.axis(end_dim, len(shape), "end_dim")
    if first > last:
        raise OptionError(f"{name}: got start_dim {start_dim} after end_dim {end_dim} for rank {value.rank}")
    return g.tensor(g.reshape(value, (*shape[:first], dims.product(shape[first : last + 1]), *shape[last + 1 :])))


def squeeze(x: Tensor, axis: int | Sequence[int] | None = -1, name: str = "squeeze") -> Tensor:
    """Without axes of size 1: those that are named, or all for None.

    >>> nn.squeeze([[1], [2]]).numpy().tolist()
    [1, 2]
    """
    g = Context(name)
    value = g.value(x)
    if axis is None:
        named = [k for k, size in enumerate(value.shape) if isinstance(size, int) and size == 1]
    else:
        named = list(g.axes(axis, value.rank))
    wrong = next((k for k in named if not dims.equal(value.shape[k], 1)), None)
    if wrong is not None:
        raise OptionError(f"{name}: axis {wrong} has size {value.shape[wrong]}; expected 1")
    return g.tensor(g.reshape(value, [size for k, size in enumerate(value.shape) if k not in named]))


def unsqueeze(x: Tensor, dim: int, name: str = "unsqueeze") -> Tensor:
    """With one more axis, of size 1, which then is number ``dim``.

    >>> nn.unsqueeze([1, 2], -1).numpy().tolist()
    [[1], [2]]
    """
    g = Context(name)
    value = g.value(x)
    return g.tensor(g.call("expand_dims", value, axis=g.axis(dim, value.rank + 1, "dim")))


def permute_dims(x: Tensor, axes: Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """The axes in another order: axis k of the result is axis ``axes[k]`` of ``x``; None reverses them.

    Raises:
        OptionError: ``axes`` does not name each axis once.

    >>> nn.permute_dims([[1, 2, 3], [4, 5, 6]]).numpy().tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    g = Context(name or "permute_dims")
    value = g.value(x)
    order = list(reversed(range(value.rank))) if axes is None else [g.axis(k, value.rank, "axes") for k in axes]
    if sorted(order) != list(range(value.rank)):
        raise OptionError(f"{g.name}: axes: got {axes}; expected each of {value.rank} axes once")
    return g.tensor(compose.transposed(g, value, order))


def permute(x: Tensor, axes: Sequence[int] | None, name: str = "permute") -> Tensor:
    """As `permute_dims`.

    >>> nn.permute([[1, 2, 3], [4, 5, 6]], [1, 0]).numpy().tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    return permute_dims(x, axes, name)


def swapaxes(x: Tensor, axis1: int, axis2: int, name: str = "swapaxes") -> Tensor:
    """Two axes exchanged.

    >>> nn.swapaxes([[1, 2], [3, 4]], 0, 1).numpy().tolist()
    [[1, 3], [2, 4]]
    """
    g = Context(name)
    value = g.value(x)
    order = list(range(value.rank))
    first, second = g.axis(axis1, value.rank, "axis1"), g.axis(axis2, value.rank, "axis2")
    order[first], order[second] = second, first
    return g.tensor(compose.transposed(g, value, order))


def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int], name: str = "movedim") -> Tensor:
    """Axes ``source`` put where ``destination`` says; the others stay in order.

    >>> nn.movedim(nn.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    g = Context(name)
    value = g.value(x)
    old, new = g.axes(source, value.rank, "source"), g.axes(destination, value.rank, "destination")
    if len(old) != len(new):
        raise OptionError(f"{name}: got {len(old)} axes for {len(new)} places; expected as many")
    return g.tensor(compose.transposed(g, value, compose.moved(value.rank, old, new)))


def meshgrid(*tensors: Tensor, indexing: str = "ij", name: str = "meshgrid") -> tuple[Tensor, ...]:
    """Vectors spread over a grid, each along an axis of its own, as ``numpy.meshgrid``.

    Args:
        tensors: vectors.
        indexing: "ij"; "xy": the first two axes change places.

    Raises:
        OptionError: an operand is not a vector, or another ``indexing``.

    >>> [part.numpy().tolist() for part in nn.meshgrid([1, 2], [10, 20])]
    [[[1, 1], [2, 2]], [[10, 20], [10, 20]]]
    """
    g = Context(name)
    vectors = g.alike(*tensors)
    wrong = next((v for v in vectors if v.rank != 1), None)
    if not vectors or wrong is not None or indexing not in ("ij", "xy"):
        got = f"{len(vectors)} operands" if wrong is None else str(wrong.type)
        raise OptionError(f"{name}: got {got} and indexing {indexing!r}; expected vectors and 'ij' or 'xy'")
    return g.tensors(compose.meshgrid(g, vectors, indexing))


def broadcast_to(x: Tensor, shape: Shape, name: str = "broadcast_to") -> Tensor:
    """``x`` with NumPy's broadcasting to ``shape``; -1 keeps a size.

    Raises:
        OptionError: sizes do not broadcast.

    >>> nn.broadcast_to([[1], [2]], (2, 3)).numpy().tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    g = Context(name)
    value = g.value(x)
    listed = list(as_dims(shape, name))
    if len(listed) < value.rank:
        raise OptionError(f"{name}: got shape {_shown(listed)} for {_shown(value.shape)}; expected at least as many axes")
    if any(isinstance(size, int) and size == -1 for size in listed[: len(listed) - value.rank]):
        raise OptionError(f"{name}: got shape {_shown(listed)} for {_shown(value.shape)}; expected no -1 for axes that are new")
    own = [1] * (len(listed) - value.rank) + list(value.shape)
    targets = [old if isinstance(new, int) and new == -1 else new for old, new in zip(own, listed)]
    wrong = next(((old, new) for old, new in zip(own, targets) if old != 1 and dims.different(old, new)), None)
    if wrong is not None:
        raise OptionError(f"{name}: got shape {_shown(listed)} for {_shown(value.shape)}; {wrong[0]} does not become {wrong[1]}")
    return g.tensor(compose.broadcast(g, value, tuple(targets)))


def expand(x: Tensor, shape: Shape, name: str = "expand") -> Tensor:
    """As `broadcast_to`.

    >>> nn.expand([[1], [2]], (-1, 3)).numpy().tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    return broadcast_to(x, shape, name)


def concat(x: Sequence[Tensor], dim: int = 0, name: str = "concat") -> Tensor:
    """Tensors one after the other along axis ``dim``.

    >>> nn.concat([[1, 2], [3]], 0).numpy().tolist()
    [1, 2, 3]
    """
    g = Context(name)
    values = _listed(g, x)
    return g.tensor(g.call("concatenate", *values, axis=g.axis(dim, values[0].rank, "dim")))


def stack(x: Sequence[Tensor], dim: int = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape along a new axis, which then is number ``dim``.

    >>> nn.stack([[1, 2], [3, 4]], -1).numpy().tolist()
    [[1, 3], [2, 4]]
    """
    g = Context(name)
    values = _listed(g, x)
    return g.tensor(g.call("stack", *values, axis=g.axis(dim, values[0].rank + 1, "dim")))


def _listed(g: Context, tensors: Any) -> list[Value]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence) or not tensors:
        raise OptionError(f"{g.name}: got {type(tensors).__name__}; expected a list of tensors that is not empty")
    return g.alike(*tensors)


def split(ary: Tensor, indices_or_sections: int | Sequence[int | Dim], axis: int = 0, name: str = "split") -> tuple[Tensor, ...]:
    """Parts along ``axis``.

    Args:
        indices_or_sections: the number of equal parts, or where parts end.

    Raises:
        OptionError: the size is not a multiple of the number of parts.

    >>> [part.numpy().tolist() for part in nn.split([1, 2, 3, 4, 5], [1, 3])]
    [[1], [2, 3], [4, 5]]
    """
    g = Context(name)
    value = g.value(ary)
    place = g.axis(axis, value.rank)
    size = value.shape[place]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1 or not dims.equal(dims.floormod(size, indices_or_sections), 0):
            raise OptionError(f"{name}: got {indices_or_sections} parts of size {size}; expected a number that divides it")
        step = dims.floordiv(size, indices_or_sections)
        ends = [step * k for k in range(1, indices_or_sections)]
    else:
        ends = [as_dim(end, name) for end in indices_or_sections]
    bounds = [0, *(dims.maximum(end + size, 0) if isinstance(end, int) and end < 0 else end for end in ends), size]
    return g.tensors(_cut(g, value, place, bounds))


def chunk(x: Tensor, chunks: int, dim: int = 0, name: str = "chunk") -> tuple[Tensor, ...]:
    """At most ``chunks`` parts along axis ``dim``, of equal size but for the last one, as ``torch.chunk``.

    >>> [part.numpy().tolist() for part in nn.chunk([1, 2, 3, 4, 5], 2)]
    [[1, 2, 3], [4, 5]]
    """
    g = Context(name)
    value = g.value(x)
    place = g.axis(dim, value.rank, "dim")
    size = value.shape[place]
    if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 1:
        raise OptionError(f"{name}: chunks: got {chunks!r}; expected at least 1")
    if not isinstance(size, int):
        return split(x, chunks, dim, name)
    step = max(-(-size // chunks), 1)
    return g.tensors(_cut(g, value, place, [*range(0, size, step), size] if size else [0, 0]))


def unbind(x: Tensor, dim: int = 0, name: str = "unbind") -> tuple[Tensor, ...]:
    """The slices along axis ``dim``, without that axis, whose size is a number.

    >>> [part.numpy().tolist() for part in nn.unbind([[1, 2], [3, 4]], -1)]
    [[1, 3], [2, 4]]
    """
    g = Context(name)
    value = g.value(x)
    place = g.axis(dim, value.rank, "dim")
    size = value.shape[place]
    if not isinstance(size, int):
        raise OptionError(f"{name}: got {value.type}; expected a number for the size of axis {place}")
    parts = _cut(g, value, place, list(range(size + 1)))
    return g.tensors([g.call("squeeze", part, axis=(place,)) for part in parts])


def _cut(g: Context, value: Value, axis: int, bounds: Sequence[Dim]) -> list[Value]:
    return [compose.part(g, value, axis, begin, end) for begin, end in itertools.pairwise(bounds)]


def repeat(x: Tensor, repeats: int, axis: int | None = None, name: str = "repeat") -> Tensor:
    """Each element ``repeats`` times, along ``axis``, or of the flat tensor for None.

    >>> nn.repeat([[1, 2], [3, 4]], repeats=2, axis=1).numpy().tolist()
    [[1, 1, 2, 2], [3, 3, 4, 4]]
    """
    g = Context(name)
    value = g.value(x)
    if axis is None:
        value, axis = compose.ravel(g, value), 0
    return g.tensor(compose.repeat(g, value, size(repeats, f"{name}: repeats"), g.axis(axis, value.rank)))


def tile(x: Tensor, reps: int | Sequence[int], name: str = "tile") -> Tensor:
    """``x`` repeated ``reps`` times along each axis, as ``numpy.tile``.

    >>> nn.tile([1, 2], 2).numpy().tolist()
    [1, 2, 1, 2]
    """
    g = Context(name)
    return g.tensor(g.call("tile", g.value(x), reps=sizes(reps, f"{name}: reps")))


def flip(x: Tensor, axis: int | Sequence[int] | None = None, name: str = "flip") -> Tensor:
    """The elements in the opposite order along some axes, all for None.

    >>> nn.flip([[1, 2], [3, 4]], -1).numpy().tolist()
    [[2, 1], [4, 3]]
    """
    g = Context(name)
    value = g.value(x)
    return g.tensor(compose.flip(g, value, g.axes(axis, value.rank)))


def roll(x: Tensor, shift: int | Sequence[int], axis: int | Sequence[int] | None = None, name: str = "roll") -> Tensor:
    """Elements moved along some axes, or of the flat tensor for None; what leaves at the end comes in at the beginning.

    >>> nn.roll([1, 2, 3, 4], 1).numpy().tolist()
    [4, 1, 2, 3]
    """
    g = Context(name)
    value = g.value(x)
    if axis is None:
        flat = g.tensor(compose.ravel(g, value))
        return reshape(roll(flat, shift, 0, name), value.shape, name)
    places = g.axes(axis, value.rank)
    return g.tensor(g.call("roll", value, shift=integers(shift, f"{name}: shift", len(places)), axis=places))


def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float = 0.0, name: str = "pad") -> Tensor:
    """Elements around ``x``.

    Args:
        pad: how many before and after, for the last axis first: ``[left, right, top, bottom]``. Negative: elements are cut off.
        mode: "constant"; "reflect", "replicate" or "circular".
        value: of constant elements.

    Raises:
        OptionError: an unknown mode, or an odd number of numbers, or too many.

    >>> nn.pad([[1, 2], [3, 4]], [1, 0, 0, 1]).numpy().tolist()
    [[0, 1, 2], [0, 3, 4], [0, 0, 0]]
    """
    g = Context(name)
    data = g.value(x)
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap"}
    if mode not in modes:
        raise OptionError(f"{name}: mode: got {mode!r}; expected one of: {', '.join(modes)}")
    pad = integers(pad, f"{name}: pad")
    if len(pad) % 2 or len(pad) > 2 * data.rank:
        raise OptionError(f"{name}: pad: got {list(pad)}; expected two numbers for each of at most {data.rank} axes")
    widths = [(0, 0)] * (data.rank - len(pad) // 2) + [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            if dims.equal(dims.minimum(data.shape[axis] + before + after, 0), data.shape[axis] + before + after):
                raise OptionError(f"{name}: pad: got {list(pad)} for {data.type}, of whose axis {axis} nothing is left")
            data = compose.part(g, data, axis, max(-before, 0), data.shape[axis] - max(-after, 0))
    positive = tuple((max(before, 0), max(after, 0)) for before, after in widths)
    if not any(map(any, positive)):
        return g.tensor(data)
    return g.tensor(g.call("nn.pad", data, g.scalar(value, data), pad_width=positive, pad_mode=modes[mode]))


def triu(x: Tensor, diagonal: int = 0, name: str = "triu") -> Tensor:
    """Matrices with 0 below the diagonal that is ``diagonal`` above the main one.

    >>> nn.triu([[1, 2], [3, 4]]).numpy().tolist()
    [[1, 2], [0, 4]]
    """
    return _triangle(x, diagonal, True, name)


def tril(x: Tensor, diagonal: int = 0, name: str = "tril") -> Tensor:
    """Matrices with 0 above the diagonal that is ``diagonal`` above the main one.

    >>> nn.tril([[1, 2], [3, 4]]).numpy().tolist()
    [[1, 0], [3, 4]]
    """
    return _triangle(x, diagonal, False, name)


def _triangle(x: Tensor, diagonal: int, upper: bool, name: str) -> Tensor:
    g = Context(name)
    return g.tensor(g.call("trilu", g.value(x), g.constant(integer(diagonal, f"{name}: diagonal"), "int64"), upper=upper))


def pixel_shuffle(x: Tensor, upscale_factor: int, name: str = "pixel_shuffle") -> Tensor:
    """``(n, c * r * r, h, w)`` to ``(n, c, h * r, w * r)``.

    >>> nn.pixel_shuffle([[[[1]], [[2]], [[3]], [[4]]]], 2).numpy().tolist()
    [[[[1, 2], [3, 4]]]]
    """
    g = Context(name)
    return g.tensor(images.channels_to_space(g, g.value(x), integer(upscale_factor, f"{name}: upscale_factor", 1)))


def pixel_unshuffle(x: Tensor, downscale_factor: int, name: str = "pixel_unshuffle") -> Tensor:
    """``(n, c, h * r, w * r)`` to ``(n, c * r * r, h, w)``.

    >>> nn.pixel_unshuffle([[[[1, 2], [3, 4]]]], 2).numpy().tolist()
    [[[[1]], [[2]], [[3]], [[4]]]]
    """
    g = Context(name)
    value, factor = g.value(x), integer(downscale_factor, f"{name}: downscale_factor", 1)
    if value.rank < 3 or any(dims.different(dims.floormod(size, factor), 0) for size in value.shape[-2:]):
        raise OptionError(f"{name}: got {value.type}; expected (n, c, h, w) with h and w multiples of {factor}")
    return g.tensor(images.space_to_channels(g, value, factor))
