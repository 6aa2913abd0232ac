"""Follows the elements of a batch through nodes, and finds where they mix."""

from __future__ import annotations

from collections.abc import Mapping

from forge import dims
from forge.dims import Dim
from forge.ir.batch import Batch, MixesBatch
from forge.ir.nodes import Node, Value


class BatchFollower:
    """``batches`` maps values to where the batch is in them; other values are taken not to depend on it."""

    def __init__(self, batches: Mapping[Value, Batch]) -> None:
        self.batches = dict(batches)

    def follow(self, node: Node) -> None:
        """Adds the results of ``node``, whose operands are known.

        Raises:
            MixesBatch: it combines elements of the batch, or may do so.
        """
        batches = [None if v is None else self.batches.get(v) for v in node.operands]
        if any(b is not None for b in batches):
            self._carry(node, batches)

    def _carry(self, node: Node, batches: list[Batch | None]) -> None:
        counts = {self._count(v, b) for v, b in zip(node.operands, batches) if v is not None and b is not None}
        if len(counts) != 1:
            raise MixesBatch("its operands list the elements of the batch in different orders", certain=True)
        types, operands = [v.type for v in node.results], node.op_def.arguments(node.operands)
        carried = list(node.op_def.carry_batch(node.attrs, types, batches, *operands))
        for value, batch in zip(node.results, carried):
            if batch is not None:
                if self._count(value, batch)[0] != next(iter(counts))[0]:
                    what = f"has other entries along axis {batch.axis} of {value.type}, where the batch is"
                    raise MixesBatch(what, certain=False)
                self.batches[value] = batch

    @staticmethod
    def _count(value: Value, batch: Batch) -> tuple[Dim, Dim, Dim]:
        """Number of elements, and how they are listed."""
        return dims.floordiv(value.shape[batch.axis], batch.before * batch.after), batch.before, batch.after
