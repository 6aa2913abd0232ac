"""Where the elements of a batch lie in a tensor, and how operators carry them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forge import dims
from forge.dims import Dim
from forge.errors import InvalidGraphError

UNDECLARED = "does not declare how it treats the elements of a batch"
"""Why `MixesBatch` is raised for an operator that says nothing of batches."""


class MixesBatch(InvalidGraphError):
    """An operator does not compute each element of a batch from that element alone, at its place.

    ``certain``: it combines several, whatever its operands hold; else it moves them, or may combine them.
    """

    def __init__(self, message: str, certain: bool) -> None:
        super().__init__(message)
        self.certain = certain


@dataclass(frozen=True)
class Batch:
    """The elements lie along ``axis``, of size ``before * n * after``: entry i belongs to element ``i // after % n``."""

    axis: int
    before: Dim = 1
    after: Dim = 1

    def inside(self, rows: Batch) -> Batch:
        """Where the elements are after the entries of the axis ``rows`` have moved to where this says."""
        return replace(self, before=self.before * rows.before, after=rows.after * self.after)


def through_reshape(source: Sequence[Dim], batch: Batch, target: Sequence[Dim]) -> Batch:
    """Where the batch is after a row-major reshape; where an axis of its own holds it, that one.

    Raises:
        MixesBatch: no axis of ``target`` holds all of it.
    """
    count = _exact(source[batch.axis], batch.before * batch.after)
    inner = batch.after * dims.product(source[batch.axis + 1 :])
    found = []
    for axis, size in enumerate(target):
        behind = dims.product(target[axis + 1 :])
        after = _exact(inner, behind)
        before = None if count is None else _exact(size * behind, count * inner)
        if before is not None and after is not None:
            found.append(Batch(axis, before, after))
    alone = [b for b in found if (b.before, b.after) == (1, 1)]
    if not found:
        shapes = f"({', '.join(map(str, source))}) to ({', '.join(map(str, target))})"
        raise MixesBatch(f"no axis holds the batch after {shapes}; before it is axis {batch.axis}", certain=False)
    return [*alone, *found][0]


def _exact(a: Dim, b: Dim) -> Dim | None:
    """``a / b``, if that is whole for all sizes."""
    quotient = dims.floordiv(a, b)
    return quotient if b != 0 and quotient * b == a else None
