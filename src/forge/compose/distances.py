"""Distances between rows, and cross products."""

from __future__ import annotations

import numpy as np

from forge.compose.axes import broadcast_arrays
from forge.compose.reductions import vector_norm
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


def differences(g: Composer, a: Value, b: Value) -> Value:
    """``a[.., i, :] - b[.., j, :]`` at ``[.., i, j, :]``."""
    return g.call("subtract", g.call("expand_dims", a, axis=a.rank - 1), g.call("expand_dims", b, axis=b.rank - 2))


def cdist(g: Composer, a: Value, b: Value, p: float = 2.0) -> Value:
    """The ``p``-norms of `differences`."""
    return _norm(g, differences(g, a, b), p)


def pdist(g: Composer, x: Value, p: float = 2.0) -> Value:
    """The distances of each row of a matrix to those after it, as a vector.

    Raises:
        OpAttributeUnimplemented: the number of rows is known only at run time.
    """
    rows = x.shape[0]
    if not isinstance(rows, int):
        raise g.unsupported(f"pdist: got {rows} rows; supported: a number of rows that is fixed")
    first, second = (g.call("take", x, g.constant(k, "int64"), axis=0) for k in np.triu_indices(rows, 1))
    return _norm(g, g.call("subtract", first, second), p)


def _norm(g: Composer, difference: Value, p: float) -> Value:
    return vector_norm(g, difference, p, [difference.rank - 1])


def cross(g: Composer, a: Value, b: Value, axis: int) -> Value:
    """The vector product along ``axis``, which has 3 elements; other axes broadcast."""

    def turned(x: Value, by: int) -> Value:
        return g.call("roll", x, shift=(by,), axis=(axis,))

    a, b = broadcast_arrays(g, a, b)
    return g.call("subtract", g.call("multiply", turned(a, -1), turned(b, -2)), g.call("multiply", turned(a, -2), turned(b, -1)))
