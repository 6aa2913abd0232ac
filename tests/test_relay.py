"""Programs written for Relay: they run with ``import forge as tvm``."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import forge
import forge as tvm
import forge.relay as relay
from forge.errors import ImportModelError, OpNotImplemented, OptionError
from tests.frontends.onnx.support import example, model

NETWORK = """g (float[1, 3, 6, 6] img) => (float[1, 5] y) {
    c = Conv<kernel_shape=[3, 3], pads=[1, 1, 1, 1]>(img, w, b)
    r = Relu(c)
    p = GlobalAveragePool(r)
    f = Flatten(p)
    y = Gemm<transB=1>(f, v)
}"""
WEIGHTS = {"w": example(0, 4, 3, 3, 3), "b": example(1, 4), "v": example(2, 5, 4)}
X = example(3, 1, 3, 6, 6).astype(np.float64)
PROGRAM = """
import onnx
import numpy as np
import tvm
from tvm import te
import tvm.relay as relay
onnx_model = onnx.load('model.onnx')
target = "llvm"
input_name = "img"
shape_dict = {input_name: x.shape}
mod, params = relay.frontend.from_onnx(onnx_model, shape_dict)
with tvm.transform.PassContext(opt_level=1):
    intrp = relay.build_module.create_executor("graph", mod, tvm.cpu(0), target)
