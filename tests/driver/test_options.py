"""Every option of ``compile`` has its effect, or is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.driver import STAGES, check_options, compile_module, optimized_graph
from forge.errors import ForgeError, OptionError, TargetError
from forge.ir.parser import parse_module
from forge.target import Target, host
from tests.driver.support import BFLOAT16_LIMIT, DIGITS, HALF_LIMIT, LIMIT, difference, files, pictures, reference

V3 = "llvm -mcpu=x86-64-v3"


@pytest.mark.parametrize("opt_level", range(5))
def test_results_agree_at_every_level(digits: forge.IRModule, opt_level: int) -> None:
    assert difference(digits, pictures(), opt_level=opt_level) <= LIMIT


def test_levels_differ(digits: forge.IRModule) -> None:
    kernels = [compile_module(digits.mod, check_options(opt_level=level)).kernels for level in (0, 1, 2, 3)]
    assert len({tuple(k) for k in kernels}) == 4
    assert len(kernels[0]) > len(kernels[1])


def test_winograd_can_be_turned_off() -> None:
    text = "def @main(%x: Tensor[(1, 32, 28, 28), float32]) { nn.conv2d(%x, meta[relay.Constant][0], padding=[1, 1, 1, 1]) }"
    module = forge.IRModule(parse_module(text, [np.random.default_rng(0).standard_normal((32, 32, 3, 3)).astype(np.float32)]))
    options = [check_options(V3, opt_level=2), check_options(V3), check_options(V3, winograd=False)]
    graphs = [optimized_graph(module.mod, o) for o in options]
    assert [any("winograd" in n.op for n in g.nodes) for g in graphs] == [False, True, False]
    x = np.random.default_rng(1).standard_normal((1, 32, 28, 28)).astype(np.float32)
    assert 0 < difference(module, x) <= 1e-4


@pytest.mark.parametrize("level", ["v1", "v2", "v3", "v4"])
def test_every_level_of_x86_64_agrees(digits: forge.IRModule, level: str) -> None:
    target = Target.parse(f"llvm -mcpu=x86-64{'' if level == 'v1' else '-' + level}")
    if target.missing_on_host():
        pytest.skip(f"this CPU has no x86-64-{level}")
    compiled = compile_module(digits.mod, check_options(target))
    assert compiled.target == target
    assert difference(digits, pictures(), target=target) <= LIMIT


@pytest.mark.parametrize("target", [
    V3,
    {"kind": "llvm", "mcpu": "x86-64-v3"},
    '{"kind": "llvm", "mcpu": "x86-64-v3"}',
    "intel/haswell",
    Target.parse(V3),
], ids=["text", "dictionary", "JSON", "tag", "Target"])
def test_targets_in_every_form(digits: forge.IRModule, target: Any) -> None:
    resolved = check_options(target).target
    assert resolved.has("avx2")
    assert not resolved.has("avx512f")


@pytest.mark.parametrize(("rows", "kind"), [("7", int), ("n", str)])
def test_the_size_of_the_arena_is_a_number_or_an_expression(tmp_path: Path, rows: str, kind: type) -> None:
    module = forge.IRModule(f"def @main(%x: Tensor[({rows}, 4), float32]) {{ sum(nn.softmax(%x), axis=[0]) }}")
    module.compile(output_path=tmp_path / "build", export_metadata=True, opt_level=1)
    size = json.loads((tmp_path / "build" / "metadata.json").read_text())["arena_size"]
    assert type(size) is kind
    assert size > 0 if kind is int else "n" in size


def test_the_bare_target_is_this_machine(digits_build: Path) -> None:
    metadata = json.loads((digits_build / "metadata.json").read_text())
    assert metadata["target"] == str(Target.parse("llvm"))
    assert metadata["cpu_features"].split(",") == list(Target.parse("llvm").features)


@pytest.mark.parametrize(("option", "named"), [
    ({"target": "cuda"}, "cuda"),
    ({"target": "llvm -mcpu=z80"}, "z80"),
    ({"target": "llvm -mtriple=riscv64-linux-gnu"}, "riscv64"),
    ({"target": "nvidia/rtx-a4500"}, "nvidia/rtx-a4500"),
    ({"target": {"kind": "llvm", "colour": "red"}}, "colour"),
    ({"target": {"kind": "llvm", "libs": ["cblas"]}}, "libs"),
    ({"target": {"kind": "llvm", "system-lib": True}}, "system-lib"),
    ({"target": {"kind": "llvm", "mfloat-abi": "soft"}}, "mfloat-abi"),
    ({"target": 7}, "7"),
    ({"host": "raspberry-pi/5"}, "aarch64"),
    ({"opt_level": 5}, "opt_level"),
    ({"opt_level": -1}, "opt_level"),
    ({"opt_level": True}, "opt_level"),
    ({"opt_level": "3"}, "opt_level"),
    ({"set_float16": "no"}, "set_float16"),
    ({"set_channel_layout": "NHWC"}, "set_channel_layout"),
    ({"export_relay": 1}, "export_relay"),
    ({"export_metadata": "x"}, "export_metadata"),
    ({"force_overwrite": None}, "force_overwrite"),
    ({"uuid": ""}, "uuid"),
    ({"uuid": 3}, "uuid"),
    ({"encrypt_password": ""}, "encrypt_password"),
    ({"encrypt_password": b"secret"}, "encrypt_password"),
    ({"output_path": 3}, "output_path"),
    ({"output_path": ""}, "output_path"),
    ({"output_path": "a\0b"}, "output_path"),
])
def test_wrong_options_are_refused_by_name(digits: forge.IRModule, tmp_path: Path, option: dict[str, Any], named: str) -> None:
    with pytest.raises(ForgeError) as caught:
        digits.compile(**{"output_path": tmp_path / "build", **option})
    assert named in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert "secret" not in str(caught.value)
    assert files(tmp_path) == []


def test_errors_are_in_the_catalogue() -> None:
    with pytest.raises(OptionError):
        check_options(opt_level=9)
    with pytest.raises(TargetError):
        check_options("opencl")
    with pytest.raises(TypeError):
        check_options(float16=1)


@pytest.mark.usefixtures("narrow_layers")
def test_float16(digits: forge.IRModule, tmp_path: Path) -> None:
    digits.compile(output_path=tmp_path / "build", set_float16=True, export_metadata=True)
    runtime = forge.Runtime(tmp_path / "build")
    assert runtime.model_precision == "float16"
    assert runtime.input_dtypes == runtime.output_dtypes == ["float32"]
    x = pictures(50)
    expected = reference(digits, x)[0]
    off = np.abs(runtime(x) - expected).max() / np.abs(expected).max()
    assert 0 < off <= HALF_LIMIT
    assert (runtime(x).argmax(1) == expected.argmax(1)).all()


@pytest.mark.usefixtures("narrow_layers")
@pytest.mark.parametrize("opt_level", [0, 3])
def test_float16_at_other_levels(digits: forge.IRModule, opt_level: int) -> None:
    assert 0 < difference(digits, pictures(), float16=True, opt_level=opt_level) <= HALF_LIMIT


@pytest.mark.usefixtures("narrow_layers")
def test_bfloat16(digits: forge.IRModule, tmp_path: Path) -> None:
    digits.compile(output_path=tmp_path / "build", set_bfloat16=True, export_metadata=True)
    runtime = forge.Runtime(tmp_path / "build")
    assert runtime.model_precision == "bfloat16"
    assert runtime.input_dtypes == runtime.output_dtypes == ["float32"]
    x = pictures(50)
    expected = reference(digits, x)[0]
    off = np.abs(runtime(x) - expected).max() / np.abs(expected).max()
    assert 0 < off <= BFLOAT16_LIMIT
    with pytest.raises(OptionError, match="at most one"):
        digits.compile(output_path=tmp_path / "both", set_float16=True, set_bfloat16=True)


@pytest.mark.usefixtures("narrow_layers")
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v4", V3])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_bfloat16_on_targets(digits: forge.IRModule, target: str, opt_level: int) -> None:
    if not set(Target.parse(target).features) <= set(host.features()):
        pytest.skip(f"this machine has not the features of {target}")
    assert 0 < difference(digits, pictures(), bfloat16=True, target=target, opt_level=opt_level) <= BFLOAT16_LIMIT


@pytest.mark.parametrize(("narrow", "limit"), [("float16", HALF_LIMIT), ("bfloat16", BFLOAT16_LIMIT)])
def test_layers_that_wait_for_weights_are_narrow(narrow: str, limit: float) -> None:
    rng = np.random.default_rng(3)
    text = """def @main(%x: Tensor[(1, 384), float32]) {
      %0 = nn.dense(%x, meta[relay.Constant][0]);
      %1 = nn.softmax(%0);
      nn.dense(%1, meta[relay.Constant][1])
    }"""
    module = forge.IRModule(parse_module(text, [rng.standard_normal(shape, np.float32) / 9 for shape in ((512, 384), (64, 512))]))
    x = rng.standard_normal((1, 384), np.float32)
    few = f"{V3} -l2-cache=65536 -l3-cache=262144"
    assert LIMIT < difference(module, x, target=few, **{narrow: True}) <= limit
    assert difference(module, x, target=f"{V3} -l2-cache=4194304", **{narrow: True}) <= LIMIT


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("layout", ["first", "last"])
def test_channel_layout(digits: forge.IRModule, layout: str, opt_level: int) -> None:
    options = check_options(opt_level=opt_level, channel_layout=layout)
    layouts = {n.attributes["data_layout"] for n in optimized_graph(digits.mod, options).select("nn.*conv2d*")}
    assert layouts == {"NCHW" if layout == "first" else "NHWC"}
    assert difference(digits, pictures(), channel_layout=layout, opt_level=opt_level) <= LIMIT
    assert compile_module(digits.mod, check_options(channel_layout=layout)).runtime().input_shapes == [("batch", 1, 8, 8)]


def test_all_options_at_once(digits: forge.IRModule) -> None:
    assert difference(digits, pictures(), target=V3, host="llvm", opt_level=4, float16=True, channel_layout="last") <= HALF_LIMIT


def test_exports(digits: forge.IRModule, tmp_path: Path) -> None:
    digits.compile(
        V3, "llvm -mcpu=x86-64", tmp_path / "build", 2, False, "first", export_relay=True, export_metadata=True, uuid="model-7")
    assert files(tmp_path / "build") == ["metadata.json", "model.relay", "model.relay.safetensors", "modelLibrary.so"]
    text = (tmp_path / "build" / "model.relay").read_text()
    assert "nn.conv2d" in text
    assert "/* ty=Tensor[(batch, 10), float32] name=" in text
    metadata = json.loads((tmp_path / "build" / "metadata.json").read_text())
    sealed = forge.Runtime(tmp_path / "build").metadata
    assert {k: sealed[k] for k in metadata} == metadata
    assert metadata["uuid"] == "model-7"
    assert metadata["fingerprint"] == digits.fingerprint
    assert metadata["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8], "layout": "NCHW"}]
    assert metadata["outputs"] == [{"name": "logits", "dtype": "float32", "shape": ["batch", 10], "layout": ""}]
    options = metadata["options"]
    assert (options["opt_level"], options["float16"], options["channel_layout"]) == (2, False, "first")
    assert "x86-64" in options["host"]
    assert set(metadata["versions"]) == {"forge", "llvmlite"}


def test_annotations_are_recorded(digits: forge.IRModule, tmp_path: Path) -> None:
    target = {"kind": "llvm", "model": "raspberry", "keys": ["cpu", "fast"], "device": "arm_cpu"}
    digits.compile(target, output_path=tmp_path / "build")
    annotations = forge.Runtime(tmp_path / "build").metadata["annotations"]
    assert annotations == {"model": "raspberry", "keys": "cpu,fast,arm_cpu", "device": "arm_cpu"}


def test_the_module_is_not_changed(digits: forge.IRModule) -> None:
    before = digits.fingerprint, str(digits.mod)
    compile_module(digits.mod, check_options(float16=True, channel_layout="last", opt_level=4))
    assert (digits.fingerprint, str(digits.mod)) == before


def test_sizes_of_params_are_sizes_of_inputs() -> None:
    """An input that shares a symbol with a weight has the weight's size, and no other."""
    text = "def @main(%x: Tensor[(n), float32], %w: Tensor[(n), float32]) { add(%x, %w) }"
    ir = forge.IRModule(text, {"w": np.ones(4, np.float32)})
    run = ir.get_inference_function()
    assert run(np.ones(4, np.float32)).tolist() == [2, 2, 2, 2]
    with pytest.raises(ValueError, match=r"input 'x': wrong shape; got \[5\]; expected \[4\]"):
        run(np.ones(5, np.float32))


