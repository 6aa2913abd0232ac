"""Rows of sums of patches, deformable convolution and determinants."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, f16, f32, f64, i32, row
from tests.ops.onnx_oracle import onnx_node


def folded(shape: tuple[int, ...], image: tuple[int, ...], block: tuple[int, ...], **options: tuple[int, ...]) -> Case:
    """A row with onnxruntime as oracle."""
    names = {"strides": "strides", "padding": "pads", "dilation": "dilations"}
    run = onnx_node("Col2Im", opset=18, **{names[k]: v for k, v in options.items()})

    def oracle(x):
        return run(x, np.array(image), np.array(block))

    return row("nn.fold", [Fixed(f32(*shape))], oracle, image_shape=image, block_shape=block, **options)


def deformed(weight: tuple[int, ...], places: tuple[int, int], mask: bool = False, bound: float = 1.5, **options: object) -> Case:
    groups, offset_groups = options.get("groups", 1), options.get("offset_groups", 1)
    taps = weight[2] * weight[3] * offset_groups
    data = f32(2, weight[1] * groups, 5, 6)
    masks = [Fixed(f32(2, taps, *places, low=0, high=1))] if mask else []
    offset = f32(2, 2 * taps, *places, low=-bound, high=bound)
    names = {"strides": "strides", "padding": "pads", "dilation": "dilations", "groups": "group", "offset_groups": "offset_group"}
    run = onnx_node("DeformConv", opset=19, **{names[k]: v for k, v in options.items()})

    def oracle(x, o, w, m=None):
        return run(x, w, o, None, m)

    return row("nn.deformable_conv2d", [data, offset, f32(*weight), *masks], oracle, symbolic=False, **options)


def determinants() -> list[Case]:
    singular = np.array([[1, 2], [2, 4]], np.float32)
    pivots = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], np.float32)
    return [
        row("linalg.determinant", [f32(4, 4)], np.linalg.det),
        row("linalg.determinant", [f64(2, 3, 5, 5)], np.linalg.det),
        row("linalg.determinant", [f16(2, 3, 3)], lambda x: np.linalg.det(x.astype(np.float64))),
        row("linalg.determinant", [singular], lambda x: np.float32(0)),
        row("linalg.determinant", [pivots], lambda x: np.float32(1)),
        row("linalg.determinant", [f32(2, 1, 1)], lambda x: x[:, 0, 0]),
        row("linalg.determinant", [f32(2, 0, 0)], lambda x: np.ones(2)),
    ]


CASES = [
    folded((1, 5, 5), (5, 5), (1, 5)),
    folded((2, 12, 9), (4, 4), (2, 2)),
    folded((1, 8, 9), (7, 9), (2, 2), strides=(2, 3), padding=(0, 1, 0, 1), dilation=(1, 2)),
    folded((1, 8, 80), (5, 4, 3), (1, 1, 2), padding=(0, 0, 1, 0, 0, 1)),
    row("nn.fold", [Fixed(i32(1, 4, 9))], image_shape=(4, 4), block_shape=(2, 2)),
    deformed((4, 3, 3, 3), (3, 4)),
    deformed((4, 3, 2, 2), (4, 5), mask=True),
    deformed((4, 1, 2, 2), (2, 3), groups=2, offset_groups=2, strides=(2, 2), padding=(0, 0, 0, 1)),
    deformed((2, 2, 3, 3), (3, 4), dilation=(2, 2), padding=(1, 1, 1, 1), bound=9.0, mask=True),
    *determinants(),
]
