"""Ensembles of decision trees.

``compose.trees`` makes the tables of models in other forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes, te
from forge.ops.core.inference import fail, required
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, TensorType, TensorTypes, Types, Value

FEATURE, CHILD, THRESHOLD, LEAF = range(4)
"""Columns of the table of nodes."""
AGGREGATES = ("sum", "min", "max")


@dataclass(frozen=True)
class TreeEnsembleAttrs:
    targets: int
    features: int
    steps: int
    aggregate: str = "sum"


@register
class TreeEnsemble(Op[TreeEnsembleAttrs]):
    """out[n, k]: the sum, minimum or maximum of what the leaves say of target k that the trees lead row n of data to.

    A node is a row (feature, child, bits of threshold, leaf) of integers as wide as an element of data. From roots[t],
    ``steps`` times, node i is followed by node child[i] if data[n, feature[i]] <= threshold[i], else by child[i] + 1: so a node
    with threshold NaN and child i - 1 stays, and siblings stand side by side. ``features``: how many columns nodes may read.

    weights: (leaves, targets); or, where leaves speak of few targets, (entries) with the target of each: those of a leaf are
    offsets[leaf] to offsets[leaf + 1] - 1. Targets of which no tree speaks are 0. All operands but data are constants.
    """

    name = "tree_ensemble"
    data, nodes, roots = Operand(accepts="float32 or float64", rank=2), Operand(), Operand()
    weights = Operand(accepts="float32 or float64")
    entry_targets, offsets = Operand(optional=True), Operand(optional=True)
    kind = Kind.ANCHOR
    kernel = "tree_ensemble"
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: TreeEnsembleAttrs, data: Value, *tables: Value | None) -> Types:
        if attrs.aggregate not in AGGREGATES:
            raise fail(self.name, "attribute aggregate", repr(attrs.aggregate), " or ".join(AGGREGATES))
        if min(attrs.targets, attrs.features, attrs.steps) < 0:
            raise fail(self.name, "attributes", attrs, "numbers of at least 0")
        columns = data.shape[1]
        if isinstance(columns, int) and columns < attrs.features:
            raise fail(self.name, "columns of data", columns, f"at least {attrs.features}: nodes read them")
        contents = [_table(value, spec) for value, spec in zip(tables, self.operands[1:])]
        _check_nodes(contents[0], contents[1], data.dtype, attrs.features, _check_leaves(contents, attrs))
        weights = contents[2]
        assert weights is not None
        return [TensorType((data.shape[0], attrs.targets), dtypes.canonical(weights.dtype))]

    def requires(self, attrs: TreeEnsembleAttrs, results: TensorTypes, data: TensorType, *_: object) -> Conditions:
        columns = data.shape[1]
        why = f"data has {columns} columns; expected at least {attrs.features}"
        return required(isinstance(columns, int), lambda: te.dim(columns) >= attrs.features, why)

    def reference(
        self,
        attrs: TreeEnsembleAttrs,
        data: Array,
        nodes: Array,
        roots: Array,
        weights: Array,
        entry_targets: Array | None,
        offsets: Array | None,
    ) -> Arrays:
        threshold = np.ascontiguousarray(nodes[:, THRESHOLD]).view(data.dtype)
        rows = np.arange(len(data))[:, None]
        at = np.broadcast_to(roots, (len(data), len(roots)))
        for _ in range(attrs.steps):
            is_first = data[rows, nodes[at, FEATURE]] <= threshold[at]
            at = nodes[at, CHILD] + np.where(is_first, 0, 1)
        leaves = nodes[at, LEAF]
        merge: Any = {"sum": np.add, "min": np.minimum, "max": np.maximum}[attrs.aggregate]
        start = {"sum": 0, "min": np.inf, "max": -np.inf}[attrs.aggregate]
        result = np.full((len(data), attrs.targets), start, weights.dtype)
        for n, t in np.ndindex(leaves.shape):
            if offsets is None or entry_targets is None:
                result[n] = merge(result[n], weights[leaves[n, t]])
            else:
                entries = slice(*offsets[leaves[n, t] : leaves[n, t] + 2])
                merge.at(result[n], entry_targets[entries], weights[entries])
        return [np.where(result == start, 0, result).astype(weights.dtype)]

    def flops(self, attrs: TreeEnsembleAttrs, results: TensorTypes, data: Value, nodes: Value, roots: Value, *_: object) -> Any:
        return results[0].shape[0] * roots.shape[0] * (attrs.steps + 1)


def _table(value: Value | None, spec: Operand[Any]) -> Array | None:
    """The contents of an operand that is a table."""
    if value is not None and value.constant is None:
        raise fail(TreeEnsemble.name, f"operand {spec.name!r}", "a computed value", "a constant: its indices are checked once")
    return None if value is None else value.constant


def _check_nodes(nodes: Array | None, roots: Array | None, dtype: str, features: int, leaves: int) -> None:
    assert nodes is not None and roots is not None
    integer = "int32" if dtype == "float32" else "int64"
    if nodes.dtype != integer or nodes.ndim != 2 or nodes.shape[1] != 4 or not len(nodes):
        got = f"{nodes.dtype} of shape {nodes.shape}"
        raise fail(TreeEnsemble.name, "operand 'nodes'", got, f"{integer} of shape (nodes, 4)")
    if roots.dtype != "int64" or roots.ndim != 1:
        raise fail(TreeEnsemble.name, "operand 'roots'", f"{roots.dtype} of shape {roots.shape}", "an int64 vector")
    _check_range("roots", roots, len(nodes))
    _check_range("features of nodes", nodes[:, FEATURE], features)
    _check_range("leaves of nodes", nodes[:, LEAF], leaves)
    _check_range("children of nodes", nodes[:, CHILD] + 1, len(nodes))
    threshold = np.ascontiguousarray(nodes[:, THRESHOLD]).view(dtype)
    if (np.isnan(threshold) < (nodes[:, CHILD] < 0)).any():
        raise fail(TreeEnsemble.name, "children of nodes", -1, "at least 0, but for nodes with threshold NaN")


def _check_range(what: str, values: Array, end: int) -> None:
    if values.size and not (values.min() >= 0 and values.max() < end):
        raise fail(TreeEnsemble.name, what, f"{values.min()} to {values.max()}", f"0 to {end - 1}")


def _check_leaves(tables: Sequence[Array | None], attrs: TreeEnsembleAttrs) -> int:
    """The number of leaves that the tables have."""
    weights, targets, offsets = [*tables, None, None][2:5]
    assert weights is not None
    if attrs.aggregate != "sum" and not np.isfinite(weights).all():
        raise fail(TreeEnsemble.name, "weights", "NaN or infinity", f"finite ones for {attrs.aggregate}")
    if targets is None and offsets is None:
        if weights.ndim != 2 or weights.shape[1] != attrs.targets:
            raise fail(TreeEnsemble.name, "shape of weights", weights.shape, f"(leaves, {attrs.targets})")
        return len(weights)
    if targets is None or offsets is None:
        raise fail(TreeEnsemble.name, "operands entry_targets and offsets", "one of them", "both or none")
    if weights.ndim != 1 or targets.shape != weights.shape or offsets.ndim != 1 or not len(offsets):
        shapes = f"{weights.shape}, {targets.shape} and {offsets.shape}"
        raise fail(TreeEnsemble.name, "weights, entry_targets and offsets", shapes, "(entries), (entries) and (leaves + 1)")
    if targets.dtype != "int64" or offsets.dtype != "int64":
        raise fail(TreeEnsemble.name, "entry_targets and offsets", f"{targets.dtype} and {offsets.dtype}", "int64")
    _check_range("entry_targets", targets, attrs.targets)
    if offsets[0] != 0 or offsets[-1] != len(weights) or (np.diff(offsets) < 0).any():
        raise fail(TreeEnsemble.name, "offsets", f"{offsets[0]} to {offsets[-1]}", f"ascending ones from 0 to {len(weights)}")
    return len(offsets) - 1
