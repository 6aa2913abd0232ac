"""Operators that read and write at positions, and those that order, count and find elements."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.case import SAME, Operand, Q, given, ints, num, random_bools, row, weight

FEW = ("float32", "int32", *Q)


def floats(*values: float) -> Operand:
    return lambda made: made.input(np.array(values, np.float32))


ROWS = [
    row("TOPK_V2", num(3, 20), ints(4), forms=("float32", "int32", "int64", *Q), out=[SAME, "int32"]),
    row("ONE_HOT", given([[0, 2], [3, -1]]), ints(3), ints(5, "float32"), ints(-1, "float32"), out="float32", axis=-1),
    row("ONE_HOT", given([0, 2, 5]), ints(3), ints(5), ints(-1), out="int32", label="first", axis=0),
    row("WHERE", random_bools(4, 5), forms=("bool",), out="int64"),
    row("SCATTER_ND", given([[0], [2], [0]]), num(3, 4), ints([5, 4]), forms=("float32", "int32", "int64", "int8", "uint8"),
        out=SAME),
    row("SPARSE_TO_DENSE", ints([[0, 1], [2, 3]]), ints([3, 4]), num(2), ints(0, "float32"), out="float32"),
    row("SPARSE_TO_DENSE", ints([1, 3]), ints([5]), num(2), ints(9, "float32"), out="float32", label="vector"),
    row("EMBEDDING_LOOKUP", given([2, 0, 2]), weight(4, 6), forms=("float32",), out="float32"),
    row("EMBEDDING_LOOKUP", given([2, 0, 2]), weight(4, 6, axis=0), forms=("dynamic",), out="float32", label="rows"),
    *(row("EMBEDDING_LOOKUP_SPARSE", given([1, 3, 0]), given([[0, 0], [2, 0], [2, 1]]), ints([3, 2]), floats(1, 2, 4),
          num(4, 3, 2), label=combiner.lower(), combiner=combiner) for combiner in ("SUM", "MEAN", "SQRTN")),
    row("HASHTABLE_LOOKUP", given([3, 9, 1]), ints([1, 3, 5]), num(3, 4), out=["float32", "uint8"]),
    row("UNIQUE", num(9, values=[1, 0, 1, 1, 0, -1, 0, 1, 1]), forms=("float32", "int32", "int64"), out=[SAME, "int32"],
        idx_out_type="int32"),
    row("SEGMENT_SUM", num(5, 3), ints([0, 0, 1, 1, 1]), forms=("float32", "int32"), out=SAME),
    row("SEGMENT_SUM", num(5, 3), given([0, 0, 1, 1, 1]), forms=("float32",), out=SAME, label="given"),
    *(row(f"UNSORTED_SEGMENT_{kind}", num(5, 3), given([3, 0, -1, 0, 3]), ints(5), forms=("float32", "int32"), out=SAME)
      for kind in ("SUM", "PROD", "MAX", "MIN")),
    row("DYNAMIC_UPDATE_SLICE", num(4, 5), num(2, 2), given([1, 9]), forms=("float32", "int32", "int64", "int8"), out=SAME),
    row("MATRIX_DIAG", num(2, 4), forms=("float32", "int32", "int8", "uint8"), out=SAME),
    row("MATRIX_SET_DIAG", num(2, 3, 4), num(2, 3), forms=("float32", "int32", "int8", "uint8"), out=SAME),
    row("REVERSE_SEQUENCE", num(3, 4, 2), given([2, 4, 1]), forms=("float32", "int32", "int16"), out=SAME, seq_dim=1,
        batch_dim=0),
    row("BUCKETIZE", num(3, 7), forms=("float32", "int32"), out="int32", boundaries=[-0.5, 0.0, 0.5]),
]
