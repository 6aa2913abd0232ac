"""Grids of positions at which images are sampled."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose.axes import part
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def affine_grid(
    g: Composer, theta: Value, sizes: Sequence[Value], *, align_corners: bool = False, single: float = -1.0
) -> Value:
    """``grid[n, y, x] = theta[n] @ (x', y', 1)``: positions on the operand for each element of the result.

    ``theta`` is ``[N, 2, 3]`` for images of ``sizes`` (H, W), or ``[N, 3, 4]`` for (D, H, W); sizes are int64 scalars. The grid
    is ``[N, H, W, 2]`` or ``[N, D, H, W, 3]``, the last size first. Coordinates go from -1 to 1: from centre to centre of the
    outer elements if ``align_corners`` (a single element lies at ``single``), else over their outer edges.

    Raises:
        OpAttributeInvalid: the shape of theta does not fit the number of sizes.
    """
    rank = len(sizes)
    if theta.rank != 3 or rank not in (2, 3) or theta.shape[1:] != (rank, rank + 1):
        raise g.invalid(f"theta: got {theta.type}; expected [N, {rank}, {rank + 1}], for {rank} sizes")
    axes = [_coordinates(g, size, theta.dtype, align_corners, single) for size in sizes]
    spatial: tuple[Dim, ...] = tuple(a.value.shape[0] for a in axes)
    batch = theta.shape[0]
    result = _column(g, theta, rank, rank)
    for place, axis in enumerate(reversed(axes)):
        line = axis.reshape(*(axis.value.shape[0] if k == rank - place else 1 for k in range(rank + 2)))
        result = line * _column(g, theta, place, rank) + result
    return g.call("broadcast_to", result.value, shape=(batch, *spatial, rank))


def _column(g: Composer, theta: Value, index: int, rank: int) -> Term:
    """One column of the matrices, along the last axis of the grid."""
    return Term(g, g.reshape(part(g, theta, 2, index, index + 1), (theta.shape[0], *[1] * rank, rank)))


def _coordinates(g: Composer, size: Value, dtype: str, align_corners: bool, single: float) -> Term:
    numbers, count = (Term(g, g.cast(v, dtype)) for v in (g.count(size), size))
    if align_corners:
        first = -1 if single == -1 else (count > 1).where(-1, single)
        return numbers * 2 / (count - 1).maximum(1) + first
    return (numbers * 2 + 1) / count - 1
