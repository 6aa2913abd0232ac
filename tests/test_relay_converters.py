"""Converters as they were written for Relay: classes, helpers, the dictionary of an opset, and whose fault an error is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

import forge as tvm
from forge.errors import ConverterError, OpAttributeInvalid, OpAttributeUnimplemented, OpNotImplemented
from forge.frontends.onnx import import_model, register, unregister
from forge.relay.frontend.onnx import (
    AttrCvt,
    OnnxOpConverter,
    Renamer,
    _expr,
    _get_convert_map,
    _op,
    autopad,
    dimension_constraint,
    dimension_picker,
    get_relay_op,
    infer_channels,
    infer_shape,
    infer_type,
)
from tests.frontends.onnx.support import example, model, ops, run

DOMAIN = "com.acme"
X = example(0, 2, 3)


@pytest.fixture(autouse=True)
def _cleared() -> Iterator[None]:
    yield
    for name in ("Op", "Selu", "Conv", "Relu"):
        unregister(name, domain=DOMAIN)
        unregister(name)


class Conv(OnnxOpConverter):
    """Operator converter for Conv, word for word as the article has it."""

    @classmethod
    def _impl_v1(cls, inputs, attr, params):  # type: ignore[no-untyped-def]
        # Use shape of input to determine convolution type.
        data = inputs[0]
        input_shape = infer_shape(data)
        ndim = len(input_shape)
        if "auto_pad" in attr:
            attr["auto_pad"] = attr["auto_pad"].decode("utf-8")
            if attr["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
                # Warning: Convolution does not yet support dynamic shapes,
                # one will need to run dynamic_to_static on this model after import
                data = autopad(data, attr["strides"], attr["kernel_shape"], attr["dilations"], ndim)
            elif attr["auto_pad"] == "VALID":
                attr["pads"] = tuple([0 for i in range(ndim - 2)])
            elif attr["auto_pad"] == "NOTSET":
                pass
            else:
                msg = 'Value {} in attribute "auto_pad" of operator Conv is invalid.'
                raise tvm.error.OpAttributeInvalid(msg.format(attr["auto_pad"]))
            attr.pop("auto_pad")

        out = AttrCvt(
            op_name=dimension_picker("conv"),
            transforms={
                "kernel_shape": "kernel_size",
                "dilations": ("dilation", 1),
                "pads": ("padding", 0),
                "group": ("groups", 1),
            },
            custom_check=dimension_constraint(),
        )([data, inputs[1]], attr, params)

        use_bias = len(inputs) == 3
        if use_bias:
            out = _op.nn.bias_add(out, inputs[2])
        return out


class Selu(OnnxOpConverter):
    """Operator converter for Selu, word for word as the article has it."""

    @classmethod
    def _impl_v1(cls, inputs, attr, params):  # type: ignore[no-untyped-def]
        alpha = float(attr.get("alpha", 1.6732))
        gamma = float(attr.get("gamma", 1.0507))
        return _expr.const(gamma) * (
            _expr.const(-alpha) * _op.nn.relu(_expr.const(1.0) - _op.exp(inputs[0]))
            + _op.nn.relu(inputs[0])
        )  # fmt: skip


def convolution(rank: int, attributes: str, bias: bool = True, batch: str = "n") -> tuple[onnx.ModelProto, np.ndarray]:
    sizes = ", ".join(map(str, (7, 6, 5)[:rank]))
    weights = {"w": example(1, 4, 4 // 2, *(3,) * rank), **({"b": example(2, 4)} if bias else {})}
    call = f"Conv<group=2, kernel_shape={[3] * rank}{attributes}>(x, w{', b' * bias})"
    return model(f"g (float[{batch}, 4, {sizes}] x) => (y) {{ y = {call} }}", **weights), example(3, 2, 4, *(7, 6, 5)[:rank])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    ("attributes", "bias"), [(", auto_pad=\"SAME_UPPER\", strides={s}, dilations={d}", True), (", auto_pad=\"VALID\"", False),
                             (", auto_pad=\"NOTSET\", pads={p}, dilations={d}", True), (", strides={s}", False)],
    ids=["same", "valid", "notset", "none"])  # fmt: skip
def test_the_convolution_of_the_article(rank: int, attributes: str, bias: bool) -> None:
    filled = attributes.format(s=[2] * rank, d=[1] * rank, p=[1, 2, 1, 0, 1, 1][: 2 * rank])
    proto, x = convolution(rank, filled, bias)
    (expected,) = run(proto, x)
    before = ops(import_model(proto))
    _get_convert_map(21)["Conv"] = Conv
    (got,) = run(proto, x)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    assert ("nn.pad" in ops(import_model(proto))) == ("SAME" in attributes)
    del _get_convert_map(21)["Conv"]
    assert ops(import_model(proto)) == before


def test_the_convolution_of_the_article_refuses_what_it_does_not_know() -> None:
    _get_convert_map(21)["Conv"] = Conv
    proto, _ = convolution(2, ', auto_pad="FOO"')
    with pytest.raises(OpAttributeInvalid, match=r"node 'Conv_0' .*: Value FOO in attribute \"auto_pad\" of operator"):
        import_model(proto)


@pytest.mark.parametrize("converter", [Selu, Selu.get_converter(13)])
def test_the_new_operator_of_the_article_is_put_into_the_map(converter: Any) -> None:
    convert_map = _get_convert_map(13)
    convert_map["Selu"] = converter
    proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Selu<alpha = 2.0, gamma = 1.5>(x) }", opset=13)
    assert "nn.selu" not in ops(import_model(proto))
    np.testing.assert_allclose(run(proto, X)[0], 1.5 * np.where(X > 0, X, 2 * np.expm1(X)), rtol=1e-5)
    del convert_map["Selu"]
    assert ops(import_model(proto)) == ["nn.selu"]
    with pytest.raises(KeyError):
        del convert_map["Selu"]


ARTICLE = """Identity Affine BitShift ThresholdedRelu ScaledTanh ParametricSoftplus Constant ConstantOfShape FC Scale Upsample
SpatialBN Add Sub Mul Div Neg Abs Reciprocal Floor Ceil Round IsInf IsNaN Sqrt Relu LeakyRelu Selu Elu Exp Greater Less Log Acos
Acosh Asin Asinh Atan Atanh Cos Cosh Sin Sinh Tan Tanh Pow PRelu Sigmoid HardSigmoid Max Min Sum Mean Clip Softplus Softmax
LogSoftmax OneHot Softsign Gemm MatMul Mod Xor AveragePool LpPool MaxPool MaxUnpool Conv ConvTranspose GlobalAveragePool
GlobalMaxPool BatchNormalization InstanceNormalization Dropout Flatten LRN LSTM GRU MaxRoiPool RoiAlign NonMaxSuppression
ReduceMax ReduceMin ReduceSum ReduceMean ReduceProd ReduceLogSumExp ReduceLogSum ReduceSumSquare ReduceL1 ReduceL2 ArgMax ArgMin
TopK Cast Reshape Expand Concat Split Slice Transpose DepthToSpace SpaceToDepth Gather GatherElements GatherND Size Scatter
ScatterElements Squeeze Unsqueeze Pad Shape Sign Equal Not And Tile Erf Where Or Resize NonZero Range CumSum Loop If ATen
QuantizeLinear DequantizeLinear DynamicQuantizeLinear""".split()


@pytest.mark.parametrize("opset", [11, 13, 21])
def test_the_map_has_all_operators_of_the_article(opset: int) -> None:
    assert len(ARTICLE) == 131
    assert set(ARTICLE) <= set(_get_convert_map(opset))


def test_the_map_is_that_of_an_opset() -> None:
    assert "Where" not in _get_convert_map(8) and "Where" in _get_convert_map(9)
    assert "Upsample" in _get_convert_map(9)
    assert len(_get_convert_map(9)) == len(list(_get_convert_map(9))) > 100
    assert "NoSuch" not in _get_convert_map(9) and 3 not in _get_convert_map(9)
    with pytest.raises(KeyError, match="NoSuch"):
        _ = _get_convert_map(9)["NoSuch"]
    register("Op", Selu, domain=DOMAIN)
    assert list(_get_convert_map(1, DOMAIN)) == ["Op"]
    register("Op", Selu)
    assert "Op" in list(_get_convert_map(1))


def test_a_converter_put_in_holds_from_its_opset_on() -> None:
    _get_convert_map(13)["Relu"] = lambda inputs, attr, params: -inputs[0]
    for opset, sign in ((12, 1), (13, -1), (21, -1)):
        proto = model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", opset=opset)
        np.testing.assert_array_equal(run(proto, X)[0], np.maximum(X, 0) if sign > 0 else -X)


def custom(attributes: str = "", inputs: str = "x", outputs: str = "y", **weights: Any) -> onnx.ModelProto:
    listed = ", ".join(outputs.split())
    graph = f"g (float[2, 3] x) => ({listed}) {{ {listed} = com.acme.Op{attributes}({inputs}) }}"
    return model(graph, domains={DOMAIN: 1}, **weights)


def convert_as(function: Any) -> None:
    _get_convert_map(1, DOMAIN)["Op"] = function


def test_converters_of_the_map_are_called_in_converters() -> None:
    convert_map = _get_convert_map(13)

    def function(inputs: Any, attr: Any, params: Any) -> Any:
        (normed,) = [convert_map["Relu"](inputs, attr, params)]
        scaled = convert_map["LeakyRelu"]([inputs[0]], {"alpha": 0.5})
        low, high = convert_map["Split"]([scaled, np.array([1, 2])], {"axis": 1, "tvm_custom": {"num_outputs": 2}}, params)
        turned = convert_map["Transpose"]([convert_map["Concat"]([low, high], {"axis": 1}, params)], {"perm": [1, 0]})
        back = convert_map["Transpose"]([turned], {})
        quantized, scale, zero = convert_map["DynamicQuantizeLinear"]([inputs[0]], {}, params)
        restored = convert_map["DequantizeLinear"]([quantized, scale, zero], {}, params)
        return [normed, back, restored]

    convert_as(function)
    a, b, c = run(custom(outputs="a b c"), X)
    np.testing.assert_array_equal(a, np.maximum(X, 0))
    np.testing.assert_array_equal(b, np.where(X > 0, X, X * np.float32(0.5)))
    np.testing.assert_allclose(c, X, atol=(X.max() - X.min()) / 255)


def test_converters_of_the_map_without_expressions_give_constants() -> None:
    three = _get_convert_map(13)["Constant"]([], {"value_int": 3}, {})
    assert three.array.tolist() == 3
    convert_as(lambda inputs, attr, params: inputs[0] * _op.cast(three, dtype="float32"))
    np.testing.assert_array_equal(run(custom(), X)[0], X * 3)


def test_renamer_and_names_of_operators() -> None:
    convert_as(Renamer("relu"))
    np.testing.assert_array_equal(run(custom(), X)[0], np.maximum(X, 0))
    for short, full in (("conv2d", "nn.conv2d"), ("nn.dense", "nn.dense"), ("copy", "copy"), ("resize2d", "image.resize2d")):
        assert get_relay_op(short).prefix == full
    with pytest.raises(OpNotImplemented, match="no operator is called 'no_such'; expected one of docs/operators"):
        get_relay_op("no_such")
    with pytest.raises(OpNotImplemented, match=r"no operator is called 'nn.copy'"):
        get_relay_op("nn.copy")


def test_attributes_are_converted() -> None:
    seen: list[dict[str, Any]] = []
    convert_as(AttrCvt(
        lambda attr: seen.append(dict(attr)) or "leaky_relu",  # type: ignore[func-returns-value]
        transforms={"slope": ("alpha", 0.1, lambda value: value / 2)}, disables=["mode"], ignores=["is_test"],
    ))  # fmt: skip
    got = run(custom('<slope = 0.5, mode = "x", is_test = 1>'), X)[0]
    np.testing.assert_array_equal(got, np.where(X > 0, X, X * np.float32(0.25)))
    assert seen[0]["tvm_custom"] == {"name": "", "num_outputs": 1}
    assert AttrCvt("leaky_relu", {"slope": ("alpha", 0.5)})._converted("leaky_relu", {"slope": None}) == {"alpha": 0.5}


def test_extras_are_added_and_win() -> None:
    convert_as(AttrCvt("sum", extras={"axis": (0,), "keepdims": True}))
    np.testing.assert_allclose(run(custom("<axis = 1>"), X)[0], X.sum(axis=0, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("converter", "error", "message"),
    [
        (AttrCvt("exp", excludes=["mode"]), OpAttributeUnimplemented, "attribute 'mode': is not supported by exp"),
        (AttrCvt("exp", custom_check=(lambda attr: False, "never")), OpAttributeInvalid, "check failed: never"),
        (AttrCvt(dimension_picker("conv")), ConverterError, "KeyError: 'kernel_shape'"),
        (AttrCvt("no_such"), OpNotImplemented, "no operator is called 'no_such'"),
    ],
)
def test_what_attributes_may_not_be(converter: Any, error: type[Exception], message: str) -> None:
    convert_as(converter)
    with pytest.raises(error, match=message):
        import_model(custom('<mode = "x">'))


def test_a_missing_value_of_an_attribute() -> None:
    with pytest.raises(OpAttributeInvalid, match="attribute 'slope': got None; expected a value"):
        AttrCvt("leaky_relu", {"slope": "alpha"})([], {"slope": None})


def test_operators_by_rank() -> None:
    assert [dimension_picker("max_pool", "_x")({"kernel_shape": [2] * rank}) for rank in (1, 2, 3)] == [
        "max_pool1d_x", "max_pool2d_x", "max_pool3d_x"]  # fmt: skip
    check, text = dimension_constraint()
    assert check({"kernel_shape": [1]}) and not check({"kernel_shape": [1] * 4})
    assert text == "only 1d, 2d and 3d kernels are supported"
    with pytest.raises(OpAttributeUnimplemented, match="got 4 sizes; expected 1 to 3 for conv1d/2d/3d"):
        dimension_picker("conv")({"kernel_shape": [1] * 4})


def test_types_are_known() -> None:
    seen: list[Any] = []

    def function(inputs: Any, attr: Any, params: Any) -> Any:
        weight = infer_type(inputs[1]).checked_type
        seen.extend([infer_shape(inputs[0]), weight.shape, weight.dtype, *(infer_channels(inputs[1], t) for t in (False, True))])
        return inputs[0]

    convert_as(function)
    import_model(custom(inputs="x, w", w=example(0, 5, 4)))
    assert seen == [(2, 3), (5, 4), "float32", 5, 4]


def padded(size: int, stride: int, kernel: int, dilation: int, lower: bool) -> tuple[int, int]:
    """By the definition of the specification."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return (total - total // 2, total // 2) if lower else (total // 2, total - total // 2)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("height", ["7", "h"])