dtype = "float32"
tvm_output = intrp.evaluate()(tvm.nd.array(x.astype(dtype)), **params).asnumpy()
"""


def network(**weights: Any) -> onnx.ModelProto:
    return model(NETWORK, **{**WEIGHTS, **weights})


def expected(x: np.ndarray = X, **weights: Any) -> Any:
    ir = forge.from_onnx(network(**weights))
    return ir.get_inference_function("reference")(x.astype(np.float32))


def test_the_program_of_the_article_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(network(), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"x": X}
    exec(PROGRAM.replace("import tvm\n", "import forge as tvm\n").replace("from tvm", "from forge")  # noqa: S102
         .replace("import tvm.relay", "import forge.relay"), names)
    assert type(names["tvm_output"]) is np.ndarray
    np.testing.assert_allclose(names["tvm_output"], expected(), rtol=1e-5, atol=1e-6)


def test_weights_are_a_pair_with_the_module() -> None:
    mod, params = relay.frontend.from_onnx(network())
    assert isinstance(mod, forge.IRModule)
    assert [v.name for v in mod.main.inputs] == ["img", "w", "b", "v"]
    assert list(params) == ["w", "b", "v"]
    for name, array in params.items():
        assert isinstance(array, tvm.nd.NDArray)
        np.testing.assert_array_equal(array.asnumpy(), WEIGHTS[name])
    frozen, none = relay.frontend.from_onnx(network(), freeze_params=True)
    assert none == {}
    assert frozen.input_names == ["img"] and len(frozen.main.inputs) == 1


def test_the_module_prints_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    mod, _ = relay.frontend.from_onnx(network())
    print(mod)  # noqa: T201
    printed = capsys.readouterr().out
    assert printed.startswith("def @main(%img: Tensor[(1, 3, 6, 6), float32], %w: Tensor[(4, 3, 3, 3), float32], ")
    assert "%0 = nn.conv2d(%img, %w, padding=[1, 1, 1, 1], kernel_size=[3, 3]);" in printed
    assert repr(mod).startswith("<forge.IRModule (img: ")


def test_one_module_of_one_node_is_never_mistaken_for_a_pair() -> None:
    two = model("g (float[2] x) => (float[2] y) { h = Relu(x)  y = Neg(h) }")
    assert [node.op for node in forge.from_onnx(two)] == ["nn.relu", "negative"]
    mod, params = relay.frontend.from_onnx(two)
    assert [node.op for node in mod] == ["nn.relu", "negative"]
    assert params == {}


def test_weights_of_the_caller_take_the_place_of_those_of_the_model() -> None:
    mod, params = relay.frontend.from_onnx(network())
    run = relay.create_executor("debug", mod).evaluate()
    other = example(9, 5, 4)
    got = run(tvm.nd.array(X.astype("float32"), tvm.cpu(0)), **{**params, "v": tvm.nd.array(other)})
    assert isinstance(got, tvm.nd.NDArray)
    np.testing.assert_allclose(got, expected(v=other), rtol=1e-5, atol=1e-6)


def test_weights_of_the_model_itself_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    mod, params = relay.frontend.from_onnx(network())
    run = relay.create_executor("debug", mod).evaluate()
    monkeypatch.setattr("forge.executor._bytes", lambda array: pytest.fail("compared"))
    run(X.astype("float32"), **params)


def test_results_of_several_outputs_are_arrays_each() -> None:
    proto = model("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x)  z = Neg(x) }")
    mod, params = relay.frontend.from_onnx(proto)
    got = relay.create_executor("debug", mod).evaluate()(np.ones(2, np.float32), **params)
    assert [type(array) for array in got] == [tvm.nd.NDArray, tvm.nd.NDArray]


def test_arrays() -> None:
    source = np.arange(3, dtype=np.float32)
    array = tvm.nd.array(source)
    source[0] = 9
    assert array.tolist() == [0, 1, 2]
    assert array.dtype == "float32"
    own = array.asnumpy()
    own[0] = 5
    assert array.tolist() == array.numpy().tolist() == [0, 1, 2]
    with pytest.raises(OptionError, match=r"nd.array: device: got cpu\(1\); expected forge.cpu\(0\)"):
        tvm.nd.array(source, tvm.cpu(1))
    with pytest.raises(OptionError, match=r"nd.array: .*convert it with astype"):
        tvm.nd.array(np.zeros(2, "datetime64[s]"))


def test_what_the_checker_finds_is_a_warning() -> None:
    proto = network()
    proto.graph.name = ""
    with pytest.warns(UserWarning, match="model: onnx.checker: Field 'name' of 'graph' is required to be non-empty") as caught:
        mod, _ = relay.frontend.from_onnx(proto)
    assert caught[0].filename == __file__
    assert mod.output_shapes == [(1, 5)]


def test_unknown_sizes_are_a_warning() -> None:
    proto = network()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    told = r"Input img has unknown dimension shapes: \['batch', 3, 6, 6\]. Specifying static values may improve performance"
    with pytest.warns(UserWarning, match=told) as caught:
        relay.frontend.from_onnx(proto)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.frontend.from_onnx(proto, {"img": X.shape})
        forge.from_onnx(proto)


def test_the_signature_is_that_of_the_article() -> None:
    parameters = inspect.signature(relay.frontend.from_onnx).parameters.values()
    assert [(p.name, p.default) for p in parameters] == [
        ("model", inspect.Parameter.empty), ("shape", None), ("dtype", "float32"), ("opset", None), ("freeze_params", False)]


def test_other_arguments() -> None:
    proto = model("g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax<axis=1>(x) }", opset=13)
    x = example(0, 2, 3, 4)
    for opset, total in ((None, 8), (11, 2)):
        mod, _ = relay.frontend.from_onnx(proto, opset=opset)
        assert mod.get_inference_function("reference")(x).sum() == pytest.approx(total, rel=1e-5)
    assert relay.frontend.from_onnx(proto, dtype={"x": "float64"})[0].input_dtypes == ["float64"]
    with pytest.raises(ImportModelError, match="shape= names 'z'; expected an input: x"):
        relay.frontend.from_onnx(proto, {"z": (1,)})
    with pytest.raises(OptionError, match="freeze_params: got 1; expected True or False"):
        relay.frontend.from_onnx(proto, freeze_params=1)  # type: ignore[arg-type]


def test_operators_without_a_converter_are_one_error() -> None:
    proto = model("g (float[2] x) => (float[2] y) { h = com.acme.A(x)  y = com.acme.B(h) }", domains={"com.acme": 1})
    with pytest.raises(tvm.error.OpNotImplemented, match=r"(?s)2 operators.*com.acme.A.*com.acme.B"):
        relay.frontend.from_onnx(proto)
    assert tvm.error.OpNotImplemented is OpNotImplemented


def test_names_are_found_and_others_are_not() -> None:
    assert relay.const(1.5) == 1.5
    assert relay.create_executor is relay.build_module.create_executor is forge.create_executor
    assert tvm.transform.PassContext is forge.PassContext
    assert tvm.frontend.from_onnx == forge.from_onnx
    for package in (forge, relay, relay.frontend, forge.relax):
        with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'no_such'"):
            _ = package.no_such
    assert {"build_module", "frontend", "op"} <= set(dir(relay))


def test_importing_brings_no_framework_and_no_compiler() -> None:
    code = ("import sys, forge, forge.relay, forge.nd\n"
            "print(*({'onnx', 'torch', 'llvmlite', 'forge.lowering', 'forge.driver'} & set(sys.modules)))")
    assert not subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
