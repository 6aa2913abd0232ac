"""Ensembles of decision trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge.compose import trees
from forge.compose.scores import TRANSFORMS, beside, best_label, class_labels, label_if, transformed
from forge.compose.trees import Entries, Forest, tree_ensemble
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.classical import DOMAIN
from forge.frontends.onnx.registry import converts

_MODES = {
    "LEAF": trees.LEAF_MODE, "BRANCH_LEQ": trees.LEQ, "BRANCH_LT": trees.LT, "BRANCH_GTE": trees.GTE, "BRANCH_GT": trees.GT,
    "BRANCH_EQ": trees.EQ, "BRANCH_NEQ": trees.NEQ,
}
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
Integers = tuple[int, ...]
Floats = tuple[float, ...]


def features(g: Context, x: Value) -> Value:
    """The rows of ``x`` as float32 or float64 that hold every value of its type; a vector is one row."""
    if x.rank not in (1, 2):
        raise g.invalid(f"got data of rank {x.rank}; expected (rows, features)")
    rows = x if x.rank == 2 else g.call("expand_dims", x, axis=0)
    return g.cast(rows, "float32" if x.dtype in ("float16", "bfloat16", "float32") else "float64")


def numbers(g: Context, name: str, floats: Floats | None, tensor: np.ndarray | None) -> np.ndarray | None:
    """An attribute that is a list of floats or a tensor."""
    if floats is not None and tensor is not None:
        raise g.invalid(f"got attributes {name} and {name}_as_tensor; expected one of them")
    return np.array(floats, np.float32) if floats is not None else None if tensor is None else tensor.reshape(-1)


@dataclass(frozen=True)
class _Table:
    """Nodes by tree and number, as versions 1 and 3 list them."""

    tree: np.ndarray
    number: np.ndarray
    order: np.ndarray  # of the keys
    keys: np.ndarray  # ascending

    @staticmethod
    def of(g: Context, tree: Integers, number: Integers) -> _Table:
        trees_, numbers_ = np.array(tree, np.int64), np.array(number, np.int64)
        if trees_.shape != numbers_.shape or not len(trees_):
            raise g.invalid(f"got {len(trees_)} nodes_treeids and {len(numbers_)} nodes_nodeids; expected as many, at least one")
        keys = _pairs(trees_, numbers_)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        if (keys[1:] == keys[:-1]).any():
            raise g.invalid("two nodes of one tree have the same number; expected different ones")
        return _Table(trees_, numbers_, order, keys)

    def places(self, g: Context, what: str, tree: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Positions of nodes in the lists."""
        if tree.shape != number.shape:
            raise g.invalid(f"{what}: got {len(tree)} trees and {len(number)} nodes; expected as many of both")
        wanted = _pairs(tree, number)
        found = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        wrong = np.flatnonzero(self.keys[found] != wanted)
        if len(wrong):
            raise g.invalid(f"{what}: got node {number[wrong[0]]} of tree {tree[wrong[0]]}; expected one that is listed")
        return self.order[found]


_PAIR = np.dtype([("tree", np.int64), ("number", np.int64)])


def _pairs(tree: np.ndarray, number: np.ndarray) -> np.ndarray:
    pairs = np.empty(len(tree), _PAIR)
    pairs["tree"], pairs["number"] = tree, number
    return pairs


@dataclass(frozen=True, kw_only=True)
class EnsembleAttributes:
    """What classifier and regressor share: nodes, one list for each of their properties, and what is done with sums."""

    base_values: Floats | None = None
    base_values_as_tensor: np.ndarray | None = None
    nodes_falsenodeids: Integers = ()
    nodes_featureids: Integers = ()
    nodes_hitrates: Floats | None = None
    nodes_hitrates_as_tensor: np.ndarray | None = None
    nodes_missing_value_tracks_true: Integers | None = None
    nodes_modes: tuple[str, ...] = ()
    nodes_nodeids: Integers = ()
    nodes_treeids: Integers = ()
    nodes_truenodeids: Integers = ()
    nodes_values: Floats | None = None
    nodes_values_as_tensor: np.ndarray | None = None
    post_transform: str = "NONE"

    def base(self, g: Context) -> np.ndarray:
        values = numbers(g, "base_values", self.base_values, self.base_values_as_tensor)
        return np.zeros(0, np.float32) if values is None else values


