"""Custom operators of MediaPipe, beside their definitions."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

import forge
from forge.errors import ForgeError
from tests.frontends.tflite.writer import Graph, model

SAME, VALID = 1, 2
RANDOM = np.random.default_rng(0)


def run(name: str, options: Sequence[int], *inputs: np.ndarray, shapes: Sequence[Sequence[int]]) -> list[list[np.ndarray]]:
    """What the reference and compiled code give."""
    graph = Graph()
    operands = [graph.input(one.shape, "float32") for one in inputs]
    graph.outputs = [graph.tensor(shape) for shape in shapes]
    graph.op(name, operands, graph.outputs, custom_options=struct.pack(f"<{len(options)}i", *options))
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
    whole = np.zeros((2, stride_h * (height - 1) + kernel[0], stride_w * (width - 1) + kernel[1], 2))
    for i in range(height):
        for j in range(width):
            place = whole[:, i * stride_h : i * stride_h + kernel[0], j * stride_w : j * stride_w + kernel[1]]
            place += np.einsum("bc,ohwc->bhwo", x[:, i, j], weight)
    if padding == SAME:
        cut = [max(0, k - (n - 1) % s - 1) for k, n, s in zip(kernel, (height, width), (stride_h, stride_w))]
        (top, left), (bottom, right) = ([n // 2 for n in cut], [n - n // 2 for n in cut])
        whole = whole[:, top : whole.shape[1] - bottom, left : whole.shape[2] - right]
    for (found,) in run("Convolution2DTransposeBias", (padding, stride_w, stride_h), x, weight, bias, shapes=[whole.shape]):
        np.testing.assert_allclose(found, whole + bias, rtol=1e-5, atol=1e-5)


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
