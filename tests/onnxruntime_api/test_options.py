"""Options: honoured, accepted as hints, or refused by name."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forge import onnxruntime as ours
from forge.errors import ForgeError, OptionError
from forge.onnxruntime import options as tables
from tests.frontends.onnx.support import assert_same
from tests.onnxruntime_api import models

theirs = pytest.importorskip("onnxruntime")
X = np.ones((1, 3, 8, 8), np.float32)
PAGE = Path(__file__).parent.parent.parent / "docs" / "guides" / "onnxruntime.md"


def plain(value: Any) -> Any:
    """A value of an option, members of enumerations by name."""
    return value.name if hasattr(value, "name") else value


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_all_attributes_are_there_with_their_defaults(kind: str) -> None:
    got, expected = getattr(ours, kind)(), getattr(theirs, kind)()
    names = [name for name in dir(expected) if not name.startswith("_") and not callable(getattr(expected, name))]
    assert {name: plain(getattr(got, name)) for name in names} == {name: plain(getattr(expected, name)) for name in names}


@pytest.mark.parametrize("kind", ["GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder"])
def test_enumerations(kind: str) -> None:
    got, expected = getattr(ours, kind), getattr(theirs, kind)
    assert {m.name: m.value for m in got.__members__.values()} == {m.name: m.value for m in expected.__members__.values()}
    assert got(0).name == expected(0).name


@pytest.mark.parametrize("kind", [
    "InferenceSession", "SessionOptions", "RunOptions", "IOBinding", "OrtValue", "OrtDevice", "NodeArg", "ModelMetadata"])
def test_each_class_has_or_refuses_every_name(kind: str) -> None:
    session = ours.InferenceSession(models.linear().SerializeToString())
    objects = {
        "InferenceSession": session, "SessionOptions": ours.SessionOptions(), "RunOptions": ours.RunOptions(),
        "IOBinding": session.io_binding(), "OrtValue": ours.OrtValue(X), "OrtDevice": ours.OrtDevice.make("cpu", 0),
        "NodeArg": session.get_inputs()[0], "ModelMetadata": session.get_modelmeta()}
    expected = {name for name in dir(getattr(theirs, kind)) if not name.startswith("_")}
    refused = getattr(getattr(ours, kind), "REFUSED", {})
    assert {name for name in expected if not hasattr(objects[kind], name)} == expected & refused.keys()
    for name, reason in refused.items():
        with pytest.raises(AttributeError, match=re.escape(f"{kind}.{name}: is not supported; {reason}")):
            getattr(objects[kind], name)


@pytest.mark.parametrize("name", tables.HINTS)
def test_hints_change_nothing(name: str) -> None:
    default, _ = tables.HINTS[name]
    options = ours.SessionOptions()
    other = {bool: not default, int: 3, str: "text"}.get(type(default)) if not hasattr(default, "name") else type(default)(1)
    setattr(options, name, other)
    session = ours.InferenceSession(models.network().SerializeToString(), options)
    assert getattr(session.get_session_options(), name) == other
    plain_session = ours.InferenceSession(models.network().SerializeToString())
    assert_same(session.run(None, {"images": X}), plain_session.run(None, {"images": X}))


@pytest.mark.parametrize("level", ours.GraphOptimizationLevel)
def test_levels_are_those_of_the_compiler(level: ours.GraphOptimizationLevel) -> None:
    options = ours.SessionOptions()
    options.graph_optimization_level = level
    session = ours.InferenceSession(models.network().SerializeToString(), options)
    expected = theirs.InferenceSession(models.network().SerializeToString()).run(None, {"images": X})
    assert_same(session.run(None, {"images": X}), expected)
    assert options.compile_options["opt_level"] is tables.OPT_LEVELS[level]


def test_options_of_the_compiler() -> None:
    options = ours.SessionOptions()
    entries = {"opt_level": "4", "bfloat16": "0", "winograd": "0", "typical": "height=8,width=8", "channel_layout": "last"}
    for name, value in entries.items():
        options.add_session_config_entry(f"forge.{name}", value)
    assert options.get_session_config_entry("forge.opt_level") == "4"
    assert options.compile_options == {"opt_level": 4, "bfloat16": False, "winograd": False, "typical": ["height=8", "width=8"],
                                       "channel_layout": "last"}
    session = ours.InferenceSession(models.network().SerializeToString(), options)
    assert session.run(None, {"images": X})[0].shape == (1, 3)


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from forge.backends.compiled import CompiledModel

    found: list[int | None] = []
    runtime = CompiledModel.runtime

    def seen(self: CompiledModel, *, num_threads: int | None = None) -> Any:
        found.append(num_threads)
        return runtime(self, num_threads=num_threads)

    monkeypatch.setattr(CompiledModel, "runtime", seen)
    options = ours.SessionOptions()
    ours.InferenceSession(models.linear().SerializeToString(), options)
    options.intra_op_num_threads = 3
    ours.InferenceSession(models.linear().SerializeToString(), options)
    assert found == [None, 3]


@pytest.mark.parametrize("entry", [*tables.ENTRIES, *(f"{prefix}x" for prefix in tables.ENTRY_PREFIXES)])
def test_entries_that_are_hints(entry: str) -> None:
    options = ours.SessionOptions()
    value = "ONNX" if entry == "session.load_model_format" else "1"
    options.add_session_config_entry(entry, value)
    assert options.get_session_config_entry(entry) == value


REFUSALS = {
    "entry": (lambda o: o.add_session_config_entry("session.set_denormal_as_zero", "1"), "denormal_as_zero: means nothing"),
    "entry of Forge": (lambda o: o.add_session_config_entry("forge.speed", "1"), "forge.speed: no such option; expected forge."),
    "value of an entry": (lambda o: o.add_session_config_entry("forge.tuned", "yes"), "expected '0' or '1'"),
    "format": (lambda o: o.add_session_config_entry("session.load_model_format", "ORT"), "got 'ORT'; expected 'ONNX'"),
    "kind of an entry": (lambda o: o.add_session_config_entry("session.disable_prepacking", 1), "expected two texts"),
    "initializer": (lambda o: o.add_initializer("w", np.ones(3)), "got ndarray; expected an OrtValue with a tensor"),
    "initializers": (lambda o: o.add_external_initializers(["w"], []), "got 1 names and 0 values"),
    "size": (lambda o: o.add_free_dimension_override_by_name("N", -1), "N: got -1; expected a size"),
    "threads": (lambda o: setattr(o, "intra_op_num_threads", -1), "got -1; expected a number of threads"),
    "kind": (lambda o: setattr(o, "enable_profiling", "yes"), "enable_profiling: got 'yes'; expected True or False"),
    "number": (lambda o: setattr(o, "intra_op_num_threads", 1.5), "got 1.5; expected a whole number"),
    "enumeration": (lambda o: setattr(o, "graph_optimization_level", 1), "a member of forge.onnxruntime.GraphOptimizationLevel"),
    "severity": (lambda o: setattr(o, "log_severity_level", 9), r"expected 0 \(verbose\) to 4 \(fatal\)"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_say_what_to_do(name: str) -> None:
    attempt, message = REFUSALS[name]
    with pytest.raises(OptionError, match=message):
        attempt(ours.SessionOptions())


def test_unknown_options_are_refused() -> None:
    with pytest.raises(AttributeError, match="no option is called 'threads'; expected one of intra_op_num_threads"):
        ours.SessionOptions().threads = 3  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="does not have configuration with key: none"):
        ours.SessionOptions().get_session_config_entry("none")


def test_options_of_calls() -> None:
    options = ours.RunOptions()
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    options.only_execute_path_to_fetches, options.logid = True, "call"
    assert options.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    session = ours.InferenceSession(models.linear().SerializeToString())
    assert session.run(["sum"], {"x": np.ones((1, 3), np.float32)}, options)[0].shape == (1, 3)
    with pytest.raises(OptionError, match="gpu_graph_id: means nothing to Forge"):
        options.add_run_config_entry("gpu_graph_id", "1")
    with pytest.raises(OptionError, match=r"run_options: got builtins.int; expected forge.onnxruntime.RunOptions"):
        session.run(None, {}, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("providers", [None, [], ["CPUExecutionProvider"], [("CPUExecutionProvider", {"use_arena": "1"})]])
def test_providers(providers: Any) -> None:
    session = ours.InferenceSession(models.linear().SerializeToString(), providers=providers)
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_providers_that_are_not_there() -> None:
    data = models.linear().SerializeToString()
    with pytest.warns(UserWarning, match="Specified provider 'CUDAExecutionProvider' is not in available") as caught:
        session = ours.InferenceSession(data, None, ["CUDAExecutionProvider", "CPUExecutionProvider"], [{"device_id": 0}, {}])
    assert caught[0].filename == __file__
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(RuntimeError, match=r"Unknown Provider Type: InvalidProvider.*expected 'CPUExecutionProvider' among them"):
        session.set_providers(["InvalidProvider"])
    with pytest.raises(ours.EPFail):
        ours.InferenceSession(data, providers=["CUDAExecutionProvider"])


@pytest.mark.parametrize(("arguments", "message"), [
    ({"providers": "CPUExecutionProvider"}, "expected a list"), ({"providers": [3]}, "expected a name, or a name and"),
    ({"providers": ["CPUExecutionProvider"], "provider_options": []}, r"got \[\] for 1 providers"),
    ({"providers": ["CPUExecutionProvider"], "provider_options": ["no"]}, r"got \['no'\] for 1 providers"),
    ({"providers": [("CPUExecutionProvider", {"device_id": 1})]}, "option 'device_id' of CPUExecutionProvider"),
    ({"sess_options": theirs.SessionOptions()}, "expected forge.onnxruntime.SessionOptions"),
])
def test_arguments_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ours.InferenceSession(models.linear().SerializeToString(), **arguments)


def test_names_of_onnxruntime_that_mean_nothing_here() -> None:
    for name in ours.REFUSED:
        assert hasattr(theirs, name) or name == "training"
        with pytest.raises(AttributeError, match=f"forge.onnxruntime has no {name}: "):
            getattr(ours, name)
    with pytest.raises(OptionError, match="take their seeds from the model"):
        ours.set_seed(3)


def test_functions_of_the_module() -> None:
    assert ours.get_available_providers() == ours.get_all_providers() == ["CPUExecutionProvider"]
    assert "Build Info" in ours.get_build_info()
    assert ours.get_version_string() == ours.__version__
    for harmless in (ours.enable_telemetry_events, ours.disable_telemetry_events, ours.preload_dlls):
        assert harmless() is None
    assert ours.set_default_logger_verbosity(1) is None
    assert ours.OrtDevice.make("cpu", 0).device_type() == theirs.OrtDevice.make("cpu", 0).device_type()
    with pytest.raises(RuntimeError, match="expected 'cpu' and 0"):
        ours.OrtDevice.make("cuda", 0)


def test_severity_of_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    proto = models.linear()
    options = ours.SessionOptions()
    options.add_free_dimension_override_by_name("none", 3)
    for severity, is_said in ((-1, True), (3, False)):
        caplog.clear()
        options.log_severity_level = severity
        ours.InferenceSession(proto.SerializeToString(), options)
        assert ("no input has such a dimension" in caplog.text) is is_said
    before = logging.getLogger("forge").level
    try:
        ours.set_default_logger_severity(4)
        assert logging.getLogger("forge").level == logging.CRITICAL
    finally:
        logging.getLogger("forge").setLevel(before)
    with pytest.raises(OptionError, match="got 5"):
        ours.set_default_logger_severity(5)


def test_added_initializers_that_the_model_has_not() -> None:
    options = ours.SessionOptions()
    options.add_initializer("none", ours.OrtValue.ortvalue_from_numpy(np.ones(3, np.float32)))
    with pytest.raises(OptionError, match=r"no initializer 'none'; expected one of \['w', 'shift'\]"):
        ours.InferenceSession(models.linear().SerializeToString(), options)


@pytest.mark.parametrize("attempt", [
    lambda: ours.OrtValue.ortvalue_from_numpy([1, 2]), lambda: ours.OrtValue.ortvalue_from_shape_and_type([2], "none"),
    lambda: ours.OrtValue.ortvalue_from_shape_and_type([2], 99), lambda: ours.OrtValue.ortvalue_from_numpy(X, "cuda", 0),
    lambda: ours.OrtValue.ortvalue_from_numpy_with_onnx_type(X, 16), lambda: ours.OrtValue(None).numpy(),
    lambda: ours.OrtValue([X]).shape(), lambda: ours.OrtValue.ortvalue_from_numpy(X).update_inplace(X[0]),
])
def test_values_that_do_not_fit(attempt: Any) -> None:
    with pytest.raises(ForgeError, match="OrtValue"):
        attempt()


def test_values_without_a_tensor() -> None:
    assert (ours.OrtValue(None).has_value(), ours.OrtValue(None).data_type()) == (False, "optional")
    assert (ours.OrtValue([X]).is_tensor_sequence(), ours.OrtValue([X]).data_type()) == (True, "seq(tensor(float))")


def rows(table: Mapping[str, str]) -> list[str]:
    """Lines of a table in Markdown; names with one reason share a line."""
    names: dict[str, list[str]] = {}
    for name, reason in table.items():
        names.setdefault(reason, []).append(f"`{name}`")
    return [f"| {', '.join(some)} | {reason} |" for reason, some in names.items()]


def test_the_page_has_every_row_of_the_tables() -> None:
    kinds = (ours.InferenceSession, ours.SessionOptions, ours.RunOptions, ours.OrtValue)
    refused = {f"{kind.__name__}.{name}": reason for kind in kinds for name, reason in kind.REFUSED.items()}
    options = [{name: reason for name, (_, reason) in table.items()} for table in (tables.HONOURED, tables.HINTS)]
    expected = [*options, tables.ENTRIES, tables.RUN_ENTRIES, {**ours.REFUSED, **refused}]
    text = PAGE.read_text()
    assert [table for table in map(rows, expected) if "\n".join(table) not in text] == []
