"""Programs for onnxruntime give the same with ``forge`` in its place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forge import onnxruntime as ours
from tests.frontends.onnx.support import assert_same
from tests.onnxruntime_api import models
from tests.onnxruntime_api.programs import PROGRAMS, saved

theirs = pytest.importorskip("onnxruntime")
theirs.set_default_logger_severity(4)


def assert_equal(got: Any, expected: Any) -> None:
    """Equal values; arrays as `assert_same` compares them, and so the numbers in dictionaries."""
    if isinstance(expected, np.ndarray) and expected.dtype != object:
        assert_same([got], [expected])
    elif isinstance(expected, float):
        assert isinstance(got, float)
        assert_same([np.array(got)], [np.array(expected)])
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        assert_equal(list(got.values()), list(expected.values()))
    elif isinstance(expected, list | tuple):
        assert type(got) is type(expected)
        assert len(got) == len(expected), (got, expected)
        for one, other in zip(got, expected):
            assert_equal(one, other)
    elif isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype
        assert got.tolist() == expected.tolist()
    else:
        assert got == expected


@pytest.mark.filterwarnings("ignore:Specified provider")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    folders = [tmp_path / "ours", tmp_path / "theirs"]
    for folder in folders:
        folder.mkdir()
    assert_equal(program(ours, folders[0]), program(theirs, folders[1]))


def test_somebody_elses_program_runs_over_forge(tmp_path: Path) -> None:
    saved(models.linear(), tmp_path)
    (tmp_path / "package.py").write_text("""
import numpy as np
import onnxruntime as rt
from onnxruntime import InferenceSession, get_available_providers
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

session = InferenceSession("model.onnx", providers=get_available_providers())
print(session.run(["sum"], {"x": np.zeros((1, 3), np.float32)})[0].shape, tuple(map(int, rt.__version__.split(".")))> (1, 14))
try:
    session.run(["none"], {"x": np.zeros((1, 3), np.float32)})
except InvalidArgument as error:
    print(type(error).__module__)
""")
    (tmp_path / "whole.py").write_text("""
import sys
import forge.onnxruntime
sys.modules["onnxruntime"] = forge.onnxruntime
import package
""")
    assert printed("whole.py", tmp_path) == ["(1, 3) True", "forge.onnxruntime.errors"]


def test_names_are_replaced_in_an_onnxruntime_that_is_installed(tmp_path: Path) -> None:
    saved(models.linear(), tmp_path)
    (tmp_path / "names.py").write_text("""
import onnxruntime
import forge.onnxruntime
vars(onnxruntime).update({name: getattr(forge.onnxruntime, name) for name in forge.onnxruntime.__all__})
from onnxruntime import InferenceSession, quantization
print(type(InferenceSession("model.onnx")).__module__, quantization.__name__)
""")
    assert printed("names.py", tmp_path) == ["forge.onnxruntime.session onnxruntime.quantization"]


def printed(program: str, folder: Path) -> list[str]:
    done = subprocess.run([sys.executable, program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
