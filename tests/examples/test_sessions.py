"""The example of sessions, in Python and C."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from examples.sessions import demo
from forge_runtime import include_directory

SOURCE = Path(demo.__file__).with_name("main.c")


def test_python_and_c_give_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(tmp_path / "build")
    expected = ["mean 1.5", "mean 3.0", "mean in a fork 0.0", "largest 6.0", "seen [1.0, 2.0, 6.0]", "mean 5.0"]
    assert capsys.readouterr().out.splitlines() == expected
    program, library = tmp_path / "remember", tmp_path / "build" / "modelLibrary.so"
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-Wall", "-Wextra", "-Werror", "-I", str(include_directory()), f"-Wl,-rpath,{library.parent}", "-o", str(program)]
    subprocess.run([*compiler, str(SOURCE), str(library), *flags], check=True)
    assert subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines() == expected
