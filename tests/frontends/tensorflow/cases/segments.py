"""Reductions of the rows that have the same number, and sparse tensors."""

from __future__ import annotations

from tests.frontends.tensorflow.case import FLOATS, REAL, WIDE, given, ints, num, row

TUPLES = [[0, 1], [0, 3], [2, 0], [3, 2]]

ROWS = [
    *(row(f"Segment{kind}", num(6, 3), given([0, 0, 1, 3, 3, 3]), forms=forms) for kind, forms in (
        ("Sum", REAL), ("Prod", (*WIDE, "int32")), ("Max", (*FLOATS, "int32")), ("Min", (*FLOATS, "int32")), ("Mean", WIDE))),
    *(row(f"Segment{kind}", num(6), ints([0, 0, 1, 3, 3, 3], "int64"), label="known") for kind in ("Sum", "Max", "Mean")),
    row("SegmentSum", num(0, 3), given([], "int32"), label="empty"),
    *(row(f"UnsortedSegment{kind}", num(6, 3), given([2, 0, -1, 2, 0, 4]), ints(5), forms=forms) for kind, forms in (
        ("Sum", REAL), ("Prod", (*WIDE, "int32")), ("Max", (*FLOATS, "int32")), ("Min", (*FLOATS, "int32")))),
    row("DynamicPartition", num(5, 2), given([1, 0, 2, 0, 1]), outputs=3, num_partitions=3, forms=("float32", "int32", "bool")),
    row("DynamicPartition", num(2, 2, 3), given([[1, 0], [3, 0]]), outputs=4, num_partitions=4, label="two"),
    *(row(op, make([0, 2]), make([[3, 1]]), num(2, 3), num(1, 2, 3), label=how) for op in ("DynamicStitch",
        "ParallelDynamicStitch")
      for make, how in ((ints, "known"), (given, "given"))),
    row("DynamicStitch", ints([0, 1]), ints([1, 2]), num(2), num(2), label="twice", forms=("float32", "int64")),
    row("ConcatOffset", ints(1), given([2, 3, 4]), given([2, 5, 4]), given([2, 1, 4]), outputs=3, T=None),
    *(row(op, num(4, 2), ints([2, 0]), num(2, 2)) for op in ("InplaceUpdate", "InplaceAdd", "InplaceSub")),
    row("UnsortedSegmentSum", num(2, 3, 2), given([[2, 0, 1], [1, 1, 0]]), ints(3), label="two"),
    *(row(f"SparseSegment{kind}", num(5, 3), given([4, 0, 1, 1, 2]), given([0, 0, 2, 2, 2]), forms=WIDE) for kind in ("Sum",
        "Mean", "SqrtN")),
    *(row(f"SparseSegment{kind}WithNumSegments", num(5, 3), given([4, 0, 1, 1, 2]), given([0, 0, 2, 2, 2]), ints(5), forms=WIDE)
      for kind in ("Sum", "Mean", "SqrtN")),
    *(row("SparseReshape", given(TUPLES, "int64"), make([4, 4], "int64"), ints(new, "int64"), outputs=2, T=None,
          label=f"{len(new)}-{how}")
      for make, how in ((ints, "known"), (given, "given")) for new in ([2, 8], [-1], [2, -1, 4])),
    row("SparseReorder", given([[2, 0], [0, 3], [0, 1], [3, 2]], "int64"), num(4), ints([4, 4], "int64"), outputs=2),
    *(row("SparseFillEmptyRows", given(TUPLES, "int64"), num(4), make([6, 4], "int64"), num(values=9), outputs=4, label=how)
      for make, how in ((ints, "known"), (given, "given"))),
    row("SparseFillEmptyRows", given([[2, 0], [0, 3], [2, 1]], "int64"), num(3), ints([3, 4], "int64"), num(values=9), outputs=4,
        label="order"),
    row("SparseTensorDenseAdd", given(TUPLES, "int64"), num(4), ints([4, 4], "int64"), num(4, 4), forms=("float32", "int32")),
    *(row("SparseTensorDenseMatMul", given(TUPLES, "int64"), num(4), ints([4, 4], "int64"), num(4, 3) if not b else num(3, 4),
          label=f"{a}-{b}", forms=("float32", "float64", "int32", "complex64") if not a else ("float32", "complex64"),
          adjoint_a=a, adjoint_b=b, accuracy=4)
      for a in (False, True) for b in (False, True)),
    *(row(f"SparseDenseCwise{kind}", given(TUPLES, "int64"), num(4), ints([4, 4], "int64"), num(4)) for kind in ("Add", "Mul",
        "Div")),
]