def _ensemble(g: Context, attrs: EnsembleAttributes) -> tuple[_Table, Forest]:
    table = _Table.of(g, attrs.nodes_treeids, attrs.nodes_nodeids)
    count = len(table.tree)
    unknown = [m for m in attrs.nodes_modes if m not in _MODES]
    if unknown:
        raise g.invalid(f"nodes_modes: got {unknown[0]!r}; expected one of {', '.join(_MODES)}")
    mode = np.array([_MODES[m] for m in attrs.nodes_modes], np.int64)
    values = numbers(g, "nodes_values", attrs.nodes_values, attrs.nodes_values_as_tensor)
    columns = {
        "nodes_modes": mode,
        "nodes_featureids": np.array(attrs.nodes_featureids, np.int64),
        "nodes_truenodeids": np.array(attrs.nodes_truenodeids, np.int64),
        "nodes_falsenodeids": np.array(attrs.nodes_falsenodeids, np.int64),
        "nodes_values": np.zeros(count) if values is None else values,
        "nodes_missing_value_tracks_true": np.array(attrs.nodes_missing_value_tracks_true or (0,) * count, np.int64),
    }
    for name, column in columns.items():
        if len(column) != count:
            raise g.invalid(f"{name}: got {len(column)}; expected one for each of {count} nodes")
    inner = mode != trees.LEAF_MODE
    children = np.zeros((2, count), np.int64)
    for side, name in enumerate(("nodes_truenodeids", "nodes_falsenodeids")):
        children[side, inner] = table.places(g, name, table.tree[inner], columns[name][inner])
    roots = np.sort(np.unique(table.tree, return_index=True)[1])
    leaf = np.where(inner, 0, np.cumsum(~inner) - 1)
    missing_is_true = columns["nodes_missing_value_tracks_true"] != 0
    feature = np.where(inner, columns["nodes_featureids"], 0)
    return table, Forest(feature, columns["nodes_values"], mode, children, missing_is_true, leaf, roots)


def _entries(
    g: Context, ensemble: tuple[_Table, Forest], what: str, treeids: Integers, nodeids: Integers, ids: Integers,
    weights: np.ndarray | None,
) -> Entries:
    table, forest = ensemble
    places = table.places(g, what, np.array(treeids, np.int64), np.array(nodeids, np.int64))
    if weights is None or not len(places) == len(ids) == len(weights):
        given = 0 if weights is None else len(weights)
        raise g.invalid(f"{what}: got {len(places)} nodes, {len(ids)} ids, {given} weights; expected as many of each")
    kept = forest.mode[places] == trees.LEAF_MODE
    return Entries(forest.leaf[places][kept], np.array(ids, np.int64)[kept], weights[kept])


def _evaluate(g: Context, x: Value, forest: Forest, entries: Entries, targets: int, aggregate: str = "SUM") -> Value:
    """The aggregate over trees, as float32 or, if data or weights are float64, as float64."""
    if aggregate not in _AGGREGATES:
        raise g.invalid(f"aggregate_function: got {aggregate!r}; expected {', '.join(_AGGREGATES)}")
    if targets < 1:
        raise g.invalid(f"got {targets} targets; expected at least one")
    is_double = x.dtype == "float64" or entries.weight.dtype == np.float64
    weight = entries.weight.astype(np.float64 if is_double else np.float32)
    data = features(g, x)
    if forest.value.dtype == np.float64:
        data = g.cast(data, "float64")
    leaves = int((forest.mode == trees.LEAF_MODE).sum())
    by = "sum" if aggregate == "AVERAGE" else aggregate.lower()
    result = tree_ensemble(g, data, forest, Entries(entries.leaf, entries.target, weight), leaves, targets, by)
    return g.call("divide", result, g.scalar(len(forest.roots), result)) if aggregate == "AVERAGE" else result


