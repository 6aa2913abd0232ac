"""Boxes that are kept of those that overlap."""

from __future__ import annotations

import numpy as np

from tests.frontends.tflite.case import Made, Operand, ints, num, row
from tests.frontends.tflite.flexbuffers import Option, flexbuffer
from tests.frontends.tflite.writer import Tensor

COMMON: dict[str, Option] = {
    "max_detections": 6, "max_classes_per_detection": 1, "nms_score_threshold": 0.3, "nms_iou_threshold": 0.5, "num_classes": 3,
    "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
FAST = flexbuffer({**COMMON, "use_regular_nms": False})
REGULAR = flexbuffer({**COMMON, "use_regular_nms": True, "detections_per_class": 4})


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
