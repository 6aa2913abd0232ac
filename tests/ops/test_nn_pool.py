"""Pooling against torch, in plain and blocked layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.errors import TypeInferenceError
from tests.ops.nn_check import check, check_all, random, single

MAX: list[tuple[int, tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 3, 9), {"pool_size": (3,), "strides": (2,)}),
    (2, (1, 3, 8, 9), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}),
    (2, (1, 2, 8, 8), {"pool_size": (2, 3), "strides": (2, 3), "ceil_mode": True, "padding": (1, 1)}),
    (2, (1, 2, 9, 9), {"pool_size": (2, 2), "dilation": (2, 3), "strides": (1, 2)}),
    (3, (1, 2, 4, 5, 6), {"pool_size": (2, 2, 2), "strides": (2, 2, 2), "ceil_mode": True}),
]
AVG: list[tuple[int, tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 3, 9), {"pool_size": (3,), "strides": (2,), "padding": (1,)}),
    (2, (1, 3, 8, 9), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1), "count_include_pad": True}),
    (2, (1, 3, 8, 9), {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 1), "ceil_mode": True}),
    (2, (1, 3, 7, 6), {"pool_size": (3, 3), "strides": (3, 2), "padding": (1, 1), "ceil_mode": True, "count_include_pad": True}),
    (2, (1, 2, 6, 6), {"pool_size": (2, 2), "strides": (2, 2)}),
    (3, (1, 2, 4, 5, 6), {"pool_size": (2, 2, 2), "strides": (2, 1, 2)}),
]
TORCH_NAMES = {"pool_size": "kernel_size", "strides": "stride"}


def torch_pool(kind: str, n: int, x: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"count_include_pad": False} if kind == "avg" else {}
    options.update({TORCH_NAMES.get(k, k): v for k, v in attrs.items()})
    return getattr(torch.nn.functional, f"{kind}_pool{n}d")(torch.from_numpy(x), **options).numpy()


@pytest.mark.parametrize(("n", "shape", "attrs"), MAX)
def test_max_pool(n: int, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    x = random(*shape) - 3
    np.testing.assert_array_equal(check(f"nn.max_pool{n}d", [x], **attrs), torch_pool("max", n, x, attrs))


@pytest.mark.parametrize(("n", "shape", "attrs"), AVG)
def test_avg_pool(n: int, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    x = random(*shape) - 3
    np.testing.assert_allclose(check(f"nn.avg_pool{n}d", [x], **attrs), torch_pool("avg", n, x, attrs), rtol=1e-5)


def test_avg_pool_counts_dilated_taps() -> None:
    got = check("nn.avg_pool1d", [np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)], pool_size=(2,), dilation=(2,),
        padding=(2, 1))
    np.testing.assert_allclose(got.ravel(), [1, 2, 2, 3, 4, 4])


def test_integer_pools() -> None:
    x = random(1, 2, 5, 5, dtype="int8")
    assert check("nn.max_pool2d", [x], pool_size=(2, 2), padding=(1, 1)).dtype == np.int8
    check("nn.max_pool2d", [random(1, 2, 5, 5, dtype="uint8")], pool_size=(3, 3), padding=(1, 1))


@pytest.mark.parametrize("op", ["nn.max_pool2d", "nn.avg_pool2d"])
def test_blocked_and_channels_last_layouts(op: str) -> None:
    x = random(1, 8, 6, 7)
    attrs: dict[str, Any] = {"pool_size": (3, 3), "strides": (2, 2), "padding": (0, 1)}
    expected = check(op, [x], **attrs)
    nhwc = check(op, [np.ascontiguousarray(x.transpose(0, 2, 3, 1))], layout="NHWC", **attrs)
    np.testing.assert_allclose(nhwc.transpose(0, 3, 1, 2), expected, rtol=1e-5, atol=1e-6)
    blocked = x.reshape(1, 2, 4, 6, 7).transpose(0, 1, 3, 4, 2)
    got = check(op, [np.ascontiguousarray(blocked)], layout="NCHW4c", **attrs)
    np.testing.assert_allclose(got.transpose(0, 1, 4, 2, 3).reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["nn.max_pool2d", "nn.avg_pool2d"])
def test_symbolic_extents(op: str) -> None:
    x = random(2, 3, 9, 8)
    for ceil_mode in (False, True):
        check(op, [x], [("n", 3, "h", "w")], pool_size=(3, 2), strides=(2, 2), padding=(1, 0), ceil_mode=ceil_mode)


@pytest.mark.parametrize("shape", [(2, 3, 8, 6), (1, 2, 7, 5), (1, 2, 2, 3)])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive_pool(kind: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    x = random(*shape) - 3
    got = check(f"nn.adaptive_{kind}_pool2d", [x], output_size=(4, 3))
    expected = getattr(torch.nn.functional, f"adaptive_{kind}_pool2d")(torch.from_numpy(x), (4, 3)).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_adaptive_pool_of_symbolic_extents() -> None:
    check("nn.adaptive_avg_pool2d", [random(1, 2, 7, 5)], [("n", 2, "h", "w")], output_size=(3, 2))
    check("nn.adaptive_max_pool1d", [random(1, 2, 7)], output_size=(3,))
    check("nn.adaptive_avg_pool3d", [random(1, 2, 4, 3, 5)], output_size=(2, 1, 3))


def test_global_pools() -> None:
    x = random(2, 3, 5, 4)
    np.testing.assert_allclose(check("nn.global_avg_pool2d", [x], [("n", 3, "h", "w")]), x.mean((2, 3), keepdims=True),
        rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(check("nn.global_max_pool2d", [x]), x.max((2, 3), keepdims=True))
    blocked = random(1, 2, 5, 4, 8)
    got = check("nn.global_avg_pool2d", [blocked], layout="NCHW8c")
    np.testing.assert_allclose(got, blocked.mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("n", "shape", "attrs"), [case for case in MAX if "ceil_mode" not in case[2]])
def test_max_pool_with_indices(n: int, shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    x = random(*shape).round()
    options = {TORCH_NAMES.get(k, k): v for k, v in attrs.items()}
    values, places = getattr(torch.nn.functional, f"max_pool{n}d")(torch.from_numpy(x), **options, return_indices=True)
    got = check_all(f"nn.max_pool{n}d_with_indices", [x], **attrs)
    np.testing.assert_array_equal(got[0], values.numpy())
    planes = np.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], *[1] * n) * int(np.prod(shape[2:]))
    np.testing.assert_array_equal(got[1], places.numpy() + planes)


def test_max_pool_with_indices_in_column_major_order() -> None:
    x = random(2, 3, 5, 6)
    rows, columns = (check_all("nn.max_pool2d_with_indices", [x], pool_size=(2, 2), column_major=c)[1] for c in (False, True))
    plane, place = np.divmod(rows, 30)
    np.testing.assert_array_equal(columns, plane * 30 + place % 6 * 5 + place // 6)
    x[0, 0, 2, 2] = np.nan
    got = check_all("nn.max_pool2d_with_indices", [x], [("n", 3, "h", "w")], pool_size=(3, 3), padding=(1, 1), strides=(2, 2))
    assert got[1][0, 0, 1, 1] == 14


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"pool_size": (9, 9)}, "window over"),
        ({"pool_size": (2, 2), "layout": "NCHX"}, "layout"),
        ({"pool_size": (2, 2), "layout": "NCHW", "out_layout": "NHWC"}, "out_layout"),
        ({"pool_size": (2, 2, 2)}, "pool_size"),
    ],
)
def test_mistakes_are_named(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        single("nn.max_pool2d", [random(1, 2, 5, 5)], **attrs)
