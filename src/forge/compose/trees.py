"""Forests of decision trees as operator ``tree_ensemble``: nodes of any comparison, in any order, with shared children.

The operator knows one comparison, ``data <= threshold`` with NaN as false, and pairs of siblings side by side. The others become
that one: ``x < t`` with the next smaller threshold, ``>=`` and ``>`` with exchanged children, equality and membership with a
search tree over the values. Where NaN is true, a node reads a column in which NaN is minus infinity. A child that several nodes
share stands next to one sibling; the others get a node in its place that leads to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from forge.errors import OpAttributeInvalid
from forge.ir.nodes import Value
from forge.ops.classical.trees import CHILD, FEATURE, LEAF, THRESHOLD
from forge.ops.core.composer import Composer
from forge.ops.core.signatures import Array

LEAF_MODE = -1
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
"""Comparisons of data with a node's value; MEMBER: data is among the node's members."""


@dataclass(frozen=True)
class Forest:
    """Nodes of all trees, by number. A leaf has mode -1; ``leaf`` is its number, 0 for other nodes.

    Attributes:
        children: (2, nodes): where a comparison that holds leads to, and one that does not.
        nan_is_true: whether NaN leads where a comparison that holds does.
        members: the values of nodes of mode MEMBER.
    """

    feature: Array
    value: Array
    mode: Array
    children: Array
    nan_is_true: Array
    leaf: Array
    roots: Array
    members: Mapping[int, Sequence[float]] = field(default_factory=dict)

    def check(self, features: int | None, leaves: int) -> None:
        """Raises OpAttributeInvalid unless all numbers lie in range."""
        inner = self.mode != LEAF_MODE
        _check("nodes_featureids", self.feature[inner], features)
        _check("true node ids", self.children[0, inner], len(self.mode))
        _check("false node ids", self.children[1, inner], len(self.mode))
        _check("roots", self.roots, len(self.mode))
        _check("leaves", self.leaf, leaves)


@dataclass(frozen=True)
class Entries:
    """What leaves say: ``weight`` of ``target``, any number of them for each leaf."""

    leaf: Array
    target: Array
    weight: Array


def tree_ensemble(
    g: Composer, data: Value, forest: Forest, entries: Entries, leaves: int, targets: int, aggregate: str = "sum"
) -> Value:
    """The aggregate of all trees for every row of data (float32 or float64) and every target.

    Raises:
        OpAttributeInvalid: a number is out of range, or a path returns to a node.
    """
    columns = data.shape[1]
    forest.check(columns if isinstance(columns, int) else None, leaves)
    _check("targets", entries.target, targets)
    _check("leaves of weights", entries.leaf, leaves)
    plain, nan_is_true = _as_less_or_equal(forest, np.dtype(data.dtype))
    data, features = _columns(g, data, plain.feature, nan_is_true, plain.mode != LEAF_MODE)
    nodes, roots, steps = _layout(replace(plain, feature=features), np.dtype(data.dtype))
    tables = [g.constant(table) for table in (nodes, roots, *_payload(entries, leaves, targets, aggregate))]
    limit = int(features.max(initial=0)) + 1
    return g.call("tree_ensemble", data, *tables, targets=targets, features=limit, steps=steps, aggregate=aggregate)


def _check(what: str, values: Array, end: int | None) -> None:
    if values.size and not (values.min() >= 0 and (end is None or values.max() < end)):
        expected = "from 0 on" if end is None else f"from 0 to {end - 1}"
        raise OpAttributeInvalid(f"{what}: got {values.min()} to {values.max()}; expected numbers {expected}")


class _Nodes:
    """Nodes that grow in number; children are (first, second)."""

    def __init__(self, forest: Forest, dtype: np.dtype) -> None:
        self.feature = forest.feature.tolist()
        self.value = forest.value.astype(dtype).tolist()
        self.first, self.second = (side.tolist() for side in forest.children)
        self.dtype = dtype

    def put(self, node: int, value: float, first: int, second: int) -> None:
        """Makes ``node`` compare its feature with ``value``."""
        self.value[node], self.first[node], self.second[node] = value, first, second

    def add(self, feature: int, value: float, first: int, second: int) -> int:
        for column, entry in ((self.feature, feature), (self.value, value), (self.first, first), (self.second, second)):
            column.append(entry)
        return len(self.feature) - 1

    def search(self, feature: int, members: Sequence[float], found: int, missed: int) -> int:
        """A tree that leads to ``found`` if the feature is one of the ascending ``members``, else, and for NaN, to ``missed``."""
        if not members:
            return missed
        middle = len(members) // 2
        below = self.search(feature, members[:middle], found, missed)
        above = self.search(feature, members[middle + 1 :], found, missed)
        exact = self.add(feature, float(_next_below(np.array(members[middle], self.dtype))), below, found)
        return self.add(feature, members[middle], exact, above)


def _next_below(values: Array) -> Array:
    """The largest smaller numbers; NaN below minus infinity."""
    below = np.nextafter(values, np.array(-np.inf, values.dtype))
    return np.where(values == -np.inf, np.array(np.nan, values.dtype), below)


def _as_less_or_equal(forest: Forest, dtype: np.dtype) -> tuple[Forest, Array]:
    """The same forest with ``data <= value`` as the only comparison, and for which nodes NaN compares as true."""
    forest = _without_equality(forest, dtype)
    value, mode = forest.value.astype(dtype), np.where(np.isnan(forest.value), LEQ, forest.mode)
    mode = np.where(forest.mode == LEAF_MODE, LEAF_MODE, mode)
    exchanged = (mode == GTE) | (mode == GT)
    children = np.where(exchanged, forest.children[::-1], forest.children)
    nan_is_true = forest.nan_is_true ^ exchanged
    value = np.where((mode == LT) | (mode == GTE), _next_below(value), value)
    only_nan = np.isnan(value) & nan_is_true & (mode != LEAF_MODE)
    children = np.where(only_nan, children[::-1], children)
    value = np.where(only_nan, np.array(np.inf, dtype), value)
    mode = np.where(mode == LEAF_MODE, LEAF_MODE, LEQ)
    return replace(forest, value=value, mode=mode, children=children), nan_is_true & ~only_nan & (mode != LEAF_MODE)


def _without_equality(forest: Forest, dtype: np.dtype) -> Forest:
    chosen = np.flatnonzero(np.isin(forest.mode, (EQ, NEQ, MEMBER)))
    if not len(chosen):
        return forest
    nodes, mode, nan_is_true = _Nodes(forest, dtype), forest.mode.copy(), forest.nan_is_true.copy()
    for node in chosen.tolist():
        members = forest.members[node] if mode[node] == MEMBER else [nodes.value[node]]
        known = np.unique(np.array([m for m in members if m == m], dtype)).tolist()
        found, missed = nodes.first[node], nodes.second[node]
        if mode[node] == NEQ:
            found, missed = missed, found
        start = nodes.search(nodes.feature[node], known, found, missed)
        if nan_is_true[node] and mode[node] != NEQ:
            nodes.put(node, np.inf, start, found)
        else:
            nodes.put(node, np.nan, start, start)
    mode[chosen], nan_is_true[chosen] = LEQ, False
    more = len(nodes.feature) - len(mode)
    return Forest(
        np.array(nodes.feature, np.int64), np.array(nodes.value, dtype), np.pad(mode, (0, more), constant_values=LEQ),
        np.array([nodes.first, nodes.second], np.int64), np.pad(nan_is_true, (0, more)), np.pad(forest.leaf, (0, more)),
        forest.roots,
    )


def _columns(g: Composer, data: Value, feature: Array, nan_is_true: Array, inner: Array) -> tuple[Value, Array]:
    """Data with the columns in which NaN is minus infinity, and the features of all nodes in it; leaves have feature 0."""
    feature = np.where(inner, feature, 0)
    if not nan_is_true.any():
        return data, feature
    low = g.call("where", g.call("isnan", data), g.scalar(-np.inf, data), data)
    if nan_is_true[inner].all():
        return low, feature
    pairs = g.call("concatenate", *(g.call("expand_dims", v, axis=2) for v in (data, low)), axis=2)
    rows, columns = data.shape
    return g.reshape(pairs, (rows, columns * 2)), feature * 2 + nan_is_true


def _layout(forest: Forest, dtype: np.dtype) -> tuple[Array, Array, int]:
    """The operator's table of nodes, the places of the roots in it, and the length of the longest path."""
    owned = _with_own_children(forest)
    roots, number = np.unique(owned.roots, return_inverse=True)
    level, tree = _levels(owned, roots)
    inner = np.flatnonzero((level >= 0) & (owned.mode == LEQ))
    inner = inner[np.lexsort((level[inner], tree[inner]))]
    ends = np.cumsum(2 + 2 * np.bincount(tree[inner], minlength=len(roots)))
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    pairs = 2 * np.arange(len(inner)) + 2 * (tree[inner] + 1)
    place = np.zeros(len(owned.mode), np.int64)
    place[roots] = starts
    place[owned.children[0, inner]], place[owned.children[1, inner]] = pairs, pairs + 1
    used = np.flatnonzero(level >= 0)
    child = place - 1
    child[inner] = pairs
    jumps = used[owned.mode[used] == _JUMP]
    child[jumps] = place[owned.children[1, jumps]] - 1
    value = np.where(owned.mode == LEQ, owned.value, np.nan).astype(dtype)
    integer = np.dtype("int32" if dtype.itemsize == 4 else "int64")
    total = int(ends[-1]) if len(ends) else 1
    if total > np.iinfo(np.int32).max:
        raise OpAttributeInvalid(f"got trees that need {total} nodes; expected at most {np.iinfo(np.int32).max}")
    table = np.zeros((total, 4), integer)
    table[:, CHILD], table[:, THRESHOLD] = np.arange(total) - 1, np.array(np.nan, dtype).view(integer)
    table[place[used], FEATURE] = owned.feature[used]
    table[place[used], CHILD] = child[used]
    table[place[used], THRESHOLD] = value.view(integer)[used]
    table[place[used], LEAF] = owned.leaf[used]
    return table, starts[number.reshape(-1)], int(level.max(initial=0))


