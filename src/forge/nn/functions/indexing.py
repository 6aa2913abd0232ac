"""Reads and writes at indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose import axes as compose
from forge.compose import indexing
from forge.dims import Dim, DimExpr
from forge.errors import OptionError
from forge.ir.nodes import Value
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context


def take(x: Tensor, indices: Tensor, axis: int | None = None, name: str = "take") -> Tensor:
    """Elements at ``indices`` along ``axis``, as ``numpy.take``; of the flat tensor for None.

    Negative ones count from the end; those that are out of range are moved to the nearest end.

    >>> nn.take([[1, 2], [3, 4]], [1, -1, 0], axis=0).numpy().tolist()
    [[3, 4], [3, 4], [1, 2]]
    """
    g = Context(name)
    value, places = g.value(x), g.value(indices)
    _check_indices(name, places)
    if axis is None:
        value, axis = compose.ravel(g, value), 0
    return g.tensor(g.call("take", value, places, axis=g.axis(axis, value.rank)))


def _check_indices(name: str, places: Value) -> None:
    if not dtypes.is_integer(places.dtype):
        raise OptionError(f"{name}: indices: got {places.dtype}; expected integers")


def index_select(x: Tensor, dim: int, index: Tensor, name: str = "index_select") -> Tensor:
    """`take` with torch's order of arguments.

    >>> nn.index_select([[1, 2], [3, 4]], 1, [1]).numpy().tolist()
    [[2], [4]]
    """
    return take(x, index, dim, name)


def embedding(x: Tensor, weight: Tensor, name: str = "embedding") -> Tensor:
    """Rows of a table: integers ``(...)`` and ``(num, dim)`` to ``(..., dim)``.

    >>> nn.embedding([2, 0], [[1, 1], [2, 2], [3, 3]]).numpy().tolist()
    [[3, 3], [1, 1]]
    """
    return take(weight, x, 0, name)


def gather(x: Tensor, dim: int, index: Tensor, name: str = "gather") -> Tensor:
    """``out[i, j] = x[index[i, j], j]`` for ``dim`` 0, as ``torch.gather``; indices that are out of range as `take`.

    >>> nn.gather([[1, 2], [3, 4]], 1, [[0, 0], [1, 0]]).numpy().tolist()
    [[1, 1], [4, 3]]
    """
    g = Context(name)
    value, places = g.value(x), g.value(index)
    _check_indices(name, places)
    return g.tensor(g.call("gather", value, places, axis=g.axis(dim, value.rank, "dim")))


def take_along_dim(x: Tensor, indices: Tensor, dim: int = -1, name: str = "take_along_dim") -> Tensor:
    """Elements at ``indices`` along ``dim``; other axes broadcast, as ``numpy.take_along_axis``.

    >>> nn.take_along_dim([[1, 2], [3, 4]], [[1], [0]], 1).numpy().tolist()
    [[2], [3]]
    """
    g = Context(name)
    value, places = g.value(x), g.value(indices)
    _check_indices(name, places)
    return g.tensor(indexing.take_along_axis(g, value, places, g.axis(dim, value.rank, "dim")))


def scatter(x: Tensor, dim: int, index: Tensor, src: Any, name: str = "scatter") -> Tensor:
    """``x`` with ``out[index[i, j], j] = src[i, j]`` for ``dim`` 0, as ``torch.scatter``; ``src`` may be a number.

    What ``src`` has beyond the shape of ``index`` is not read.

    >>> nn.scatter([0, 0, 0], 0, [2, 0], [5, 6]).numpy().tolist()
    [6, 0, 5]
    """
    return _scattered(x, dim, index, src, "update", name)


def scatter_add(x: Tensor, dim: int, index: Tensor, src: Any, name: str = "scatter_add") -> Tensor:
    """As `scatter`, but what is there is added to.

    >>> nn.scatter_add([1, 1, 1], 0, [2, 2], [5, 6]).numpy().tolist()
    [1, 1, 12]
    """
    return _scattered(x, dim, index, src, "add", name)


def _scattered(x: Tensor, dim: int, index: Tensor, src: Any, reduction: str, name: str) -> Tensor:
    g = Context(name)
    value, updates = g.alike(x, src)
    places = g.value(index)
    _check_indices(name, places)
    if updates.rank == 0:
        updates = compose.broadcast(g, updates, places.shape)
    for axis, (given, used) in enumerate(zip(updates.shape, places.shape)):
        if isinstance(given, int) and isinstance(used, int) and given > used:
            updates = compose.part(g, updates, axis, 0, used)
    place = g.axis(dim, value.rank, "dim")
    return g.tensor(g.call("scatter_elements", value, places, updates, axis=place, reduction=reduction))


def nonzero(x: Tensor, name: str = "nonzero") -> Tensor:
    """Where elements are not 0: ``(count, rank)`` of int64, as ``torch.nonzero``.

    >>> nn.nonzero([[0, 1], [2, 0]]).numpy().tolist()
    [[0, 1], [1, 0]]
    """
    g = Context(name)
    return g.tensor(g.call("argwhere", g.value(x)))


def getitem(x: Tensor, key: Any, name: str = "getitem") -> Tensor:
    """``x[key]``, as NumPy's: integers, slices, None, ``...``, tensors or arrays of integers, and masks.

    Bounds of slices may be sizes of tensors. An integer or a bound that is symbolic counts from the front; a slice that begins at
    one has as many elements as its bounds say, which the model checks when it runs.

    Raises:
        OptionError: there are more indices than axes, or one is of another kind.

    >>> nn.Tensor.from_const([[1, 2, 3], [4, 5, 6]])[:, ::-1].numpy().tolist()
    [[3, 2, 1], [6, 5, 4]]
    """
    g = Context(name)
    value = g.value(x)
    keys = _expanded(key if isinstance(key, tuple) else (key,), value.rank, name)
    keys = _with_arrays(g, keys)
    arrays: list[Value | None] = []
    shape: list[Dim] = []
    axis = 0
    for part in keys:
        if part is None:
            shape.append(1)
            arrays.append(None)
            continue
        if _is_array(part):
            index = g.value(part if isinstance(part, Tensor) else np.asarray(part))
            used = index.rank if index.dtype == "bool" else 1
            arrays.append(_checked(g, index, value.shape[axis : axis + used]))
            shape += value.shape[axis : axis + used]
            axis += used
            continue
        value, size = _sliced(g, value, axis, part)
        if size is None:
            value = g.call("squeeze", value, axis=(axis,))
            continue
        shape.append(size)
        arrays.append(None)
        axis += 1
    value = g.reshape(value, shape)
    if any(index is not None for index in arrays):
        with g.named():
            value = indexing.index(g, value, arrays)
    return g.tensor(value)


def _checked(g: Context, index: Value, shape: Sequence[Dim]) -> Value:
    """An index, if it is integers or a mask of that shape; the run checks sizes of masks that are not known."""
    if index.dtype != "bool":
        _check_indices(g.name, index)
        return index
    if any(map(dims.different, index.shape, shape)):
        sizes = ", ".join(map(str, shape))
        raise OptionError(f"{g.name}: mask: got {index.type}; expected the sizes ({sizes}) of the axes that it indexes")
    if all(map(dims.equal, index.shape, shape)):
        return index
    return g.call("broadcast_to", index, shape=tuple(shape), exact=True)


def _with_arrays(g: Context, keys: list[Any]) -> list[Any]:
    """``keys`` with arrays for integers if these and arrays are apart: then the axes of indices come first in the result."""
    places = [k for k, part in enumerate(keys) if _is_array(part) or _is_integer(part)]
    if not any(map(_is_array, keys)) or places == list(range(places[0], places[-1] + 1)):
        return keys
    return [g.tensor(g.value(part, "int64")) if _is_integer(part) else part for part in keys]


def _is_integer(part: Any) -> bool:
    return isinstance(part, int | np.integer | DimExpr) and not isinstance(part, bool)


def _is_array(part: Any) -> bool:
    return isinstance(part, Tensor | np.ndarray | list) or (isinstance(part, np.generic) and part.dtype == bool)


def _expanded(keys: Sequence[Any], rank: int, name: str) -> list[Any]:
    """``keys`` with slices in the place of ``...``, and for axes that are not named."""
    used = 0
    for part in keys:
        if part is None or part is Ellipsis:
            continue
        is_mask = _is_array(part) and (part.dtype if isinstance(part, Tensor) else str(np.asarray(part).dtype)) == "bool"
        used += (part.ndim if isinstance(part, Tensor) else np.asarray(part).ndim) if is_mask else 1
    dots = sum(part is Ellipsis for part in keys)
    if used > rank or dots > 1:
        raise OptionError(f"{name}: got {used} indices and {dots} '...'; expected at most {rank} indices and one '...'")
    whole = [slice(None)] * (rank - used)
    if not dots:
        return [*keys, *whole]
    place = next(k for k, part in enumerate(keys) if part is Ellipsis)
    return [*keys[:place], *whole, *keys[place + 1 :]]


def _sliced(g: Context, value: Value, axis: int, part: Any) -> tuple[Value, Dim | None]:
    """``value`` cut along an axis, and the new size; None for an integer, of which an axis of size 1 is left."""
    size = value.shape[axis]
    if _is_integer(part):
        place = part if isinstance(part, DimExpr) else int(part)
        if isinstance(place, int):
            if isinstance(size, int) and not -size <= place < size:
                raise OptionError(f"{g.name}: got index {place} for axis {axis}; expected {-size} to {size - 1}")
            place = place + size if place < 0 else place
        return compose.part(g, value, axis, place, place + 1), None
    if not isinstance(part, slice):
        raise OptionError(f"{g.name}: got {type(part).__name__}; expected integers, slices, None, '...' or tensors")
    step = 1 if part.step is None else part.step
    if not isinstance(step, int) or step == 0:
        raise OptionError(f"{g.name}: step of a slice: got {part.step!r}; expected an integer that is not 0")
    if step < 0:
        begin, end = (_backward(g, bound, size, default) for bound, default in ((part.start, 0), (part.stop, size)))
        result = compose.part(g, compose.flip(g, value, [axis]), axis, begin, end, -step)
        return result, result.shape[axis]
    begin, end = (default if b is None else b if isinstance(b, DimExpr) else _index(g, b)
                  for b, default in ((part.start, 0), (part.stop, size)))  # fmt: skip
    if isinstance(begin, DimExpr) and isinstance(end, int) and end < 0:
        end = size + end
    result = compose.part(g, value, axis, begin, end, step)
    stated = end - begin
    if step == 1 and isinstance(begin, DimExpr) and not dims.equal(result.shape[axis], stated):
        shape = (*result.shape[:axis], stated, *result.shape[axis + 1 :])
        result = g.call("broadcast_to", result, shape=shape, exact=True)
    return result, result.shape[axis]


def _index(g: Context, bound: Any) -> int:
    try:
        return operator.index(bound)
    except TypeError as error:
        raise OptionError(f"{g.name}: bound of a slice: got {bound!r}; expected an integer or a size of a tensor") from error


def _backward(g: Context, bound: Any, size: Dim, default: Dim) -> Dim:
    """A bound of a slice that runs backwards, counted in the reversed axis."""
    if bound is None:
        return default
    place = bound if isinstance(bound, DimExpr) else _index(g, bound)
    if isinstance(place, int) and place < 0:
        return min(-1 - place, size) if isinstance(size, int) else -1 - place
    return dims.maximum(size - 1 - place, 0)
