"""The benchmark of attention: shapes are read, and all that take part compute the same."""

from __future__ import annotations

import pytest

from benchmarks import attention


def test_shapes_are_read() -> None:
    assert attention.Shape.parse("12x512x64") == attention.Shape(12, 512, 64, False)
    assert attention.Shape.parse("2x40x8c") == attention.Shape(2, 40, 8, True)


@pytest.mark.parametrize("text", ["2x40x8", "2x300x8c"])
def test_all_compute_the_same(text: str) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    found = attention.measure(attention.Shape.parse(text), 1, 0.01)
    assert {"forge", "onnxruntime", "openvino"} <= set(found)
    assert all(error < 1e-5 for _, error in found.values())


def test_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    assert attention.main(["--shapes", "2x40x8c", "--seconds", "0.01"]) == 0
    assert "2x40x8" in capsys.readouterr().out
