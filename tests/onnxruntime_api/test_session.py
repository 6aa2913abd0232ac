"""Sessions: what both modules do alike, and what is Forge's own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import forge
from forge import onnxruntime as ours
from forge.errors import InputError, OptionError
from tests.frontends.onnx.support import assert_same
from tests.onnxruntime_api import models
from tests.onnxruntime_api.programs import saved

theirs = pytest.importorskip("onnxruntime")
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=[ours, theirs], ids=["forge", "onnxruntime"])
def ort(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def linear(ort: Any) -> Any:
    return ort.InferenceSession(models.linear().SerializeToString())


def test_asynchronous_calls(linear: Any) -> None:
    done, found = threading.Event(), []

    def callback(results: list[np.ndarray], data: object, error: str) -> None:
        found.append((results, data, error))
        done.set()

    linear.run_async(["sum"], {"x": X}, callback, "mine")
    assert done.wait(60)
    (results, data, error), = found
    assert_same(results, linear.run(["sum"], {"x": X}))
    assert (data, error) == ("mine", "")


def test_asynchronous_calls_that_fail(linear: Any) -> None:
    done, found = threading.Event(), []
    linear.run_async(None, {"x": X[0]}, lambda *given: (found.append(given), done.set()), None)
    assert done.wait(60)
    assert found[0][0] == []
    assert "rank" in found[0][2]


def test_calls_from_many_threads(linear: Any) -> None:
    expected = linear.run(["sum"], {"x": X})[0]
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(linear.run(["sum"], {"x": X})[0])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_same(found, [expected] * 8)


def test_missing_inputs_are_a_value_error(linear: Any) -> None:
    with pytest.raises(ValueError, match=r"Required inputs \(\['x'\]\) are missing from input feed \(\[\]\)"):
        linear.run(None, {})


@pytest.mark.parametrize("source", [3, None, models.linear()], ids=lambda source: type(source).__name__)
def test_sources_of_another_kind_are_a_type_error(ort: Any, source: Any) -> None:
    with pytest.raises(TypeError, match=f"type.*{type(source).__name__}"):
        ort.InferenceSession(source)


def test_a_binding_reads_what_its_memory_holds_then(linear: Any) -> None:
    binding, x = linear.io_binding(), np.zeros((2, 3), np.float32)
    binding.bind_cpu_input("x", x)
    binding.bind_output("sum")
    linear.run_with_iobinding(binding)
    first = binding.copy_outputs_to_cpu()[0]
    x += 1
    linear.run_with_iobinding(binding)
    assert_same(binding.copy_outputs_to_cpu(), [first + 1])
    assert_same([value.numpy() for value in binding.get_outputs()], [first + 1])


def test_an_output_may_lie_over_an_input() -> None:
    """onnxruntime overwrites the input before all of it was read."""
    linear = ours.InferenceSession(models.linear().SerializeToString())
    binding, x = linear.io_binding(), X.copy()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("sum", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("product")
    expected = linear.run(["sum", "product"], {"x": X})
    linear.run_with_iobinding(binding)
    assert_same([x, binding.copy_outputs_to_cpu()[1]], expected)


def test_sizes_that_depend_on_data_are_copied_to_memory(ort: Any) -> None:
    session = ort.InferenceSession(models.counting().SerializeToString())
    binding, places = session.io_binding(), np.full((1, 2), -1)
    binding.bind_cpu_input("x", np.array([1, 0, 2], np.float32))
    binding.bind_output("places", "cpu", 0, np.int64, places.shape, places.ctypes.data)
    session.run_with_iobinding(binding)
    assert places.tolist() == [[0, 2]]


@pytest.mark.parametrize("spoil", [
    lambda binding: binding.bind_cpu_input("none", X),
    lambda binding: binding.bind_input("x", "cuda", 0, np.float32, [2, 3], X.ctypes.data),
], ids=["input", "device"])
def test_bindings_that_do_not_fit_are_a_runtime_error(linear: Any, spoil: Any) -> None:
    with pytest.raises(RuntimeError):
        spoil(linear.io_binding())


def test_bindings_without_outputs_are_refused() -> None:
    session = ours.InferenceSession(models.linear().SerializeToString())
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    with pytest.raises(RuntimeError, match="the model has no 'none'; expected one of product, sum"):
        binding.bind_output("none")
    with pytest.raises(ours.Fail, match="no output is bound"):
        session.run_with_iobinding(binding)
    binding.bind_output("sum", "cpu", 0, np.float32, (2, 4), np.empty((2, 4), np.float32).ctypes.data)
    with pytest.raises(ours.InvalidArgument, match="output 'sum': wrong array; got float32"):
        session.run_with_iobinding(binding)
    with pytest.raises(OptionError, match="an address without a shape"):
        binding.bind_output("sum", buffer_ptr=X.ctypes.data)
    binding.clear_binding_outputs()
    binding.clear_binding_inputs()
    assert binding.get_outputs() == []


def test_profiles_are_traces(ort: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = ort.InferenceSession(models.network().SerializeToString(), options)
    plain = ort.InferenceSession(models.network().SerializeToString())
    x = np.ones((1, 3, 8, 8), np.float32)
    for _ in range(3):
        assert_same(session.run(None, {"images": x}), plain.run(None, {"images": x}))
    assert session.get_profiling_start_time_ns() > 0
    path = Path(session.end_profiling())
    session.run(None, {"images": x})
    del session
    assert list(tmp_path.iterdir()) == [path]
    assert path.name.startswith("profile_20")
    events = json.loads(path.read_text())
    assert {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"} <= {key for event in events for key in event}
    calls = [event for event in events if event["name"] == "model_run"]
    kernels = [event for event in events if event["cat"] == "Node"]
    assert len(calls) == 3
    assert all(event["name"].endswith("_kernel_time") for event in kernels)
    assert {event["args"]["provider"] for event in kernels} == {"CPUExecutionProvider"}
    first = [k for k in kernels if calls[0]["ts"] <= k["ts"] <= calls[0]["ts"] + calls[0]["dur"]]
    assert 0 < sum(event["dur"] for event in first) <= calls[0]["dur"]
    assert (plain.end_profiling(), plain.get_profiling_start_time_ns()) == ("", 0)


def test_profiles_of_sessions_that_go(ort: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    ort.InferenceSession(models.linear().SerializeToString(), options).run(None, {"x": X})
    path, = tmp_path.iterdir()
    assert "model_run" in [event["name"] for event in json.loads(path.read_text())]


def test_profiles_of_bindings(tmp_path: Path) -> None:
    options = ours.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    session = ours.InferenceSession(models.linear().SerializeToString(), options)
    binding, sums = session.io_binding(), np.empty((2, 3), np.float32)
    binding.bind_cpu_input("x", X)
    binding.bind_output("sum", "cpu", 0, np.float32, sums.shape, sums.ctypes.data)
    session.run_with_iobinding(binding)
    assert_same([sums], ours.InferenceSession(models.linear().SerializeToString()).run(["sum"], {"x": X}))


def test_compiled_once(compile_cache: None, caplog: pytest.LogCaptureFixture) -> None:
    """Equal models are found in the cache, whatever file they come from."""
    proto = models.linear()
    with caplog.at_level(logging.INFO, "forge"):
        ours.InferenceSession(proto.SerializeToString())
        caplog.clear()
        session = ours.InferenceSession(proto.SerializeToString())
    assert "from the cache" in caplog.text
    assert session.run(["sum"], {"x": X})[0].shape == (2, 3)


def test_artifacts_and_saved_modules(tmp_path: Path) -> None:
    session = ours.InferenceSession(models.linear().SerializeToString())
    ir = forge.from_onnx(models.linear())
    ir.compile(output_path=tmp_path / "build", uuid="mine")
    ir.save(tmp_path / "linear.forge")
    for source in (tmp_path / "build", tmp_path / "build" / "modelLibrary.so", tmp_path / "linear.forge"):
        other = ours.InferenceSession(source)
        assert_same(other.run(None, {"x": X}), session.run(None, {"x": X}))
        assert other.get_inputs() == [ours.NodeArg("x", "tensor(float)", ["N", 3])]
        assert [(a.name, a.type, a.shape) for a in other.get_outputs()] == [
            ("product", "tensor(float)", ["N", 2]), ("sum", "tensor(float)", ["N", 3])]
    asked = {
        "free dimensions": lambda options: options.add_free_dimension_override_by_name("N", 2),
        "add_initializer": lambda options: options.add_initializer("w", ours.OrtValue(X)),
        "optimized_model_filepath": lambda options: setattr(options, "optimized_model_filepath", "a.onnx"),
        "entries": lambda options: options.add_session_config_entry("forge.unify_dimensions", "0"),
    }
    for name, ask in asked.items():
        options = ours.SessionOptions()
        ask(options)
        for source in ("build", "linear.forge"):
            with pytest.raises(OptionError, match=rf"{source}: {name}: .* expected an ONNX model"):
                ours.InferenceSession(tmp_path / source, options)
    options = ours.SessionOptions()
    options.enable_profiling = True
    with pytest.raises(OptionError, match="build: enable_profiling: got True for a compiled model"):
        ours.InferenceSession(tmp_path / "build", options)


def test_modules_with_states_are_refused(tmp_path: Path) -> None:
    ir = forge.from_onnx(models.voice())
    ir.as_session({"state": "stateN"})
    ir.save(tmp_path / "voice.forge")
    ir.compile(output_path=tmp_path / "build")
    for source in ("voice.forge", "build"):
        with pytest.raises(OptionError, match=rf"{source}: has states \(state\)"):
            ours.InferenceSession(tmp_path / source)


def test_artifacts_need_neither_compiler_nor_onnx(tmp_path: Path) -> None:
    forge.from_onnx(models.linear()).compile(output_path=tmp_path / "build")
    program = """
