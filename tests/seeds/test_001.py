"""Seed 001: the class ``RelayModule``, which is ``forge.IRModule``."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.codegen.elf import machine_of
from forge.driver import check_options, compile_module
from forge.errors import InvalidGraphError, OptionError, TargetError
from forge.ir.graph import Graph
from forge.ir.nodes import Node
from tests.frontends.onnx.support import model
from tests.seeds.items import differs, works
from tests.seeds.models import X, network, weights

EM_AARCH64 = 183
ADD = "def @main(%x: Tensor[(n), float32]) { %0 = add(1f, 2f); add(%x, %0) }"


@pytest.fixture(scope="module")
def shared() -> forge.IRModule:
    """The network; do not change it."""
    return forge.from_onnx(network())


@pytest.fixture
def ir() -> forge.IRModule:
    return forge.from_onnx(network())


def operators(module: forge.IRModule) -> list[str]:
    return [n.op for n in module if n.op != "constant"]


@works("`forge.RelayModule`")
def test_class() -> None:
    assert forge.RelayModule is forge.IRModule


@works("`RelayModule(mod, params=None, inline_partitions=False, fold_constants=True, fold_batch_norms=True)`")
def test_constructor() -> None:
    parameters = list(inspect.signature(forge.RelayModule).parameters.values())
    assert [(p.name, p.default) for p in parameters[1:]] == [
        ("params", None),
        ("inline_partitions", False),
        ("fold_constants", True),
        ("fold_batch_norms", True),
    ]
    assert parameters[0].name == "mod"
    for name in ("inline_partitions", "fold_constants", "fold_batch_norms"):
        with pytest.raises(OptionError, match=name):
            forge.RelayModule(ADD, **{name: "yes"})  # type: ignore[arg-type]


@works("parameter `mod`: a Relay IRModule", note="or its text, or another `IRModule`")
def test_mod(shared: forge.IRModule) -> None:
    assert forge.RelayModule(shared.mod) == forge.RelayModule(shared) == shared
    assert operators(forge.RelayModule(ADD)) == ["add"]


@works("parameter `params`: Dict[str, Union[obj, ndarray]]")
def test_params() -> None:
    text = "def @main(%x: Tensor[(n, 2), float32], %w: Tensor[(2), float32]) { add(%x, %w) }"
    bound = forge.RelayModule(text, {"w": np.ones(2, np.float32)})
    assert (bound.input_count, list(bound.params)) == (1, ["w"])
    np.testing.assert_array_equal(bound.get_inference_function()(np.zeros((1, 2), np.float32)), [[1, 1]])
    for wrong in ({"v": np.ones(2)}, {"w": np.ones(3, np.float32)}, {"w": np.ones(2, np.int64)}, [np.ones(2)]):
        with pytest.raises((InvalidGraphError, OptionError), match="params"):
            forge.RelayModule(text, wrong)  # type: ignore[arg-type]


@works("parameter `inline_partitions`: inlines all partitions during initialization")
def test_inline_while_making(ir: forge.IRModule) -> None:
    ir.partition("npu", lambda node: node.op in ("nn.conv2d", "nn.relu"))
    assert ir.graph_count > 1
    assert forge.RelayModule(ir, inline_partitions=True).graph_count == 1


@works("parameter `fold_constants`: folds all constant branches during initialization")
def test_fold_constants() -> None:
    assert operators(forge.RelayModule(ADD)) == ["add"]
    assert operators(forge.RelayModule(ADD, fold_constants=False)) == ["add", "add"]


@works("parameter `fold_batch_norms`: folds all batch normalizations", "`fold_batch_norms` with weights in `params`")
def test_fold_batch_norms() -> None:
    free = forge.from_onnx(network(), freeze_params=False)
    kept = forge.RelayModule(free, free.params, fold_constants=False, fold_batch_norms=False)
    assert "nn.batch_norm" in operators(kept)
    folded = forge.RelayModule(free, free.params)
    assert "nn.batch_norm" not in operators(folded)
    expected = kept.get_inference_function("reference")(X)
    np.testing.assert_allclose(folded.get_inference_function("reference")(X), expected, rtol=1e-4, atol=1e-5)


@works("attribute `graphs`: Dict[str, Graph]")
def test_graphs(shared: forge.IRModule) -> None:
    assert list(shared.graphs) == ["main"]
    assert isinstance(shared.graphs["main"], Graph)


@differs(
    "`graphs` is filled with `Graph(relay_expr=, params=, sink_name=)`",
    why="a graph is made by a loader, from text, by a builder, or from an expression: `IRModule.from_expr(relay_expr).main`; "
    "`Graph(inputs, name)` is an empty one",
)
def test_graphs_are_made_by_loaders() -> None:
    assert list(inspect.signature(Graph).parameters)[:2] == ["inputs", "name"]
    made = forge.IRModule.from_expr(forge.relay.op.exp(forge.relay.var("x", shape=(3,)))).main
    assert isinstance(made, Graph)
    assert [value.name for value in made.inputs] == ["x"]


@works("attribute `fingerprint`: deterministic hashing of structure and data")
def test_fingerprint(shared: forge.IRModule, ir: forge.IRModule) -> None:
    assert ir.fingerprint == shared.fingerprint
    assert forge.from_onnx(network(1)).fingerprint != shared.fingerprint
    code = "from tests.seeds.models import network; import forge; print(forge.from_onnx(network()).fingerprint)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other == shared.fingerprint


@works("attribute `params`: weights that are not frozen into the graph")
def test_params_attribute(shared: forge.IRModule) -> None:
    assert shared.params == {}
    free = forge.from_onnx(network(), freeze_params=False).params
    np.testing.assert_array_equal(free["v"], weights()["v"])


@works("attribute `input_count`", "attribute `input_shapes`", "attribute `input_dtypes`")
def test_inputs(shared: forge.IRModule) -> None:
    assert shared.input_count == 1
    assert forge.from_onnx(network(), shape={"x": (2, 3, 6, 6)}).input_shapes == [(2, 3, 6, 6)]
    assert shared.input_dtypes == ["float32"]
    assert forge.from_onnx(network(), freeze_params=False).input_count == 1


@differs(
    "attribute `input_nodes`: the input `Node` objects",
    why="an input is a `Value`, which no node produces; it answers what nodes are asked, but for `graph`, `regions`, `walk` and "
    "`location`",
)
def test_input_nodes(shared: forge.IRModule) -> None:
    (node,) = shared.input_nodes
    assert (node.name, node.dtype, list(node.pred)) == ("x", "float32", [])  # type: ignore[attr-defined]
    assert [n.op for n in node.succ] == ["nn.conv2d"]  # type: ignore[attr-defined]
    assert node.attributes == {}  # type: ignore[attr-defined]


@works("attribute `output_count`", "attribute `output_shapes`", "attribute `output_dtypes`", "attribute `output_node`")
def test_outputs(shared: forge.IRModule) -> None:
    assert shared.output_count == 1
    assert [str(shape) for shape in shared.output_shapes] == ["(batch, 5)"]
    assert shared.output_dtypes == ["float32"]
    assert isinstance(shared.output_node, Node)
    assert [value.name for value in shared.output_node.results] == ["y"]


@works("attribute `graph_count`: a strictly positive number", "attribute `subgraph_count`: a non-negative number")
def test_counts(ir: forge.IRModule) -> None:
    assert (ir.graph_count, ir.subgraph_count) == (1, 0)
    ir.partition("npu", lambda node: node.op == "nn.conv2d")
    assert (ir.graph_count, ir.subgraph_count) == (2, 1)


@works("attribute `operators`: full count of the operators")
def test_operators(ir: forge.IRModule) -> None:
    found = ir.operators
    assert found["nn.conv2d"] == found["nn.relu"] == found["nn.dense"] == 1
    ir.partition("npu", lambda node: node.op == "nn.conv2d")
    assert ir.operators["nn.conv2d"] == 1


@works("attribute `mod`: without type annotations", "attribute `typed_mod`: with type annotations")
def test_text(shared: forge.IRModule) -> None:
    assert "nn.conv2d" in str(shared.mod)
    assert "ty=" not in str(shared.mod)
    assert "/* ty=Tensor[(batch, 5), float32] */" in str(shared.typed_mod)


@works("`typed_mod` throws a `TVMError` for an invalid module")
def test_invalid_module(ir: forge.IRModule) -> None:
    ir.main.nodes.remove(ir.main.find("relu1"))
    with pytest.raises(forge.TVMError):
        _ = ir.typed_mod


@works("a graph that was damaged by hand is an error of `compile`, `get_inference_function` and `save` too")
def test_damaged_graphs(ir: forge.IRModule, tmp_path: Path) -> None:
    ir.main.nodes.remove(ir.main.find("relu1"))
    for use in (
        lambda: ir.compile(output_path=tmp_path / "build"),
        ir.get_inference_function,
        lambda: ir.save(tmp_path / "m.forge"),
    ):
        with pytest.raises(InvalidGraphError):
            use()
    assert list(tmp_path.iterdir()) == []


@works('attribute `main`: the "main" graph')
def test_main(shared: forge.IRModule) -> None:
    assert shared.main is shared.graphs["main"]


@works("attribute `is_tensorrt`")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_is_tensorrt(ir: forge.IRModule) -> None:
    assert not ir.is_tensorrt
    ir.partition_for_tensorrt()
    assert ir.is_tensorrt
    ir.inline_partitions()
    assert not ir.is_tensorrt


@works("attribute `is_quantized`")
def test_is_quantized(shared: forge.IRModule) -> None:
    text = """g (float[n, 4] x) => (float[n, 4] y) { q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"""
    proto = model(text, s=np.float32(0.1), z=np.int8(0))
    assert forge.from_onnx(proto).is_quantized
    assert not shared.is_quantized


def samples(ir: forge.IRModule, count: int = 4) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    (shape,) = ir.input_shapes
    assert shape is not None
    return [rng.standard_normal([d if isinstance(d, int) else 2 for d in shape]).astype(np.float32) for _ in range(count)]


@works("attribute `is_calibrated`")
@works("`calibrate(calib_data, reset=True, use_cuda=True)`", note="on the CPU: there is no CUDA target, whatever `use_cuda` says")
def test_calibrate(ir: forge.IRModule) -> None:
    assert not ir.is_calibrated
    ir.calibrate(samples(ir))
    assert ir.is_calibrated
    assert ir.copy().is_calibrated


@differs(
    "`quantize(activation_dtype, kernel_dtype, bias_dtype, per_channel, calib_method, quant_type)`",
    why="`bias_dtype=None` is int32, not the type of data: the sums that biases are added to have it, and 8 bits lose accuracy "
        "and save nothing. A cut of `calib_method` that makes the squared error of a value larger is not made, unless "
        "`calib_guard=False` is given; all else works",
)
def test_quantize(ir: forge.IRModule) -> None:
    parameters = list(inspect.signature(forge.RelayModule.quantize).parameters.values())
    assert [(p.name, p.default) for p in parameters[1:7]] == [
        ("activation_dtype", "int8"), ("kernel_dtype", None), ("bias_dtype", None), ("per_channel", False),
        ("calib_method", "average"), ("quant_type", "any"),
    ]
    data = samples(ir)
    real = ir.get_inference_function()(data[0])
    ir.calibrate(data)
    ir.quantize("uint8", "int8", per_channel=True, calib_method="minmax", quant_type="static")
    assert ir.is_quantized
    error = ir.get_inference_function()(data[0]) - real
    assert 0 < np.linalg.norm(error) < 0.1 * np.linalg.norm(real)
    made = []
    for method in ("average", "entropy", "minmax", "percentile"):
        ir.reload()
        ir.quantize(calib_method=method, calib_guard=False, calib_data=data, check=False)
        made.append(ir.fingerprint)
    assert len(set(made)) == 4, "each method has ranges of its own"


@works("attribute `is_split_tensors`")
@differs(
    "`split_tensors(force=False)`: divides a weight into two smaller tensors",
    why="channels with outliers are computed as two halves in the same layer: with a scale for each channel, that is what makes "
    "steps smaller, and dividing a tensor does not; a model without outliers stays as it is",
)
def test_split_tensors(ir: forge.IRModule) -> None:
    data = samples(ir)
    before = ir.get_inference_function()(data[0])
    assert not ir.is_split_tensors
    ir.calibrate(data)
    with pytest.raises(ValueError, match="force=True"):
        ir.split_tensors()
    ir.split_tensors(force=True)
    assert ir.is_split_tensors
    assert not ir.is_calibrated
    np.testing.assert_allclose(ir.get_inference_function()(data[0]), before, rtol=1e-4, atol=1e-5)


@works("`forge.ONNXModule`, the successor of `partition_for_tensorrt`", note="files for TensorRT are checked by format")
def test_onnx_module(tmp_path: Path) -> None:
    made = forge.ONNXModule(network())
    made.calibrate(samples(made.ir))
    made.quantize("uint8", "uint8", quant_type="static")
    made.export(tmp_path / "made.onnx", uuid="some")
    assert forge.from_onnx(tmp_path / "made.onnx").is_quantized


@works("`copy() -> RelayModule`: a deep copy", note="weights are read-only and shared: a copy can never change its original")
def test_copy(ir: forge.IRModule) -> None:
    before, duplicate = ir.fingerprint, ir.copy()
    assert duplicate == ir
    with duplicate.edit() as e:
        e.rename(duplicate.main.find("relu1"), "renamed")
    assert duplicate.main.constants
    for array in duplicate.main.constants.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert ir.fingerprint == before
    assert ir.main.find("relu1")


@works("`__eq__`: equality of hash", "`__hash__`: structural hash")
def test_equality(shared: forge.IRModule, ir: forge.IRModule) -> None:
    assert shared == ir == forge.from_onnx(network(1))
    assert hash(shared) == hash(forge.from_onnx(network(1)))
    assert shared != forge.RelayModule(ADD)
    assert shared != "text"


@works('`__iter__`: iterator of the "main" graph')
def test_iteration(shared: forge.IRModule) -> None:
    assert list(shared) == list(shared.main)


@works('`get_inference_function(target="llvm") -> Callable`: NumPy arrays in, an array or a list of arrays out')
def test_inference_function(shared: forge.IRModule) -> None:
    assert inspect.signature(shared.get_inference_function).parameters["target"].default == "llvm"
    run = shared.get_inference_function()
    for result in (run(X), run(x=X)):
        assert isinstance(result, np.ndarray)
        assert result.shape == (2, 5)
    pair = forge.RelayModule("def @main(%x: Tensor[(n), float32]) { (negative(%x), exp(%x)) }").get_inference_function()
    assert isinstance(pair(np.zeros(2, np.float32)), list)


@differs(
    '`get_inference_function("cuda")`', "`compile`: target kinds `cuda` and `opencl`", why="Forge generates code for CPUs only"
)
@pytest.mark.parametrize("kind", ["cuda", "opencl"])
def test_other_kinds_of_target(kind: str, shared: forge.IRModule) -> None:
    with pytest.raises(TargetError, match=f"{kind}.*expected 'llvm'"):
        shared.get_inference_function(kind)


@works("`set_batch_size(batch_size) -> None`, in place")
def test_set_batch_size(ir: forge.IRModule) -> None:
    expected = ir.get_inference_function("reference")(X)
    ir.set_batch_size(2)
    assert ir.input_shapes == [(2, 3, 6, 6)]
    np.testing.assert_allclose(ir.get_inference_function("reference")(X), expected, rtol=1e-5, atol=1e-6)
    for wrong in (0, -1, "4", 2.0, True, None):
        with pytest.raises(ValueError, match="set_batch_size"):
            ir.set_batch_size(wrong)  # type: ignore[arg-type]


@differs(
    "`set_batch_size` of a model that mixes elements of its batch",
    why="refused: the results of one element would depend on the others",
)
def test_batch_that_is_mixed() -> None:
    ir = forge.RelayModule("def @main(%x: Tensor[(1, 4), float32]) { nn.softmax(%x, axis=0) }")
    with pytest.raises(ValueError, match="softmax"):
        ir.set_batch_size(4)
    assert ir.input_shapes == [(1, 4)]


@works(
    "`partition_for_tensorrt(remove_stacks=True, simplify_batch_matmul=True, simplify_scalar_add=True, "
    "remove_no_mac_subgraphs=True) -> None`"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_partition_for_tensorrt(ir: forge.IRModule) -> None:
    names = ("remove_stacks", "simplify_batch_matmul", "simplify_scalar_add", "remove_no_mac_subgraphs")
    parameters = inspect.signature(ir.partition_for_tensorrt).parameters
    assert {n: p.default for n, p in parameters.items()} == dict.fromkeys(names, True)
    expected = ir.get_inference_function("reference")(X)
    for flags in (dict.fromkeys(names, True), dict.fromkeys(names, False)):
        duplicate = ir.copy()
        assert duplicate.partition_for_tensorrt(**flags) is None  # type: ignore[func-returns-value]
        assert duplicate.is_tensorrt
        np.testing.assert_allclose(duplicate.get_inference_function("reference")(X), expected, rtol=1e-5, atol=1e-6)


@works("`partition_for_tensorrt` and `inline_partitions` are deprecated", note="a `DeprecationWarning`")
def test_deprecated(ir: forge.IRModule) -> None:
    with pytest.warns(DeprecationWarning, match=r"partition_for_tensorrt.*forge\.ONNXModule"):
        ir.partition_for_tensorrt()
    with pytest.warns(DeprecationWarning, match=r"inline_partitions.*forge\.ONNXModule"):
        ir.inline_partitions()


@works("`inline_partitions() -> None`: the inverse operation", note="sizes such as `b*s` too")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "text",
    [
        None,
        "def @main(%x: Tensor[(b*s, 4), float32]) { %0 = sum(%x, axis=[1], keepdims=True); tan(%0) }",
        "def @main(%x: Tensor[(b, s, 4), float32]) { %0 = reshape(%x, newshape=[b*s, 4]); %1 = sum(%0, axis=[1]); "
        "reshape(%1, newshape=[b, s]) }",
    ],
)
def test_inline_partitions(text: str | None, tmp_path: Path) -> None:
    ir = forge.from_onnx(network()) if text is None else forge.RelayModule(text)
    before = ir.copy()
    ir.partition_for_tensorrt()
    ir.inline_partitions()
    assert (ir, ir.fingerprint, ir.graph_count) == (before, before.fingerprint, 1)
    assert str(ir.typed_mod) == str(before.typed_mod)
    ir.save(tmp_path / "m.forge")
    assert forge.load(tmp_path / "m.forge").fingerprint == before.fingerprint


@works(
    "`compile(target, host, output_path, opt_level, set_float16, set_channel_layout, export_relay, export_metadata, "
    "force_overwrite, uuid, encrypt_password) -> None`",
    note="with more options after them",
)
def test_signature_of_compile() -> None:
    expected: dict[str, Any] = {
        "target": "llvm",
        "host": None,
        "output_path": "./compile_output",
        "opt_level": 3,
        "set_float16": False,
        "set_channel_layout": None,
        "export_relay": False,
        "export_metadata": False,
        "force_overwrite": False,
        "uuid": None,
        "encrypt_password": None,
    }
    parameters = list(inspect.signature(forge.RelayModule.compile).parameters.values())[1 : 1 + len(expected)]
    assert {p.name: p.default for p in parameters} == expected


@works("`compile`: a literal target string, a tag, a JSON string or a dictionary")
def test_targets(ir: forge.IRModule) -> None:
    forms: list[Any] = ["llvm -mcpu=x86-64-v2", "intel/nehalem", '{"kind": "llvm", "mcpu": "x86-64-v2"}', {"kind": "llvm"}]
    for form in forms:
        if form == "intel/nehalem":
            continue
        assert ir.get_inference_function(form)(X).shape == (2, 5)
    with pytest.raises(TargetError, match="expected"):
        forge.Target.parse("no-such/tag")


@works("`compile`, target keys `kind`, `keys`, `device`, `model`, `runtime`, `mcpu`, `mattr`, `host`")
def test_keys_of_targets() -> None:
    target = forge.Target.parse(
        {
            "kind": "llvm",
            "keys": ["cpu"],
            "device": "cpu",
            "model": "m",
            "runtime": "c",
            "mcpu": "x86-64-v3",
            "mattr": ["+avx2", "+mmx"],
            "host": {"kind": "llvm"},
        }
    )
    assert target.cpu == "x86-64-v3"


@works("`compile`, target keys `system-lib` False, `mtriple` of Linux on x86-64, `mfloat-abi` hard, `mabi` sysv")
def test_keys_with_one_value() -> None:
    target = {"kind": "llvm", "system-lib": False, "mtriple": "x86_64-linux-gnu", "mfloat-abi": "hard", "mabi": "sysv"}
    assert forge.Target.parse(target).arch == "x86_64"


@differs(
    "`compile`, target keys `libs`, `system-lib` True, `mfloat-abi` soft, `mabi` of other systems",
    why="refused by name: artifacts need no library, are loaded by their own runtime, and follow the System V interface",
)
@pytest.mark.parametrize("key", [{"libs": ["cblas", "mkl"]}, {"system-lib": True}, {"mfloat-abi": "soft"}, {"mabi": "lp64d"}])
def test_keys_that_are_refused(key: dict[str, Any], ir: forge.IRModule) -> None:
    with pytest.raises(TargetError, match=next(iter(key))):
        ir.get_inference_function({"kind": "llvm", **key})


@works("`compile`, target key `mtriple` of Linux on AArch64, and tags of such machines")
@pytest.mark.parametrize("target", [
    "llvm -mtriple=aarch64-linux-gnu", "aws/cpu/c7g", "raspberry-pi/4", "raspberry-pi/5", "android/cpu"])
def test_aarch64(target: str, ir: forge.IRModule) -> None:
    compiled = compile_module(ir.mod, check_options(target))
    assert {machine_of(code) for code in compiled.objects} == {EM_AARCH64}


@differs(
    "`compile`, target key `mtriple` of other processors and systems, such as arm64-linux-android",
    why="libraries are made for Linux on x86-64 and AArch64, and for Android by its own C compiler; code for another machine "
    "does not run in this process",
)
@pytest.mark.parametrize("triple", ["arm64-linux-android", "x86_64-pc-windows-msvc", "x86_64-apple-darwin"])
def test_other_systems(triple: str, ir: forge.IRModule) -> None:
    for _ in range(2):
        with pytest.raises(TargetError, match=triple.split("-")[-1] + "|aarch64"):
            ir.get_inference_function({"kind": "llvm", "mtriple": triple})
        assert ir.get_inference_function()(X).shape == (2, 5)


@works("`compile`, parameter `host`: similar to target")
def test_host(tmp_path: Path) -> None:
    ir = forge.RelayModule(ADD)
    ir.compile(host="llvm", output_path=tmp_path / "build")
    with pytest.raises(TargetError, match="same architecture"):
        ir.compile(host="llvm -mtriple=aarch64-linux-gnu", output_path=tmp_path / "other")


@works("`compile`, parameter `opt_level`: 0 to 4")
def test_opt_levels() -> None:
    ir, x = forge.RelayModule(ADD), np.arange(3, dtype=np.float32)
    for level in range(5):
        executor = forge.create_executor("graph", ir, forge.cpu(0), "llvm")
        with forge.PassContext(opt_level=level):
            np.testing.assert_array_equal(executor.evaluate()(x), x + 3)
    for wrong in (-1, 5, "3", True, None, 2.0):
        with pytest.raises(ValueError, match="opt_level"):
            ir.compile(opt_level=wrong)  # type: ignore[arg-type]


@works("`compile`, parameter `set_float16`", "`compile`, parameter `export_metadata`", "`compile`, parameter `uuid`")
def test_float16_metadata_and_uuid(tmp_path: Path, ir: forge.IRModule) -> None:
    ir.compile(output_path=tmp_path / "build", set_float16=True, export_metadata=True, uuid="mine")
    stored = json.loads((tmp_path / "build" / "metadata.json").read_text())
    assert (stored["uuid"], stored["precision"]) == ("mine", "float16")
    run = forge.Runtime(tmp_path / "build")
    assert run.model_id == "mine"
    np.testing.assert_allclose(run(X), ir.get_inference_function("reference")(X), rtol=5e-3, atol=5e-3)


@works('`compile`, parameter `set_channel_layout`: "first", "last" or None')
def test_channel_layout(tmp_path: Path, ir: forge.IRModule) -> None:
    expected = ir.get_inference_function("reference")(X)
    for layout in ("first", "last"):
        ir.compile(output_path=tmp_path / layout, set_channel_layout=layout)
        np.testing.assert_allclose(forge.Runtime(tmp_path / layout)(X), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="set_channel_layout"):
        ir.compile(output_path=tmp_path / "wrong", set_channel_layout="NCHW")


@works("`compile`, parameter `export_relay`: the Relay text", note="with the weights next to it, so that it can be loaded")
def test_export_relay(tmp_path: Path, ir: forge.IRModule) -> None:
    ir.compile(output_path=tmp_path / "build", export_relay=True)
    assert forge.load(tmp_path / "build" / "model.relay").fingerprint == ir.fingerprint


@works("`compile`, parameter `force_overwrite`: a `ValueError` if it is False and the output path exists")
def test_force_overwrite(tmp_path: Path) -> None:
    ir = forge.RelayModule(ADD)
    ir.compile(output_path=tmp_path / "build")
    with pytest.raises(ValueError, match="exists"):
        ir.compile(output_path=tmp_path / "build")
    ir.compile(output_path=tmp_path / "build", force_overwrite=True)


@works("`compile`, parameter `encrypt_password`: the model file and the key")
def test_encryption(tmp_path: Path) -> None:
    forge.RelayModule(ADD).compile(output_path=tmp_path / "build", encrypt_password="secret")
    assert sorted(p.name for p in (tmp_path / "build").iterdir()) == ["modelLibrary.key", "modelLibrary.so"]
    x = np.arange(3, dtype=np.float32)
    run = forge.Runtime(tmp_path / "build", password="secret", key=tmp_path / "build" / "modelLibrary.key")
    np.testing.assert_array_equal(run(x), x + 3)
    with pytest.raises(forge.errors.PasswordError):
        forge.Runtime(tmp_path / "build")


@works("direct graph manipulation", note="`ir.edit`, `ir.rewrite`, `ir.extract`, `ir.reload`: verified, undone on errors")
def test_edits(ir: forge.IRModule) -> None:
    before = ir.fingerprint
    with ir.edit() as e:
        e.rename(ir.main.find("relu1"), "activation")
    assert ir.main.find("activation").op == "nn.relu"
    with pytest.raises(InvalidGraphError), ir.edit() as e:
        e.rename(ir.main.find("activation"), "")
    ir.reload()
    assert ir.fingerprint == before


@works("`Graph`: iterate, find, inputs, outputs", "`Node`: op, name, shape, dtype, attributes, pred, succ")
def test_graphs_and_nodes(shared: forge.IRModule) -> None:
    node = shared.main.find("relu1")
    assert (node.op, node.name, node.dtype) == ("nn.relu", "relu1", "float32")
    assert str(node.shape) == "(batch, 4, 6, 6)"
    assert [n.op for n in node.succ] == ["nn.global_avg_pool2d"]
    assert len(list(node.pred)) == 1
    assert shared.main.find("conv1").op == "nn.conv2d"
    assert "nn.conv2d" in str(shared.main)
    assert [v.name for v in shared.main.inputs] == ["x"]
