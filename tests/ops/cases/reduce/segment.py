"""Rows of segment reductions and bags of embeddings."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.ops.case import Case, Fixed, f16, f32, f64, i32, i64, row

INF = math.inf
LEAST = {"sum": 0, "prod": 1, "max": -INF, "min": INF, "mean": 0}
FOLD = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean}


def by_segment(reduction, count, least=None):
    """Every segment's rows taken together."""

    def run(x, ids, *rest):
        out = np.full((count, *x.shape[1:]), LEAST[reduction] if least is None else least, np.float64)
        for s in range(count):
            if (ids == s).any():
                out[s] = FOLD[reduction](x[ids == s].astype(np.float64), axis=0)
        return out

    return run


def segment_rows() -> list[Case]:
    ids = np.array([0, 2, 2, 0, 4, -1, 5, 2])
    rows = [row("segment_reduce", [f32(8, 3), ids], by_segment(name, 5), reduction=name, num_segments=5) for name in LEAST]
    smallest, largest = -(2**31), 2**31 - 1
    return [
        *rows,
        row("segment_reduce", [f32(8), ids.astype(np.int32)], by_segment("sum", 6), num_segments=6),
        row("segment_reduce", [f16(8, 2, 3), ids], by_segment("mean", 3), reduction="mean", num_segments=3),
        row("segment_reduce", [i32(8, 3), ids], by_segment("max", 5, smallest), reduction="max", num_segments=5),
        row("segment_reduce", [i32(8, 3), ids], by_segment("min", 5, largest), reduction="min", num_segments=5),
        row("segment_reduce", [f32(8, 3), ids, np.array(-9, np.float32)], by_segment("max", 5, -9), reduction="max",
            num_segments=5),
        row("segment_reduce", [f32(8, 3), ids, None, np.array(4)], by_segment("sum", 4)),
        row("segment_reduce", [f64(8), ids, None, [7]], by_segment("mean", 7), reduction="mean"),
        row("segment_reduce", [f32(8, 3), ids], lambda x, i: x[:0], num_segments=0),
        row("segment_reduce", [Fixed(f32(0, 3)), Fixed(i64(0))], lambda x, i: np.zeros((2, 3)), num_segments=2),
    ]


def bags(mode="sum", last=False, padding=None):
    def run(w, indices, offsets, factors=None):
        ends = list(offsets) + ([] if last else [len(indices)])
        out = []
        for a, b in itertools.pairwise(ends):
            keep = [i for i in range(a, b) if indices[i] != padding]
            rows = np.array([w[indices[i]].astype(np.float64) * (1 if factors is None else factors[i]) for i in keep])
            out.append(FOLD[mode](rows, axis=0) if keep else np.zeros(w.shape[1]))
        return np.stack(out)

    return run


def bag_rows() -> list[Case]:
    indices, offsets = np.array([1, 2, 4, 5, 4, 3, 2, 9]), np.array([0, 3, 3, 7])
    rows = [row("nn.embedding_bag", [f32(10, 3), indices, offsets], bags(mode), mode=mode) for mode in ("sum", "mean", "max")]
    return [
        *rows,
        row("nn.embedding_bag", [f32(10, 3), indices, offsets, f32(8)], bags()),
        row("nn.embedding_bag", [f16(10, 3), indices.astype(np.int32), offsets], bags("mean"), mode="mean"),
        row("nn.embedding_bag", [f32(10, 3), indices, np.array([0, 4, 8])], bags("max", last=True), mode="max",
            include_last_offset=True),
        row("nn.embedding_bag", [f32(10, 3), indices, np.array([0, 2, 6])], bags(last=True), include_last_offset=True),
        *(row("nn.embedding_bag", [f32(10, 3), indices, np.array([0, 4, 5])], bags(mode, padding=4), mode=mode, padding_idx=4)
          for mode in ("sum", "mean", "max")),
    ]


CASES = [*segment_rows(), *bag_rows()]
