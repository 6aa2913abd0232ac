"""Functions that run a model: compiled in memory, interpreted, with outputs in the caller's arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.errors import ForgeError, InputError, TargetError
from tests.driver.support import LIMIT, pictures, reference

pytestmark = pytest.mark.usefixtures("compile_cache")

TWO = """
def @main(%a: Tensor[(n, 3), float32], %b: Tensor[(n, 3), float32]) {
  %sum = add(%a, %b);
  %product = multiply(%a, %b);
  (%sum, %product)
}
"""


@pytest.fixture(params=["llvm", "llvm -mcpu=x86-64-v2", "reference"])
def two(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return forge.IRModule(TWO).get_inference_function(target=request.param)


def test_inputs_by_position_and_name_and_a_list_of_outputs(two: Callable[..., Any]) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    for outputs in (two(a, b), two(a, b=b), two(b=b, a=a)):
        assert isinstance(outputs, list)
        np.testing.assert_array_equal(outputs[0], a + b)
        np.testing.assert_array_equal(outputs[1], a * b)


@pytest.mark.parametrize("call", [
    lambda f, x: f(x),
    lambda f, x: f(x, x, x),
    lambda f, x: f(x, c=x),
    lambda f, x: f(x, x[:1]),
    lambda f, x: f(x, x.astype(np.int64)),
    lambda f, x: f(x, x[0]),
])
def test_wrong_inputs(two: Callable[..., Any], call: Callable[..., Any]) -> None:
    with pytest.raises(ForgeError):
        call(two, np.ones((2, 3), np.float32))


@pytest.mark.parametrize("wrap", [
    lambda a, b: [a, b], lambda a, b: (a, b), lambda a, b: {"b": b, "a": a},
])  # fmt: skip
def test_inputs_as_one_list_tuple_or_dictionary(two: Callable[..., Any], wrap: Callable[..., Any]) -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(two(wrap(a, b))[0], a + b)


@pytest.mark.parametrize("call", [
    lambda f, x: f(),
    lambda f, x: f([x]),
    lambda f, x: f({"a": x, "c": x}),
    lambda f, x: f(x, a=x),
    lambda f, x: f(None, x),
    lambda f, x: f(x, x.astype(np.float64)),
    lambda f, x: f(x, np.ones((2, 4), np.float32)),
])  # fmt: skip
def test_what_does_not_fit_is_an_input_error(two: Callable[..., Any], call: Callable[..., Any]) -> None:
    with pytest.raises(InputError) as raised:
        call(two, np.ones((2, 3), np.float32))
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("target", ["llvm", "reference"])
def test_a_function_is_of_the_module_as_it_was(target: str) -> None:
    ir = forge.IRModule("def @main(%x: Tensor[(n), float32]) { %0 = nn.relu(%x); add(%0, 1f) }")
    function = ir.get_inference_function(target)
    with ir.edit() as e:
        e.remove(ir.main.find("nn.relu"))
    assert function(np.array([-1], np.float32)).tolist() == [1]


@pytest.mark.parametrize("target", ["llvm", "reference"])
def test_outputs_are_the_callers(target: str) -> None:
    text = "def @main(%x: Tensor[(4), float32], %w: Tensor[(4), float32]) { (%w, reshape(%x, newshape=[2, 2]), %x) }"
    ir = forge.IRModule(text, {"w": np.ones(4, np.float32)})
    function, x = ir.get_inference_function(target), np.ones(4, np.float32)
    for output in function(x):
        output[...] = 5
    assert x.tolist() == ir.params["w"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("target", ["llvm", "reference"])
def test_one_list_for_a_model_of_one_sequence_is_the_sequence(target: str) -> None:
    ir = forge.IRModule("def @main(%s: Sequence[Tensor[(2), float32]]) { sequence_length(%s) }")
    function = ir.get_inference_function(target)
    assert int(function([np.ones(2, np.float32)] * 3)) == int(function({"s": [np.ones(2, np.float32)] * 3})) == 3
    with pytest.raises(InputError):
        function(np.float32(3))


def test_one_output_is_an_array(digits: forge.IRModule) -> None:
    x = pictures()
    outputs = [digits.get_inference_function(t)(x) for t in ("llvm", "reference")]
    assert all(isinstance(y, np.ndarray) for y in outputs)
    assert np.abs(outputs[0] - outputs[1]).max() <= LIMIT * np.abs(outputs[1]).max()


def test_one_compilation_serves_every_batch(digits: forge.IRModule) -> None:
    f = digits.get_inference_function()
    for count in (1, 2, 7, 33):
        x = pictures(count)
        expected = reference(digits, x)[0]
        assert np.abs(f(x) - expected).max() <= LIMIT * np.abs(expected).max()


def test_outputs_are_written_into_given_arrays(digits_build: Path) -> None:
    runtime = forge.Runtime(digits_build)
    x, given = pictures(), np.full((5, 10), np.nan, np.float32)
    (returned,) = runtime.run([x], [given])
    assert returned is given or np.shares_memory(returned, given)
    np.testing.assert_array_equal(given, runtime(x))


def test_code_for_another_cpu_is_refused(digits: forge.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge.target.host.features", lambda: ("sse", "sse2"))
    with pytest.raises(TargetError, match="this CPU lacks"):
        digits.get_inference_function(target="llvm -mcpu=x86-64-v2")
