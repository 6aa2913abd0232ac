"""Reductions."""

from __future__ import annotations

from tests.frontends.tflite.case import Q16, SAME, Q, ints, num, random_bools, row

INTEGERS = ("int32", "int64")

ROWS = [
    row("SUM", num(1200, 10), ints([1]), forms=("float32", "int32", *Q16)),
    row("SUM", num(6, 200, 5), ints([-1, 0]), forms=("float32", "int32"), label="kept", keep_dims=True),
    row("MEAN", num(1200, 10), ints([1]), forms=("float32", *Q16)),
    row("MEAN", num(1, 7, 7, 1000), ints([1, 2]), forms=("float32", *Q16), out=SAME, label="same", keep_dims=True),
    row("MEAN", num(1, 5, 8, 1000), ints([1, 2]), forms=("float32", *Q16), label="spatial"),
    row("MEAN", num(30, 10, low=-9, high=9), ints([1]), forms=INTEGERS, label="integers"),
    row("REDUCE_PROD", num(60, 4, low=-2, high=2), ints([1]), forms=("float32", "int32", "int64")),
    # Of two factors: later factors multiply the errors of earlier roundings; with three the kernels are up to two steps
    # from the product, where Forge is within half a step.
    row("REDUCE_PROD", num(1200, 2, low=-2, high=2), ints([1]), forms=("float32", "int8", "int16"), label="quantized",
        inexact="kernels round after each factor"),
    *(row(op, num(6, 9, 5, low=-9, high=9), ints(axes), forms=("float32", *INTEGERS, *Q16), out=SAME, label=label)
      for op in ("REDUCE_MAX", "REDUCE_MIN") for label, axes in (("", [1]), ("two", [0, 2]))),
    *(row(op, random_bools(9, 3), ints([1]), out="bool") for op in ("REDUCE_ANY", "REDUCE_ALL")),
    *(row(op, num(9, 12, low=-4, high=4), ints(axis), forms=("float32", "int32", *Q), out=kind, label=kind, output_type=kind)
      for op in ("ARG_MAX", "ARG_MIN") for axis, kind in ((1, "int32"), (0, "int64"))),
]
