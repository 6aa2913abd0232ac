"""Crops, patches and warps of images, and their colours."""

from __future__ import annotations

from tests.frontends.tensorflow.case import WIDE, given, ints, num, row

SLACK = 4.0

ROWS = [
    row("CropAndResize", num(2, 6, 5, 3), num(3, 4, low=-0.2, high=1.2, dtype="float32"), ints([0, 1, 0]), ints([4, 3]),
        label="linear",
        accuracy=SLACK, forms=("float32", "uint8")),
    row("CropAndResize", num(2, 6, 5, 3), num(3, 4, low=-0.2, high=1.2), given([0, 1, 0]), ints([4, 3]), label="nearest",
        method="nearest",
        extrapolation_value=2.5),
    *(row("Dilation2D", num(2, 7, 8, 3), num(3, 2, 3), label=f"{padding}-{step}-{rate}",
          forms=WIDE if step == 1 else ("float32",),
          strides=(1, step, step, 1), rates=(1, rate, rate, 1), padding=padding)
      for padding in ("SAME", "VALID") for step, rate in ((1, 1), (2, 1), (1, 2))),
    *(row("ExtractImagePatches", num(2, 7, 8, 3), label=f"{padding}-{step}-{rate}", forms=("float32", "int32"),
          ksizes=(1, 3, 2, 1),
          strides=(1, step, step, 1), rates=(1, rate, rate, 1), padding=padding)
      for padding in ("SAME", "VALID") for step, rate in ((1, 1), (2, 1), (1, 2))),
    row("RGBToHSV", num(4, 5, 3, low=0, high=1), forms=WIDE), row("HSVToRGB", num(4, 5, 3, low=0, high=1), forms=WIDE),
    row("AdjustContrastv2", num(2, 4, 5, 3), num(values=1.7, dtype="float32"), accuracy=SLACK),
    row("AdjustHue", num(2, 4, 5, 3, low=0, high=1), num(values=0.3, dtype="float32"), accuracy=SLACK),
    row("AdjustSaturation", num(2, 4, 5, 3, low=0, high=1), num(values=1.6, dtype="float32"), accuracy=SLACK),
    *(row("ImageProjectiveTransformV3", num(2, 6, 5, 3, dtype="float32"),
          num(values=[[1.1, 0.2, -0.6, 0.1, 0.9, 0.4, 0.01, 0.02]],
          dtype="float32"), ints([7, 6]), num(values=0.5, dtype="float32"), label=f"{mode}-{fill}", T=None, dtype="float32",
          interpolation=mode, fill_mode=fill, accuracy=SLACK)
      for mode in ("NEAREST", "BILINEAR") for fill in ("CONSTANT", "REFLECT", "WRAP", "NEAREST")),
    *(row("ScaleAndTranslate", num(2, 7, 6, 3), ints([4, 9]), num(values=[4 / 7, 1.5], const=True), num(values=move, const=True),
          label=f"{kernel}-{antialias}-{move[0]}", accuracy=SLACK, kernel_type=kernel, antialias=antialias)
      for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")
      for antialias, move in ((True, [0.0, 0.0]), (False, [0.0, 0.0]), (True, [1.3, -2.6]))),
    row("ExtractVolumePatches", num(1, 4, 5, 6, 2), ksizes=(1, 2, 3, 2, 1), strides=(1, 1, 2, 2, 1), padding="SAME"),
    row("ImageProjectiveTransformV2", num(2, 6, 5, 3, dtype="float32"), num(values=[[1, 0.2, -0.6, 0.1, 0.9, 0.4, 0, 0],
        [0.9, 0, 1, 0, 1.2, -2, 0, 0]], dtype="float32"), ints([7, 6]), T=None, dtype="float32", interpolation="BILINEAR",
        accuracy=SLACK),
]
