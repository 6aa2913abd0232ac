"""Names of dimensions in models become symbols or expressions."""

from __future__ import annotations

import pytest

from forge.frontends.onnx.tensors import DimensionNames


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch", "batch"), ("2*n + 1", "2*n + 1"), ("n - 1", "n - 1"), ("batch-size", "batch_size"),
        ("batch size", "batch_size"), ("None", "d_None"), ("min", "d_min"), ("1x", "d_1x"), ("unk__12", "unk__12"),
    ],
)
def test_a_name_becomes_a_symbol(text: str, expected: str) -> None:
    assert str(DimensionNames().parse(text)) == expected


def test_different_names_stay_different() -> None:
    names = DimensionNames()
    assert str(names.parse("a b")) != str(names.parse("a-b"))
    assert names.parse("a b") == names.parse("a b")