def test_autopad(mode: str, height: str) -> None:
    def function(inputs: Any, attr: Any, params: Any) -> Any:
        return autopad(inputs[0], (2, 1), (3, 4), (1, 2), 4, mode=attr["mode"].decode("utf-8"), pad_value=-1.0)

    convert_as(function)
    graph = f'g (float[1, 2, {height}, 5] x) => (y) {{ y = com.acme.Op<mode = "{mode}">(x) }}'
    x = example(0, 1, 2, 7, 5)
    (got,) = run(model(graph, domains={DOMAIN: 1}), x)
    around = [(0, 0), (0, 0), padded(7, 2, 3, 1, "LOWER" in mode), padded(5, 1, 4, 2, "LOWER" in mode)]
    np.testing.assert_array_equal(got, np.pad(x, around, constant_values=-1))


def test_autopad_of_a_transposed_convolution_is_refused() -> None:
    convert_as(lambda inputs, attr, params: autopad(inputs[0], (1,), (2,), (1,), 3, deconv=True))
    with pytest.raises(OpAttributeUnimplemented, match="autopad: deconv: got True; expected attribute 'padding'"):
        import_model(custom())


def test_attributes_weights_and_the_node_are_as_converters_expect() -> None:
    seen: list[Any] = []

    def function(inputs: Any, attr: Any, params: Any) -> Any:
        seen.extend([attr["mode"], attr["mode"].decode(), [m.decode("utf-8") for m in attr["modes"]], attr["tvm_custom"]])
        seen.append(params["w"].asnumpy().tolist())
        return [_op.add(inputs[0], _op.const(np.array([1, 2, 3]), dtype="float32")), inputs[0]]

    convert_as(function)
    proto = custom('<mode = "a", modes = ["b", "c"]>', "x, w", "y z", w=np.array([1, 2]))
    proto.graph.node[0].name = "here"
    got = run(proto, X)
    np.testing.assert_array_equal(got[0], X + np.array([1, 2, 3], np.float32))
    assert seen == ["a", "a", ["b", "c"], {"name": "here", "num_outputs": 2}, [1, 2]]