import sys
import numpy as np
import forge as ort
print(ort.InferenceSession("build").run(["sum"], {"x": np.ones((1, 3), np.float32)})[0].shape)
print([name for name in ("onnx", "llvmlite", "forge.driver", "forge.ops") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["(1, 3)", "[]"], done.stderr


def test_inputs_without_a_rank(tmp_path: Path) -> None:
    proto = models.linear()
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ours.InvalidGraph, match="input 'x': the model declares no shape"):
        ours.InferenceSession(proto.SerializeToString())
    forge.from_onnx(proto, shape={"x": (None, 3)}).save(tmp_path / "model.forge")
    assert ours.InferenceSession(tmp_path / "model.forge").run(["sum"], {"x": X})[0].shape == (2, 3)


@pytest.mark.parametrize("name", [
    "InferenceSession", "SessionOptions", "RunOptions", "GraphOptimizationLevel", "ExecutionMode", "OrtValue", "OrtDevice",
    "IOBinding", "NodeArg", "ModelMetadata", "get_available_providers", "get_all_providers", "get_device", "get_build_info",
    "get_version_string", "set_default_logger_severity", "set_default_logger_verbosity", "set_seed",
    "enable_telemetry_events", "disable_telemetry_events", "preload_dlls", "capi",
])
def test_forge_in_the_place_of_the_module(name: str) -> None:
    assert getattr(forge, name) is getattr(ours, name)
    assert hasattr(theirs, name)


def test_ort_format_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "model.ort").write_bytes(b"\x20\0\0\0ORTM" + bytes(100))
    with pytest.raises(ours.InvalidProtobuf, match="a model in onnxruntime's ORT format"):
        ours.InferenceSession(tmp_path / "model.ort")