def test_params_are_bound() -> None:
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    text = "def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) { nn.dense(%x, %w) }"
    module = forge.IRModule(text, params={"w": weight})
    x = np.ones((2, 4), np.float32)
    runtime = compile_module(module.mod).runtime()
    assert runtime.input_names == ["x"]
    np.testing.assert_allclose(runtime(x), x @ weight.T, rtol=1e-6)


def test_weights_that_stay_inputs_are_bound(digits: forge.IRModule) -> None:
    loose = forge.from_onnx(DIGITS / "digits.onnx", freeze_params=False)
    assert loose.params
    runtime = compile_module(loose.mod).runtime()
    assert runtime.input_names == ["image"]
    np.testing.assert_allclose(runtime(pictures()), reference(digits, pictures())[0], rtol=1e-4, atol=1e-4)


def test_functions_are_inlined(digits: forge.IRModule) -> None:
    module = forge.IRModule(
        "def @main(%x: Tensor[(n, 4), float32]) { %0 = @f(%x); add(%0, %x) }\n"
        "def @f(%v: Tensor[(m, 4), float32]) { tanh(%v) }"
    )
    assert difference(module, np.ones((3, 4), np.float32)) <= LIMIT
    assert difference(module, np.ones((3, 4), np.float32), opt_level=0) <= LIMIT


def test_stages_have_names_of_their_own() -> None:
    assert len({s.name for s in STAGES}) == len(STAGES)
