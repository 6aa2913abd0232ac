"""Ensembles of decision trees: all trees take a step at once, by gathering from the table of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.registry import exports
from forge.ops.classical.trees import CHILD, FEATURE, LEAF, THRESHOLD, TreeEnsemble

MAX_LEAF_NUMBERS = 1 << 26
_MERGES: dict[str, tuple[str, Any, float]] = {
    "sum": ("ReduceSum", np.add, 0.0), "min": ("ReduceMin", np.minimum, np.inf), "max": ("ReduceMax", np.maximum, -np.inf)}


@exports(TreeEnsemble)
def tree_ensemble(g: Emitter, op: TreeEnsemble, x: Ref, *tables: Ref | None) -> Ref:
    attrs = op.attrs
    nodes, roots, weights, targets, offsets = [*map(g.known, tables), None, None][:5]
    assert nodes is not None and roots is not None and weights is not None
    thresholds = np.ascontiguousarray(nodes[:, THRESHOLD]).view(x.dtype)
    columns = [g.const(nodes[:, k].astype(np.int64)) for k in (FEATURE, CHILD, LEAF)]
    at = g.op("Expand", g.const(roots), g.dims([op.data.shape[0], len(roots)]))
    feature, child, leaf = columns
    for _step in range(attrs.steps):
        value = g.op("GatherElements", x, g.op("Gather", feature, at), axis=1)
        is_first = g.op("LessOrEqual", value, g.op("Gather", g.const(thresholds), at))
        at = g.op("Add", g.op("Gather", child, at), g.op("Where", is_first, g.ints([0]), g.ints([1])))
    reduction, merge, start = _MERGES[attrs.aggregate]
    table = weights if targets is None or offsets is None else _dense(g, attrs.targets, weights, targets, offsets, merge, start)
    said = g.op("Gather", g.const(table), g.op("Gather", leaf, at))
    merged = g.op(reduction, said, g.ints([1]), keepdims=0)
    silent = g.op("Equal", merged, g.like(start, merged))
    return merged if attrs.aggregate == "sum" else g.op("Where", silent, g.like(0, merged), merged)


def _dense(g: Emitter, count: int, weights: np.ndarray, targets: np.ndarray, offsets: np.ndarray, merge: Any,
           start: float) -> np.ndarray:
    """What every leaf says of every target; ``start`` where it says nothing."""
    leaves = len(offsets) - 1
    if leaves * count > MAX_LEAF_NUMBERS:
        raise g.unsupported(f"a table of {leaves} leaves by {count} targets is too large; expected {MAX_LEAF_NUMBERS} numbers")
    table = np.full((leaves, count), start, weights.dtype)
    merge.at(table, (np.repeat(np.arange(leaves), np.diff(offsets)), targets), weights)
    return table
