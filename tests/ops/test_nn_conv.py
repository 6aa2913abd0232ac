"""Convolutions against torch, in all layouts, and their messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.errors import TypeInferenceError
from tests.ops.nn_check import check, random, single

FORWARD: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 3, 9), (4, 3, 3), {}),
    (1, (1, 4, 8), (6, 2, 2), {"groups": 2, "strides": (2,), "padding": (1,)}),
    (2, (2, 3, 7, 6), (5, 3, 3, 2), {"padding": (1, 0)}),
    (2, (1, 4, 8, 8), (4, 1, 3, 3), {"groups": 4, "padding": (1, 1), "strides": (2, 2)}),
    (2, (1, 2, 8, 8), (6, 1, 3, 3), {"groups": 2, "dilation": (2, 1), "padding": (2, 1)}),
    (2, (1, 8, 5, 5), (3, 8, 1, 1), {}),
    (3, (1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"strides": (1, 2, 1), "padding": (1, 0, 1)}),
]
BACKWARD: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 3, 5), (3, 4, 3), {"strides": (2,)}),
    (2, (1, 3, 4, 5), (3, 2, 2, 2), {"strides": (2, 2)}),
    (2, (1, 4, 4, 3), (4, 3, 3, 3), {"groups": 2, "strides": (2, 1), "padding": (1, 1), "output_padding": (1, 0)}),
    (2, (1, 2, 4, 4), (2, 3, 3, 2), {"dilation": (2, 1), "padding": (1, 0)}),
    (3, (1, 2, 2, 3, 2), (2, 3, 2, 2, 2), {"strides": (2, 1, 2)}),
]
TORCH_NAMES = {"strides": "stride"}


def torch_result(kind: str, n: int, x: np.ndarray, w: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    torch = pytest.importorskip("torch")
    function = getattr(torch.nn.functional, f"conv{kind}{n}d")
    options = {TORCH_NAMES.get(k, k): v for k, v in attrs.items()}
    return function(torch.from_numpy(x), torch.from_numpy(w), **options).numpy()


@pytest.mark.parametrize(("n", "data", "weight", "attrs"), FORWARD)
def test_convolution_agrees_with_torch(n: int, data: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any]) -> None:
    x, w = random(*data), random(*weight, seed=1)
    got = check(f"nn.conv{n}d", [x, w], **attrs)
    np.testing.assert_allclose(got, torch_result("", n, x, w, attrs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("n", "data", "weight", "attrs"), BACKWARD)
def test_transposed_agrees_with_torch(n: int, data: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any]) -> None:
    x, w = random(*data), random(*weight, seed=1)
    got = check(f"nn.conv{n}d_transpose", [x, w], **attrs)
    np.testing.assert_allclose(got, torch_result("_transpose", n, x, w, attrs), rtol=1e-5, atol=1e-5)


def test_layouts_only_permute() -> None:
    x, w = random(2, 3, 6, 5), random(4, 3, 3, 2, seed=1)
    expected = check("nn.conv2d", [x, w], padding=(1, 2, 0, 1))
    nhwc = check("nn.conv2d", [x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0)], padding=(1, 2, 0, 1),
                 data_layout="NHWC", kernel_layout="HWIO")
    np.testing.assert_allclose(nhwc, expected.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)
    mixed = check("nn.conv2d", [x, w], padding=(1, 2, 0, 1), out_layout="HWNC")
    np.testing.assert_allclose(mixed, expected.transpose(2, 3, 0, 1), rtol=1e-5, atol=1e-5)


def test_symbolic_batch_and_extents() -> None:
    x, w = random(2, 3, 9, 8), random(4, 3, 3, 3, seed=1)
    check("nn.conv2d", [x, w], [("n", 3, "h", "w"), None], padding=(1, 1), strides=(2, 2))
    check("nn.conv2d_transpose", [x, random(3, 2, 2, 2)], [("n", 3, "h", "w"), None], strides=(2, 2))


def test_symbolic_result_type() -> None:
    graph = single("nn.conv2d", [random(1, 3, 9, 8), random(4, 3, 3, 3)], [("n", 3, "h", "w"), None], padding=(1, 1),
        strides=(2, 2))
    n, channels, h, w = graph.outputs[0].shape
    assert (str(n), channels) == ("n", 4)
    assert [dims.evaluate(d, {"h": 9, "w": 8}) for d in (h, w)] == [5, 4]


def test_integers_and_half_precision() -> None:
    x, w = random(1, 3, 6, 6, dtype="uint8"), random(4, 3, 3, 3, dtype="int8")
    got = check("nn.conv2d", [x, w], out_dtype="int32")
    assert got.dtype == np.int32
    expected = torch_result("", 2, x.astype(np.float64), w.astype(np.float64), {})
    np.testing.assert_array_equal(got, expected)
    assert check("nn.conv2d", [random(1, 3, 6, 6, dtype="float16"), random(4, 3, 3, 3, dtype="float16")]).dtype == np.float16


@pytest.mark.parametrize(
    ("data", "weight", "attrs", "message"),
    [
        ((1, 3, 6, 6), (4, 2, 3, 3), {}, "channels of data"),
        ((1, 3, 6), (4, 3, 3, 3), {}, "'data' has the wrong rank"),
        ((1, 3, 2, 2), (4, 3, 3, 3), {}, "window over"),
        ((1, 4, 6, 6), (5, 2, 3, 3), {"groups": 2}, "output channels"),
        ((1, 3, 6, 6), (4, 3, 3, 3), {"strides": (0, 1)}, "strides"),
        ((1, 3, 6, 6), (4, 3, 3, 3), {"padding": (1, 1, 1)}, "padding"),
        ((1, 3, 6, 6), (4, 3, 3, 3), {"data_layout": "NCWH4c"}, "data_layout"),
        ((1, 3, 6, 6), (4, 3, 3, 3), {"kernel_size": (2, 2)}, "kernel size"),
    ],
)
def test_mistakes_are_named(data: tuple[int, ...], weight: tuple[int, ...], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        single("nn.conv2d", [random(*data), random(*weight)], **attrs)


def test_padding_is_what_stands_for_zero() -> None:
    rng = np.random.default_rng(4)
    x, w = rng.integers(0, 256, (1, 3, 6, 5), np.uint8), rng.integers(-128, 128, (4, 3, 3, 3), np.int8)
    got = check("nn.conv2d", [x, w], padding=(1, 2, 0, 1), out_dtype="int32", pad_value=200)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (2, 1)), constant_values=200)
    np.testing.assert_array_equal(got, check("nn.conv2d", [padded, w], out_dtype="int32"))


@pytest.mark.parametrize(("dtype", "value"), [("uint8", 256), ("uint8", -1), ("float32", 1)])
def test_padding_that_the_data_cannot_hold(dtype: str, value: int) -> None:
    data = np.zeros((1, 1, 4, 4), dtype)
    with pytest.raises(TypeInferenceError, match="pad_value"):
        single("nn.conv2d", [data, data[..., :3, :3]], padding=(1, 1), out_dtype="int32", pad_value=value)
