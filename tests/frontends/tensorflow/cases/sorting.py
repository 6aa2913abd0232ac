"""Operators that order, count and find elements."""

from __future__ import annotations

import numpy as np

from tests.frontends.tensorflow.case import REAL, WIDE, given, ints, num, row

ROWS = [
    row("TopKV2", num(3, 7), ints(3), outputs=2, forms=REAL),
    row("TopKV2", num(values=[1, 3, 3, 1, 3]), ints(4), outputs=2, label="ties"),
    row("TopKV2", num(3, 4), ints(0), outputs=2, label="none"),
    row("TopKV2", num(5), ints(2), outputs=2, label="wide", index_type="int64"),
    row("InTopK", num(4, 5), given([1, 4, 0, 2]), T=None, k=2),
    row("InTopKV2", num(4, 5), given([1, 4, 7, -1]), ints(3), T=None),
    row("InTopKV2", num(values=[[1, np.inf, 2], [2, 2, 1], [np.nan, 1, 2]], dtype="float32"), given([0, 1, 2]), ints(1),
        label="ties", T=None),
    row("NthElement", num(3, 5), ints(2), forms=("float32", "int32")), row("NthElement", num(3, 5), ints(1), label="down",
        reverse=True),
    row("Unique", given([3, 1, 3, 7, 1]), outputs=2, T="int32"), row("Unique", num(values=[1.5, 2, 1.5, -1]), outputs=2,
                                                                     label="wide",
                                                                    forms=("float32", "int64"), out_idx="int64"),
    row("UniqueV2", given([[3, 1], [3, 1], [0, 1]]), ints([0]), outputs=2, T="int32"),
    row("UniqueV2", given([[3, 1, 3], [0, 1, 0]]), ints([1]), outputs=2, T="int32", label="columns"),
    row("UniqueV2", given([3, 1, 3]), ints([], "int32"), outputs=2, T="int32", label="all"),
    row("UniqueWithCounts", given([3, 1, 3, 7, 1]), outputs=3, T="int32"),
    row("UniqueWithCountsV2", given([[3, 1], [3, 1], [0, 1]]), ints([0]), outputs=3, T="int32"),
    row("ListDiff", given([1, 2, 3, 4, 2]), given([2, 9, 4]), outputs=2, T="int32"),
    *(row(op, num(values=[[1, 2, 2, 5], [0, 1, 3, 3]]), num(values=[[2, 0, 9], [3, 1, 2]]), forms=("float32", "int32", "float64"))
      for op in ("LowerBound", "UpperBound")),
    row("LowerBound", num(values=[[1, 2, 2, 5]]), num(values=[[2, 0, 9]]), label="wide", out_type="int64"),
    row("Bucketize", num(values=[[0, 1, 2], [5, 9, -3]]), forms=(*WIDE, "int32", "int64"), boundaries=(1.0, 4.5, 9.0)),
    row("HistogramFixedWidth", num(values=[-1.0, 0.0, 1.5, 2.0, 5.0, 15]), num(values=[0, 5]), ints(5),
        forms=("float32", "int32", "float64")),
    row("Bincount", given([1, 3, 1, 9]), ints(5), num(values=np.zeros(0)), forms=(*WIDE, "int32")),
    row("Bincount", given([[1, 3], [1, 9]]), ints(5), num(2, 2), forms=(*WIDE, "int32"), label="weights"),
    row("DenseBincount", given([1, 3, 1, 9]), ints(5), num(values=np.zeros(0)), forms=(*WIDE, "int32")),
    row("DenseBincount", given([[1, 3], [1, 9]], "int64"), ints(5, "int64"), num(2, 2), label="weights"),
    row("DenseBincount", given([[1, 3, 1], [1, 9, 0]]), ints(5), num(values=np.zeros(0)), label="binary", binary_output=True),
]
