"""Boxes that are kept of those that overlap."""

from __future__ import annotations

import numpy as np

from tests.frontends.tensorflow.case import Operand, ints, num, row


def boxes(seed: int, *shape: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    low = random.uniform(-0.1, 0.7, (*shape, 2))
    return np.concatenate([low, low + random.uniform(0.1, 0.5, (*shape, 2))], axis=-1)


def number(value: float, dtype: str = "float32") -> Operand:
    return num(values=value, const=True, dtype=dtype)


BOXES = num(values=boxes(1, 12))
SCORES = num(12, low=0, high=1)

ROWS = [
    row("NonMaxSuppression", BOXES, SCORES, ints(5), T=None), row("NonMaxSuppression", BOXES, SCORES, ints(12), label="low",
                                                                  T=None, iou_threshold=0.1),
    row("NonMaxSuppressionV2", BOXES, SCORES, ints(5), number(0.4)),
    row("NonMaxSuppressionV3", BOXES, SCORES, ints(12), number(0.3), number(0.4)),
    row("NonMaxSuppressionV3", BOXES, SCORES, ints(0), number(0.3),
                                                                                       number(0.4), label="none"),
    *(row("NonMaxSuppressionV4", BOXES, SCORES, ints(10), number(0.3), number(0.2), outputs=2, label=f"{pad}",
          pad_to_max_output_size=pad)
      for pad in (False, True)),
    *(row("NonMaxSuppressionV5", BOXES, SCORES, ints(10), number(0.3), number(0.2), number(sigma), outputs=3,
          label=f"{pad}-{sigma}",
          pad_to_max_output_size=pad) for pad in (False, True) for sigma in (0, 0.4)),
    *(row("CombinedNonMaxSuppression", num(values=boxes(2, 2, 9, own)), num(2, 9, 3, low=0, high=1), ints(each), ints(total),
          number(0.3),
          number(0.3), outputs=4, T=None, label=f"{own}-{each}-{total}-{pad}-{clip}", pad_per_class=pad, clip_boxes=clip)
      for own, each, total, pad, clip in ((1, 3, 6, False, True), (3, 4, 8, False, True), (1, 2, 20, True, False),
                                          (3, 9, 40, False, False))),
]
