"""Ranges, running sums, blocks, windows, spectra and other operators on whole tensors."""

from __future__ import annotations

from tests.frontends.tflite.case import SAME, Q, ints, num, row

ROWS = [
    row("RANGE", ints(1), ints(9), ints(3), out="int32", forms=("int32",)),
    row("RANGE", ints(1, "float32"), ints(-2, "float32"), ints(-0.5, "float32"), label="floats"),
    row("RANK", num(2, 3, 4), out="int32"),
    *(row("CUMSUM", num(3, 4), ints(1), forms=("float32", "int32", "int64"), out=SAME, label=label, exclusive=exclusive,
          reverse=reverse)
      for label, exclusive, reverse in (("", False, False), ("exclusive", True, False), ("reverse", False, True),
                                        ("both", True, True))),
    row("BROADCAST_ARGS", ints([3, 1]), ints([2, 1, 4]), out="int32", forms=("int32",)),
    row("BITCAST", num(3, 4), out="int32"),
    row("BITCAST", num(3, 4), out="uint8", label="narrow"),
    row("BITCAST", num(3, 2), forms=("int16",), out="float32", label="wide"),
    row("DILATE", num(2, 3), ints([2, 3]), ints(-1, "float32"), out=SAME),
    row("SPACE_TO_BATCH_ND", num(1, 4, 6, 2), ints([2, 3]), ints([[0, 0], [2, 1]]), forms=("float32", "int32", *Q), out=SAME),
    row("BATCH_TO_SPACE_ND", num(6, 2, 3, 2), ints([2, 3]), ints([[0, 1], [2, 0]]), forms=("float32", "int32", *Q), out=SAME),
    row("COMPLEX_ABS", num(3, 4), forms=("complex64",), out="float32"),
    row("REAL", num(3, 4), forms=("complex64",), out="float32"),
    row("IMAG", num(3, 4), forms=("complex64",), out="float32"),
    row("RFFT2D", num(2, 8, 16), ints([8, 16]), out="complex64"),
    row("FAKE_QUANT", num(30, low=-2, high=2), min=-1.0, max=1.5, num_bits=8, narrow_range=False),
    *(row("REDUCE_WINDOW", num(5, 7), ints(0, "float32"), *(ints(n, "int64") for n in ([2, 3], [1, 2], [2, 1])),
          label=kind.lower(), reduce_function=kind) for kind in ("ADD", "MUL", "MINIMUM", "MAXIMUM")),
]
