"""``forge view``: where the page goes, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forge.cli import main
from tests.driver.support import DIGITS


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS / "digits.onnx", tmp_path)
    return tmp_path


def test_the_page_lies_in_this_folder_or_where_it_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "digits.onnx"]) == 0
    assert "digits.html" in capsys.readouterr().out
    assert main(["view", "digits.onnx", "-o", "graph.html"]) == 0
    assert (here / "digits.html").read_bytes() == (here / "graph.html").read_bytes()
    assert (here / "graph.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_compiled_model_is_refused(here: Path, digits_build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(digits_build)]) == 1
    assert "is compiled; expected a model; 'forge compile --export-relay' keeps the text" in capsys.readouterr().err


def test_a_missing_model_or_folder_is_an_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "none.onnx"]) == 1
    assert "no such file" in capsys.readouterr().err
    assert main(["view", "digits.onnx", "-o", "none/graph.html"]) == 1
    assert "none/graph.html" in capsys.readouterr().err