@converts("TreeEnsembleRegressor", since=1, domain=DOMAIN)
def tree_ensemble_regressor(
    g: Context, x: Value,
    *, aggregate_function: str = "SUM", n_targets: int = 1, target_ids: Integers = (), target_nodeids: Integers = (),
    target_treeids: Integers = (), target_weights: Floats | None = None, target_weights_as_tensor: np.ndarray | None = None,
    attrs: EnsembleAttributes,
) -> Value:
    ensemble = _ensemble(g, attrs)
    weights = numbers(g, "target_weights", target_weights, target_weights_as_tensor)
    entries = _entries(g, ensemble, "target_nodeids", target_treeids, target_nodeids, target_ids, weights)
    result = _evaluate(g, x, ensemble[1], entries, n_targets, aggregate_function)
    base = attrs.base(g)
    if len(base):
        if len(base) not in (1, n_targets):
            raise g.invalid(f"base_values: got {len(base)}; expected one for each of {n_targets} targets")
        result = g.call("add", result, g.constant(base.astype(result.dtype)))
    return g.cast(transformed(g, result, attrs.post_transform), "float32")


def labels_of(g: Context, integers: Integers | None, strings: tuple[str, ...] | None) -> np.ndarray:
    """The labels of two classes or more."""
    labels = class_labels(integers, strings)
    if len(labels) < 2:
        raise g.unsupported("got one class; expected two or more: what the score of a single class says is not defined")
    return labels


@converts("TreeEnsembleClassifier", since=1, domain=DOMAIN)
def tree_ensemble_classifier(
    g: Context, x: Value,
    *, class_ids: Integers = (), class_nodeids: Integers = (), class_treeids: Integers = (), class_weights: Floats | None = None,
    class_weights_as_tensor: np.ndarray | None = None, classlabels_int64s: Integers | None = None,
    classlabels_strings: tuple[str, ...] | None = None, attrs: EnsembleAttributes,
) -> list[Value]:
    """Two classes of which only the first has weights: these speak of the second class (see ``_two_classes``)."""
    ensemble = _ensemble(g, attrs)
    weights = numbers(g, "class_weights", class_weights, class_weights_as_tensor)
    entries = _entries(g, ensemble, "class_nodeids", class_treeids, class_nodeids, class_ids, weights)
    labels, base = labels_of(g, classlabels_int64s, classlabels_strings), attrs.base(g)
    if len(labels) == 2 and not any(class_ids) and len(base) <= 2:
        score = _evaluate(g, x, ensemble[1], entries, 1)
        if len(base):
            score = g.call("add", score, g.scalar(float(base[0]), score))
        return _two_classes(g, score, labels, bool((entries.weight >= 0).all()), attrs.post_transform)
    scores = _evaluate(g, x, ensemble[1], entries, len(labels))
    if len(base):
        if len(base) != len(labels):
            raise g.invalid(f"base_values: got {len(base)}; expected one for each of {len(labels)} classes")
        scores = g.call("add", scores, g.constant(base.astype(scores.dtype)))
    return [best_label(g, scores, labels), g.cast(transformed(g, scores, attrs.post_transform), "float32")]


def _two_classes(g: Context, score: Value, labels: np.ndarray, is_probability: bool, transform: str) -> list[Value]:
    """Labels and scores from one score (rows, 1) of the second class: a probability, or a number above or below 0."""
    is_second = g.call("greater", score, g.scalar(0.5 if is_probability else 0, score))
    label = label_if(g, g.call("squeeze", is_second, axis=(1,)), labels)
    complement = transform == "PROBIT" or transform == "NONE" and is_probability
    first = g.call("subtract", g.scalar(1, score), score) if complement else g.call("negative", score)
    return [label, g.cast(transformed(g, beside(g, first, score), transform), "float32")]


