"""Branches of If that give different ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from forge.driver import compile_module
from forge.errors import ExecutionError, ForgeError, ImportModelError
from forge.frontends.onnx import import_model
from forge.ir.graph import Module
from forge.ir.interp import run_module
from forge.ir.types import UnrankedType

VECTOR = np.array([1, 2, 3], np.float32)


def model(uses: str, result: str = "float[n] y") -> Module:
    text = f"""<ir_version: 9, opset_import: ["" : 20]>
    g (bool c, float[n] x) => ({result}) {{
      zero = Constant <value_float: float = 2.0> ()
      s = If (c) <then_branch: graph = t () => (float a) {{ a = Identity (zero) }},
                  else_branch: graph = e () => (float[n] b) {{ b = Neg (x) }}>
      {uses}
    }}"""
    return import_model(onnx.parser.parse_model(text).SerializeToString())


def run(module: Module, condition: bool) -> np.ndarray:
    inputs = {"c": np.array(condition), "x": VECTOR}
    (expected,) = run_module(module, inputs)
    got = compile_module(module, use_cache=False).runtime()(**inputs)
    np.testing.assert_array_equal(got, expected)
    assert got.shape == expected.shape
    return np.asarray(got)


@pytest.mark.parametrize(("uses", "then", "otherwise"), [
    ("y = Mul (s, x)", 2 * VECTOR, -VECTOR * VECTOR),
    ("k = Abs (s) l = Add (k, s) y = Add (l, x)", 4 + VECTOR, VECTOR),
    ("i = CastLike (x, s) y = Add (i, s)", 2 + VECTOR, 0 * VECTOR),
    ("y = If (c) <then_branch: graph = t2 () => (float[n] d) { d = Mul (s, x) }, "
     "else_branch: graph = e2 () => (float[n] f) { f = Sub (s, x) }>", 2 * VECTOR, -2 * VECTOR),
])
def test_broadcasting_hides_the_rank(uses: str, then: np.ndarray, otherwise: np.ndarray) -> None:
    module = model(uses)
    np.testing.assert_array_equal(run(module, True), then)
    np.testing.assert_array_equal(run(module, False), otherwise)


def test_an_output_keeps_its_rank() -> None:
    module = model("y = Identity (s)", "float y")
    assert isinstance(module.main.outputs[0].type, UnrankedType)
    assert run(module, True).shape == () and run(module, False).shape == (3,)


@pytest.mark.parametrize(("uses", "result", "then", "otherwise"), [
    ("y = Transpose (s)", "float[n] y", np.float32(2), -VECTOR),
    ("h = Shape (s) y = Size (h)", "int64 y", 0, 1),
    ("k = Add (s, s) y = Neg (k)", "float[n] y", np.float32(-4), 2 * VECTOR),
    ("h = Shape (s) y = If (c) <then_branch: graph = t2 () => (int64[d] d) { d = Identity (h) }, "
     "else_branch: graph = e2 () => (int64[f] f) { f = Add (h, h) }>", "int64[k] y", np.zeros(0, np.int64), [6]),
])
def test_what_shows_the_rank_is_converted_in_both_branches(uses: str, result: str, then: Any, otherwise: Any) -> None:
    module = model(uses, result)
    np.testing.assert_array_equal(run(module, True), then, strict=False)
    np.testing.assert_array_equal(run(module, False), otherwise, strict=False)


def test_the_results_of_both_branches_have_one_type() -> None:
    module = model("h = Shape (s) k = Size (h) y = Mul (x, x)", "float[n] y")
    assert str(module.main.outputs[0].type) == "Tensor[(n), float32]"


def test_a_branch_that_does_not_fit_fails_when_it_is_taken() -> None:
    with pytest.warns(UserWarning, match=r"one of its branches will fail when it is taken: .*ScatterElements"):
        module = model("i = Constant <value_ints: ints = [0]> () u = Constant <value_floats: floats = [7.0]> () "
                       "y = ScatterElements (s, i, u)")
    np.testing.assert_array_equal(run(module, False), [7, -2, -3])
    inputs = {"c": np.array(True), "x": VECTOR}
    with pytest.raises(ExecutionError, match="branch_that_does_not_fit"):
        compile_module(module, use_cache=False).runtime()(**inputs)
    with pytest.raises(ValueError, match="the optional is empty"):
        run_module(module, inputs)


def test_a_use_that_fits_neither_branch_is_refused() -> None:
    with pytest.raises(ImportModelError, match="different ranks, and Softmax depends on its rank; expected equal ranks"):
        model("y = Softmax <axis: int = 3> (s)")


def test_loops_do_not_carry_it() -> None:
    with pytest.raises(ForgeError, match="different ranks, and it is an output"):
        model("""t = Constant <value_int: int = 2> () k = Abs (s)
                 y = Loop (t, , x) <body: graph = b (int64 i, bool r, float[n] v) => (bool q, float[n] w) {
                   q = Identity (r) w = Abs (s) }>""")
