"""Rows of ensembles of trees: random full trees, uneven ones, nodes that lead elsewhere, every form of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, Draw, Fixed, const, f32, f64, row

INF, NAN = float("inf"), float("nan")


class Table:
    """A table of nodes that is filled from the root down."""

    def __init__(self, dtype: str, leaves: int, features: int, seed: int) -> None:
        self.dtype, self.features = np.dtype(dtype), features
        self.leaves, self.rng = leaves, np.random.default_rng(seed)
        self.nodes: list[tuple[int, int, float, int]] = [(0, -1, NAN, 0)]

    def stay(self) -> int:
        """A new node that leads to itself."""
        place = len(self.nodes)
        self.nodes.append((0, place - 1, NAN, int(self.rng.integers(self.leaves))))
        return place

    def split(self, place: int, depth: int, uneven: bool = False) -> None:
        """Puts a tree of ``depth`` levels at ``place``; ``uneven``: all but one path are short."""
        if not depth:
            return
        pair = self.stay(), self.stay()
        threshold = float(self.rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0, INF, -INF, NAN], p=[0.2] * 4 + [0.05] * 4))
        self.nodes[place] = (int(self.rng.integers(self.features)), pair[0], threshold, 0)
        for child in pair[:1] if uneven else pair:
            self.split(child, depth - 1, uneven)

    def array(self) -> np.ndarray:
        integer = np.int32 if self.dtype.itemsize == 4 else np.int64
        table = np.array([[f, c, 0, leaf] for f, c, _, leaf in self.nodes], integer)
        table[:, 2] = np.array([t for _, _, t, _ in self.nodes], self.dtype).view(integer)
        return table


def oracle(steps: int, targets: int, aggregate: str) -> Any:
    """The same, path by path."""

    def run(data, nodes, roots, weights, entry_targets=None, offsets=None):
        thresholds = np.ascontiguousarray(nodes[:, 2]).view(data.dtype)
        result = np.zeros((len(data), targets), weights.dtype)
        for n, values in enumerate(data):
            said: list[list[float]] = [[] for _ in range(targets)]
            for node in roots:
                for _ in range(steps):
                    node = nodes[node, 1] + (0 if values[nodes[node, 0]] <= thresholds[node] else 1)
                leaf = nodes[node, 3]
                for k in range(targets) if offsets is None else range(offsets[leaf], offsets[leaf + 1]):
                    said[k if offsets is None else entry_targets[k]].append(weights[leaf, k] if offsets is None else weights[k])
            fold = {"sum": sum, "min": min, "max": max}[aggregate]
            result[n] = [fold(s) if s else 0 for s in said]
        return result

    return run


def forest(
    data: Any, trees: int, depth: int, targets: int, *, dtype: str = "float32", aggregate: str = "sum", sparse: bool = False,
    uneven: bool = False, weights: str = "", features: int = 5, note: str = "", symbolic: bool = True,
) -> Case:
    leaves = 7
    table, roots = Table(dtype, leaves, features, trees * 100 + depth), []
    for _ in range(trees):
        roots.append(table.stay())
        table.split(roots[-1], depth, uneven)
    rng = np.random.default_rng(depth)
    payload = [rng.normal(size=(leaves, targets))]
    if sparse:
        counts = rng.integers(0, 4, leaves)
        entries, offsets = counts.sum(), np.concatenate([[0], np.cumsum(counts)])
        payload = [rng.normal(size=entries), rng.integers(0, targets, entries), offsets]
    payload[0] = payload[0].astype(weights or dtype)
    tables = [table.array(), np.array(roots, np.int64), *payload]
    return row(
        "tree_ensemble", [data, *(const(t, t.dtype.name) for t in tables)], oracle(depth, targets, aggregate), note, symbolic,
        targets=targets, features=features, steps=depth, aggregate=aggregate,
    )


WILD = np.array([[NAN, INF, -INF, 0.5, -0.0], [1, NAN, 1e-45, INF, NAN], [-INF, -1, NAN, NAN, 0.5]], np.float32)
CASES: list[Case] = [
    forest(f32(1, 5), 13, 3, 1),
    forest(f64(9, 5), 2, 3, 1, dtype="float64"),
    forest(f64(3, 5), 4, 2, 2, dtype="float64", weights="float32"),
    forest(f32(35, 5), 5, 4, 1),
    forest(Fixed(f32(29, 6)), 2, 2, 3),
    forest(f32(9, 5), 2, 3, 5, aggregate="max"),
    forest(f32(10, 5), 3, 3, 4, aggregate="min", sparse=True),
    forest(f32(17, 5), 2, 3, 6, sparse=True),
    forest(f32(5, 5), 2, 2, 2, weights="float64", aggregate="max", sparse=True),
    forest(f32(10, 5), 2, 21, 1, uneven=True),
    forest(f32(3, 5), 5, 0, 2, note="leaves only"),
    forest(f32(9, 5), 0, 2, 2, note="no trees", symbolic=False),
    forest(WILD, 9, 3, 1, note="wild"),
    forest(WILD.astype(np.float64), 5, 3, 2, dtype="float64", note="wild"),
    forest(np.zeros((0, 5), np.float32), 2, 2, 1),
    forest(f32(3, 5), 2, 1, 530),
    forest(f32(9, 5), 2, 1, 1100, sparse=True),
    forest(Draw((300, 5)), 9, 5, 1),
]
