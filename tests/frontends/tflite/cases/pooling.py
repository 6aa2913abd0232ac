"""Pools, normalization and resizing of images."""

from __future__ import annotations

from tests.frontends.tflite.case import Q16, SAME, SYMMETRIC, Q, given, ints, num, row

THREE = {"filter_width": 3, "filter_height": 3}
TWO = {"filter_width": 2, "filter_height": 2, "stride_w": 2, "stride_h": 2}

ROWS = [
    row("AVERAGE_POOL_2D", num(1, 11, 11, 12), forms=("float32", *Q16), out=SAME, padding="SAME", stride_w=1, stride_h=1,
        **THREE),
    row("AVERAGE_POOL_2D", num(1, 20, 24, 10), forms=("float32", *Q16), out=SAME, label="valid", padding="VALID", **TWO),
    row("AVERAGE_POOL_2D", num(1, 7, 7, 300), forms=("float32", "int8"), out=SAME, label="whole", padding="VALID", filter_width=7,
        filter_height=7, stride_w=1, stride_h=1),
    row("AVERAGE_POOL_2D", num(1, 12, 12, 8), forms=("float32", *Q), out=SAME, label="relu", padding="VALID",
        fused_activation_function="RELU", **TWO),
    row("MAX_POOL_2D", num(1, 9, 9, 4), forms=("float32", *Q16), out=SAME, padding="SAME", stride_w=2, stride_h=2, **THREE),
    row("MAX_POOL_2D", num(1, 8, 9, 4, low=-3, high=9), forms=("float32", *Q), out=SAME, label="relu6", padding="VALID",
        fused_activation_function="RELU6", **TWO),
    row("L2_POOL_2D", num(1, 9, 9, 4), padding="SAME", stride_w=1, stride_h=1, **THREE),
    row("L2_NORMALIZATION", num(60, 20), forms=("float32", "int8"), out=SYMMETRIC),
    row("L2_NORMALIZATION", num(60, 20), forms=("uint8",), out=SYMMETRIC, label="unsigned",
        inexact="the scale of a row is a fixed-point number by whose size kernels round a second time"),
    row("L2_NORMALIZATION", num(3, 4, 5, 20, low=-2, high=3), forms=("float32", "int8"), out=SYMMETRIC, label="rank4"),
    row("LOCAL_RESPONSE_NORMALIZATION", num(1, 3, 4, 20, low=-9, high=9), radius=2, bias=1.0, alpha=0.3, beta=0.75),
    *(row(op, num(1, 6, 7, 9), ints([13, 11]), forms=forms, out=SAME, label=label, **options)
      for op, forms in (("RESIZE_BILINEAR", ("float32", "int8", "int16")), ("RESIZE_NEAREST_NEIGHBOR", ("float32", *Q16)))
      for label, options in (("", {}), ("align", {"align_corners": True}), ("half", {"half_pixel_centers": True}))),
    row("RESIZE_BILINEAR", num(1, 20, 21, 3), ints([10, 30]), forms=("float32", "int8"), out=SAME, label="smaller",
        half_pixel_centers=True),
    row("RESIZE_BILINEAR", num(1, 8, 8, 5), ints([16, 16]), forms=("float32", *Q), out=SAME, label="double",
        half_pixel_centers=True),
    *(row("RESIZE_BILINEAR", num(1, 6, 7, 9), ints([13, 11]), forms=("uint8",), out=SAME, label=f"unsigned-{label}", **options,
          inexact="kernels for uint8 add floats, whose halves they round up or down by chance")
      for label, options in (("", {}), ("align", {"align_corners": True}), ("half", {"half_pixel_centers": True}))),
    *(row(op, num(1, 6, 7, 9), given([13, 11]), forms=("float32", "int8"), out=SAME, label="anywhere")
      for op in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")),
]