def test_operators_without_a_converter_are_not_implemented() -> None:
    proto = models.model('foreign (float[N] x) => (float[N] y) { y = org.example.Fold(x) }', 17, domains={"org.example": 1})
    with pytest.raises(ours.NotImplemented, match=r"\[ONNXRuntimeError\] : 9 : NOT_IMPLEMENTED .*\n.*org.example.Fold") as caught:
        ours.InferenceSession(proto.SerializeToString())
    assert isinstance(caught.value, forge.OpNotImplemented)


def test_errors_have_one_cause() -> None:
    session = ours.InferenceSession(models.linear().SerializeToString())
    with pytest.raises(ours.InvalidArgument) as caught:
        session.run(None, {"x": X[0]})
    assert isinstance(caught.value.__cause__, InputError)
    assert caught.value.__cause__.__cause__ is None
    with pytest.raises(ours.InvalidArgument) as caught:
        session.run(["none"], {"x": X})
    assert caught.value.__cause__ is None


def test_values_that_operators_refuse() -> None:
    session = ours.InferenceSession(models.gathering().SerializeToString())
    with pytest.raises(ours.RuntimeException, match="an index is out of range") as caught:
        session.run(None, {"x": np.ones(3, np.float32), "i": np.array([7])})
    assert isinstance(caught.value, forge.ForgeError)