_JUMP = -2
"""Mode of a node that leads to its second child, which stands elsewhere."""


def _with_own_children(forest: Forest) -> Forest:
    """The forest in which no node is the child of two, or a root and a child; unreachable nodes keep children of any kind."""
    reached = _reachable(forest)
    parents = reached[forest.mode[reached] == LEQ]
    edges = forest.children[:, parents].T.reshape(-1)
    is_owner = np.zeros(len(edges), bool)
    is_owner[np.unique(edges, return_index=True)[1]] = True
    is_owner &= ~np.isin(edges, forest.roots)
    shared = edges[~is_owner]
    if not len(shared):
        return forest
    edges[~is_owner] = len(forest.mode) + np.arange(len(shared))
    children = forest.children.copy()
    children[:, parents] = edges.reshape(-1, 2).T
    is_leaf = forest.mode[shared] == LEAF_MODE
    return replace(
        forest,
        feature=np.concatenate([forest.feature, np.zeros(len(shared), np.int64)]),
        value=np.concatenate([forest.value, np.zeros(len(shared), forest.value.dtype)]),
        mode=np.concatenate([forest.mode, np.where(is_leaf, LEAF_MODE, _JUMP)]),
        children=np.concatenate([children, np.stack([shared, shared])], axis=1),
        leaf=np.concatenate([forest.leaf, np.where(is_leaf, forest.leaf[shared], 0)]),
    )


