"""Tensors of strings at the border of a model: from Python, from C, and the routines on bytes that are not text."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge import dims
from forge.driver import compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType
from forge_runtime import InputError, Runtime
from tests.runtime.building import compile_c
from tests.runtime.sanitizers import compile_sanitized
from tests.runtime.test_native import HERE, execute, has_sanitizer


def joining() -> Module:
    """``x + y`` on vectors of strings."""
    builder = Builder()
    operands = [builder.input(TensorType((dims.symbol("n"),), "string"), name) for name in "xy"]
    graph = builder.output(builder.call("string.concat", *operands))
    return Module(graph)


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return compile_module(joining(), use_cache=False).runtime()


def strings(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


@pytest.mark.parametrize("make", [strings, lambda *v: np.array(v), lambda *v: strings(*(x.encode() for x in v))])
def test_takes_text_in_every_form(runtime: Runtime, make: Any) -> None:
    result = runtime(make("a", "é", ""), make("b", "日", "\U0001f600"))
    assert result.dtype == object and result.tolist() == ["ab", "é日", "\U0001f600"]


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy below 2")
def test_takes_variable_width_strings(runtime: Runtime) -> None:
    text = np.array(["a", "a much longer string than fits inside"], dtype=np.dtypes.StringDType())
    assert runtime(text, text).tolist() == ["aa", 2 * "a much longer string than fits inside"]


def test_takes_views_and_lists_of_elements(runtime: Runtime) -> None:
    grid = strings("a", "b", "c", "d")
    assert runtime(grid[::2], grid[::-2]).tolist() == ["ad", "cb"]


def test_bytes_that_are_no_text_come_back(runtime: Runtime) -> None:
    result = runtime(strings(b"\xff", "\udc80"), strings(b"\xc3", "a"))
    assert result.tolist() == ["\udcff\udcc3", "\udc80a"]
    assert runtime(strings("\udcc3"), strings(b"\xa9")).tolist() == ["é"]


def test_zeros_inside_and_empty_tensors(runtime: Runtime) -> None:
    assert runtime(strings("\0a\0", ""), strings("", "")).tolist() == ["\0a\0", ""]
    assert runtime(np.empty(0, object), np.empty(0, object)).shape == (0,)


@pytest.mark.parametrize(("given", "message"), [
    (np.zeros(1), "wrong dtype; got float64; expected strings"),
    (strings(1), "wrong element; got int; expected str or bytes"),
    (strings("\ud800"), "which is not text"),
    (3.5, "not an array; got float"),
])
def test_refuses_other_inputs(runtime: Runtime, given: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"input 'x': .*{message}"):
        runtime(given, strings("a"))


def test_outputs_are_not_written_in_place(runtime: Runtime) -> None:
    with pytest.raises(InputError, match="output 'output_0': strings are not written in place"):
        runtime.run([strings("a"), strings("b")], [strings("")])


def test_warm_up_makes_up_strings(runtime: Runtime) -> None:
    runtime.warm_up(1)


def test_runs_from_c(tmp_path: Path) -> None:
    forge.IRModule(joining()).compile(output_path=tmp_path / "build")
    program = tmp_path / "strings"
    compile_c(HERE / "strings.c", "-ldl", "-o", program)
    command = [program, tmp_path / "build" / "modelLibrary.so"]
    shown = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.split(b"\n")
    assert shown[0] == "abc|é|".encode() + b"\xff| 54 bytes"
    assert shown[1] == "abc|é|".encode() + b"\xff| 128 bytes"
    assert b"output 'output_0' is too small; got 48 bytes; expected 54, for elements and characters" in shown[2]
    assert b"string 1 at (nil) has size 5" in shown[3]


@pytest.mark.parametrize("sanitizer", ["address,undefined"])
def test_routines_on_random_bytes_under_sanitizers(sanitizer: str, tmp_path: Path) -> None:
    if not has_sanitizer(sanitizer):
        pytest.skip(f"this compiler has no -fsanitize={sanitizer}")
    program = tmp_path / "stress"
    compile_sanitized(sanitizer, HERE / "string_stress.c", program)
    assert execute(program, "20000") == "done\n"