def test_an_attribute_may_have_any_name() -> None:
    convert_as(lambda inputs, attr, params: inputs[0] * attr["g"])
    np.testing.assert_array_equal(run(custom("<g = 2.0>"), X)[0], X * 2)


def failing(kind: str) -> Any:
    def function(inputs: Any, attr: Any, params: Any) -> Any:
        match kind:
            case "KeyError":
                return inputs[0] * attr["factor"]
            case "AttributeError":
                return attr.no_such
            case "NameError":
                return no_such  # type: ignore[name-defined]  # noqa: F821
            case "RuntimeError":
                raise RuntimeError("for a reason of its own")
            case "AssertionError":
                raise AssertionError
            case "InvalidGraphError":
                return _op.nn.no_such(inputs[0])
            case "TypeInferenceError":
                return _op.nn.dense(inputs[0], inputs[0], units=7)
            case "TypeError":
                return 3 if inputs else None

    function.__qualname__ = "acme.convert_op"
    return function


@pytest.mark.parametrize(
    "kind",
    ["KeyError", "AttributeError", "NameError", "RuntimeError", "AssertionError", "InvalidGraphError", "TypeInferenceError",
     "TypeError"],
)  # fmt: skip
def test_what_a_converter_of_the_user_raises_is_its_own_fault(kind: str) -> None:
    convert_as(failing(kind))
    told = (rf"node 'Op_0' \(com.acme.Op, opset 1\): its converter {__name__}.acme.convert_op failed with {kind}: .*the fault "
            r"is the converter's, not the model's; correct it, or take it back with .*unregister\('Op', domain='com.acme'\)")
    with pytest.raises(ConverterError, match=told) as caught:
        import_model(custom())
    root: BaseException = caught.value
    while isinstance(root, ConverterError) and root.__cause__ is not None:
        root = root.__cause__
    assert type(root).__name__ == kind


def test_what_a_converter_gives_is_checked() -> None:
    convert_as(lambda inputs, attr, params: 3.0)
    with pytest.raises(ConverterError, match=r"it gave float 3.0; expected an expression, or a list of them"):
        import_model(custom())
    convert_as(lambda inputs, attr, params: inputs[0])
    with pytest.raises(ConverterError, match=r"it gave no value for output 1 \('z'\)"):
        import_model(custom(outputs="y z"))


def test_errors_about_the_model_are_not_the_converter_s() -> None:
    convert_as(AttrCvt("exp", excludes=["mode"]))
    with pytest.raises(OpAttributeUnimplemented, match=r"node 'Op_0' \(com.acme.Op, opset 1\): attribute 'mode'") as caught:
        import_model(custom('<mode = "x">'))
    assert "fault" not in str(caught.value)


def test_callables_of_other_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match=r"<lambda>: takes 1 parameters; expected \(inputs, attr, params\) or"):
        convert_as(lambda inputs: inputs[0])


def test_names_of_operators_are_text() -> None:
    with pytest.raises(ValueError, match="register: got 3; expected the name of an operator"):
        _get_convert_map(13)[3] = AttrCvt("exp")  # type: ignore[index]
