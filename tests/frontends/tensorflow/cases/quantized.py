"""Numbers rounded as integers can say them."""

from __future__ import annotations

import numpy as np

from tests.frontends.tensorflow.case import Operand, num, row


def stored(values: object, dtype: str) -> Operand:
    """A constant of a quantized type."""
    return lambda made: made.graph.constant(np.asarray(values, np.dtype(dtype.removeprefix("q"))), dtype)


def number(value: float, dtype: str = "float32") -> Operand:
    return num(values=value, const=True, dtype=dtype)


ROWS = [
    *(row("FakeQuantWithMinMaxArgs", num(40, low=-8, high=8), label=f"{bits}-{narrow}", T=None, min=-3.1, max=4.7, num_bits=bits,
          narrow_range=narrow) for bits in (8, 4) for narrow in (False, True)),
    row("FakeQuantWithMinMaxArgs", num(40, low=-8, high=8), label="default", T=None),
    row("FakeQuantWithMinMaxVars", num(40, low=-8, high=8), num(values=-3.1), num(values=4.7), T=None),
    row("FakeQuantWithMinMaxVarsPerChannel", num(9, 3, low=-8, high=8), num(values=[-3.1, -1, 0]), num(values=[4.7, 0, 5]),
        T=None),
    *(row(f"QuantizeAndDequantize{version}", num(40), number(-2.5, "form"), number(2.2, "form"), forms=("float32", "float64"),
          label=f"{signed}-{given}-{narrow}-{mode}", signed_input=signed, range_given=given, narrow_range=narrow, round_mode=mode)
      for version in ("V2", "V4") for signed, given, narrow, mode in (
          (True, True, False, "HALF_TO_EVEN"), (True, False, True, "HALF_UP"), (True, False, False, "HALF_TO_EVEN"))),
    row("QuantizeAndDequantizeV2", num(40, low=0), number(0), number(2.2), label="positive", signed_input=False,
        range_given=True),
    row("QuantizeAndDequantizeV3", num(4, 5), num(values=[-2, -1, -0.5, -3, -1]), num(values=[1, 2, 1, 2, 3]), number(8, "int32"),
        label="axis", range_given=True,
        axis=1),
    row("QuantizeAndDequantizeV3", num(40), number(-2.5), number(2.2), number(6, "int32")),
    *(row("Dequantize", stored(np.arange(-128, 128, 7) if dtype == "qint8" else np.arange(0, 256, 7), dtype), number(-3.3),
          number(4.1),
          label=f"{dtype}-{mode}", T=dtype, mode=mode) for dtype in ("qint8", "quint8") for mode in ("MIN_COMBINED", "MIN_FIRST",
              "SCALED")),
]
