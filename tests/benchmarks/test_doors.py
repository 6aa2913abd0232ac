"""The comparison of doors runs."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from benchmarks import doors


def test_doors(capsys: pytest.CaptureFixture[str]) -> None:
    assert doors.main(["mlp", "--small", "--seconds", "0.1"]) == 0
    assert "mlp" in capsys.readouterr().out
