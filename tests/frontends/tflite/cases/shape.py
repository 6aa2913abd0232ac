"""Operators that move elements."""

from __future__ import annotations

from tests.frontends.tflite.case import Q16, SAME, Q, given, ints, num, row

ALL = ("float32", "int32", *Q16)
FEW = ("float32", "int32", *Q)

ROWS = [
    row("RESHAPE", num(4, 6), ints([3, -1]), forms=ALL, out=SAME, new_shape=[3, -1]),
    row("SQUEEZE", num(1, 4, 1, 3), forms=ALL, out=SAME, squeeze_dims=[0]),
    row("SQUEEZE", num(1, 4, 1, 3), out=SAME, label="all"),
    row("EXPAND_DIMS", num(4, 3), ints([-1]), forms=ALL, out=SAME),
    row("TRANSPOSE", num(2, 3, 4), ints([2, 0, 1]), forms=ALL, out=SAME),
    row("CONCATENATION", num(2, 3), num(2, 5), forms=ALL, out=SAME, axis=1),
    row("CONCATENATION", num(9, 40), num(11, 40, low=-2, high=3), num(8, 40, low=0, high=1), forms=("float32", "uint8"), axis=0,
        label="scales"),
    row("PACK", num(2, 3), num(2, 3), forms=ALL, out=SAME, axis=1, values_count=2),
    row("UNPACK", num(2, 3), forms=ALL, out=SAME, outputs=3, axis=1, num=3),
    row("SPLIT", ints(1), num(2, 6), forms=ALL, out=SAME, outputs=3, num_splits=3),
    row("SPLIT_V", num(2, 6), ints([1, -1, 2]), ints(1), forms=ALL, out=SAME, outputs=3, num_splits=3),
    row("PAD", num(2, 3), ints([[1, 0], [2, 1]]), forms=ALL, out=SAME),
    row("PAD", num(2, 3), given([[1, 0], [2, 1]]), forms=FEW, out=SAME, label="anywhere"),
    row("PADV2", num(2, 3), ints([[1, 0], [2, 1]]), num(1, values=[5]), forms=("float32", "int32", *Q), out=SAME),
    *(row("MIRROR_PAD", num(3, 4), ints([[1, 0], [2, 1]]), forms=FEW, out=SAME, label=mode.lower(), mode=mode)
      for mode in ("REFLECT", "SYMMETRIC")),
    row("MIRROR_PAD", num(3, 4), given([[1, 0], [2, 1]]), out=SAME, label="anywhere", mode="REFLECT"),
    row("SLICE", num(4, 5), ints([1, 2]), ints([2, -1]), forms=ALL, out=SAME),
    row("SLICE", num(4, 5), given([1, 2]), ints([2, 3]), out=SAME, label="anywhere"),
    row("STRIDED_SLICE", num(4, 5, 6), ints([0, 4, 1]), ints([4, 0, 6]), ints([2, -1, 2]), forms=ALL, out=SAME),
    row("STRIDED_SLICE", num(4, 5, 6), ints([1, 9]), ints([2, 9]), ints([1, 1]), forms=FEW, out=SAME, label="masks",
        shrink_axis_mask=1, ellipsis_mask=2),
    row("STRIDED_SLICE", num(4, 5), ints([0, 0, 1]), ints([0, 3, 3]), ints([1, 1, 1]), forms=FEW, out=SAME, label="new",
        new_axis_mask=1, end_mask=2),
    row("STRIDED_SLICE", num(9), ints([-4]), ints([3]), ints([1]), out=SAME, label="offset", offset=True),
    row("TILE", num(2, 3), ints([2, 1]), forms=("float32", "int32", "int64", *Q), out=SAME),
    row("TILE", num(2, 3), given([2, 1]), forms=("float32", "int8"), out=SAME, label="anywhere"),
    row("BROADCAST_TO", num(3, 1), ints([2, 3, 4]), forms=ALL, out=SAME, version=2),
    row("GATHER", num(4, 3), ints([3, 0, 0]), forms=ALL, out=SAME, axis=0),
    row("GATHER", num(2, 4, 3), given([[2, 0], [1, 1]]), forms=FEW, out=SAME, label="batch", axis=2, batch_dims=1),
    row("GATHER_ND", num(4, 3, 2), given([[3, 0], [0, 2]]), forms=ALL, out=SAME),
    row("DEPTH_TO_SPACE", num(1, 2, 3, 8), forms=("float32", "int32", *Q), out=SAME, block_size=2),
    row("SPACE_TO_DEPTH", num(1, 4, 6, 2), forms=("float32", "int32", *Q), out=SAME, block_size=2),
    row("SHAPE", num(4, 3), forms=ALL, out="int32", out_type="int32"),
    row("REVERSE_V2", num(2, 3, 4), ints([1]), forms=("float32", "int32", "int16"), out=SAME),
    row("FILL", ints([2, 3]), num(values=2), forms=("float32", "int32", "int8"), out=SAME),
]