def _reachable(forest: Forest) -> Array:
    """Numbers of the nodes that some root leads to, nearer ones first."""
    seen = np.zeros(len(forest.mode), bool)
    frontier, found = np.unique(forest.roots), []
    while len(frontier):
        seen[frontier] = True
        found.append(frontier)
        below = forest.children[:, frontier[forest.mode[frontier] != LEAF_MODE]].T.reshape(-1)
        below = below[~seen[below]]
        frontier = below[np.sort(np.unique(below, return_index=True)[1])]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _levels(forest: Forest, roots: Array) -> tuple[Array, Array]:
    """The longest path to each node, -1 where no path leads to it, and the tree that it is stored with.

    Raises:
        OpAttributeInvalid: a path leads to a node that it has passed.
    """
    level, tree, waiting = np.full(len(forest.mode), -1), np.zeros(len(forest.mode), np.int64), _parents(forest)
    tree[roots] = np.arange(len(roots))
    frontier, depth = roots[waiting[roots] == 0], 0
    while len(frontier):
        level[frontier] = depth
        inner, jumps = (frontier[forest.mode[frontier] == mode] for mode in (LEQ, _JUMP))
        tree[forest.children[:, inner]] = tree[inner]
        below = np.concatenate([forest.children[:, inner].reshape(-1), forest.children[1, jumps]])
        np.subtract.at(waiting, below, 1)
        below = np.unique(below)
        frontier, depth = below[waiting[below] == 0], depth + 1
    if (waiting > 0).any():
        node = int(np.flatnonzero(waiting > 0)[0])
        raise OpAttributeInvalid(f"got a path that returns to node {node}; expected trees; the model is invalid")
    return level, tree


def _parents(forest: Forest) -> Array:
    """The number of edges that lead to each node."""
    reached = _reachable(forest)
    inner, jumps = (reached[forest.mode[reached] == mode] for mode in (LEQ, _JUMP))
    edges = np.concatenate([forest.children[:, inner].reshape(-1), forest.children[1, jumps]])
    return np.bincount(edges, minlength=len(forest.mode))


def _payload(entries: Entries, leaves: int, targets: int, aggregate: str) -> tuple[Array, ...]:
    """Weights as a matrix if leaves speak of most targets; else weights, their targets and where those of a leaf begin."""
    given = np.zeros((0,), bool)
    if len(entries.weight) * 2 >= leaves * targets:
        given = np.zeros((leaves, targets), bool)
        given[entries.leaf, entries.target] = True
    if given.ndim == 2 and (aggregate == "sum" or given.all()):
        start = {"sum": 0, "min": np.inf, "max": -np.inf}[aggregate]
        merge = {"sum": np.add, "min": np.minimum, "max": np.maximum}[aggregate]
        matrix = np.full((leaves, targets), start, entries.weight.dtype)
        merge.at(matrix, (entries.leaf, entries.target), entries.weight)
        return (matrix,)
    order = np.argsort(entries.leaf, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(entries.leaf, minlength=leaves))])
    return entries.weight[order], entries.target[order].astype(np.int64), offsets.astype(np.int64)
