"""The interpreter: symbols, regions, params, calls, observers, mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from forge.errors import ForgeError
from forge.ir import Module
from forge.ir.interp import run_graph, run_module
from forge.ir.parser import parse_module
from forge.ir.verifier import verify


def module_of(text: str) -> Module:
    module = parse_module(text)
    verify(module)
    return module


def floats(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def run(text: str, **inputs: Any) -> list[Any]:
    return run_module(module_of(text), inputs)


def test_inputs_and_params() -> None:
    module = module_of("def @main(%x: Tensor[(n), float32], %w: Tensor[(n), float32]) { add(%x, %w) }")
    module.params["w"] = floats(3)
    assert run_module(module, {"x": floats(3)})[0].tolist() == [0, 2, 4]
    assert run_module(module, {"x": floats(3), "w": floats(3) * 10})[0].tolist() == [0, 11, 22]


def test_results_have_the_declared_dtype() -> None:
    (y,) = run('def @main(%x: Tensor[(2), float32]) { cast(sum(%x), dtype="bfloat16") }', x=floats(2))
    assert y.dtype.name == "bfloat16"
    assert y.shape == ()


def test_a_python_number_is_no_float32() -> None:
    with pytest.raises(ForgeError, match=r"%x: got float64; expected float32"):
        run("def @main(%x: float32) { %x }", x=1.0)


def test_symbols_in_attributes() -> None:
    text = "def @main(%x: Tensor[(n, (m + 1)), float32]) { reshape(%x, newshape=[n*(m + 1), 1]) }"
    assert run(text, x=floats(2, 3))[0].shape == (6, 1)


def test_a_symbol_that_only_an_expression_defines() -> None:
    text = "def @main(%x: Tensor[(2*n + 1), float32], %y: Tensor[(n), float32]) { (broadcast_to(1f, shape=[n]), %y) }"
    assert run(text, x=floats(7), y=floats(3))[0].shape == (3,)
    with pytest.raises(ForgeError, match=r"%y: axis 0: got 4; expected 3 = n for n = 3|%x: axis 0: got 7; expected 9"):
        run(text, x=floats(7), y=floats(4))
    with pytest.raises(ForgeError, match="no value for n"):
        run("def @main(%x: Tensor[(2*n), float32]) { broadcast_to(1f, shape=[n]) }", x=floats(3))


def test_sizes_of_data_dependent_results() -> None:
    text = (
        "def @main(%x: Tensor[(n), float32]) {\n"
        "  %0 = argwhere(%x) /* ty=Tensor[(found, 1), int64] */;\n"
        "  (reshape(%0, newshape=[found]), broadcast_to(2f, shape=[found, n]))\n}"
    )
    positions, filled = run(text, x=np.array([0, 1, 0, 5], np.float32))
    assert positions.tolist() == [1, 3]
    assert filled.shape == (2, 4)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"input 'x' has no value; expected: x, y"),
        ({"x": floats(3), "y": floats(3, 4), "z": floats(1)}, r"input 'z' is unknown; expected: x, y"),
        ({"x": floats(3, 1), "y": floats(3, 4)}, r"%x: got rank 2; expected 1 \(Tensor\[\(n\), float32\]\)"),
        ({"x": floats(3), "y": floats(3, 5)}, r"%y: axis 1: got 5; expected 4$"),
        ({"x": floats(3), "y": floats(2, 4)}, r"%y: axis 0: got 2; expected 3 = n for n = 3"),
        ({"x": floats(3).astype(np.int32), "y": floats(3, 4)}, r"%x: got int32; expected float32"),
        ({"x": np.array(["2020-01-01"] * 3, dtype="datetime64"), "y": floats(3, 4)}, "got datetime64"),
    ],
)
def test_mistakes(inputs: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ForgeError, match=message):
        run("def @main(%x: Tensor[(n), float32], %y: Tensor[(n, 4), float32]) { (%x, %y) }", **inputs)


def test_wrong_number_of_inputs() -> None:
    with pytest.raises(ForgeError, match="got 2 inputs; expected 1"):
        run_graph(module_of("def @main(%x: float32) { %x }").main, [1, 2])


IF = """def @main(%c: bool, %x: Tensor[(n), float32]) {
  if(%c, %x) { then_branch = fn (%a: Tensor[(n), float32]) { exp(%a) },
   else_branch = fn (%a: Tensor[(n), float32]) { reshape(%a, newshape=[n]) } }
}"""


def test_if_runs_one_branch() -> None:
    module = module_of(IF)
    seen: list[str] = []
    run_module(module, {"c": np.asarray(False), "x": floats(3)}, lambda node, results: seen.append(node.op))
    assert seen == ["reshape", "if"]
    assert run_module(module, {"c": np.asarray(True), "x": floats(1)})[0].tolist() == [1]


def test_loop_carries_and_collects() -> None:
    carried, collected = run(
        "def @main(%n: int64, %x: Tensor[(2), float32]) {\n"
        "  %0 = loop(%n, None, %x, num_carried=1) { body = fn (%i: int64, %go: bool, %v: Tensor[(2), float32]) {\n"
        "    %0 = add(%v, 1f); (%go, %0, %v) } };\n  (%0.0, %0.1) }",
        n=np.asarray(3), x=floats(2),
    )  # fmt: skip
    assert carried.tolist() == [3, 4]
    assert collected.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_a_stack_of_no_iterations_has_the_sizes_that_are_known() -> None:
    _, collected = run(
        "def @main(%n: int64, %x: Tensor[(s), float32]) {\n"
        "  %0 = loop(%n, None, %x, num_carried=1) { body = fn (%i: int64, %go: bool, %v: Tensor[(s), float32]) {\n"
        "    %0 = add(%v, 1f); (%go, %0, %v) } };\n  (%0.0, %0.1) }",
        n=np.asarray(0), x=floats(2),
    )  # fmt: skip
    assert collected.shape == (0, 2)


def test_calls_have_symbols_of_their_own() -> None:
    text = (
        "def @main(%x: Tensor[(n, m), float32]) { %0 = @flat(%x); %1 = transpose(%x); %2 = @flat(%1); (%0, %2) }\n"
        "def @flat(%v: Tensor[(m, n), float32]) { broadcast_to(reshape(%v, newshape=[1, m*n]), shape=[n, m*n]) }"
    )
    a, b = run(text, x=floats(2, 3))
    assert (a.shape, b.shape) == ((3, 6), (2, 6))


def test_calls_inside_regions() -> None:
    text = (
        "def @main(%c: bool, %x: Tensor[(n), float32]) {\n"
        "  if(%c, %x) { then_branch = fn (%a: Tensor[(n), float32]) { @f(%a) }, "
        "else_branch = fn (%a: Tensor[(n), float32]) { %a } }\n}\n"
        "def @f(%v: Tensor[(k), float32]) { add(%v, %v) }"
    )
    assert run(text, c=np.asarray(True), x=floats(3))[0].tolist() == [0, 2, 4]


def test_a_call_needs_its_module() -> None:
    module = module_of("def @main(%x: float32) { @f(%x) } def @f(%v: float32) { %v }")
    with pytest.raises(ForgeError, match="there is no function @f to call"):
        run_graph(module.main, [np.float32(1)])


def test_observer_sees_nodes_with_results() -> None:
    seen: dict[str, Any] = {}
    module = module_of(
        "def @main(%x: float32) { %a = exp(%x); %b = split(reshape(%a, newshape=[1]), indices_or_sections=1); %b }"
    )
    run_module(module, {"x": np.float32(0)}, lambda node, results: seen.update({node.op: [r.tolist() for r in results]}))
    assert seen == {"exp": [1.0], "reshape": [[1.0]], "split": [[1.0]]}
    assert list(seen) == ["exp", "reshape", "split"]


def test_floating_point_warnings_are_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    (y,) = run("def @main(%x: float32) { log(%x) }", x=np.float32(-1))
    assert np.isnan(y)
    assert not recwarn.list
