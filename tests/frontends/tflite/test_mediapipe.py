"""Custom operators of MediaPipe, beside their definitions."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import forge
from forge.errors import ForgeError
from tests.frontends.tflite import mediapipe_kernels
from tests.frontends.tflite.flexbuffers import Option, flexbuffer
from tests.frontends.tflite.mediapipe_kernels import SAME, VALID
from tests.frontends.tflite.writer import Graph, model

RANDOM = np.random.default_rng(0)


def packed(options: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(options)}i", *options)


def run(
    name: str, options: Sequence[int] | bytes, *inputs: np.ndarray, shapes: Sequence[Sequence[int]], version: int = 1
) -> list[list[np.ndarray]]:
    """What the reference and compiled code give."""
    stored = options if isinstance(options, bytes) else packed(options)
    graph = Graph()
    operands = [graph.input(one.shape, "float32") for one in inputs]
    graph.outputs = [graph.tensor(shape) for shape in shapes]
    graph.op(name, operands, graph.outputs, custom_options=stored, version=version)
    found = forge.from_tflite(model(graph))
    results = []
    for how in ((), ("reference",)):
        one = found.get_inference_function(*how)(*inputs)
        results.append([np.asarray(v) for v in (one if isinstance(one, list | tuple) else [one])])
    return results


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("kernel", [(1, 2), (3, 3), (4, 3)])
def test_transposed_convolution(padding: int, kernel: tuple[int, int]) -> None:
    stride_w, stride_h, height, width = 2, 3, 4, 5
    x = RANDOM.normal(size=(2, height, width, 3)).astype(np.float32)
    weight = RANDOM.normal(size=(2, *kernel, 3)).astype(np.float32)
    bias = RANDOM.normal(size=2).astype(np.float32)
    options = packed((padding, stride_w, stride_h))
    (whole,) = mediapipe_kernels.transposed_convolution(options, x, weight, bias)
    for (found,) in run("Convolution2DTransposeBias", options, x, weight, bias, shapes=[whole.shape]):
        np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(("stride_w", "stride_h", "width", "height"), [(2, 2, 2, 2), (1, 2, 3, 2), (2, 3, 3, 3)])
def test_pool_with_places(padding: int, stride_w: int, stride_h: int, width: int, height: int) -> None:
    x = RANDOM.integers(-3, 4, (2, 5, 7, 3)).astype(np.float32)
    counts = [-(-n // s) if padding == SAME else (n - k) // s + 1
              for n, s, k in zip((5, 7), (stride_h, stride_w), (height, width))]
    before = [max(0, (c - 1) * s + k - n) // 2 if padding == SAME else 0
              for c, s, k, n in zip(counts, (stride_h, stride_w), (height, width), (5, 7))]
    shape = (2, *counts, 3)
    values, places = np.full(shape, -np.inf), np.zeros(shape)
    for b, i, j, c in np.ndindex(shape):
        for tap in range(height * width):
            y, z = i * stride_h - before[0] + tap // width, j * stride_w - before[1] + tap % width
            if 0 <= y < 5 and 0 <= z < 7 and x[b, y, z, c] > values[b, i, j, c]:
                values[b, i, j, c], places[b, i, j, c] = x[b, y, z, c], tap
    options = (padding, stride_w, stride_h, width, height, 1, 0, 0, 0, 0)
    for maxima, found in run("MaxPoolingWithArgmax2D", options, x, shapes=[shape] * 2):
        np.testing.assert_array_equal(maxima, np.maximum(values, 0))
        np.testing.assert_array_equal(found, places.astype(np.float32) + np.float32(0.1))


def test_unpool() -> None:
    x = RANDOM.normal(size=(2, 3, 4, 2)).astype(np.float32)
    places = RANDOM.integers(0, 6, x.shape)
    expected = np.zeros((2, 6, 12, 2), np.float32)
    for b, i, j, c in np.ndindex(x.shape):
        expected[b, 2 * i + places[b, i, j, c] // 3, 3 * j + places[b, i, j, c] % 3, c] = x[b, i, j, c]
    given = (places + 0.1).astype(np.float32)
    for (found,) in run("MaxUnpooling2D", (SAME, 3, 2, 3, 2, 0), x, given, shapes=[expected.shape]):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("options", "message"), [
    ((), "0 bytes"), ((0, 2, 2, 2, 2, 0), "padding 0"), ((1, 0, 2, 2, 2, 0), "strides"), ((1, 2, 2, 2, 2, 9), "function 9"),
    ((1, 1, 1, 2, 2, 0), "side by side")])
def test_options_are_checked(options: Sequence[int], message: str) -> None:
    x = np.zeros((1, 2, 2, 1), np.float32)
    with pytest.raises(ForgeError, match=message):
        run("MaxUnpooling2D", options, x, x, shapes=[(1, 4, 4, 1)])


LANDMARKS: dict[str, Option] = {
    "left_rotation_idx": 3, "right_rotation_idx": 1, "subset_idxs": [0, 2, 5, 1], "target_rotation_radians": 0.25,
    "output_height": 6, "output_width": 9, "scale_x": 1.5, "scale_y": 1.25}


def turning(angle: float, scale: float, x: float, y: float) -> np.ndarray:
    found = np.eye(4, dtype=np.float32)[None]
    found[0, :2, :2] = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    found[0, :2, 3] = x, y
    return found


@pytest.mark.parametrize("options", [LANDMARKS, {**LANDMARKS, "left_rotation_idx": 0, "target_rotation_radians": -3}])
def test_matrix_of_landmarks(options: Mapping[str, Option]) -> None:
    points = RANDOM.normal(size=(1, 7, 3)).astype(np.float32)
    (expected,) = mediapipe_kernels.landmarks_matrix(options, points)
    for (found,) in run("Landmarks2TransformMatrix", flexbuffer(options), points, shapes=[(1, 4, 4)], version=2):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("matrix", [turning(0.3, 1.2, 1, -0.5), turning(0, 1, 0, 0), turning(2, 0.5, 4, 6)])
@pytest.mark.parametrize("size", [(7, 9), (1, 4)])
def test_part_of_image(matrix: np.ndarray, size: tuple[int, int]) -> None:
    image = RANDOM.normal(size=(1, *size, 3)).astype(np.float32)
    options = {"output_height": 5, "output_width": 6}
    (expected,) = mediapipe_kernels.transformed_image(options, image, matrix)
    for (found,) in run("TransformTensorBilinear", flexbuffer(options), image, matrix, shapes=[expected.shape], version=2):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [2, 3])
def test_landmarks_of_part(size: int) -> None:
    points, matrix = RANDOM.normal(size=(1, 7, size)).astype(np.float32), turning(0.3, 1.2, 1, -0.5)
    (expected,) = mediapipe_kernels.transformed_landmarks(points, matrix)
    for (found,) in run("TransformLandmarks", b"", points, matrix, shapes=[points.shape], version=2):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("options", "message"), [
    ({"subset_idxs": []}, "landmarks"), ({"subset_idxs": [7]}, "landmarks"), ({"left_rotation_idx": -1}, "landmarks"),
    ({"output_width": 0}, "sizes"), ({"scale_x": float("inf")}, "scales"), ({"scale_y": 0.0}, "scales"),
    ({"target_rotation_radians": float("nan")}, "angle"), ({"output_width": 2.5}, "output_width: got 2.5; expected an integer"),
    ({"subset_idxs": 3}, "subset_idxs: got 3; expected a list")])
def test_options_of_landmarks_are_checked(options: Mapping[str, Option], message: str) -> None:
    with pytest.raises(ForgeError, match=message):
        run("Landmarks2TransformMatrix", flexbuffer({**LANDMARKS, **options}), np.zeros((1, 7, 3), np.float32),
            shapes=[(1, 4, 4)], version=2)


def test_other_versions_are_refused() -> None:
    with pytest.raises(ForgeError, match="TransformLandmarks"):
        run("TransformLandmarks", b"", np.zeros((1, 7, 2), np.float32), turning(0, 1, 0, 0), shapes=[(1, 7, 2)])
