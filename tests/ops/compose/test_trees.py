"""Forests in the general form against a walk over their nodes: all comparisons, NaN, shared nodes, any order of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import trees
from forge.compose.trees import Entries, Forest, tree_ensemble
from forge.errors import OpAttributeInvalid
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import run, run_compiled

INF, NAN = float("inf"), float("nan")
GRID = [-INF, -1.0, -0.0, 0.0, 1e-45, 1.0, 2.5, INF, NAN]
FEATURES, TARGETS = 3, 2
COMPARE: dict[int, Any] = {
    trees.LEQ: lambda x, v: x <= v, trees.LT: lambda x, v: x < v, trees.GTE: lambda x, v: x >= v, trees.GT: lambda x, v: x > v,
    trees.EQ: lambda x, v: x == v, trees.NEQ: lambda x, v: x != v,
}


def walk(forest: Forest, entries: Entries, data: np.ndarray, aggregate: str) -> np.ndarray:
    result = np.zeros((len(data), TARGETS))
    value = forest.value.astype(data.dtype)
    for n, row in enumerate(data):
        said: list[list[float]] = [[] for _ in range(TARGETS)]
        for node in forest.roots:
            while forest.mode[node] != trees.LEAF_MODE:
                x = row[forest.feature[node]]
                if forest.mode[node] == trees.MEMBER:
                    holds = x in np.array(forest.members[node], data.dtype)
                else:
                    holds = COMPARE[int(forest.mode[node])](x, value[node])
                holds = holds or (forest.nan_is_true[node] and np.isnan(x))
                node = forest.children[0 if holds else 1, node]
            for e in np.flatnonzero(entries.leaf == forest.leaf[node]):
                said[entries.target[e]].append(entries.weight[e])
        fold: Any = {"sum": sum, "min": min, "max": max}[aggregate]
        result[n] = [fold(s) if s else 0 for s in said]
    return result


def random_forest(seed: int, inner: int = 40, leaves: int = 9, roots: int = 4, modes: Any = range(7)) -> Forest:
    """Nodes whose children are any later nodes, so that most are shared; numbered at random."""
    rng = np.random.default_rng(seed)
    count = inner + leaves
    first = np.arange(inner) + 1
    children = np.zeros((2, count), np.int64)
    children[:, :inner] = rng.integers(first, np.minimum(first + 12, count), (2, inner))
    children[:, :inner] = np.where(rng.random((2, inner)) < 0.3, rng.integers(inner, count, (2, inner)), children[:, :inner])
    mode = np.concatenate([rng.choice(list(modes), inner), np.full(leaves, trees.LEAF_MODE)])
    feature = np.concatenate([rng.integers(0, FEATURES, inner), np.zeros(leaves, np.int64)])
    leaf = np.concatenate([np.zeros(inner, np.int64), np.arange(leaves)])
    value, nan_is_true = rng.choice(GRID, count), rng.random(count) < 0.5
    number = rng.permutation(count)
    place = np.argsort(number)
    members = {
        int(number[n]): rng.choice(GRID, rng.integers(0, 6)).tolist() for n in np.flatnonzero(mode == trees.MEMBER)
    }
    return Forest(
        feature[place], value[place], mode[place], number[children[:, place]], nan_is_true[place], leaf[place],
        number[rng.integers(0, 8, roots)], members,
    )


def random_entries(seed: int, leaves: int = 9, dtype: str = "float32") -> Entries:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 40))
    leaf, target = rng.integers(0, leaves, count), rng.integers(0, TARGETS, count)
    return Entries(leaf, target, rng.normal(size=count).astype(dtype))


def rows(seed: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(seed).choice([*GRID, 0.3, -2.0, 1e-44], (30, FEATURES)).astype(dtype)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("aggregate", ["sum", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_a_walk(seed: int, dtype: str, aggregate: str, symbolic: bool) -> None:
    forest, entries, data = random_forest(seed), random_entries(seed, dtype=dtype), rows(seed, dtype)
    expected = walk(forest, entries, data, aggregate).astype(dtype)

    def build(g: Any, x: Any) -> Any:
        return tree_ensemble(g, x, forest, entries, 9, TARGETS, aggregate)

    check(run(build, data, symbolic=symbolic)[0], expected, Accuracy.ACCUMULATING)
    if seed == 0:
        check(run_compiled(build, data)[0], expected, Accuracy.ACCUMULATING)


@pytest.mark.parametrize("nan_is_true", [False, True])
@pytest.mark.parametrize("mode", sorted(COMPARE))
def test_nodes_that_agree_about_nan(mode: int, nan_is_true: bool) -> None:
    """No column is read in two forms."""
    forest = random_forest(mode, modes=[mode])
    forest = Forest(**{**vars(forest), "nan_is_true": np.full(len(forest.mode), nan_is_true)})
    entries, data = random_entries(3), rows(mode, "float32")
    got = run(lambda g, x: tree_ensemble(g, x, forest, entries, 9, TARGETS), data)[0]
    check(got, walk(forest, entries, data, "sum").astype(np.float32), Accuracy.ACCUMULATING)


def chain(children: list[list[int]], roots: list[int]) -> Forest:
    """Three nodes of mode LEQ and a leaf, number 3."""
    zeros = np.zeros(4, np.int64)
    mode = np.array([trees.LEQ] * 3 + [trees.LEAF_MODE])
    return Forest(zeros, zeros.astype(np.float32), mode, np.array(children), zeros != 0, zeros, np.array(roots))


ENTRIES = Entries(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.float32))
LINE = [[1, 2, 3, 0], [3, 3, 3, 0]]


@pytest.mark.parametrize(
    ("children", "roots", "message"),
    [
        ([[1, 2, 0, 0], [3, 3, 3, 0]], [0], "a path that returns to node"),
        ([[1, 2, 2, 0], [3, 3, 3, 0]], [0], "a path that returns to node"),
        ([[1, 2, 4, 0], [3, 3, 3, 0]], [0], "true node ids: got 1 to 4; expected numbers from 0 to 3"),
        ([[1, 2, 3, 0], [3, -1, 3, 0]], [0], "false node ids: got -1 to 3"),
        (LINE, [4], "roots: got 4 to 4"),
    ],
)
def test_refuses_what_is_no_tree(children: list[list[int]], roots: list[int], message: str) -> None:
    forest = chain(children, roots)
    with pytest.raises(OpAttributeInvalid, match=message):
        run(lambda g, x: tree_ensemble(g, x, forest, ENTRIES, 1, 1), np.zeros((1, 1), np.float32))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (Entries(np.array([1]), np.array([0]), np.ones(1, np.float32)), "leaves of weights: got 1 to 1"),
        (Entries(np.array([0]), np.array([7]), np.ones(1, np.float32)), "targets: got 7 to 7; expected numbers from 0 to 0"),
    ],
)
def test_refuses_weights_out_of_range(entries: Entries, message: str) -> None:
    with pytest.raises(OpAttributeInvalid, match=message):
        run(lambda g, x: tree_ensemble(g, x, chain(LINE, [0]), entries, 1, 1), np.zeros((1, 1), np.float32))


def test_long_shared_ladders_stay_small() -> None:
    """Paths double with every level, nodes do not."""
    count = 400
    mode = np.array([trees.EQ] * count + [trees.LEAF_MODE])
    below = np.minimum(np.arange(count + 1) + 1, count)
    zeros = np.zeros(count + 1, np.int64)
    forest = Forest(zeros, np.ones(count + 1), mode, np.stack([below, below]), zeros != 0, zeros, np.array([0]))
    got = run(lambda g, x: tree_ensemble(g, x, forest, ENTRIES, 1, 1), np.array([[1], [NAN]], np.float32))[0]
    assert got.tolist() == [[1], [1]]