@converts("TreeEnsemble", since=5, domain=DOMAIN)
def tree_ensemble_5(
    g: Context, x: Value,
    *, aggregate_function: int = 1, leaf_targetids: Integers, leaf_weights: np.ndarray,
    membership_values: np.ndarray | None = None, n_targets: int = 1, nodes_falseleafs: Integers, nodes_falsenodeids: Integers,
    nodes_featureids: Integers, nodes_hitrates: np.ndarray | None = None, nodes_missing_value_tracks_true: Integers | None = None,
    nodes_modes: np.ndarray, nodes_splits: np.ndarray, nodes_trueleafs: Integers, nodes_truenodeids: Integers,
    post_transform: int = 0, tree_roots: Integers,
) -> Value:
    if not 0 <= aggregate_function < len(_AGGREGATES) or not 0 <= post_transform < len(TRANSFORMS):
        raise g.invalid(
            f"got aggregate_function {aggregate_function} and post_transform {post_transform}; "
            f"expected numbers below {len(_AGGREGATES)} and {len(TRANSFORMS)}"
        )
    forest = _numbered_forest(
        g, len(leaf_targetids), tree_roots, membership_values, nodes_modes.reshape(-1), splits=nodes_splits.reshape(-1),
        features=nodes_featureids, missing=nodes_missing_value_tracks_true or (0,) * nodes_modes.size,
        true=nodes_truenodeids, false=nodes_falsenodeids, true_leaves=nodes_trueleafs, false_leaves=nodes_falseleafs,
    )
    if leaf_weights.size != len(leaf_targetids):
        counts = f"{leaf_weights.size} leaf_weights and {len(leaf_targetids)} leaf_targetids"
        raise g.invalid(f"got {counts}; expected as many of both")
    entries = Entries(np.arange(leaf_weights.size), np.array(leaf_targetids, np.int64), _single(leaf_weights.reshape(-1)))
    result = _evaluate(g, x, forest, entries, n_targets, _AGGREGATES[aggregate_function])
    return g.cast(transformed(g, result, TRANSFORMS[post_transform]), x.dtype)


def _single(values: np.ndarray) -> np.ndarray:
    return values if values.dtype == np.float64 else values.astype(np.float32)


def _numbered_forest(
    g: Context, leaves: int, roots: Integers, members: np.ndarray | None, modes: np.ndarray, splits: np.ndarray,
    **columns: Integers,
) -> Forest:
    """The forest of version 5: nodes by their places in the lists, then leaves."""
    count = len(modes)
    lists = {name: np.array(column, np.int64) for name, column in columns.items()}
    wrong = [name for name, column in (*lists.items(), ("splits", splits)) if len(column) != count]
    if wrong:
        raise g.invalid(f"nodes: got lists of different lengths ({wrong[0]}); expected one for each of {count} nodes")
    if count and int(modes.max()) > trees.MEMBER:
        raise g.invalid(f"nodes_modes: got {int(modes.max())}; expected 0 to {trees.MEMBER}")
    children = np.zeros((2, count + leaves), np.int64)
    for side, name in enumerate(("true", "false")):
        is_leaf, target = lists[f"{name}_leaves"] != 0, lists[name]
        limit = np.where(is_leaf, leaves, count)
        if ((target < 0) | (target >= limit)).any():
            expected = f"leaves below {leaves}, nodes below {count}"
            raise g.invalid(f"nodes_{name}nodeids: got a number out of range; expected {expected}")
        children[side, :count] = np.where(is_leaf, target + count, target)
    return Forest(
        np.pad(lists["features"], (0, leaves)), np.pad(_single(splits), (0, leaves)),
        np.pad(modes.astype(np.int64), (0, leaves), constant_values=trees.LEAF_MODE), children,
        np.pad(lists["missing"] != 0, (0, leaves)), np.concatenate([np.zeros(count, np.int64), np.arange(leaves)]),
        np.array(roots, np.int64), _member_sets(g, modes, members),
    )


def _member_sets(g: Context, modes: np.ndarray, members: np.ndarray | None) -> dict[int, list[float]]:
    """The values of each node of mode MEMBER: one list after the other, each ended by NaN."""
    nodes = np.flatnonzero(modes == trees.MEMBER).tolist()
    values = np.zeros(0) if members is None else members.reshape(-1)
    ends = np.flatnonzero(np.isnan(values)).tolist()
    if len(ends) == len(nodes) - 1:
        ends.append(len(values))
    if len(ends) != len(nodes):
        raise g.invalid(f"membership_values: got {len(ends)} lists; expected one for each of {len(nodes)} BRANCH_MEMBER nodes")
    starts = [0, *(end + 1 for end in ends)]
    return {node: values[start:end].tolist() for node, start, end in zip(nodes, starts, ends, strict=False)}
