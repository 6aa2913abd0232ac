"""Seed 000: the loaders ``from_onnx``, ``from_torch``, ``from_tensorflow``, ``from_keras`` and ``from_tflite``."""

from __future__ import annotations

import importlib
import inspect
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import forge
from forge.errors import ImportModelError, OptionError
from tests.frontends.onnx.support import example, model, ops
from tests.seeds.items import differs, works
from tests.seeds.models import X, network, unary


@works("`forge.from_onnx(*args, **kwargs) -> IRModule`", "returns: Forge IRModule object", "also a class method of `IRModule`")
def test_from_onnx() -> None:
    ir = forge.from_onnx(network(), {"x": (2, 3, 6, 6)})
    assert type(ir) is forge.IRModule
    assert forge.from_onnx(model=network(), shape={"x": (2, 3, 6, 6)}).fingerprint == ir.fingerprint
    assert forge.IRModule.from_onnx(network(), {"x": (2, 3, 6, 6)}).fingerprint == ir.fingerprint


@works("`forge.frontend`, the module of the loaders")
def test_forge_frontend() -> None:
    frontend = importlib.import_module("forge.frontend")
    assert frontend.from_onnx is forge.frontend.from_onnx
    assert forge.frontend.from_onnx(network()) == forge.from_onnx(network())


@works("all parameters but the model have defaults")
def test_defaults() -> None:
    parameters = inspect.signature(forge.from_onnx).parameters
    names = ["model", "shape", "dtype", "opset", "freeze_params", "convert_config", "export_node_renamed_model_path"]
    own = [n for n, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]  # by name only, after the seed's
    assert list(parameters) == [*names, *own]
    assert [p.default is inspect.Parameter.empty for p in parameters.values()] == [True] + [False] * (6 + len(own))


@works("parameter `model`: a protobuf object, ONNX ModelProto after ONNX v1.1.0")
@pytest.mark.parametrize("change", ["ir_version", "inputs", "no opset_import"])
def test_old_models_load(change: str) -> None:
    proto = network()
    if change == "ir_version":
        proto.ir_version = 3
    if change in ("ir_version", "inputs"):
        for tensor in proto.graph.initializer:
            proto.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    if change == "no opset_import":
        proto = unary("Relu", 1)
        del proto.opset_import[:]
    ir = forge.from_onnx(proto)
    assert ir.input_names == ["x"]


@works("parameter `model`: a path, a `pathlib.Path` and the bytes of a file too", note="beyond the seed")
def test_forms_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(network(), path)
    loaded = [forge.from_onnx(form) for form in (network(), str(path), path, path.read_bytes())]
    assert len({ir.fingerprint for ir in loaded}) == 1


@differs(
    "real inputs are renamed `input_0`, `input_1`, ..., and parameters `param_0`, `param_1`, ...",
    why="names of the model are kept, as TVM itself does and as the printed module of seed 003 shows",
)
def test_names_are_kept() -> None:
    ir = forge.from_onnx(network(), freeze_params=False)
    assert ir.input_names == ["x"]
    assert set(ir.params) >= {"w", "b", "v", "u"}


@works("dynamic shapes are retained upon import")
def test_dynamic_shapes() -> None:
    (shape,) = forge.from_onnx(network()).input_shapes
    assert shape is not None
    assert [str(d) for d in shape] == ["batch", "3", "6", "6"]


@works("the compiler attempts to convert the model into static shapes", note="symbolic sizes compile as they are, for every size")
def test_dynamic_shapes_compile() -> None:
    ir = forge.from_onnx(network())
    run, meaning = ir.get_inference_function(), ir.get_inference_function("reference")
    for batch in (0, 1, 2):
        np.testing.assert_allclose(run(X[:batch]), meaning(X[:batch]), rtol=1e-5, atol=1e-5)


@works("a name of a dimension is a label, whatever it looks like")
@pytest.mark.parametrize("label", ["batch*seq", "n+1", "2*n", "-1", "a b"])
def test_labels_of_dimensions(label: str) -> None:
    proto = unary("Relu")
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = label
    x = example(0, 6, 4)
    np.testing.assert_array_equal(forge.from_onnx(proto).get_inference_function()(x), np.maximum(x, 0))
    assert forge.from_onnx(proto, shape={"x": (6, 4)}).input_shapes == [(6, 4)]


