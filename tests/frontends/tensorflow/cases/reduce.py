"""Reductions, and running ones."""

from __future__ import annotations

from tests.frontends.tensorflow.case import COMPLEX, FLOATS, INTS, REAL, WIDE, ints, num, row

SLACK = 4.0
"""Sums and products are rounded in another order."""

ROWS = [
    *(row(op, num(2, 3, 4), ints(axes), forms=forms, keep_dims=keep, label=f"{axes}-{keep}".replace(" ", ""), accuracy=SLACK)
      for op, forms in {
          "Sum": (*REAL, *COMPLEX), "Mean": (*FLOATS, "int32"), "Prod": (*FLOATS, "int32", *COMPLEX), "Max": REAL, "Min": REAL,
          "EuclideanNorm": (*FLOATS, *COMPLEX), "All": ("bool",), "Any": ("bool",)}.items()
      for axes, keep in ((1, False), ([0, -1], True), ([-1, -2, 0], False))),
    *(row(op, num(2, 3), ints([], "int32"), label="none") for op in ("Sum", "Mean", "Max", "EuclideanNorm")),
    row("All", num(2, 3), ints([], "int32"), forms=("bool",), label="none"),
    *(row(op, num(0, 3), ints(0), forms=forms, label="empty") for op, forms in (
        ("Sum", ("float32", "int32")), ("Prod", ("float32",)), ("Max", ("float32", "int32")), ("Min", ("float32", "int32")),
        ("Mean", ("float32",)), ("All", ("bool",)), ("Any", ("bool",)))),
    row("Sum", num(), ints([], "int32"), label="scalar"), row("Sum", num(values=[200, 100]), ints(0), forms=("uint8",),
                                                              label="wraps"),
    row("L2Loss", num(3, 4), forms=FLOATS),
    *(row(op, num(3, 4, 5), ints(axis), forms=forms, label=f"{axis}")
      for op in ("ArgMax", "ArgMin") for axis, forms in ((1, REAL), (-1, ("float32", "bool")))),
    *(row(op, num(values=[[1, 3, 3, 1], [2, 2, 2, 2]]), ints(1), label="ties", output_type="int32") for op in ("ArgMax",
        "ArgMin")),
    row("ArgMax", num(3, 4), ints(0), label="short", output_type="uint16"),
    *(row(op, num(3, 4), ints(axis), forms=(*FLOATS, *INTS, *COMPLEX) if axis == 1 else ("float32",),
          label=f"{axis}-{exclusive}-{reverse}", exclusive=exclusive, reverse=reverse)
      for op in ("Cumsum", "Cumprod") for axis, exclusive, reverse in ((1, False, False), (0, True, False), (-1, True, True))),
    *(row("CumulativeLogsumexp", num(3, 4), ints(axis), forms=WIDE, label=f"{axis}-{exclusive}-{reverse}",
          exclusive=exclusive, reverse=reverse)
      for axis, exclusive, reverse in ((1, False, False), (0, True, False), (-1, False, True))),
]
