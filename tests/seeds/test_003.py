"""Seed 003: an article that walks through an ONNX importer; its code runs with ``import forge as tvm``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import forge as tvm
from forge import relay, te
from forge.errors import ConverterError, InputError, OptionError
from forge.relay.frontend.onnx import (
    AttrCvt,
    GraphProto,
    OnnxOpConverter,
    Renamer,
    _expr,
    _get_convert_map,
    _op,
    autopad,
    dimension_constraint,
    dimension_picker,
    get_relay_op,
    infer_shape,
)
from tests.frontends.onnx.support import example, model
from tests.seeds import article
from tests.seeds.items import differs, works
from tests.seeds.models import X, network, unary


@pytest.fixture(autouse=True)
def _cleared() -> Iterator[None]:
    yield
    for name in ("Selu", "Relu"):
        tvm.frontends.onnx.unregister(name)


class Selu(OnnxOpConverter):
    """Operator converter for Selu, word for word."""

    @classmethod
    def _impl_v1(cls, inputs, attr, params):  # type: ignore[no-untyped-def]
        alpha = float(attr.get("alpha", 1.6732))
        gamma = float(attr.get("gamma", 1.0507))
        return _expr.const(gamma) * (
            _expr.const(-alpha) * _op.nn.relu(_expr.const(1.0) - _op.exp(inputs[0])) + _op.nn.relu(inputs[0])
        )


@works("`torch.onnx.export(model, torch_img, 'resnet18.onnx', verbose=True, export_params=True)` loads")
def test_export_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    layers = (torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 5))
    net, x = torch.nn.Sequential(*layers).eval(), torch.from_numpy(X[:1])
    torch.onnx.export(net, x, tmp_path / "net.onnx", export_params=True, dynamo=False)
    run = tvm.from_onnx(onnx.load(tmp_path / "net.onnx")).get_inference_function()
    np.testing.assert_allclose(run(X[:1]), net(x).detach().numpy(), rtol=1e-4, atol=1e-5)


@works(
    "names `tvm.relay.frontend`, `relay.build_module`, `tvm.transform`, `tvm.nd`, `tvm.error`, `tvm.te`",
    note="`import forge as tvm`, `from forge import te`, `import forge.relay as relay`",
)
def test_names() -> None:
    assert tvm.relay is relay
    assert tvm.transform.PassContext is tvm.PassContext
    assert issubclass(tvm.error.OpNotImplemented, NotImplementedError)
    assert te.__name__ == "forge.te"
    assert tvm.nd.array([1.0]).asnumpy().tolist() == [1.0]


@works("`mod, params = relay.frontend.from_onnx(onnx_model, shape_dict)`", "`params`: dict of name to NDArray")
def test_pair() -> None:
    mod, params = relay.frontend.from_onnx(network(), {"x": X.shape})
    assert isinstance(mod, tvm.IRModule)
    assert all(isinstance(array, tvm.nd.NDArray) for array in params.values())
    assert set(params) >= {"w", "v", "u"}


@works('`def from_onnx(model, shape=None, dtype="float32", opset=None, freeze_params=False)`')
def test_signature() -> None:
    parameters = inspect.signature(relay.frontend.from_onnx).parameters
    assert {n: p.default for n, p in parameters.items() if n != "model"} == {
        "shape": None,
        "dtype": "float32",
        "opset": None,
        "freeze_params": False,
    }


@differs(
    "`forge.from_onnx` gives a pair",
    why="seed 000 has it return one module, and seed 001 has a module iterate over its nodes; "
    "`forge.relay.frontend.from_onnx` gives the pair",
)
def test_one_module() -> None:
    assert isinstance(tvm.from_onnx(network()), tvm.IRModule)


@works("the printed `mod`: inputs and weights as parameters, one line for each operator")
def test_printed_module() -> None:
    mod, _ = relay.frontend.from_onnx(network(), {"x": X.shape})
    first, *lines = str(mod.mod).splitlines()
    assert first.startswith("def @main(%x: Tensor[(2, 3, 6, 6), float32], %w: Tensor[(4, 3, 3, 3), float32]")
    assert "  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], kernel_size=[3, 3]);" in lines
    assert tvm.IRModule(str(mod.mod), mod.params, fold_constants=False, fold_batch_norms=False) == mod


@differs(
    "the printed `mod`: `%v193` for a weight called 193",
    "the printed `mod`: `nn.batch_flatten` twice, `multiply(1f, %fc.bias)`",
    why="names are kept, quoted where they are not identifiers; operators that do nothing are left out",
)
def test_quoted_names() -> None:
    proto = model("g (float[n] x) => (float[n] y) { y = Add(x, w) }", w=example(0, 1))
    proto.graph.initializer[0].name = proto.graph.node[0].input[1] = "193"
    mod, _ = relay.frontend.from_onnx(proto, {"x": (3,)})
    assert '%"193"' in str(mod.mod)


@works(
    '`with tvm.transform.PassContext(opt_level=1): intrp = relay.build_module.create_executor("graph", mod, tvm.cpu(0), target)`',
    "`intrp.evaluate()(tvm.nd.array(x.astype(dtype)), **params).asnumpy()`",
)
def test_execution() -> None:
    mod, params = relay.frontend.from_onnx(network(), {"x": X.shape})
    with tvm.transform.PassContext(opt_level=1):
        intrp = relay.build_module.create_executor("graph", mod, tvm.cpu(0), "llvm")
    tvm_output = intrp.evaluate()(tvm.nd.array(X.astype("float32")), **params).asnumpy()
    np.testing.assert_allclose(tvm_output, mod.get_inference_function("reference")(X), rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError):
        intrp.evaluate()(X, nothing=X)


@works("`PassContext(opt_level, required_pass, disabled_pass, config)`", note="a level given to `compile` wins")
def test_pass_context() -> None:
    with tvm.PassContext(
        opt_level=1, required_pass=["use_winograd"], disabled_pass=["fusion"], config={"set_float16": True}
    ) as c:
        assert tvm.PassContext.current() is c
    assert tvm.PassContext.current() is None
    for wrong in ({"opt_level": 9}, {"disabled_pass": ["magic"]}, {"config": {"magic": 1}}, {"config": [1]}):
        with pytest.raises(OptionError):
            tvm.PassContext(**wrong)  # type: ignore[arg-type]


@differs(
    "executor kinds `vm` and `aot`",
    "devices other than the CPU",
    why="`graph` compiles, `debug` interprets; code runs on CPUs only",
)
@pytest.mark.parametrize(("kind", "device"), [("vm", None), ("aot", None), ("graph", tvm.cpu(1))])
def test_executors_that_are_not_there(kind: str, device: Any) -> None:
    with pytest.raises(OptionError, match="expected"):
        relay.build_module.create_executor(kind, tvm.from_onnx(network()), device, "llvm")


@works("what `onnx.checker.check_model` finds is a warning")
def test_checker() -> None:
    proto = unary("Relu")
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("elem_type")
    with pytest.warns(UserWarning, match=r"onnx\.checker"):
        relay.frontend.from_onnx(proto, {"x": (2, 4)})


@works('"Input %s has unknown dimension shapes: %s. Specifying static values may improve performance"')
def test_unknown_dimensions() -> None:
    with pytest.warns(
        UserWarning, match="Input x has unknown dimension shapes: .*Specifying static values may improve performance"
    ):
        relay.frontend.from_onnx(unary("Relu"))


@works('"User specified the shape for inputs that weren\'t found in the graph"')
def test_shapes_of_unknown_inputs() -> None:
    with pytest.raises(tvm.errors.ImportModelError, match="'z'; expected an input: x"):
        relay.frontend.from_onnx(network(), {"z": (1,)})


@works("`tvm.error.OpNotImplemented`: all operators that are not supported, at once")
def test_unsupported_operators() -> None:
    proto = model("g (float[n] x) => (float[n] y) { a = acme.First(x)  y = acme.Second(a) }", domains={"acme": 1})
    with pytest.raises(tvm.error.OpNotImplemented, match=r"(?s)acme\.First.*acme\.Second"):
        relay.frontend.from_onnx(proto)


@works("absent inputs are None; absent outputs are dropped")
def test_absent_values() -> None:
    proto = model("g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y) { y, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x) }")
    proto.graph.node[0].output[1] = ""
    assert tvm.from_onnx(proto).output_count == 1
    clip = model("g (float[n] x) => (float[n] y) { y = Clip(x, , m) }", m=np.float32(1))
    np.testing.assert_array_equal(tvm.from_onnx(clip).get_inference_function("reference")(np.float32([0, 2])), [0, 1])


@works("`fold_constant`: constants are folded while importing")
def test_folding() -> None:
    proto = model("g (float[n] x) => (float[n] y) { s = Add(a, b)  y = Mul(x, s) }", a=np.float32(1), b=np.float32(2))
    assert tvm.from_onnx(proto).operators == {"multiply": 1}


@works(
    "`_get_convert_map(opset)`: a dict of operator to converter",
    "registration of a converter in `_convert_map`",
    "class `Selu(OnnxOpConverter)`, word for word: `_expr.const`, `_op.exp`, `_op.nn.relu`",
)
def test_convert_map() -> None:
    convert_map = _get_convert_map(13)
    assert callable(convert_map["Relu"])
    convert_map["Selu"] = Selu.get_converter(13)
    proto, x = unary("Selu", 13, alpha=1.5, gamma=1.1), example(0, 3, 4)
    mod, _ = relay.frontend.from_onnx(proto, {"x": x.shape})
    assert "nn.selu" not in mod.operators
    expected = 1.1 * np.where(x > 0, x, 1.5 * np.expm1(x))
    np.testing.assert_allclose(mod.get_inference_function()(x), expected, rtol=1e-5, atol=1e-6)


ARTICLE = """
Identity Affine BitShift ThresholdedRelu ScaledTanh ParametricSoftplus Constant ConstantOfShape FC Scale Upsample
SpatialBN Add Sub Mul Div Neg Abs Reciprocal Floor Ceil Round IsInf IsNaN Sqrt Relu LeakyRelu Selu Elu Exp Greater
Less Log Acos Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Tanh Pow PRelu Sigmoid HardSigmoid Max Min Sum Mean
Clip Softplus Softmax LogSoftmax OneHot Softsign Gemm MatMul Mod Xor AveragePool LpPool MaxPool MaxUnpool Conv
ConvTranspose GlobalAveragePool GlobalMaxPool BatchNormalization InstanceNormalization Dropout Flatten LRN LSTM GRU
MaxRoiPool RoiAlign NonMaxSuppression ReduceMax ReduceMin ReduceSum ReduceMean ReduceProd ReduceLogSumExp ReduceLogSum
ReduceSumSquare ReduceL1 ReduceL2 ArgMax ArgMin TopK Cast Reshape Expand Concat Split Slice Transpose DepthToSpace
SpaceToDepth Gather GatherElements GatherND Size Scatter ScatterElements Squeeze Unsqueeze Pad Shape Sign Equal Not
And Tile Erf Where Or Resize NonZero Range CumSum Loop If ATen QuantizeLinear DequantizeLinear DynamicQuantizeLinear
""".split()


@works(
    "the 131 operators of `_convert_map`", note="among them Affine, ScaledTanh, ParametricSoftplus, FC, Scale, SpatialBN and ATen"
)
def test_operators_of_the_map() -> None:
    assert len(ARTICLE) == 131
    assert set(ARTICLE) <= set(_get_convert_map(11))


@works("helper `Renamer`", "helper `AttrCvt`", "helpers `dimension_picker` and `dimension_constraint`", "helper `get_relay_op`")
def test_helpers() -> None:
    _get_convert_map(13)["Relu"] = Renamer("tanh")
    assert tvm.from_onnx(unary("Relu", 13)).operators == {"tanh": 1}
    _get_convert_map(13)["Relu"] = AttrCvt("nn.leaky_relu", {"slope": "alpha"}, extras={"alpha": 0.5})
    assert tvm.from_onnx(unary("Relu", 13)).operators == {"nn.leaky_relu": 1}
    assert dimension_picker("conv")({"kernel_shape": (3, 3)}) == "conv2d"
    check, _ = dimension_constraint()
    assert check({"kernel_shape": (3,)})
    assert callable(get_relay_op("conv2d"))


@works("helper `infer_shape`", "helper `autopad`", '`attr["tvm_custom"]`', '`attr["auto_pad"].decode("utf-8")`')
def test_what_converters_are_given() -> None:
    seen: dict[str, Any] = {}

    class Relu(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs, attr, params):  # type: ignore[no-untyped-def]
            padded = autopad(inputs[0], [1, 1], [2, 2], [1, 1], 4)
            seen.update(
                shape=infer_shape(inputs[0]), padded=infer_shape(padded), mode=attr["mode"].decode("utf-8"), **attr["tvm_custom"]
            )
            return _op.nn.relu(inputs[0])

    _get_convert_map(13)["Relu"] = Relu
    tvm.from_onnx(model('g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) { [act] y = Relu<mode="SAME">(x) }', opset=13))
    assert seen == {"shape": (1, 2, 4, 4), "padded": (1, 2, 5, 5), "mode": "SAME", "name": "act", "num_outputs": 1}


@works("class `Conv(OnnxOpConverter)`, word for word, and what it does with `auto_pad`")
@pytest.mark.parametrize(
    "attributes",
    ['auto_pad="SAME_UPPER", strides=[2, 2], dilations=[1, 1]', 'auto_pad="SAME_LOWER", strides=[2, 2], dilations=[1, 1]',
     'auto_pad="VALID"', "pads=[1, 1, 1, 1]"]
)
def test_convolution(attributes: str) -> None:
    from tests.test_relay_converters import Conv

    proto = model(
        f"g (float[1, 3, 6, 6] x) => (float[n, 4, h, v] y) {{ y = Conv<kernel_shape=[3, 3], {attributes}>(x, w, b) }}",
        w=example(0, 4, 3, 3, 3),
        b=example(1, 4),
    )
    expected = tvm.from_onnx(proto).get_inference_function("reference")(X[:1])
    convert_map = _get_convert_map(21)
    convert_map["Conv"] = Conv
    got = tvm.from_onnx(proto).get_inference_function("reference")(X[:1])
    del convert_map["Conv"]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@works("`OnnxOpConverter.get_converter(opset)`: the newest `_impl_vx` that is not newer")
def test_get_converter() -> None:
    class Versions(OnnxOpConverter):
        _impl_v1 = classmethod(lambda cls, inputs, attr, params: 1)
        _impl_v7 = classmethod(lambda cls, inputs, attr, params: 7)

    found = [Versions.get_converter(opset)([], {}, {}) for opset in (1, 6, 7, 20)]
    assert found == [1, 1, 7, 7]


MODELS = {
    "network": (network(), {"x": X}),
    "several results": (
        model("g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y, int64[1, 1, 2, 2] i) "
              "{ y, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x) }"), {"x": example(0, 1, 1, 4, 4)}),
    "constants": (
        model("g (float[4, 6] x) => (float[4, n] y) { a, b = Split<axis=1>(x, s)  c = Constant<value_float=2.5>()  d = Mul(c, b) "
              "y = Add(a, d) }", s=np.int64([3, 3])), {"x": example(0, 4, 6)}),
    "branches": (
        model("g (float[4, 6] x, bool c) => (float[4, 6] y) { d = Mul(x, w)  y = If(c) <then_branch = t () => (float[4, 6] a) "
              "{ n = Neg(d)  a = If(c) <then_branch = u () => (float[4, 6] p) { p = Add(n, w) }, "
              "else_branch = v () => (float[4, 6] q) { q = Identity(n) }> }, "
              "else_branch = e () => (float[4, 6] b) { b = Sub(d, x) }> }", w=example(1, 6)),
        {"x": example(0, 4, 6), "c": np.array(True)}),
    "iterations": (
        model("g (float[4, 6] x, int64 n) => (float[4, 6] y, float[k, 6] z) { y, z = Loop(n, , x) <body = b (int64 i, bool go, "
              "float[4, 6] s) => (bool on, float[4, 6] t, float[6] r) { on = Identity(go)  t = Add(s, w)  r = Gather(x, i) }> }",
              w=example(1, 6)), {"x": example(0, 4, 6), "n": np.array(3)}),
    "absent": (model("g (float[n] x) => (float[n] y) { y = Clip(x, , m) }", m=np.float32(1)), {"x": example(0, 5)}),
}  # fmt: skip


@works(
    "class `GraphProto`: `from_onnx(graph, opset, get_output_expr)`, `_convert_operator`, `_parse_array`, `_parse_attr`, "
    "`_parse_value_proto`, `_fix_outputs`, and as a scope",
    "the bodies of `from_onnx` and `_convert_operator` as the article prints them",
    "`new_var`, `get_info`, `onnx_input`, `fold_constant`, `_identity_list`, `analysis.free_vars`, `_function.Function`, "
    "`_expr.TupleWrapper`, `_expr.Tuple`, `IRModule.from_expr`",
    note="it goes from node to node; `forge.from_onnx` also knows functions and files",
)
@pytest.mark.filterwarnings("ignore:Input x has unknown dimension shapes")
@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("importer", ["of the article", "of Forge"])
@pytest.mark.parametrize("name", MODELS)
def test_graph_proto(name: str, importer: str, freeze: bool) -> None:
    proto, feeds = MODELS[name]
    shape = {key: array.shape for key, array in feeds.items()}
    if importer == "of the article":
        mod, params = article.from_onnx(proto, shape, freeze_params=freeze)
    else:
        with GraphProto(shape, freeze_params=freeze) as g:
            mod, params = g.from_onnx(proto.graph, proto.opset_import[0].version)
    assert GraphProto.current is None
    assert set(params) == (set() if freeze else {tensor.name for tensor in proto.graph.initializer})
    got = mod.get_inference_function()(**feeds, **{key: array for key, array in params.items() if key in mod.input_names})
    expected = tvm.from_onnx(proto).get_inference_function("reference")(**feeds)
    for one, other in zip(*(results if isinstance(results, list) else [results] for results in (got, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_expressions_of_graph_protos() -> None:
    proto, _ = MODELS["several results"]
    with GraphProto() as g:
        results = g.from_onnx(proto.graph, 21, get_output_expr=True)
    assert isinstance(results, _expr.Tuple)
    assert [value.shape for value in results.fields] == [(1, 1, 2, 2)] * 2
    assert relay.analysis.free_vars(results) == [g._nodes["x"]]
    with pytest.raises(tvm.error.OpNotImplemented, match="not supported for frontend ONNX: Magic"):
        GraphProto().from_onnx(model("g (float[2] x) => (float[2] y) { y = acme.Magic(x) }", domains={"acme": 1}).graph, 13)
    with pytest.raises(tvm.errors.ImportModelError, match=r"weren't found in the graph: 'z'; expected inputs: x"):
        GraphProto({"z": (1,)}).from_onnx(proto.graph, 21)


def test_graphs_and_variables_that_are_refused() -> None:
    capturing = model("g (float[2] x, bool c) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] a) { a = Neg(z) }, "
                      "else_branch = e () => (float[2] b) { b = Abs(x) }> }")
    with pytest.raises(tvm.error.ImportModelError, match="value 'z' is used but nothing defines it"):
        GraphProto().from_onnx(capturing.graph, 21)
    with pytest.raises(tvm.errors.ImportModelError, match="value 'z' is used but nothing before defines it"):
        GraphProto().from_onnx(model("g (float[2] x) => (float[2] y) { y = Neg(z)  z = Abs(x) }").graph, 21)
    for wrong in ({"shape": (1.5,)}, {"shape": (2,), "dtype": "float99"}, {}):
        with pytest.raises(tvm.errors.InvalidGraphError, match="var 'x'"):
            relay.var("x", **wrong)


def test_expressions_of_models_and_of_none_do_not_mix_by_accident() -> None:
    """Constants go anywhere; a variable of another graph is refused by the verifier."""
    table = relay.const(np.float32([1, 2, 3]))
    _get_convert_map(13)["Relu"] = lambda inputs, attr, params: table * inputs[0] + table
    got = tvm.from_onnx(model("g (float[3] x) => (float[3] y) { y = Relu(x) }", opset=13)).get_inference_function()
    np.testing.assert_allclose(got(np.float32([1, 1, 1])), [2, 4, 6])
    stranger = relay.var("v", shape=(3,))
    _get_convert_map(13)["Relu"] = lambda inputs, attr, params: inputs[0] + stranger
    with pytest.raises(tvm.errors.ForgeError):
        tvm.from_onnx(model("g (float[3] x) => (float[3] y) { y = Relu(x) }", opset=13))


@works("an error inside of a converter names the converter and the node")
def test_errors_of_converters() -> None:
    class Relu(OnnxOpConverter):
        @classmethod
        def _impl_v1(cls, inputs, attr, params):  # type: ignore[no-untyped-def]
            return attr["missing"]

    _get_convert_map(13)["Relu"] = Relu
    with pytest.raises(ConverterError, match="Relu") as raised:
        tvm.from_onnx(unary("Relu", 13))
    cause: BaseException | None = raised.value
    while isinstance(cause, ConverterError):
        cause = cause.__cause__
    assert isinstance(cause, KeyError)


@differs("string attributes are bytes", why="they are `str` with a `decode`, so that old code runs and new code needs none")
def test_texts_of_attributes() -> None:
    seen = []
    _get_convert_map(13)["Relu"] = lambda inputs, attr, params: seen.append(attr["mode"]) or _op.nn.relu(inputs[0])
    tvm.from_onnx(model('g (float[n] x) => (float[n] y) { y = Relu<mode="SAME">(x) }', opset=13))
    assert seen == ["SAME"]
    assert seen[0].decode("utf-8") == "SAME"


@differs(
    "the operator ATen stands for all of PyTorch",
    why="`arange`, `embedding_bag`, `index_put`, `reshape` and `size` are converted; others are refused by name",
)
def test_aten() -> None:
    proto = model('g (float[2, 3] x) => (int64[2] y) { y = ATen<operator="size">(x) }', opset=11)
    assert tvm.from_onnx(proto).get_inference_function("reference")(example(0, 2, 3)).tolist() == [2, 3]
    proto.graph.node[0].attribute[0].s = b"magic"
    with pytest.raises(tvm.error.OpNotImplemented, match=r"magic.*embedding_bag"):
        tvm.from_onnx(proto)


@differs("weights are parameters without values", why="the module knows them too: it runs without `params`; they are compiled in")
def test_module_without_params() -> None:
    mod, params = relay.frontend.from_onnx(network(), {"x": X.shape})
    executor = relay.build_module.create_executor("debug", mod, tvm.cpu(0), "llvm").evaluate()
    np.testing.assert_allclose(executor(X), executor(X, **params), rtol=1e-6)
