"""Executors: the flow of seed systems, weights given by call, kinds and devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import forge
from forge.errors import InputError, InvalidGraphError, OptionError
from forge.executor import Device
from forge.options import CompileOptions
from tests.frontends.onnx.support import example, model

NETWORK = """g (float[n, 3, 6, 6] x) => (float[n, 5] y) {
    c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(x, w, b)
    r = Relu(c)
    p = GlobalAveragePool(r)
    f = Flatten(p)
    y = Gemm<transB=1>(f, v)
}"""
X = example(3, 2, 3, 6, 6)


def network() -> onnx.ModelProto:
    return model(NETWORK, w=example(0, 4, 3, 3, 3), b=example(1, 4), v=example(2, 5, 4))


def expected(x: np.ndarray = X, **weights: Any) -> Any:
    ir = forge.from_onnx(network(), freeze_params=False)
    return forge.IRModule(ir, weights).get_inference_function("reference")(x)


def test_the_flow_of_the_seeds() -> None:
    ir = forge.from_onnx(network(), {"x": X.shape}, freeze_params=False)
    mod, params = ir, ir.params
    with forge.PassContext(opt_level=1):
        executor = forge.create_executor("graph", mod, forge.cpu(0), "llvm")
    np.testing.assert_allclose(executor.evaluate()(X, **params), expected(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["graph", "debug"])
def test_kinds_agree(kind: str) -> None:
    function = forge.create_executor(kind, forge.from_onnx(network())).evaluate()
    np.testing.assert_allclose(function(X), expected(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(function(x=X[:1]), expected(X[:1]), rtol=1e-5, atol=1e-6)


def test_weights_of_a_call_take_the_place_of_those_of_the_module() -> None:
    ir = forge.from_onnx(network(), freeze_params=False)
    function = forge.create_executor("graph", ir).evaluate()
    other = example(7, 5, 4)
    np.testing.assert_allclose(function(X, v=other), expected(v=other), rtol=1e-5, atol=1e-6)
    other[:] = example(8, 5, 4)
    np.testing.assert_allclose(function(X, v=other), expected(v=other), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(function(X, **ir.params), expected(), rtol=1e-5, atol=1e-6)


def test_equal_weights_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    build = forge.executor._compiled  # type: ignore[attr-defined]
    monkeypatch.setattr("forge.executor._compiled", lambda *args: compiled.append(args) or build(*args))
    ir = forge.from_onnx(network(), freeze_params=False)
    function = forge.create_executor("graph", ir).evaluate()
    function(X, **ir.params)
    function(X, **{name: array.copy() for name, array in ir.params.items()})
    assert len(compiled) == 1


def test_weights_without_a_module_value_are_inputs() -> None:
    ir = forge.from_onnx(network(), freeze_params=False)
    bare = forge.IRModule(str(ir.mod))
    np.testing.assert_allclose(
        forge.create_executor("graph", bare).evaluate()(X, **ir.params), expected(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        forge.create_executor("graph", bare, params=ir.params).evaluate()(X), expected(), rtol=1e-5, atol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    ir = forge.from_onnx(network(), freeze_params=False)
    function = forge.create_executor("graph", ir).evaluate()
    with pytest.raises(InputError, match=r"evaluate: params: 'v': got float32 of shape \(4, 4\); expected Tensor\[\(5, 4\)"):
        function(X, v=example(0, 4, 4))
    with pytest.raises(InputError, match="'u'"):
        function(X, u=example(0, 4, 4))
    with pytest.raises(InvalidGraphError, match="params: 'u' names no input of @main"):
        forge.create_executor("graph", ir, params={"u": X})
    np.testing.assert_allclose(function(X), expected(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "vm"}, "kind: got 'vm'; expected 'graph' or 'debug'"),
        ({"device": Device("cuda")}, r"device: got cuda\(0\); expected forge.cpu\(0\)"),
        ({"device": forge.cpu(1)}, r"device: got cpu\(1\); expected forge.cpu\(0\)"),
    ],
)
def test_other_kinds_and_devices_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        forge.create_executor(**{"kind": "graph", "mod": forge.from_onnx(network()), **arguments})


def test_a_bad_target_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="target"):
        forge.create_executor("graph", forge.from_onnx(network()), target="cuda")


def levels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    from forge import executor

    def compile_module(module: Any, options: CompileOptions) -> Any:
        seen.append(options.opt_level)
        return build(module, options)

    build = executor.compile_module
    monkeypatch.setattr(executor, "compile_module", compile_module)
    return seen


def test_the_context_around_the_creation_counts_unless_there_is_one_around_evaluate(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = levels(monkeypatch)
    ir = forge.from_onnx(network(), freeze_params=False)
    with forge.PassContext(opt_level=1):
        executor = forge.create_executor("graph", ir)
    function = executor.evaluate()
    with forge.PassContext(opt_level=2):
        executor.evaluate()
        function(X, v=example(0, 5, 4))
    forge.create_executor("graph", ir).evaluate()
    assert seen == [1, 2, 1, 3]
