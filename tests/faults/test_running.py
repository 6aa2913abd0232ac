"""Mistakes with inputs at run time, in an artifact and in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.driver import compile_module
from forge.errors import ForgeError, InputError

IMAGE = np.zeros((2, 1, 8, 8), np.float32)

WRONG: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((), {}, "got 0; expected 1"),
    ((IMAGE, IMAGE), {}, "got 2"),
    ((), {"picture": IMAGE}, "picture"),
    ((IMAGE,), {"image": IMAGE}, "image"),
    ((IMAGE.astype(np.float64),), {}, "float64.*float32"),
    ((IMAGE.astype(np.int64),), {}, "int64.*float32"),
    ((IMAGE[0],), {}, "rank|dimensions"),
    ((IMAGE[:, :, :4],), {}, "8"),
    ((np.zeros((2, 3, 8, 8), np.float32),), {}, "3"),
    (("image.png",), {}, "str"),
    ((None,), {}, "NoneType"),
]


@pytest.fixture(scope="module", params=["artifact", "process"])
def runtime(request: pytest.FixtureRequest, digits: forge.IRModule, digits_build: Path) -> forge.Runtime:
    return forge.Runtime(digits_build) if request.param == "artifact" else compile_module(digits.mod).runtime()


@pytest.mark.parametrize(("given", "named", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_wrong_inputs(runtime: forge.Runtime, given: tuple[Any, ...], named: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        runtime(*given, **named)
    assert isinstance(caught.value, ForgeError)
    assert isinstance(caught.value, ValueError)
    assert "image" in str(caught.value) or "input" in str(caught.value)


@pytest.mark.parametrize(("output", "message"), [
    (np.zeros((2, 11), np.float32), "11"),
    (np.zeros((2, 10), np.float64), "float64"),
    (np.zeros((10, 2), np.float32).T, "contiguous"),
    ([0.0] * 20, "list"),
])
def test_wrong_output_arrays(runtime: forge.Runtime, output: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        runtime.run([IMAGE], [output])


@pytest.fixture(scope="module")
def pair() -> forge.Runtime:
    module = forge.IRModule("""
    def @main(%a: Tensor[(n, 3), float32], %b: Tensor[(n, 3), float32], %c: Tensor[((2 * n)), float32]) {
      %0 = add(%a, %b);
      (%0, %c)
    }""")
    return compile_module(module.mod).runtime()


def test_symbolic_mismatch_between_two_inputs(pair: forge.Runtime) -> None:
    with pytest.raises(InputError, match=r"'b'.*'n' has two values; got 5; expected 4, the size of input 'a'"):
        pair(np.zeros((4, 3), np.float32), np.zeros((5, 3), np.float32), np.zeros(8, np.float32))


def test_size_that_is_computed_from_symbols(pair: forge.Runtime) -> None:
    with pytest.raises(InputError, match=r"'c'.*7.*8"):
        pair(np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32), np.zeros(7, np.float32))


def test_after_a_mistake_the_next_call_works(runtime: forge.Runtime) -> None:
    with pytest.raises(InputError):
        runtime(IMAGE[0])
    assert runtime(IMAGE).shape == (2, 10)


def test_no_pictures_at_all(runtime: forge.Runtime) -> None:
    assert runtime(IMAGE[:0]).shape == (0, 10)
