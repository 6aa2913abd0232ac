"""What tests of several verbs work on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.driver.support import DIGITS, pictures


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a model and samples for it."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", pictures(20))
    return tmp_path
