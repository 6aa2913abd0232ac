"""Boxes that are kept of those that overlap."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.case import Made, Operand, ints, num, row
from tests.frontends.tflite.writer import Tensor

FAST = bytes.fromhex(
    "6d61785f646574656374696f6e73006d61785f636c61737365735f7065725f646574656374696f6e006e6d735f73636f72655f74687265"
    "73686f6c64006e6d735f696f755f7468726573686f6c64006e756d5f636c617373657300795f7363616c6500785f7363616c6500685f73"
    "63616c6500775f7363616c65007573655f726567756c61725f6e6d73000a217e8e5267421720313a00000c000000000000000100000000"
    "0000000a00000000000000000000000000144001000000000000000600000000000000000000000000e03f333333333333d33f03000000"
    "0000000000000000000000000000000000001440000000000000244000000000000024400f07070f0f076b0f0f0f5a2701")
REGULAR = bytes.fromhex(
    "6d61785f646574656374696f6e73006d61785f636c61737365735f7065725f646574656374696f6e006e6d735f73636f72655f74687265"
    "73686f6c64006e6d735f696f755f7468726573686f6c64006e756d5f636c617373657300795f7363616c6500785f7363616c6500685f73"
    "63616c6500775f7363616c65007573655f726567756c61725f6e6d7300646574656374696f6e735f7065725f636c617373000b163794a4"
    "687d582d364750000000000f0000000000000001000000000000000b000000000000000400000000000000000000000000144001000000"
    "000000000600000000000000000000000000e03f333333333333d33f030000000000000001000000000000000000000000001440000000"
    "00000024400000000000002440070f07070f0f076b0f0f0f632701")


def boxes(count: int) -> Operand:
    """Corners in any order."""

    def make(made: Made) -> Tensor:
        centres = made.random.uniform(0, 1, (count, 2))
        sizes = made.random.uniform(0.1, 0.5, (count, 2)) * made.random.choice([-1, 1], (count, 1))
        return made.input(np.concatenate([centres - sizes, centres + sizes], 1).astype(np.float32))

    return make


def anchors(count: int) -> Operand:
    def make(made: Made) -> Tensor:
        centres, sizes = made.random.uniform(0, 1, (count, 2)), made.random.uniform(0.1, 0.5, (count, 2))
        return made.graph.constant(np.concatenate([centres, sizes], 1).astype(np.float32))

    return make


SCORES = num(20, low=0)
ROWS = [
    row("NON_MAX_SUPPRESSION_V4", boxes(20), SCORES, ints(8), ints(0.3, "float32"), ints(0.2, "float32"), out=["int32", "int32"]),
    *(row("NON_MAX_SUPPRESSION_V5", boxes(20), SCORES, ints(8), *(ints(n, "float32") for n in (0.3, 0.2, sigma)),
          out=["int32", "float32", "int32"], label=label) for sigma, label in ((0.0, ""), (0.5, "soft"))),
    *(row("TFLite_Detection_PostProcess", num(1, 30, 4, low=-2, high=2), num(1, 30, 4, low=0), anchors(30),
          out=["float32"] * 4, label=label, custom_options=options) for label, options in (("", FAST), ("regular", REGULAR))),
]
