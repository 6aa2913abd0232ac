"""Sparse tensors: dimensions that are stored whole, or as segments of indices, in any order and in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.tflite.flatbuffer import Table

MAX_ELEMENTS = 1 << 26
"""Of a dense tensor that sparse data stand for: a few bytes may stand for any number."""


def dense(elements: Callable[[int], np.ndarray], shape: Sequence[int], sparsity: Table, where: str) -> np.ndarray:
    """The tensor of ``shape`` whose stored elements ``elements`` reads, a number of them, and all others are 0.

    Raises:
        ImportModelError: indices do not fit.
    """
    order = _list(sparsity["traversal_order"])
    blocks = _list(sparsity["block_map"])
    metadata = sparsity["dim_metadata"] or ()
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocks))) or len(metadata) != len(order) or any(not 0 <= b < rank for b in blocks):
        raise _invalid(where, f"dimensions {order} and blocks of {blocks} for {rank} dimensions")
    sizes, factors = _sizes(shape, order, blocks, metadata, where)
    count = math.prod(shape)
    if count > MAX_ELEMENTS:
        raise OpNotImplemented(f"{where}: sparse data stand for {count} elements; expected at most {MAX_ELEMENTS}; make it dense")
    places = np.zeros(1, np.int64)
    coordinates = np.zeros((len(order), 1), np.int64)
    for level, (axis, entry) in enumerate(zip(order, metadata)):
        if entry["format"] == "DENSE":
            size = sizes[axis]
            if places.size * size > count:
                raise _invalid(where, f"more than {count} elements")
            parents, index = np.repeat(np.arange(places.size), size), np.tile(np.arange(size), places.size)
            places = places[parents] * size + index
        else:
            parents, index, places = _expanded(entry, places, sizes[axis], where)
        if places.size > count:
            raise _invalid(where, f"more than {count} elements")
        coordinates = coordinates[:, parents]
        coordinates[order[level]] = index
    found = np.zeros(shape, (stored := elements(places.size)).dtype)
    position = [coordinates[axis] * factors[axis] for axis in range(rank)]
    for k, axis in enumerate(blocks):
        position[axis] = position[axis] + coordinates[rank + k]
    found[tuple(position)] = stored[places] if places.size else stored
    return found


def _sizes(
    shape: Sequence[int], order: Sequence[int], blocks: Sequence[int], metadata: Sequence[Table], where: str
) -> tuple[list[int], list[int]]:
    """Sizes of all dimensions, those of blocks last, and how many elements a block has along each axis."""
    rank = len(shape)
    inner = {axis: entry["dense_size"] for axis, entry in zip(order, metadata) if axis >= rank}
    factors = [1] * rank
    for k, axis in enumerate(blocks):
        size = inner[rank + k]
        if not 0 < size <= max(shape[axis], 1) or shape[axis] % (factors[axis] * size):
            raise _invalid(where, f"blocks of {size} along a dimension of {shape[axis]}")
        factors[axis] *= size
    sizes = [size // factor for size, factor in zip(shape, factors)] + [inner[rank + k] for k in range(len(blocks))]
    for axis, entry in zip(order, metadata):
        if entry["format"] == "DENSE" and entry["dense_size"] != sizes[axis]:
            raise _invalid(where, f"{entry['dense_size']} indices along a dimension of {sizes[axis]}")
    return sizes, factors


def _expanded(entry: Table, places: np.ndarray, size: int, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each index that is stored below ``places``: which place it belongs to, the index, and its own place."""
    segments, indices = (
        np.asarray(entry[key][1]["values"] if entry[key] else (), np.int64) for key in ("array_segments", "array_indices"))
    fits = segments.size > int(places.max(initial=0)) + 1 and segments[0] == 0 and (np.diff(segments) >= 0).all()
    if not fits or segments[-1] > indices.size or ((indices < 0) | (indices >= size)).any():
        raise _invalid(where, f"{segments.size} segments of {indices.size} indices along a dimension of {size}")
    counts = segments[places + 1] - segments[places]
    parents = np.repeat(np.arange(places.size), counts)
    own = np.arange(parents.size) - np.repeat(np.cumsum(counts) - counts, counts) + segments[places][parents]
    return parents, indices[own], own


def _list(vector: np.ndarray | None) -> list[int]:
    return [] if vector is None else [int(n) for n in vector]


def _invalid(where: str, got: str) -> ImportModelError:
    return ImportModelError(f"{where}: sparse data have {got}; expected indices of the tensor; the model is damaged")
