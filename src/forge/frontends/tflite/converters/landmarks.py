"""Custom operators of MediaPipe's face mesh with attention: parts of an image are cut out around landmarks, and turned upright.

Matrices [1, 4, 4] say where elements of such a part come from; their first two rows count. Only version 2 of the operators is
converted: models of version 1 are not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from forge.compose.axes import part
from forge.compose.products import affine
from forge.frontends.tflite.context import Context
from forge.frontends.tflite.registry import CUSTOM, converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term


def _size(g: Context, x: Value, axis: int) -> int:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise g.unsupported(f"got {x.type}; expected known sizes")
    return size


def _checked(g: Context, x: Value, rank: int, channels: tuple[int, ...] = ()) -> None:
    if x.rank != rank or x.shape[0] != 1 or channels and x.shape[-1] not in channels:
        of = f", and one of the sizes {channels} for the last" if channels else ""
        raise g.invalid(f"got {x.type}; expected {rank} dimensions, 1 for the first{of}")


def _entries(g: Context, matrix: Value) -> list[list[Term]]:
    """The first two rows of a matrix, as numbers of rank 0."""
    if matrix.shape != (1, 4, 4):
        raise g.invalid(f"got the matrix {matrix.type}; expected sizes (1, 4, 4)")
    flat = g.reshape(matrix, (16,))
    return [[Term(g, g.call("take", flat, g.constant(4 * k + j, "int64"), axis=0)) for j in range(4)] for k in range(2)]


@converts("TransformTensorBilinear", domain=CUSTOM, since=2)
def transform_tensor(g: Context, image: Value, matrix: Value) -> Value:
    """Elements of an image [1, height, width, channels] between which it is interpolated; 0 beyond the centres of its border."""
    options = g.custom_options({"output_height": 0, "output_width": 0})
    height, width = options["output_height"], options["output_width"]
    if min(height, width) < 1:
        raise g.invalid(f"custom options: got the output height {height} and width {width}; expected positive numbers")
    _checked(g, image, 4)
    steps = Term(g, g.constant(np.arange(width), "float32")), Term(g, g.constant(np.arange(height)[:, None], "float32"))
    places, inside = [], None
    for row, axis in zip(_entries(g, matrix), (2, 1)):
        # Centres of elements are half an element from their corners, to which the matrix refers.
        at = row[0] * (steps[0] + 0.5) + row[1] * (steps[1] + 0.5) + (row[3] - 0.5)
        last = _size(g, image, axis) - 1
        within = (at >= 0).both(at <= last)
        inside = within if inside is None else inside.both(within)
        places.append((at * (2 / max(last, 1)) - 1).value)
    assert inside is not None
    grid = g.call("expand_dims", g.call("stack", *places, axis=2), axis=0)
    found = g.call(
        "image.grid_sample", g.moved(image, (0, 3, 1, 2)), grid, mode="linear", padding_mode="border", align_corners=True)
    return inside.reshape(1, height, width, 1).where(Term(g, g.moved(found, (0, 2, 3, 1))), 0.0).value


_OPTIONS = {
    "left_rotation_idx": -1, "right_rotation_idx": -1, "subset_idxs": (), "target_rotation_radians": 0.0, "output_height": -1,
    "output_width": -1, "scale_x": -1.0, "scale_y": -1.0,
}


@converts("Landmarks2TransformMatrix", domain=CUSTOM, since=2)
def landmarks_to_matrix(g: Context, landmarks: Value) -> Value:
    """The matrix of a part around some of the landmarks [1, n, 3], in which the line from one to another has a given angle."""
    options = g.custom_options(_OPTIONS)
    _checked(g, landmarks, 3, (3,))
    subset, ends = options["subset_idxs"], [options["left_rotation_idx"], options["right_rotation_idx"]]
    count = _size(g, landmarks, 1)
    if not subset or not all(isinstance(k, int) and 0 <= k < count for k in (*subset, *ends)):
        raise g.invalid(f"custom options: got the landmarks {(*ends, *subset)[:9]}; expected numbers from 0 to {count - 1}")
    sizes, scales = [options["output_width"], options["output_height"]], [options["scale_x"], options["scale_y"]]
    upright = options["target_rotation_radians"]
    if min(*sizes, *scales) <= 0 or not all(map(math.isfinite, (*scales, upright))):
        raise g.invalid(
            f"custom options: got sizes of {sizes}, scales of {scales} and the angle {upright}; expected positive numbers, and "
            "an angle")
    columns = [g.call("take", g.reshape(landmarks, (count, 3)), g.constant(k, "int64"), axis=1) for k in (0, 1)]
    across, down = (
        Term(g, last) - Term(g, first)
        for first, last in ([g.call("take", v, g.constant(end, "int64"), axis=0) for end in ends] for v in columns))
    angle = upright - Term(g, g.call("atan2", down.value, across.value))
    chosen = [Term(g, g.call("take", v, g.constant(subset, "int64"), axis=0)) for v in columns]
    return _around(g, chosen, angle.value, [scale / size for scale, size in zip(scales, sizes)], sizes)


def _around(g: Context, points: Sequence[Term], angle: Value, scales: Sequence[float], sizes: Sequence[int]) -> Value:
    """The matrix of a part of ``sizes`` around points, x and y, which are turned by an angle."""
    cos, sin = (Term(g, g.call(function, angle)) for function in ("cos", "sin"))
    x, y = points
    turned = x * cos - y * sin, x * sin + y * cos
    low, high = ([Term(g, g.call(kind, v.value, axis=(0,))) for v in turned] for kind in ("min", "max"))
    middle = [(a + b) / 2 for a, b in zip(low, high)]
    steps = [(b - a) * scale for a, b, scale in zip(low, high, scales)]
    zero, one = g.constant(0, "float32"), g.constant(1, "float32")
    rows = []
    for back in ((cos, sin), (-1 * sin, cos)):
        entries = [turn * step for turn, step in zip(back, steps)]
        shift = [turn * at - entry * (size / 2) for turn, at, entry, size in zip(back, middle, entries, sizes)]
        rows += [entries[0].value, entries[1].value, zero, (shift[0] + shift[1]).value]
    return g.reshape(g.call("stack", *rows, zero, zero, one, zero, zero, zero, zero, one, axis=0), (1, 4, 4))


@converts("TransformLandmarks", domain=CUSTOM, since=2)
def transform_landmarks(g: Context, landmarks: Value, matrix: Value) -> Value:
    """Landmarks [1, n, 2 or 3] of a part, in the image that it was cut from; their depths stay."""
    _checked(g, landmarks, 3, (2, 3))
    rows = [[entry.reshape(1).value for entry in row] for row in _entries(g, matrix)]
    turn = g.reshape(g.call("concatenate", *(row[k] for row in rows for k in (0, 1)), axis=0), (2, 2))
    shift = g.call("concatenate", *(row[3] for row in rows), axis=0)
    moved = affine(g, part(g, landmarks, 2, 0, 2), turn, shift)
    return moved if landmarks.shape[2] == 2 else g.call("concatenate", moved, part(g, landmarks, 2, 2, 3), axis=2)
