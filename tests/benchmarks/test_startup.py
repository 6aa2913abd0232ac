"""The script that measures start-up."""

from __future__ import annotations

import pytest

from benchmarks import startup


def test_imports_are_timed() -> None:
    found = startup.measure_imports(repeats=1)
    assert set(found) == set(startup.IMPORTS)
    assert all(0 < seconds < 60 for seconds in found.values())


def test_a_small_model(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert startup.main(["--small", "mlp"]) == 0
    assert "mlp" in capsys.readouterr().out
