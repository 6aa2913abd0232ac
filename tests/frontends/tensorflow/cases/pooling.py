"""Pools, normalization and resizing of images."""

from __future__ import annotations

from tests.frontends.tensorflow.case import FLOATS, ints, num, row

SLACK = 4.0
WINDOWS = (("SAME", 3, 2), ("VALID", 3, 2), ("SAME", 2, 2), ("SAME", 2, 1))


def resized(op: str, size: tuple[int, int], align: bool, half: bool, **more: object):
    label = f"{size[0]}x{size[1]}-{'corners' if align else 'half' if half else 'plain'}"
    return row(op, num(2, 5, 4, 3), ints(size), label=label, align_corners=align, half_pixel_centers=half,
               **{"accuracy": SLACK, **more})


ROWS = [
    *(row(op, num(2, 7, 6, 3), forms=(*FLOATS, *more) if size == 3 else ("float32",), label=f"{padding}-{size}-{step}",
          accuracy=SLACK,
          ksize=(1, size, size, 1), strides=(1, step, step, 1), padding=padding)
      for op, more in (("AvgPool", ()), ("MaxPool", ("int32", "int8", "uint8"))) for padding, size, step in WINDOWS),
    *(row(op, num(1, 5, 7, 6, 2), label=f"{padding}-{size}-{step}", accuracy=SLACK,
          ksize=(1, size, size, size, 1), strides=(1, step, step, step, 1), padding=padding)
      for op in ("AvgPool3D", "MaxPool3D") for padding, size, step in WINDOWS[:2]),
    row("MaxPool", num(2, 7, 6, 3), label="explicit", ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding="EXPLICIT",
        explicit_paddings=(0, 0, 1, 1, 0, 1, 0, 0)),
    row("MaxPool", num(2, 3, 4, 6), label="channels", ksize=(1, 1, 1, 3), strides=(1, 1, 1, 3), padding="VALID"),
    row("MaxPoolV2", num(2, 7, 6, 3), ints([1, 2, 2, 1]), ints([1, 2, 2, 1]), padding="SAME"),
    *(row("MaxPoolWithArgmax", num(2, 7, 6, 3), label=f"{padding}-{batch}", outputs=2, ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1),
          padding=padding, include_batch_in_index=batch) for padding in ("SAME", "VALID") for batch in (False, True)),
    *(row(op, num(2, 3, 4, 5), num(5), num(5), num(5), num(5, low=0.5), label="inference", epsilon=1e-3, is_training=False)
      for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")),
    *(row(op, num(2, 3, 4, 5), num(5), num(5), num(0), num(0), label="training", outputs=outputs, epsilon=1e-3, accuracy=SLACK)
      for op, outputs in (("FusedBatchNorm", 3), ("FusedBatchNormV2", 3), ("FusedBatchNormV3", 3))),
    row("FusedBatchNormV3", num(2, 3, 4, 5), num(5, dtype="float32"), num(5, dtype="float32"), num(5, dtype="float32"),
        num(5, low=0.5, dtype="float32"), forms=("float16", "bfloat16"), label="half", U="float32", is_training=False),
    row("FusedBatchNormV3", num(2, 3, 4, 5), num(5), num(5), num(5), num(5, low=0.5), label="mixed", outputs=3, accuracy=SLACK,
        exponential_avg_factor=0.3),
    row("FusedBatchNormV3", num(2, 5, 3, 4), num(5), num(5), num(5), num(5, low=0.5), label="NCHW", data_format="NCHW",
        is_training=False),
    row("BatchNormWithGlobalNormalization", num(2, 3, 4, 5), num(5), num(5, low=0.5), num(5), num(5), variance_epsilon=1e-3,
        scale_after_normalization=True),
    row("LRN", num(2, 3, 4, 12), accuracy=SLACK), row("LRN", num(2, 3, 4, 12), label="narrow", accuracy=SLACK, depth_radius=2,
                                                      bias=1.5,
                                                      alpha=0.3, beta=0.75),
    *(resized(op, size, align, half) for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
      for size in ((9, 7), (3, 2), (5, 4), (1, 1)) for align, half in ((False, False), (True, False), (False, True))),
    *(row("ResizeArea", num(2, 5, 4, 3), ints(size), label=f"{size[0]}x{size[1]}-{align}", accuracy=SLACK, align_corners=align,
          forms=("float32", "uint8") if size == (3, 2) else ("float32",))
      for size in ((9, 7), (3, 2), (5, 4), (2, 3)) for align in (False, True)),
    *(resized(op, (9, 7), False, True, forms=forms) for op, forms in (
        ("ResizeBilinear", ("float16", "bfloat16", "float64", "uint8", "int32")), ("ResizeBicubic", ("uint8", "float64")),
        ("ResizeNearestNeighbor", ("float16", "float64", "uint8", "int32")))),
]
