"""Sparse tensors: index tuples ``[n, rank]`` in rows, values ``[n]``, and a shape ``[rank]``, all int64 but for the values."""

from __future__ import annotations

from forge.compose import indexing, tuples
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.converters.indexing import checked_tuples
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


def _column(g: Context, indices: Value, k: int) -> Value:
    return g.call("take", indices, g.constant(k, "int64"), axis=1)


def _flat(g: Context, indices: Value, shape: Value) -> Value:
    """The positions of tuples in a dense tensor."""
    steps = g.call("reverse", g.call("cumprod", g.call("reverse", shape, axis=0), axis=0, exclusive=True), axis=0)
    return g.call("sum", g.call("multiply", indices, steps), axis=(1,))


@converts("SparseReshape", outputs="output_indices output_shape")
def sparse_reshape(g: Context, indices: Value, shape: Value, new_shape: Value) -> list[Value]:
    given = Term(g, new_shape)
    open_ = given.equals(-1)
    total = g.call("prod", shape, axis=(0,))
    others = Term(g, g.call("prod", open_.where(1, given).value, axis=(0,))).maximum(1)
    wanted = open_.where(Term(g, total).floor_divide(others), given).value
    rows = g.call("unravel_index", _flat(g, indices, shape), wanted)
    return [g.moved(rows, (1, 0)), wanted]


@converts("SparseReorder", outputs="output_indices output_values")
def sparse_reorder(g: Context, indices: Value, values: Value, shape: Value) -> list[Value]:
    order = g.call("argsort", _flat(g, indices, shape), axis=0, dtype="int64")
    return [g.call("take", v, order, axis=0) for v in (indices, values)]


@converts("SparseFillEmptyRows", outputs="output_indices output_values empty_row_indicator reverse_index_map")
def sparse_fill_empty_rows(g: Context, indices: Value, values: Value, shape: Value, default: Value) -> list[Value]:
    """Rows without elements get the default in their first column."""
    rows = _column(g, indices, 0)
    known = g.dims(shape)
    ones = g.broadcast(g.constant(1, "int64"), rows.shape)
    if known is not None:
        counts = g.call("segment_reduce", ones, rows, reduction="sum", num_segments=known[0])
    else:
        count = g.call("take", shape, g.constant(0, "int64"), axis=0)
        counts = g.call("segment_reduce", ones, rows, None, count, reduction="sum")
    is_empty = g.call("equal", counts, g.constant(0, "int64"))
    (missing,) = indexing.nonzero(g, is_empty)
    more = missing.shape[0]
    first = g.reshape(missing, (more, 1))
    rest = g.broadcast(g.constant(0, "int64"), (more, indices.shape[1] - 1))
    added = g.call("concatenate", first, rest, axis=1)
    order = g.call("argsort", g.call("concatenate", rows, missing, axis=0), axis=0, dtype="int64")
    whole = [
        g.call("concatenate", indices, added, axis=0),
        g.call("concatenate", values, g.broadcast(g.reshape(default, ()), (more,)), axis=0)]
    places = g.call("invert_permutation", order)
    moved = g.call("strided_slice", places, begin=(0,), end=(indices.shape[0],), strides=(1,), axes=(0,))
    return [*(g.call("take", v, order, axis=0) for v in whole), is_empty, g.reshape(moved, (indices.shape[0],))]


@converts("SparseTensorDenseAdd")
def sparse_tensor_dense_add(g: Context, indices: Value, values: Value, shape: Value, dense: Value) -> Value:
    return tuples.updated(g, dense, checked_tuples(g, dense, indices), values, "add")


@converts("SparseTensorDenseMatMul")
def sparse_tensor_dense_matmul(
    g: Context, indices: Value, values: Value, shape: Value, dense: Value, *, adjoint_a: bool = False, adjoint_b: bool = False
) -> Value:
    """The sum of rows of the dense matrix, each times a value, for each row of the sparse one."""
    rows, columns = (_column(g, g.cast(indices, "int64"), k) for k in ((1, 0) if adjoint_a else (0, 1)))
    if values.dtype.startswith("complex"):
        values = g.call("complex.conj", values) if adjoint_a else values
        dense = g.call("complex.conj", dense) if adjoint_b else dense
    dense = g.moved(dense, (1, 0)) if adjoint_b else dense
    products = g.call("multiply", g.call("take", dense, columns, axis=0), g.reshape(values, (*values.shape, 1)))
    count = g.call("take", shape, g.constant([1 if adjoint_a else 0], "int64"), axis=0)
    sizes = g.call("concatenate", count, g.vector(dense.shape[1:]), axis=0)
    return tuples.scattered(g, sizes, g.reshape(rows, (*rows.shape, 1)), products)


@converts("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv")
def sparse_dense_elementwise(g: Context, indices: Value, values: Value, shape: Value, dense: Value) -> Value:
    """The values at the tuples; the dense tensor is broadcast to the shape."""
    known = g.dims(shape)
    if known is None:
        raise g.unsupported("the shape is computed at run time; expected a constant")
    whole = g.broadcast(dense, known)
    ops = {"SparseDenseCwiseAdd": "add", "SparseDenseCwiseMul": "multiply", "SparseDenseCwiseDiv": "divide"}
    return g.call(ops[g.node.op], values, tuples.gathered(g, whole, checked_tuples(g, whole, indices)))
