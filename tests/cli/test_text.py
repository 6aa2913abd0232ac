"""Text files of models: what one verb writes, the others read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import forge
from forge.cli import main

TEXT = "def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(4), float32]) { %0 = add(%x, %w); nn.relu(%0) }"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    forge.IRModule(TEXT, {"w": np.arange(4, dtype=np.float32)}).save("m.forge")
    return tmp_path


def test_exported_text_is_a_model_like_others(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "m.forge", "m.relay"]) == 0
    assert sorted(p.name for p in here.iterdir()) == ["m.forge", "m.relay", "m.relay.safetensors"]
    assert main(["inspect", "m.relay"]) == 0
    assert main(["export", "m.relay", "again.forge"]) == 0
    assert Path("again.forge").read_bytes() == Path("m.forge").read_bytes()


def test_text_without_its_weights_says_where_they_are_expected(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.relay").write_text("def @main(%x: Tensor[(4), float32]) { add(%x, meta[relay.Constant][0]) }")
    assert main(["inspect", "m.relay"]) == 1
    assert "its weights are expected in m.relay.safetensors, which is not there" in capsys.readouterr().err