@works("parameter `shape`: dict of str to tuple")
def test_shape() -> None:
    assert forge.from_onnx(network(), shape={"x": (2, 3, 6, 6)}).input_shapes == [(2, 3, 6, 6)]
    assert forge.from_onnx(network(), shape={"x": [np.int64(2), None, 6, 6]}).input_shapes == [(2, 3, 6, 6)]
    for wrong in ({"z": (1,)}, {"x": (1, 3)}, {"x": (2, 4, 6, 6)}):
        with pytest.raises(ImportModelError, match="shape="):
            forge.from_onnx(network(), shape=wrong)


@works("parameter `dtype`: str or dict of str to str")
def test_dtype() -> None:
    assert forge.from_onnx(unary("Relu"), dtype={"x": "float64"}).input_dtypes == ["float64"]
    assert forge.from_onnx(unary("Relu"), dtype="float32").input_dtypes == ["float32"]
    with pytest.raises(ImportModelError, match="dtype="):
        forge.from_onnx(unary("Relu"), dtype="float64")


@works("parameter `opset`: override of the detected opset")
def test_opset() -> None:
    proto = model("g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax(x) }", opset=13)
    x = example(0, 2, 3, 4)
    flat = x.reshape(2, 12)
    expected = (np.exp(flat) / np.exp(flat).sum(1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(forge.from_onnx(proto, opset=12).get_inference_function()(x), expected, rtol=1e-5)
    for wrong in (0, 99):
        with pytest.raises(ImportModelError, match="opset"):
            forge.from_onnx(proto, opset=wrong)


@works("parameter `freeze_params`: initializers become constants instead of variables")
def test_freeze_params() -> None:
    frozen, free = forge.from_onnx(network()), forge.from_onnx(network(), freeze_params=False)
    assert frozen.params == {}
    assert [len(ir.main.inputs) for ir in (frozen, free)] == [1, 1 + len(free.params)]
    np.testing.assert_allclose(free.get_inference_function()(X), frozen.get_inference_function()(X), rtol=1e-4, atol=1e-5)


@works("parameter `convert_config`: `use_nt_batch_matmul` (default True) writes products of rank 3 as `nn.batch_matmul`")
def test_convert_config() -> None:
    proto = model("g (float[b, 3, 4] x, float[b, 4, 5] w) => (float[b, 3, 5] y) { y = MatMul(x, w) }")
    (product,) = [n for n in forge.from_onnx(proto, convert_config={"use_nt_batch_matmul": True}) if "matmul" in n.op]
    assert (product.op, product.attributes["transpose_b"]) == ("nn.batch_matmul", True)
    assert ops(forge.from_onnx(proto, convert_config={"use_nt_batch_matmul": False}).mod) == ["nn.matmul"]
    assert "nn.batch_matmul" in forge.from_onnx(proto).operators
    for wrong in ({"use_magic": True}, {"use_nt_batch_matmul": 1}, ["use_nt_batch_matmul"]):
        with pytest.raises(OptionError, match="convert_config"):
            forge.from_onnx(proto, convert_config=wrong)  # type: ignore[arg-type]


@works("parameter `export_node_renamed_model_path`: the model with names for nodes that have none")
def test_export_of_named_nodes(tmp_path: Path) -> None:
    proto = unary("Relu")
    before = proto.SerializeToString()
    ir = forge.from_onnx(proto, export_node_renamed_model_path=tmp_path / "named.onnx")
    assert proto.SerializeToString() == before
    (written,) = onnx.load(tmp_path / "named.onnx").graph.node
    assert [written.name] == [node.name for node in ir]
    with pytest.raises(OptionError, match="export_node_renamed_model_path"):
        forge.from_onnx(proto, export_node_renamed_model_path=3)  # type: ignore[arg-type]


@works("errors of files that cannot be read")
def test_unreadable_models(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "junk.onnx").write_bytes(b"\xff" * 64)
    for source in (tmp_path / "none.onnx", tmp_path, tmp_path / "empty.onnx", tmp_path / "junk.onnx", b"\xff" * 64, None):
        with pytest.raises(ImportModelError):
            forge.from_onnx(source)  # type: ignore[arg-type]


@works("a file of another format is named, with what can load it")
@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (("archive/constants.pkl", "archive/code/__torch__.py"), "a TorchScript archive; .*torch.jit.load"),
        (("archive/data.pkl", "archive/data/0"), "a PyTorch checkpoint; .*weights without a program"),
        (("metadata.json", "config.json", "model.weights.h5"), "a model of Keras; .*use forge.from_keras"),
        (("archive_format", "models/model.json"), "a model of PyTorch; .*use forge.from_torch"),
        (("x.npy",), "arrays of numpy.savez"),
        (("notes.md",), "a zip archive"),
    ],
)
def test_files_of_other_formats(entries: tuple[str, ...], told: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model", "w") as archive:
        for entry in entries:
            archive.writestr(entry, b"")
    with pytest.raises(ImportModelError, match=told) as raised:
        forge.from_onnx(tmp_path / "model")
    advised = [word for word in ("from_torch", "from_keras", "from_tflite", "from_tensorflow") if word in str(raised.value)]
    assert all(hasattr(forge, word) for word in advised)


@differs(
    "`forge.from_torch(script_module, input_infos, custom_convert_map, default_type, use_parser_friendly_name, "
    "keep_quantized_weight)`",
    why="quantized weights stay integers with `keep_quantized_weight=False`, too: float32 copies would be four times as large "
        "and be rounded to the same integers when the model is compiled. It says what biases are: float32, or with `True` int32; "
        "all else works",
)
def test_from_torch() -> None:
    torch = pytest.importorskip("torch")
    assert list(inspect.signature(forge.from_torch).parameters)[:6] == [
        "script_module", "input_infos", "custom_convert_map", "default_type", "use_parser_friendly_name", "keep_quantized_weight",
    ]  # fmt: skip
    trace = torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(1, 2))
    assert forge.from_torch(trace, [("input0", (1, 2))]).input_names == ["input0"]
    assert forge.IRModule.from_torch(trace, [("input0", ((1, 2), "float"))]).input_dtypes == ["float32"]