def test_one_name_for_unequal_sizes() -> None:
    """onnxruntime does not compare them; Forge does, unless it is told not to."""
    proto = models.model("unequal (float[N] x, float[N] y) => (float[M] z) { z = Concat<axis = 0>(x, y) }", 17)
    feed = {"x": np.ones(2, np.float32), "y": np.ones(3, np.float32)}
    with pytest.raises(ours.InvalidArgument):
        ours.InferenceSession(proto.SerializeToString()).run(None, feed)
    options = ours.SessionOptions()
    options.add_session_config_entry("forge.unify_dimensions", "0")
    session = ours.InferenceSession(proto.SerializeToString(), options)
    assert session.run(None, feed)[0].tolist() == [1] * 5
    assert session.get_inputs()[1].shape == ["N"]


def test_tensors_of_other_libraries() -> None:
    torch = pytest.importorskip("torch")
    session = ours.InferenceSession(models.linear().SerializeToString())
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert_same(session.run(None, {"x": x}), session.run(None, {"x": X}))
    value = ours.OrtValue.from_dlpack(x)
    value.update_inplace(X + 1)
    assert x[0, 0] == 1
    assert torch.from_dlpack(value).data_ptr() == x.data_ptr() == value.data_ptr()


def test_later_changes_of_options_do_not_count() -> None:
    options = ours.SessionOptions()
    session = ours.InferenceSession(models.linear().SerializeToString(), options)
    options.intra_op_num_threads = 7
    options.add_session_config_entry("forge.winograd", "0")
    kept = session.get_session_options()
    assert (kept.intra_op_num_threads, kept.entries) == (0, {})


def test_texts_of_raw_bytes() -> None:
    session = ours.InferenceSession(models.strings().SerializeToString())
    words = np.array([b"this", b"text", b"test"])
    for x in (words, words.view("V4"), words.tolist()):
        assert session.run(["codes"], {"x": x})[0].tolist() == [3, -1, 4]


def test_maps_of_unnamed_rows() -> None:
    session = ours.InferenceSession(models.classifier().SerializeToString())
    maps = session.run(["output_probability"], {"X": np.zeros((0, 2), np.float32)})
    assert maps == [[]]


def test_weights_in_a_file_of_their_own_are_named_when_missing(tmp_path: Path) -> None:
    onnx.save(models.linear(), tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ours.InvalidGraph, match=r"weights\.bin.*missing"):
        ours.InferenceSession(tmp_path / "m.onnx")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    path = saved(models.linear(), tmp_path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ours.InvalidProtobuf):
        ours.InferenceSession(path)
    with pytest.raises(FileNotFoundError):
        ours.InferenceSession(tmp_path / "none.onnx")
