"""Numbers that say where others are: buckets, counts, one-hot vectors."""

from __future__ import annotations

from forge import dims
from forge.compose import histograms, indexing
from forge.compose.axes import ravel
from forge.compose.checks import check_that, checked_indices
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("one_hot.default")
def one_hot(g: Context, self: Value, *, num_classes: int = -1) -> Value:
    on, off = g.constant(1, "int64"), g.constant(0, "int64")
    if num_classes >= 0:
        self = checked_indices(g, self, num_classes, from_end=False, what="a class")
        return g.call("one_hot", self, on, off, depth=num_classes, axis=-1, dtype="int64")
    numbers = g.cast(self, "int64")
    check_that(g, g.call("all", g.call("greater_equal", numbers, off), axis=None), "a class is negative")
    depth = g.call("add", g.call("max", numbers), on)
    return g.call("one_hot", self, on, off, depth, axis=-1, dtype="int64")


def _searched(g: Context, ordered: Value, values: Operand, right: bool, out_int32: bool) -> Value:
    dtype = g.common_dtype(ordered, values)
    wanted = g.tensor(values, dtype)
    shape = wanted.shape
    if ordered.rank == 1:
        wanted = ravel(g, wanted)
    found = g.call("searchsorted", g.cast(ordered, dtype), wanted, right=right, dtype="int32" if out_int32 else "int64")
    return g.reshape(found, shape)


@converts("bucketize.Tensor", "bucketize.Scalar")
def bucketize(g: Context, self: Operand, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    return _searched(g, boundaries, self, right, out_int32)


@converts("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    g: Context, sorted_sequence: Value, self: Operand, sorter: Value | None = None,
    *, out_int32: bool = False, right: bool = False, side: str | None = None,
) -> Value:
    if sorter is not None:
        sorted_sequence = g.call("gather", sorted_sequence, sorter, axis=sorted_sequence.rank - 1)
    return _searched(g, sorted_sequence, self, right or side == "right", out_int32)


@converts("bincount.default")
def bincount(g: Context, self: Value, weights: Value | None = None, *, minlength: Dim = 0) -> Value:
    """How often each number occurs, or the sums of its weights."""
    return histograms.bincount(g, g.cast(self, "int64"), weights, g.tensor(minlength), g.dtype)


@converts("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(
    g: Context, elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False
) -> Value:
    result = indexing.isin(g, *g.promoted(elements, test_elements))
    return g.call("logical_not", result) if invert else result


@converts("unravel_index.default")
def unravel_index(g: Context, indices: Value, *, shape: tuple[Dim, ...]) -> list[Value]:
    strides = [dims.product(shape[k + 1 :]) for k in range(len(shape))]
    numbers = g.cast(indices, "int64")
    return [
        g.call("floor_mod", g.call("floor_divide", numbers, g.tensor(stride, "int64")), g.tensor(size, "int64"))
        for stride, size in zip(strides, shape)
    ]