@works("automatic ONNX ingestion if loading from PyTorch fails", note="with a warning; `through_onnx=False` forbids it")
def test_from_torch_through_onnx() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    assert forge.from_torch(torch.nn.Linear(2, 3), [("input0", (1, 2))], through_onnx=True).input_names == ["input0"]


@works("`forge.from_tensorflow(graph, layout, shape, outputs, convert_config)`", "also by Relay's path of it")
def test_from_tensorflow() -> None:
    path = Path(__file__).parent.parent.parent / "examples" / "keras" / "saved_model"
    assert list(inspect.signature(forge.from_tensorflow).parameters) == ["graph", "layout", "shape", "outputs", "convert_config"]
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 8, 8, 1)
    ir = forge.from_tensorflow(path, "NCHW", {"image": (1, 8, 8, 1)}, ["output_0"], {"use_dense": True})
    assert (ir.input_shapes, ir.output_shapes) == ([(1, 8, 8, 1)], [(1, 10)])
    mod, params = forge.relay.frontend.from_tensorflow(path, shape={"image": (1, 8, 8, 1)})
    np.testing.assert_allclose(mod.get_inference_function()(image), ir.get_inference_function()(image), rtol=1e-5, atol=1e-6)
    assert not params


@works("`forge.from_keras(model, shape, layout)`", "also by Relay's path of it")
def test_from_keras() -> None:
    path = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.keras"
    assert list(inspect.signature(forge.from_keras).parameters)[:3] == ["model", "shape", "layout"]
    first = forge.from_keras(path, {"image": (1, 1, 8, 8)})
    last = forge.from_keras(path, layout="NHWC")
    assert (first.input_shapes, len(last.input_shapes[0]), first.output_shapes) == ([(1, 1, 8, 8)], 4, [(1, 10)])
    mod, params = forge.relay.frontend.from_keras(path, shape={"image": (1, 1, 8, 8)})
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    expected = last.get_inference_function()(image.reshape(1, 8, 8, 1))
    np.testing.assert_allclose(mod.get_inference_function()(image), expected, rtol=1e-5)
    assert params == {}


@works("`forge.from_tflite(model, shape_dict, dtype_dict)`", "also by Relay's path of it")
def test_from_tflite() -> None:
    path = Path(__file__).parent.parent.parent / "examples" / "phone" / "digits_int8.tflite"
    assert list(inspect.signature(forge.from_tflite).parameters) == ["model", "shape_dict", "dtype_dict"]
    shapes, dtypes = {"image": (1, 32, 32, 1)}, {"image": "uint8"}
    ir = forge.from_tflite(path, shapes, dtypes)
    assert (ir.input_shapes, ir.output_shapes) == ([(1, 32, 32, 1)], [(1, 10)])
    mod, params = forge.relay.frontend.from_tflite(path.read_bytes(), shape_dict=shapes, dtype_dict=dtypes)
    image = np.zeros((1, 32, 32, 1), np.uint8)
    np.testing.assert_array_equal(mod.get_inference_function()(image), ir.get_inference_function()(image))
    assert not params
