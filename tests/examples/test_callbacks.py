"""The example of registered functions, in Python and C."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import forge
from examples.callbacks import demo
from forge_runtime import include_directory

SOURCE = Path(demo.__file__).with_name("main.c")
PLACE = "model 'main': node call_registered (call_registered): the function 'shop.prices': "


@pytest.fixture(autouse=True)
def no_functions_afterwards() -> Iterator[None]:
    yield
    forge.remove_registered_func("shop.prices")


def test_python_and_c_give_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.main(tmp_path / "build")
    assert capsys.readouterr().out.splitlines() == [
        "total 23.75", "articles [9]; expected numbers from 0 to 2", f"{PLACE}it raised an exception",
    ]
    program, library = tmp_path / "shop", tmp_path / "build" / "modelLibrary.so"
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-Wall", "-Wextra", "-Werror", "-I", str(include_directory()), f"-Wl,-rpath,{library.parent}", "-o", str(program)]
    subprocess.run([*compiler, str(SOURCE), str(library), *flags], check=True)
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    assert said == [
        "model 'main': 1 of the functions that it calls are not registered: 'shop.prices'; register them before it is loaded "
        "(forge_register; in Python forge.register_func)",
        "total 23.75",
        f"{PLACE}article 9; expected 0 to 2",
    ]
