"""Rows that are divided among tensors, put together, or changed in place."""

from __future__ import annotations

from forge import dims
from forge.compose import tuples
from forge.compose.axes import ravel
from forge.compose.checks import checked_indices
from forge.compose.indexing import nonzero
from forge.dims import Dim
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

MAX_PARTS = 1 << 12


@converts("DynamicPartition", outputs="outputs*num_partitions")
def dynamic_partition(g: Context, data: Value, parts: Value, *, num_partitions: int) -> list[Value]:
    """The rows of each number, in order."""
    if not 0 < num_partitions <= MAX_PARTS:
        raise g.invalid(f"num_partitions: got {num_partitions}; expected 1 to {MAX_PARTS}")
    rows = g.reshape(data, (dims.product(parts.shape), *data.shape[parts.rank :]))
    numbers = checked_indices(g, ravel(g, parts), num_partitions, from_end=False, what="the number of a part")
    found = []
    for number in range(num_partitions):
        (places,) = nonzero(g, g.call("equal", numbers, g.scalar(number, numbers)))
        found.append(g.call("take", rows, places, axis=0))
    return found


@converts("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(g: Context, *inputs: Value) -> Value:
    """Rows of several tensors at their numbers, later ones over others; as many rows as the largest number says."""
    half = len(inputs) // 2
    if not half or len(inputs) % 2:
        raise g.invalid(f"got {len(inputs)} inputs; expected as many numbers as data")
    rest = inputs[half].shape[inputs[0].rank :]
    numbers = [ravel(g, v) for v in inputs[:half]]
    parts = [g.reshape(v, (n.shape[0], *rest)) for v, n in zip(inputs[half:], numbers)]
    places, rows = (v[0] if half == 1 else g.call("concatenate", *v, axis=0) for v in (numbers, parts))
    largest = g.call("max", g.call("concatenate", g.constant([-1], "int32"), places, axis=0), axis=(0,), keepdims=True)
    count = g.call("add", g.cast(largest, "int64"), g.constant(1, "int64"))
    shape = g.call("concatenate", count, g.vector(rest), axis=0)
    start = tuples.filled(g, shape, g.constant(0, rows.dtype))
    return tuples.updated(g, start, g.reshape(places, (places.shape[0], 1)), rows)


@converts("ConcatOffset")
def concat_offset(g: Context, axis: Value, *shapes: Value) -> list[Value]:
    """Where each of the tensors of these shapes begins when they are joined."""
    rank = shapes[0].shape[0]
    if not isinstance(rank, int):
        raise g.unsupported(f"got a shape {shapes[0].type}; expected a known rank")
    place = g.axis(g.one_int(axis, "axis"), rank)
    mask = g.constant([k == place for k in range(rank)], "bool")
    total, found = g.call("zeros_like", shapes[0]), []
    for shape in shapes:
        found.append(total)
        total = g.call("add", total, g.call("where", mask, shape, g.scalar(0, shape)))
    return found


@converts("InplaceUpdate", "InplaceAdd", "InplaceSub")
def inplace(g: Context, x: Value, rows: Value, values: Value) -> Value:
    """Rows are replaced, or added to; one row, or several."""
    places = g.reshape(rows, (dims.product(rows.shape),))
    sizes: tuple[Dim, ...] = (places.shape[0], *x.shape[1:])
    new = g.reshape(values, sizes)
    if g.node.op == "InplaceSub":
        new = g.call("negative", new)
    checked = checked_indices(g, places, x.shape[0], from_end=False)
    mode = "update" if g.node.op == "InplaceUpdate" else "add"
    return tuples.updated(g, x, g.reshape(checked, (places.shape[0], 1)), new, mode)
