"""The distribution: what is in it, and what building it says when the headers of Python are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forge_runtime
from forge_runtime import static_sources

PROJECT = Path(__file__).parents[2] / "runtime"


def test_missing_python_header_is_named(tmp_path: Path) -> None:
    code = (
        "import runpy, sys, sysconfig; sysconfig.get_path = lambda name: '/nowhere'; "
        f"sys.argv = ['setup.py', '-q', 'build_ext', '--build-temp', {str(tmp_path)!r}, '--build-lib', {str(tmp_path)!r}]; "
        "runpy.run_path('setup.py', run_name='__main__')"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "Python.h not found in /nowhere" in result.stderr and "python3-dev" in result.stderr
    assert not list(tmp_path.iterdir())


def test_sources_of_the_static_runtime_are_installed() -> None:
    folder = forge_runtime.include_directory()
    assert (folder / "forge_runtime.h").is_file() and all(source.is_file() for source in static_sources())
    unlisted = {path.name for path in folder.glob("*.c")} - {source.name for source in static_sources()}
    assert unlisted == {
        "_native.c", "_call.c", "_session.c", "_dlpack.c", "_lend.c", "_strides.c", "_functions.c", "_checksums.c"}
