"""Random shapes: the same for every count, measured and compared on a few small ones."""

from __future__ import annotations

import pytest

from benchmarks import shapes


def test_shapes_depend_on_the_seed_only() -> None:
    assert list(shapes.draw(5, 3, ("conv", "matmul"))) == list(shapes.draw(20, 3, ("conv", "matmul")))[:5]
    assert list(shapes.draw(5, 3, ("conv",))) != list(shapes.draw(5, 4, ("conv",)))


def test_shapes_are_what_they_say() -> None:
    for shape in shapes.draw(200, 0, ("conv", "matmul")):
        assert shapes.MIN_WORK <= shape.work <= shapes.MAX_WORK
        if isinstance(shape, shapes.Convolution):
            assert shape.channels % shape.groups == 0 and shape.out_channels % shape.groups == 0


def test_small_shapes_agree_with_torch() -> None:
    pytest.importorskip("torch")
    for shape in (shapes.Convolution(8, 8, 9, 7, 3, 2, 1, 4), shapes.Convolution(3, 5, 9, 7, 3, 1, 2, 1),
                  shapes.Product(1, 3, 40, 24), shapes.Product(4, 5, 10, 24)):
        row = shapes.run(shape, "llvm", 1, 1, 0)
        assert row.error <= shapes.TOLERANCE and row.ratio > 0


def test_wrong_results_are_told() -> None:
    rows = [shapes.Row("a", 1e6, 1e-3, 2e-3, 0.5), shapes.Row("b", 1e6, 1e-3, 1e-3, 0.0)]
    told = list(shapes.summary(rows, 1))
    assert "50%: 1.50" in told[0] and told[1].endswith("b") and told[2].startswith("WRONG") and told[2].endswith("a")
