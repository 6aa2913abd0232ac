"""What custom operators of MediaPipe mean, element by element, in NumPy: TFLite's interpreter does not have them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

SAME, VALID = 1, 2


def numbers(options: bytes, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f"<{count}i", options)


def transposed_convolution(options: bytes, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> list[np.ndarray]:
    """Each element adds the kernel, times itself, to the result at its place."""
    padding, stride_w, stride_h = numbers(options, 3)
    (batch, height, width, _), (channels, *kernel, _) = x.shape, weight.shape
    whole = np.zeros((batch, stride_h * (height - 1) + kernel[0], stride_w * (width - 1) + kernel[1], channels))
    for i in range(height):
        for j in range(width):
            place = whole[:, i * stride_h : i * stride_h + kernel[0], j * stride_w : j * stride_w + kernel[1]]
            place += np.tensordot(x[:, i, j].astype(np.float64), weight, (1, 3))[:, :].transpose(0, 2, 3, 1)
    if padding == SAME:
        cut = [max(0, k - (n - 1) % s - 1) for k, n, s in zip(kernel, (height, width), (stride_h, stride_w))]
        (top, left), (bottom, right) = ([n // 2 for n in cut], [n - n // 2 for n in cut])
        whole = whole[:, top : whole.shape[1] - bottom, left : whole.shape[2] - right]
    return [(whole + bias).astype(np.float32)]


def transformed_image(options: Mapping[str, Any], image: np.ndarray, matrix: np.ndarray) -> list[np.ndarray]:
    """The matrix refers to corners of elements, and what lies beyond the centres of the outer ones is 0."""
    _, height, width, channels = image.shape
    shape = (1, options["output_height"], options["output_width"], channels)
    result = np.zeros(shape)
    for i, j in np.ndindex(shape[1:3]):
        x, y = (matrix[0].astype(np.float64) @ [j + 0.5, i + 0.5, 0, 1])[:2] - 0.5
        if not (0 <= x <= width - 1 and 0 <= y <= height - 1):
            continue
        for row, of_row in ((int(y), 1 - y % 1), (int(y) + 1, y % 1)):
            for column, of_column in ((int(x), 1 - x % 1), (int(x) + 1, x % 1)):
                if row < height and column < width:
                    result[0, i, j] += of_row * of_column * image[0, row, column]
    return [result.astype(np.float32)]


def landmarks_matrix(options: Mapping[str, Any], landmarks: np.ndarray) -> list[np.ndarray]:
    """Shift to the middle of a turned box, turn back, scale, and shift by half the size of the part."""
    points = landmarks[0].astype(np.float64)
    left, right = points[options["left_rotation_idx"]], points[options["right_rotation_idx"]]
    angle = options["target_rotation_radians"] - np.arctan2(right[1] - left[1], right[0] - left[0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = points[list(options["subset_idxs"]), :2] @ turn.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    size = np.array([options["output_width"], options["output_height"]])

    def matrix(rotation: np.ndarray, shift: np.ndarray) -> np.ndarray:
        whole = np.eye(4)
        whole[:2, :2], whole[:2, 3] = rotation, shift
        return whole

    scale = np.diag((high - low) * [options["scale_x"], options["scale_y"]] / size)
    result = (
        matrix(np.eye(2), turn.T @ ((low + high) / 2)) @ matrix(turn.T, np.zeros(2)) @ matrix(scale, np.zeros(2))
        @ matrix(np.eye(2), -size / 2))
    return [result[None].astype(np.float32)]


def transformed_landmarks(landmarks: np.ndarray, matrix: np.ndarray) -> list[np.ndarray]:
    result = landmarks.copy()
    for k, point in enumerate(landmarks[0]):
        result[0, k, :2] = (matrix[0].astype(np.float64) @ [point[0], point[1], 0, 1])[:2]
    return [result]
