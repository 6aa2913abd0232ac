"""How the elements of a tensor of one shape are found under another shape with the same row-major order.

The dimensions of both shapes are matched in the smallest groups of equal size, so that a reshape that splits or
merges some dimensions leaves the indices of the others as they are, and merged ones affine::

    (n, 12, 64) read as (n, 768)       [i, j]    reads [i, j // 64, j % 64]
    (n, 768)    read as (n, 12, 64)    [i, j, k] reads [i, j * 64 + k]
"""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims, te
from forge.dims import Dim
from forge.ops.core.lowering import row_major, unravel
from forge.te import Expr

Group = tuple[tuple[int, ...], tuple[int, ...], bool]  # axes of the source, axes of the result, provably equal sizes


def match_groups(source: Sequence[Dim], result: Sequence[Dim]) -> list[Group]:
    """Groups of axes; axes of extent 1 are in none. Where sizes cannot be matched any more, the rest is one group."""
    a = [k for k, d in enumerate(source) if d != 1]
    b = [k for k, d in enumerate(result) if d != 1]
    groups: list[Group] = []
    while a or b:
        found = _smallest([source[k] for k in a], [result[k] for k in b])
        if found is None:
            groups.append((tuple(a), tuple(b), False))
            break
        groups.append((tuple(a[: found[0]]), tuple(b[: found[1]]), True))
        a, b = a[found[0] :], b[found[1] :]
    return groups


def _smallest(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[int, int] | None:
    """The shortest prefixes with provably equal products."""
    pairs = [(i, j) for i in range(1, len(a) + 1) for j in range(1, len(b) + 1)]
    for i, j in sorted(pairs, key=sum):
        if dims.equal(dims.product(a[:i]), dims.product(b[:j])):
            return i, j
    return None


def source_indices(source: Sequence[Dim], result: Sequence[Dim], indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """Where the element at ``indices`` of the result is in the source; in bounds even if the sizes differ at run time."""
    found: list[Expr] = [te.const(0)] * len(source)
    for ours, theirs, proven in match_groups(source, result):
        flat = row_major([indices[k] for k in theirs], [te.dim(result[k]) for k in theirs])
        extents = [te.dim(source[k]) for k in ours]
        if not proven:
            flat = te.clamp(flat, te.dim(dims.product(source[k] for k in ours)))
        for axis, index in zip(ours, unravel(flat, extents), strict=True):
            found[axis] = index
    return tuple(found)
