"""How operators carry the elements of a batch: derived from their parts, and what reshapes have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forge import te
from forge.errors import ForgeError
from forge.ir.batch import UNDECLARED, Batch, MixesBatch, through_reshape
from forge.ir.builder import MISFITS
from forge.ir.edits.follow import BatchFollower
from forge.ir.types import Type
from forge.ops.core.batch_reads import batches_of_results
from forge.ops.core.op import Op
from forge.ops.core.signatures import Builder, TensorType, Value


def carried(
    op: Op[Any], attrs: Any, results: Sequence[Type], batches: Sequence[Batch | None], *operands: Value | None
) -> Sequence[Batch | None]:
    """Where the batch is in the results.

    Raises:
        MixesBatch: elements of the batch are combined, or may be.
    """
    if not all(isinstance(v.type, TensorType) for v in operands if v is not None):
        raise MixesBatch(UNDECLARED, certain=False)
    for declared, batch in zip(op.operands, batches):
        if batch is not None and declared.holds:
            raise MixesBatch(f"{declared.name}, which holds for all elements, depends on the batch", certain=False)
    found = _through_parts(op, operands, attrs, batches)
    if found is None:
        found = _through_reads(op, operands, attrs, results, batches)
    if found is None:
        raise MixesBatch(UNDECLARED, certain=False)
    return found


def _through_reads(
    op: Op[Any], operands: Sequence[Value | None], attrs: Any, results: Sequence[Type], batches: Sequence[Batch | None]
) -> list[Batch | None] | None:
    """None: the operator has no tensor expressions for these operands."""
    types = [t for t in results if isinstance(t, TensorType)]
    tensors = [None if v is None else te.placeholder(v.shape, v.dtype) for v in operands]
    if len(types) != len(results):
        return None
    try:
        made = op.lower(attrs, types, *tensors)
    except (NotImplementedError, ForgeError, *MISFITS):
        return None
    found = batches_of_results(made, {t: b for t, b in zip(tensors, batches) if t is not None and b is not None})
    (rows,) = {(b.before, b.after) for b in batches if b is not None}
    return [None if b is None else Batch(b.axis, *rows) for b in found]


def _through_parts(
    op: Op[Any], operands: Sequence[Value | None], attrs: Any, batches: Sequence[Batch | None]
) -> list[Batch | None] | None:
    """None: the operator does not decompose into others for these operands."""
    builder = Builder()
    inputs = [None if v is None else _same(builder, v) for v in operands]
    try:
        made = op.decompose(builder, attrs, *inputs)
    except (NotImplementedError, ForgeError, *MISFITS):
        return None
    if made is None:
        return None
    follower = BatchFollower({v: b for v, b in zip(inputs, batches) if v is not None and b is not None})
    for node in builder.graph.nodes:
        follower.follow(node)
    return [follower.batches.get(v) for v in made]


def _same(builder: Builder, value: Value) -> Value:
    return builder.input(value.type) if value.constant is None else builder.constant(value.constant)


def carry_reshaped(
    op: Op[Any], attrs: Any, results: Sequence[Type], batches: Sequence[Batch | None], data: Value, *others: Value | None
) -> Sequence[Batch | None]:
    """``carry_batch`` of operators whose result is operand 0 in row-major order under another shape."""
    batch, (result,) = batches[0], results
    if batch is None or not isinstance(result, TensorType):
        raise MixesBatch("its shape depends on the batch", certain=False)
    return [through_reshape(data.shape, batch, result.shape)]


def carry_beside(axis: int, results: Sequence[Type], batches: Sequence[Batch | None]) -> Sequence[Batch | None]:
    """``carry_batch`` of operators whose results have the shape of operand 0 and are computed along ``axis``."""
    batch = batches[0]
    if batch is not None and isinstance(results[0], TensorType) and axis % results[0].rank == batch.axis:
        raise MixesBatch(f"combines entries along axis {batch.axis}, where the batch is", certain=True)
    return [batch for _ in results]
