"""Operators that read and write at positions."""

from __future__ import annotations

from tests.frontends.tensorflow.case import ALL, FLOATS, REAL, given, ints, num, row

PAIRS = [[0, 1], [2, 0], [0, 1]]

ROWS = [
    row("Gather", num(4, 3), given([[3, 0], [1, 1]])), row("GatherV2", num(4, 3), given([[3, 0], [1, 1]]), ints(0), forms=ALL),
    row("GatherV2", num(4, 3, 2), given([2, 0], "int64"), ints(-2), label="axis"),
    row("GatherV2", num(4, 3), given(2), ints(1), label="scalar"),
    row("GatherV2", num(2, 4, 3), given([[3, 0], [1, 1]]), ints(1), label="batch", batch_dims=1),
    row("GatherV2", num(2, 4, 3), given([[2, 0], [1, 1]]), ints(2), label="batch-axis", batch_dims=-1),
    row("GatherV2", num(4, 3), given([], "int32"), ints(0), label="empty"),
    row("GatherNd", num(3, 2, 4), given(PAIRS), forms=ALL), row("GatherNd", num(3, 2), given([[[0, 1]], [[2, 0]]], "int64"),
                                                                label="elements"),
    row("GatherNd", num(3, 2), given([[], []]), label="whole"),
    row("ScatterNd", given([[1], [3], [1]]), num(3, 2), ints([5, 2]), forms=(*REAL, "bool")),
    row("ScatterNd", given(PAIRS), num(3), ints([3, 2]), label="elements"),
    *(row(f"TensorScatter{kind}", num(4, 2), given([[1], [3], [1]]), num(3, 2), forms=forms) for kind, forms in (
        ("Add", (*FLOATS, "int32")), ("Sub", ("float32", "int32")), ("Max", ("float32", "int32")),
        ("Min", ("float32", "int32")))),
    row("TensorScatterUpdate", num(4, 2), given([[1], [3], [0]]), num(3, 2), forms=("float32", "int32", "bool", "complex64")),
    row("TensorScatterUpdate", num(3, 2), given([[0, 1], [2, 0]]), num(2), label="elements"),
    row("OneHot", given([[0, 2], [1, -1]]), ints(3), num(values=5), num(values=-1),
        forms=("float32", "int32", "bool", "float16")),
    row("OneHot", given([0, 7, 1], "int64"), ints(3), num(values=1), num(values=0), label="first", axis=0),
    row("OneHot", given([0, 7, 1], "uint8"), ints(3), num(values=1), num(values=0), label="bytes"),
    row("Where", num(3, 4), forms=("bool",)), row("Where", num(values=[[0, 1, 2], [0, 0, 3]]), forms=("float32", "int32"),
                                                  label="numbers"),
    row("InvertPermutation", given([3, 0, 2, 1]), T=None), row("InvertPermutation", given([1, 0], "int64"), label="wide", T=None),
    row("UnravelIndex", given([5, 2, 7]), ints([2, 4])), row("UnravelIndex", given(5, "int64"), ints([2, 4], "int64"),
                                                             label="scalar"),
    row("SparseToDense", given([[0, 1], [2, 0]]), ints([3, 2]), num(2), num(values=7), forms=("float32", "int32", "bool")),
    row("SparseToDense", given([1, 3]), ints([5]), num(), num(values=0), label="vector"),
    row("SparseToDense", given(2), ints([5]), num(), num(values=0), label="scalar"),
]
