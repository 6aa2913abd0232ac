"""Layout text and layout_transform."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import TypeInferenceError
from forge.ops.shape.layout_transform import parse_layout
from tests.ops.nn_check import check, random, single


def test_parsing() -> None:
    layout = parse_layout("OIHW16i4o")
    assert layout.axes == (("O", 0), ("I", 0), ("H", 0), ("W", 0), ("i", 16), ("o", 4))
    assert (layout.letters, layout.rank, layout.block("I"), layout.block("H"), layout.index("H")) == ("OIHW", 6, 16, 1, 2)


@pytest.mark.parametrize("text", ["", "NCHW16", "NCHWc", "NNHW", "NHW4c", "NC HW"])
def test_bad_layouts_are_refused(text: str) -> None:
    with pytest.raises(TypeInferenceError, match="layout"):
        parse_layout(text)


@pytest.mark.parametrize("channels", [1, 3, 8, 10])
def test_blocking_and_back(channels: int) -> None:
    x = random(2, channels, 3, 5)
    there = check("layout_transform", [x], [("n", channels, "h", "w")], src_layout="NCHW", dst_layout="NCHW4c")
    assert there.shape == (2, -(-channels // 4), 3, 5, 4)
    assert there[1, -1, 2, 3, (channels - 1) % 4] == x[1, channels - 1, 2, 3]
    back = check("layout_transform", [there], src_layout="NCHW4c", dst_layout="NCHW", channels=channels)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        ("NCHW", "NHWC", (2, 3, 4, 5)),
        ("NHWC", "NCHW2c", (2, 3, 4, 5)),
        ("NCHW4c", "NCHW2c", (1, 2, 3, 2, 4)),
        ("NCHW4c", "NHWC", (1, 2, 3, 2, 4)),
        ("OIHW", "OIHW4i2o", (3, 6, 2, 2)),
        ("OIHW", "OIHW2i3o2i", (3, 7, 2, 2)),
        ("OIHW4i2o", "HWIO", (2, 1, 3, 2, 4, 2)),
    ],
)
def test_any_layouts(source: str, target: str, shape: tuple[int, ...]) -> None:
    check("layout_transform", [random(*shape)], src_layout=source, dst_layout=target)


def test_two_blocks_of_one_axis() -> None:
    x = np.arange(12, dtype=np.float32)
    got = check("layout_transform", [x], src_layout="I", dst_layout="I2i3i")
    np.testing.assert_array_equal(got, x.reshape(2, 2, 3))


@pytest.mark.parametrize(
    ("source", "target", "shape", "message"),
    [("NCHW", "NCWX", (1, 2, 3, 4), "dst_layout"), ("NCHW4c", "NCHW", (1, 2, 3, 4, 3), "axis 4"),
        ("NC", "CN", (1, 2, 3), "rank")],
)
def test_mistakes_are_named(source: str, target: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(TypeInferenceError, match=message):
        single("layout_transform", [random(*shape)], src_layout=source, dst_layout=target)
