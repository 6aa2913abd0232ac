"""The command line: examples that run, JSON that parses, exit codes, and no traceback for any input."""

from __future__ import annotations

import errno
import json
import os
import pty
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import forge
from forge import knobs, optional, peers
from forge.cli import VERBS, examples, function, main, source, summary, tables
from forge.driver import STAGES, check_options, machines, tuning
from forge.options import CompileOptions
from forge.target import Target, host
from tests.driver.support import DIGITS, LIMIT, files, pictures, reference

pytestmark = pytest.mark.usefixtures("compile_cache")

EXAMPLES = [(verb, line) for verb in VERBS for line in examples(verb)]


@pytest.fixture
def here(tmp_path: Path, digits_build: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with what the examples name."""
    shutil.copy(DIGITS / "digits.onnx", tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", pictures(3))
    np.savez(tmp_path / "inputs.npz", image=pictures(3))
    (tmp_path / "tuning.json").write_text('{"format": 1, "records": []}')
    monkeypatch.setenv("FORGE_TUNING", str(tmp_path / "tuning.sqlite"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def build(here: Path, digits_build: Path) -> Path:
    return Path(shutil.copytree(digits_build, here / "build"))


def run(*arguments: str) -> int:
    return main(list(arguments))


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples(verb: str, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb, flag) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert all(f"    {example}" in lines[lines.index("  Examples:"):] for example in examples(verb))


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_fits_80_columns(verb: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*filter(None, [verb, "--help"])) == 0
    text = capsys.readouterr().out.partition("Examples:")[0]
    assert max(map(len, text.splitlines())) <= 80
    assert "..." not in text.replace("[ARGS]...", "").replace("NAME[1], ...", "").replace("SIZE,...", "")
    assert "<bool>" not in text


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("verb", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_examples_run(verb: str, line: str, here: Path, digits_build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, *arguments = shlex.split(line)
    assert command == "forge"
    assert arguments[0] == verb
    if "build/" in arguments and "-o" not in arguments or verb == "run":
        shutil.copytree(digits_build, here / "build", dirs_exist_ok=True)
    if "onnxruntime" in line:
        pytest.importorskip("onnxruntime")
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert shown.out
    assert not shown.err
    assert "--json" not in arguments or json.loads(shown.out) is not None


@pytest.mark.parametrize("arguments", [
    ["inspect", "model.onnx"], ["inspect", "build"], ["inspect", "build/modelLibrary.so"], ["compile", "model.onnx", "-o", "out"],
    ["run", "build", "-i", "x.npy"], ["run", "model.onnx", "-i", "image=x.npy"], ["bench", "build", "--rounds", "1"],
    ["bench", "model.onnx", "--rounds", "1", "--dim", "batch=2"], ["support", "onnx"], ["cache"], ["doctor"],
    ["support", "model.onnx"],
    ["compare", "model.onnx", "model.onnx"], ["bisect", "model.onnx"],
    ["tune", "model.onnx", "--seconds", "1"], ["tune", "--show"], ["tune", "--clear"],
], ids=" ".join)
def test_json_parses(arguments: list[str], build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments, "--json") == 0
    shown = capsys.readouterr()
    json.loads(shown.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert not shown.err


@pytest.mark.parametrize("arguments", [
    [], ["--bogus"], ["frobnicate"], ["inspect"], ["inspect", "--bogus"], ["compile", "model.onnx", "-O", "9"],
    ["compile", "model.onnx", "-O", "x"], ["tune", "model.onnx", "--seconds", "x"], ["run"],
    ["bench", "model.onnx", "--rounds", "0"], ["compare"], ["compare", "model.onnx", "--opt-level-a", "9"], ["bisect"],
    ["run", "build", "--threads", "0"],
], ids=" ".join)
def test_wrong_usage_exits_2(arguments: list[str], here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


WRONG = {
    "inspect nowhere.onnx": "nowhere.onnx: no such file",
    "inspect model.pt": "model.pt: is a zip archive; expected a model (.keras, ",
    "inspect notes.md": "notes.md: is of no known format; tried its ending, '.md', ",
    "inspect bad.onnx": "bad.onnx",
    "inspect bad.forge": "bad.forge",
    "inspect bad.relay": "not a text file",
    "inspect wrong.relay": "line 1",
    "inspect empty": "modelLibrary.so",
    "inspect bad.so": "bad.so",
    "inspect build --text": "--text",
    "inspect encrypted": "password: got none, and nobody to ask; set FORGE_PASSWORD",
    "inspect encrypted.so": "is encrypted; got no modelLibrary.key next to it; pass --key FILE",
    "compile model.onnx -o build": "exists; pass --force or choose another",
    "compile nowhere.onnx -o out": "no such file",
    "compile model.onnx -o out --target cuda": "cuda",
    "compile model.onnx -o out --target llvm --host raspberry-pi/5": "aarch64",
    "compile model.onnx -o out --channel-layout NHWC": "--channel-layout: got 'NHWC'",
    "compile model.onnx -o out --float16 --bfloat16": "--float16 and --bfloat16: got both",
    "compile build -o out": "build: is compiled; expected a model",
    "export build out.onnx": "build: is compiled; expected a model",
    "profile build": "build: is compiled; expected a model",
    "tune build": "build: is compiled; expected a model",
    "view build": "build: is compiled; expected a model",
    "view model.onnx -o nodir/x.html": "nodir/x.html: there is no folder nodir",
    "view model.onnx -o x.npy": "x.npy: exists; pass --force to replace it",
    "view model.onnx -o g.png": "--output g.png: the page is HTML",
    "view model.onnx -o empty": "empty: is a folder",
    "compile empty -o out": "empty: is a folder without a model; expected one of .keras",
    "export model.onnx nodir/x.onnx": "nodir/x.onnx: there is no folder nodir",
    "profile model.onnx --html nodir/x.html": "nodir/x.html: there is no folder nodir",
    "inspect model.onnx --shape image": "--shape image: expected NAME=SIZE",
    "inspect model.onnx --shape picture=1": "picture",
    "run build -i x.npy --shape image=1,1,8,8": "--shape image=1,1,8,8: build is compiled; expected an .onnx file",
    "inspect plain.relay --shape x=1": "--shape x=1: plain.relay has its shapes; expected a file of ONNX or StableHLO",
    "compile model.onnx -o out --dump magic": "--dump: no stage is called 'magic'",
    "compile model.onnx --stop-after magic": "--stop-after: no stage is called 'magic'",
    "compile model.onnx -o out --encrypt": "FORGE_PASSWORD",
    "run build": "input 'image' is missing; pass --input image=FILE.npy",
    "run build -i nowhere.npy": "nowhere.npy: no such file",
    "run build -i bad.npy": "no array file",
    "run build -i bad.npz": "no array file",
    "run build -i objects.npy": "no array file",
    "run build -i picture=x.npy": "'picture' is not an input of the model; expected one of: image",
    "run build -i x.npy -i x.npy": "more files than inputs",
    "run build -i wrong.npy": "float64",
    "run encrypted.so -i x.npy": "is encrypted; got no modelLibrary.key next to it; pass --key FILE",
    "run encrypted -i x.npy --key build/none.key": "FORGE_PASSWORD",
    "run model.onnx -i x.npy --key build/none.key": "--key",
    "run nowhere.onnx -o empty/no/out.npz": "empty/no/out.npz: there is no folder empty/no",
    "run build -i x.npy -o empty": "empty: is a folder; expected the name of a file",
    "bench model.onnx --vs caffe": "unknown runtime; expected some of: onnxruntime, openvino, torch",
    "bench build --vs onnxruntime": "reads ONNX files",
    "bench model.onnx --vs torch": "--torch-program",
    "bench model.onnx --dim batch": "expected NAME=SIZE",
    "bench model.onnx --dim batch=-1": "expected NAME=SIZE",
    "bench model.onnx --dim length=3": "expected one of: batch",
    "compare build": "build: is compiled; expected a model",
    "compare nowhere.onnx": "nowhere.onnx: no such file",
    "compare model.onnx --run-a tensorrt": "no way to run it is called 'tensorrt'; expected one of: compiled, interpreter",
    "compare plain.relay --run-a onnxruntime": "onnxruntime reads ONNX files; got .relay; expected an .onnx file",
    "compare model.onnx --run-b torch": "torch reads exported programs; got .onnx; expected a .pt2 file",
    "compare model.onnx plain.relay": "plain.relay: input 'x': got Tensor[(n), float32]; expected Tensor[(batch, 1, 8, 8)",
    "compare model.onnx --data nowhere.npz": "nowhere.npz: no such file",
    "compare model.onnx --data bad.npz": "no array file",
    "compare model.onnx --data empty": "got no .npy or .npz file",
    "compare model.onnx --dim batch": "expected NAME=SIZE",
    "bisect build": "build: is compiled; expected a model",
    "bisect model.onnx --data x.npy --tolerance much": "tolerance: got 'much'; expected the largest difference",
    "bisect model.onnx -o nodir/r": "nodir/r.forge: there is no folder nodir",
    "tune": "expected exactly one of: a model, --show",
    "tune model.onnx --show": "expected exactly one of: a model, --show",
    "tune model.onnx --seconds 0": "--seconds: got 0.0; expected a positive number",
    "tune --import nowhere.json": "expected a file of 'forge tune --export'",
    "tune --export empty/no/out.json": "out.json",
    "compile model.onnx -o out --tuned": "run 'forge tune MODEL' first",
    "support caffe": "expected a format (jax, keras, onnx, stablehlo, tensorflow, tflite, torch) or a model (.keras, ",
    "support nowhere.onnx": "nowhere.onnx: no such file",
    "support bad.onnx": "bad.onnx",
    "support model.onnx Frobnicate": "has no operator 'Frobnicate'",
    "support onnx Frobnicate": "no operator is called 'Frobnicate'",
    "compile model.onnx -o ''": "--output: got ''; expected the path of a directory",
    "cache shred": "expected show or clear",
}


@pytest.fixture(scope="module")
def encrypted(digits: forge.IRModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encrypted") / "build"
    digits.compile(output_path=path, opt_level=1, encrypt_password="secret")
    return path


@pytest.fixture
def broken_files(build: Path, here: Path, encrypted: Path) -> Path:
    for name in ("bad.onnx", "bad.forge", "bad.relay", "bad.so", "bad.npy", "bad.npz", "model.pt"):
        (here / name).write_bytes(b"PK\x03\x04" + b"\xff" * 40)
    (here / "notes.md").write_text("words")
    (here / "wrong.relay").write_text("def @main(")
    (here / "plain.relay").write_text("def @main(%x: Tensor[(n), float32]) { negative(%x) }")
    (here / "empty").mkdir()
    np.save(here / "wrong.npy", np.zeros((1, 1, 8, 8)))
    np.save(here / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    shutil.copytree(encrypted, here / "encrypted")
    shutil.copy(encrypted / "modelLibrary.so", here / "encrypted.so")
    return here


@pytest.mark.parametrize("line", WRONG)
def test_bad_input_exits_1_with_one_line(
    line: str, broken_files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    before = files(broken_files)
    assert run(*shlex.split(line)) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("error: ")
    assert WRONG[line] in shown.err
    assert "Traceback" not in shown.err
    assert not shown.out
    assert files(broken_files) == before


def test_a_defect_exits_70_and_asks_for_a_report(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(source, "load_model", fail)
    assert run("inspect", "model.onnx") == 70
    shown = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: oops" in shown
    assert "report" in shown
    assert "Traceback" not in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"forge {forge.__version__}\n"


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_version_and_help_import_no_compiler(flag: str) -> None:
    code = f"import sys; from forge.cli import main; main(['{flag}']); print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    own = ["forge._version", "forge.cli", "forge.frontends", "forge.lazy"]
    assert [name for name in loaded if name.startswith("forge.")] == own
    assert not {"numpy", "llvmlite", "onnx", "rich", "forge_runtime"} & set(loaded)


def test_errors_of_the_system_name_the_file(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "model.html")

    monkeypatch.setattr(source, "write_text", fail)
    assert run("view", "model.onnx") == 1
    assert capsys.readouterr().err == "error: model.html: no space left on device\n"


def test_the_page_is_replaced_only_when_told_to(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "model.html").write_text("mine")
    assert run("view", "model.onnx") == 1
    assert (here / "model.html").read_text() == "mine"
    assert run("view", "model.onnx", "--force") == 0
    assert "<html" in (here / "model.html").read_text()


def test_shapes_are_given_by_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", "model.onnx", "--shape", "image=3,,8,8", "--json") == 0
    assert json.loads(capsys.readouterr().out)["inputs"][0]["shape"] == [3, 1, 8, 8]
    assert run("inspect", "model.onnx", "--shape", "image=n,1,8,8", "--json") == 0
    assert json.loads(capsys.readouterr().out)["inputs"][0]["shape"] == ["n", 1, 8, 8]
    assert source.parse_shapes(["a=b=1,2", "scalar="]) == {"a=b": (1, 2), "scalar": ()}


def test_tables_in_pipes_have_no_spaces_at_the_ends_of_lines(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["inspect", "model.onnx"], ["doctor"], ["support", "onnx"]):
        assert run(*arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines == [line.rstrip() for line in lines]


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_all_verbs_has_what_each_says_of_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    said = (function(verb).__doc__ or "").partition("\n")[0]
    assert said and f"  {verb} " in capsys.readouterr().out
    assert summary(verb) == said


@pytest.mark.parametrize(("line", "place", "expected"), [
    ("forge co", 1, {"compress", "compile", "compare"}), ("forge cache --js", 2, {"--json"})])
def test_completion_of_the_shell(line: str, place: int, expected: set[str]) -> None:
    environment = {**os.environ, "_FORGE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(place)}
    found = subprocess.run([sys.executable, "-m", "forge"], env=environment, capture_output=True, text=True, check=False)
    assert set(found.stdout.split()) == expected


def test_names_that_look_like_markup_are_shown_as_they_are(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "plain.relay").write_text('def @main(%"[red]x[/]": Tensor[(n), float32]) { negative(%"[red]x[/]") }')
    assert run("inspect", "plain.relay") == 0
    assert "[red]x[/]" in capsys.readouterr().out
    tables.show("[/b]", ["[i]"], [[":smile:"]])
    assert capsys.readouterr().out.split() == ["[/b]", "[i]", ":smile:"]


def test_counts_agree_with_their_nouns() -> None:
    assert [source.count_text(n, "kernel") for n in (0, 1, 2)] == ["0 kernels", "1 kernel", "2 kernels"]


@pytest.mark.parametrize(("op", "said"), [("Relu", "1 of 1 operator loads"), ("Conv", "1 of 2 operators load")])
def test_support_counts_operators(op: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("support", "onnx", op) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{said} in all versions"


def test_support_of_a_model(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["a"], name="first"), onnx.helper.make_node("Relu", ["a"], ["b"]),
        onnx.helper.make_node("Mystery", ["b"], ["y"], domain="acme"),
    ]
    value = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["n"]) for n in ("x", "y")]
    opsets = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("acme", 2)]
    graph = onnx.helper.make_graph(nodes, "g", value[:1], value[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), here / "odd.onnx")
    assert run("support", "odd.onnx", "--json") == 0
    relu, mystery = json.loads(capsys.readouterr().out)
    assert relu == {"domain": "", "op": "Relu", "opset": 20, "how": "converter", "first_node": "first", "count": 2}
    assert (mystery["op"], mystery["opset"], mystery["how"]) == ("Mystery", 2, "missing")
    assert run("support", "odd.onnx", "relu") == 0
    shown = capsys.readouterr().out
    assert "Mystery" not in shown
    assert "1 of 1 operator can be loaded" in shown


def test_inspect_tells_costs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", "model.onnx", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["inputs"] == [{"name": "image", "shape": ["batch", 1, 8, 8], "dtype": "float32"}]
    assert told["outputs"] == [{"name": "logits", "shape": ["batch", 10], "dtype": "float32"}]
    assert told["uncompilable"] == []
    assert told["parameters"] > 10_000
    assert {o["name"] for o in told["operators"]} >= {"nn.conv2d", "nn.dense"}
    assert "batch" in told["flops"]
    for operator in told["operators"]:
        assert isinstance(operator["flops"], int) or "batch" in operator["flops"]
        assert "flops_text" not in operator
    assert run("inspect", "model.onnx") == 0
    shown = capsys.readouterr().out
    assert "nn.conv2d" in shown
    assert "(batch, 1, 8, 8)" in shown


def test_compile_run_and_compare(here: Path, digits: forge.IRModule, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.onnx", "-o", "out", "--uuid", "u1", "--export-metadata", "-O", "2") == 0
    assert "wrote " in capsys.readouterr().out
    assert files(here / "out") == ["metadata.json", "modelLibrary.so"]
    assert run("run", "out", "-i", "inputs.npz", "-o", "y.npz") == 0
    assert "logits" in capsys.readouterr().out
    with np.load(here / "y.npz") as stored:
        assert peers.disagreement([stored["logits"]], reference(digits, pictures(3))) <= LIMIT
    assert not [n for n in files(here) if n.startswith(".forge-")]


def test_encrypted_from_the_command_line(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_PASSWORD", "secret")
    assert run("compile", "model.onnx", "-o", "out", "--encrypt") == 0
    key = "out/modelLibrary.key"
    assert f"{key}: loading the library needs this file and the password" in capsys.readouterr().out
    for arguments in (["run", "out", "-i", "x.npy"], ["inspect", "out"], ["bench", "out", "--rounds", "1"]):
        assert run(*arguments, "--key", key) == 0
    capsys.readouterr()
    monkeypatch.setenv("FORGE_PASSWORD", "guess")
    assert run("run", "out", "-i", "x.npy", "--key", key) == 1
    assert "wrong password" in capsys.readouterr().err


def test_dump_all_writes_every_stage(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.onnx", "-o", "out", "--dump", "all", "-O", "4") == 0
    ran = [(k, s.name) for k, s in enumerate(STAGES, 1) if s.is_on(CompileOptions(opt_level=4))]
    dumped = files(here / "out.stages")
    assert [name.partition(".")[0] for name in dumped] == [f"{k:02d}_{name}" for k, name in ran]
    text = {name.partition(".")[0][3:]: (here / "out.stages" / name).read_text() for name in dumped}
    assert "NCHW" in text["eliminate_dead_code"]
    assert "nn.contrib_dense_pack + add(" in text["fusion"]
    assert ": arena 0 + " in text["memory_plan"]
    assert "func k0_" in text["loops"]
    assert "define hidden i32" in text["llvm"]
    assert "k0_" in text["machine_code"]
    assert text["link"].startswith("modelLibrary.so: ")


def test_explain_prints_rules_and_reasons(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.onnx", "--explain", "--stop-after", "merge") == 0
    fired, declined = capsys.readouterr().out.split("rules that declined")
    assert fired.startswith("rules that rewrote nodes") and "pack_weights" in fired and declined.lstrip().startswith("stage")
    assert run("compile", "model.onnx", "--explain", "--json", "--stop-after", "merge") == 1
    assert "--explain: got --json and --stop-after too" in capsys.readouterr().err
    assert run("compile", "model.onnx", "-o", "explained", "--explain", "--json") == 0
    rules = json.loads(capsys.readouterr().out)["rules"]
    assert {"pack_weights", "canonicalize"} <= {row["stage"] for row in rules["fired"]}
    assert {"stage", "rule", "node", "reason"} == set(rules["declined"][0])


def test_stop_after_prints_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "model.onnx", "--stop-after", "fold_batch_norm") == 0
    text = capsys.readouterr().out
    assert "nn.conv2d" in text
    assert "contrib" not in text
    assert run("compile", "model.onnx", "--stop-after", "memory_plan") == 0
    assert capsys.readouterr().out.startswith("arena: ")
    assert not (here / "compile_output").exists()
    assert run("compile", "model.onnx", "--stop-after", "link") == 0
    assert capsys.readouterr().out.startswith("modelLibrary.so: ")


def test_outputs_that_are_not_finite_are_null(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "log.relay").write_text("def @main(%x: Tensor[(n), float32]) { log(%x) }")
    np.save(here / "zero.npy", np.zeros(2, np.float32))
    assert run("run", "log.relay", "-i", "zero.npy", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["minimum"] is None


def test_complex_outputs_are_told_by_their_moduli(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "z.relay").write_text("def @main(%x: Tensor[(n), complex64]) { multiply(%x, %x) }")
    np.save(here / "z.npy", np.array([3 + 4j, 1j], np.complex64))
    assert run("run", "z.relay", "-i", "z.npy", "-o", "out.npz", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["dtype"], told["minimum"], told["maximum"]) == ("complex64", 1, 25)
    with np.load(here / "out.npz") as stored:
        assert stored[told["name"]].tolist() == [-7 + 24j, -1]


def test_outputs_may_have_any_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "m.relay").write_text("def @main(%x: Tensor[(n), float32]) { %file = negative(%x); %file }")
    np.save(here / "v.npy", np.ones(2, np.float32))
    assert run("run", "m.relay", "-i", "v.npy", "-o", "out.npz") == 0
    with np.load(here / "out.npz") as stored:
        assert stored["file"].tolist() == [-1, -1]


def test_what_another_cpu_found_is_used_for_that_cpu_only(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_on = next(cpu for cpu in ("znver5", "znver4") if cpu != host.name())
    target = f"llvm -mcpu={made_on} -num-cores=3"
    record = tuning.Record.of(Target.parse(target), "conv2d a", "1 2", 1.0, 2.0)
    tuning.write_json(here / "tuning.json", [record])
    assert run("tune", "--import", "tuning.json") == 0
    assert f"took: 1 record of {made_on}; this machine is {host.name()}" in capsys.readouterr().out
    assert run("compile", "model.onnx", "-o", "out", "--tuned") == 1
    said = capsys.readouterr().err
    assert "--tuned" in said and f"got records of {record.group}; expected some of {host.name()}, " in said
    assert "run 'forge tune MODEL' first, on that CPU" in said
    assert run("compile", "model.onnx", "-o", "out", "--tuned", "--target", target) == 0
    assert run("tune", "model.onnx", "--target", target) == 1
    assert f"--target: is for {made_on}, and this machine is {host.name()}" in capsys.readouterr().err
    assert run("tune", "--show") == 0
    shown = capsys.readouterr().out
    assert record.group in shown and "tuning.sqlite: 1 record\n" in shown


@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_bench_beside_a_peer(peer: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(peer)
    assert run("bench", "model.onnx", "--vs", peer, "--rounds", "2", "--dim", "batch=3", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["latencies_ms"]) == {"forge", peer}
    assert told["difference"][peer] <= 1e-4
    assert (told["cpu"], told["instruction_set"], told["threads"]) == (host.name(), Target.parse("llvm").instruction_set, 1)


def test_bench_keeps_a_table_for_each_cpu(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bench", "model.onnx", "--rounds", "1", "--dim", "batch=2", "--record", "speed.json"]
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(machines.Machine, "here", staticmethod(lambda: machines.Machine("znver9", "AMD EPYC", 4, "x86-64-v4")))
        assert run(*command) == 0
    assert run(*command) == run(*command) == 0
    assert run(*command, "--target", "llvm -mcpu=x86-64", "--no-winograd", "--json") == 0
    own, other = sorted(machines.read(here / "speed.json"), key=lambda machine: machine.cpu == "znver9")
    line = "forge bench model.onnx --threads 1 --dim batch=2"
    words = f"winograd=False for {Target.parse('llvm -mcpu=x86-64').machine}, x86-64"
    assert [table.command for table in own.tables] == [line, f"{line} {words}"] and len(other.tables) == 1
    shown = capsys.readouterr().out
    code = Target.parse("llvm").instruction_set
    assert f"latency in ms on {host.name()}, {code}, 1 thread, 1 round\n" in shown
    assert f"speed.json: {own}\n" in shown and "speed.json: znver9 (AMD EPYC), 4 CPUs, x86-64-v4: 1 other table\n" in shown
    assert '"instruction_set": "x86-64"' in shown
    (here / "speed.json").write_text("{}")
    assert run(*command) == 1
    assert "expected a file of measurements by machine" in capsys.readouterr().err


def test_a_peer_that_is_not_installed(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert run("bench", "model.onnx", "--vs", "onnxruntime", "--rounds", "1") == 1
    assert "pip install onnxruntime" in capsys.readouterr().err


def test_what_winograd_adds_to_a_library_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filters = onnx.numpy_helper.from_array(np.ones((64, 64, 3, 3), np.float32), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 64, 32, 32]) for name in ("x", "y")]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [filters]), ir_version=10,
                                     opset_imports=[onnx.helper.make_opsetid("", 20)]), here / "conv.onnx")
    assert run("compile", "conv.onnx", "-o", "with") == 0
    shown = capsys.readouterr().out.splitlines()
    assert "; a call runs " in shown[0]
    assert shown[1].endswith(" KiB of it are for Winograd's algorithm; --no-winograd is smaller and slower")
    assert run("compile", "conv.onnx", "-o", "without", "--no-winograd") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_cache_is_shown_and_cleared(
    here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_CACHE_DIR", str(tmp_path / "cache"))
    (here / "m.relay").write_text("def @main(%x: Tensor[(n), float32]) { negative(%x) }")
    assert run("compile", "m.relay", "-o", "out") == 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runtime = tmp_path / "forge" / "runtime" / "key"
    runtime.mkdir(parents=True)
    (runtime / "forge_pool").write_bytes(bytes(3000))
    capsys.readouterr()
    assert run("cache", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["folder"], told["entries"], told["runtime_bytes"]) == (str(tmp_path / "cache"), 1, 3000)
    assert run("cache", "clear") == 0
    assert "cleared of 1 compiled model," in capsys.readouterr().out
    assert told["kernel_bytes"] > 0
    assert (files(tmp_path / "cache"), files(tmp_path / "forge")) == (["models"], [])


@pytest.mark.usefixtures("compile_cache")
def test_a_compilation_from_the_cache_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "m.relay").write_text("def @main(%x: Tensor[(n, 17), float32]) { negative(%x) }")
    told = []
    for _ in range(2):
        assert run("compile", "m.relay", "-o", "out", "--force") == 0
        told.append("from the cache" in capsys.readouterr().out)
    assert told == [False, True]


def test_doctor_names_a_missing_compiler(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CC", raising=False)
    assert run("doctor", "--json") == 0
    assert "install one" in json.loads(capsys.readouterr().out)["C compiler"]


def test_doctor_says_what_is_supported_and_what_packages_are_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"torch": "2.9.1+cpu", "numpy": "2.0"}
    monkeypatch.setattr(optional, "installed", versions.get)
    assert run("doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert "x86-64 and AArch64" in found["supported"] and "no GPU" in found["supported"]
    assert found["cache"].startswith(os.environ["FORGE_CACHE_DIR"]) and "forge cache clear" in found["cache"]
    assert found["torch"] == "2.9.1+cpu; older than 2.13, the oldest that is tested"
    assert found["jax"] == "not installed; for sharing tensors"
    assert found["llvmlite"] == "missing; reinstall Forge"


def test_misspelt_settings_are_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("FORGE_NUM_THREAD", "4")
    knobs.check_names.cache_clear()
    with caplog.at_level("WARNING"):
        check_options()
    assert "FORGE_NUM_THREAD: no such setting; did you mean FORGE_NUM_THREADS" in caplog.text
    assert knobs.misspelt(["FORGE_CACHE", "FORGE_CLIENT_ID", "forge_cache_dir", "HOME", "FORGE_TEST_CACHE"]) == {
        "forge_cache_dir": "FORGE_CACHE_DIR"}


def test_the_key_file_next_to_a_library_is_found(
    encrypted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_PASSWORD", "secret")
    shutil.copy(encrypted / "modelLibrary.so", tmp_path / "alone.so")
    for line in ([encrypted], [encrypted / "modelLibrary.so"], [tmp_path / "alone.so", "--key", encrypted / "modelLibrary.key"]):
        assert run("inspect", *map(str, line)) == 0
        assert "fingerprint" in capsys.readouterr().out


def test_inspect_lists_the_features_of_the_cpu(build: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", "build", "--json") == 0
    features = json.loads(capsys.readouterr().out)["cpu_features"]
    assert isinstance(features, list) and "sse2" in features


def in_terminal(*arguments: str, cwd: Path) -> str:
    """What ``forge`` writes to standard error when that is a terminal."""
    controller, terminal = pty.openpty()
    environment: dict[str, Any] = {**os.environ, "FORGE_CACHE": "0", "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-m", "forge", *arguments], cwd=cwd, env=environment, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    chunks = []
    try:
        while chunk := os.read(controller, 1 << 16):
            chunks.append(chunk)
    except OSError:
        pass
    os.close(controller)
    assert process.wait() == 0
    return b"".join(chunks).decode()


def test_progress_is_shown_in_a_terminal_and_nowhere_else(here: Path) -> None:
    shown = in_terminal("compile", "model.onnx", "-o", "out", cwd=here)
    for phase in ("load", "lower", "compile", "link", "elapsed", "left"):
        assert phase in shown
    command = [sys.executable, "-m", "forge", "compile", "model.onnx", "-o", "out2", "--no-winograd"]
    piped = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    assert not piped.stderr
    assert len(piped.stdout.splitlines()) == 1


def test_verbose_tells_phases(here: Path) -> None:
    command = [sys.executable, "-m", "forge", "-v", "compile", "model.onnx", "-o", "out", "-O", "0"]
    environment = {**os.environ, "FORGE_CACHE": "0"}
    told = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True, env=environment).stderr
    assert "forge.driver.compiler: compile: graph " in told
