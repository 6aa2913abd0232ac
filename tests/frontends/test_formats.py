"""What a format gets from its `Format` alone, and how the format of a model is recognized."""

from __future__ import annotations

import inspect
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forge
from forge.cli import main
from forge.errors import ForgeError, ImportModelError, OptionError
from forge.frontends import formats
from forge.frontends.formats import Magic
from scripts import formats_page, loader_stubs
from tests.frontends import polynomial
from tests.frontends.polynomial import FORMAT, Polynomial

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.onnx"
TEXT = b"polynomial 1\n1\n0\n2\n"


@pytest.fixture
def door() -> Iterator[None]:
    forge.register_format(FORMAT)
    yield
    forge.unregister_format(FORMAT.name)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.poly").write_bytes(TEXT)
    return tmp_path


def check(ir: forge.IRModule) -> None:
    x = np.float32([0, 1, 2])
    np.testing.assert_allclose(ir.get_inference_function()(x), 2 * x**2 + 1)


def test_the_door_is_short() -> None:
    assert len(inspect.getsource(polynomial).splitlines()) < 100


def test_a_format_has_its_loaders(door: None, here: Path) -> None:
    for loader in (forge.from_polynomial, forge.IRModule.from_polynomial, forge.frontend.from_polynomial):  # type: ignore[attr-defined]
        check(loader("p.poly"))
        assert list(inspect.signature(loader).parameters) == ["model", "shape", "dtype"]
        assert loader.__doc__ == polynomial.load.__doc__ and loader.__name__ == "from_polynomial"
    assert forge.from_polynomial is forge.frontend.from_polynomial  # type: ignore[attr-defined]
    assert forge.from_polynomial(TEXT, shape={"x": (3,)}).input_shapes == [(3,)]  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"^from_polynomial: got an unexpected keyword argument 'shapes'; did you mean shape$"):
        forge.from_polynomial(TEXT, shapes={})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "source", ["p.poly", Path("p.poly"), ".", TEXT, bytearray(TEXT), io.BytesIO(TEXT), Polynomial((1, 0, 2))],
    ids=["text", "path", "folder", "bytes", "bytearray", "file", "object"])
def test_load_knows_it_in_every_form(door: None, here: Path, source: Any) -> None:
    check(forge.load(source))


def test_it_is_known_by_its_contents_alone(door: None, here: Path) -> None:
    Path("p.poly").rename("p.onnx")
    check(forge.load("p.onnx", dtype="float32"))


def test_verbs_know_its_files(door: None, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "p.poly", "--json"]) == 0
    assert main(["compile", "p.poly", "-o", "build", "--shape", "x=3"]) == 0
    assert forge.Runtime("build").input_shapes == [(3,)]
    capsys.readouterr()
    assert main(["support", "polynomial"]) == 0
    assert "1 of 1 operator" in capsys.readouterr().out
    assert main(["support", "p.poly"]) == 0
    assert "term" in capsys.readouterr().out
    assert main(["inspect", "nowhere.md"]) == 1
    assert ".poly" in capsys.readouterr().err


def test_errors_of_other_loaders_name_it(door: None) -> None:
    with pytest.raises(ImportModelError, match=r"got a model of Polynomial; expected an ONNX model; use forge\.from_polynomial$"):
        forge.from_onnx(TEXT)


def test_stubs_and_pages_have_it(door: None) -> None:
    stub = loader_stubs.stub()
    assert "def from_polynomial(cls, model: str | os.PathLike[str] | bytes | Polynomial, shape: ShapeDict | None=None" in stub
    assert "from tests.frontends.polynomial import" not in stub or "Polynomial" in stub
    assert "## Polynomial\n\n```text\nforge.from_polynomial(model, shape=None, dtype='float32')" in formats_page.formats_page()


def test_it_is_gone_when_it_is_taken_back(door: None, here: Path) -> None:
    forge.unregister_format("polynomial")
    assert not hasattr(forge, "from_polynomial") and not hasattr(forge.IRModule, "from_polynomial")
    tried = r"tried its ending, '\.poly', .*; its first bytes, b'polynomi', "
    with pytest.raises(ImportModelError, match=rf"^load: p\.poly: is of no known format; {tried}"):
        forge.load("p.poly")


def test_formats_of_forge_come_back(here: Path) -> None:
    forge.register_format(replace(FORMAT, name="onnx"))
    try:
        check(forge.from_onnx("p.poly"))
    finally:
        forge.unregister_format("onnx")
    assert forge.from_onnx(DIGITS).operators == forge.load(DIGITS).operators


@pytest.mark.parametrize("change", [{"name": "a b"}, {"name": ""}, {"suffixes": ("poly",)}], ids=repr)
def test_formats_that_cannot_be(change: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"^register_format: (name|suffixes): got .*; expected .*, as in "):
        forge.register_format(replace(FORMAT, **change))


def test_two_formats_that_fit_are_both_named(door: None) -> None:
    forge.register_format(replace(FORMAT, name="other", title="Other", suffixes=(".other",)))
    try:
        with pytest.raises(ImportModelError, match=r"^load: 19 bytes: looks like a model of Other and Polynomial; .*from_other"):
            forge.load(TEXT)
    finally:
        forge.unregister_format("other")


def test_models_of_forge(tmp_path: Path) -> None:
    ir = forge.load(DIGITS)
    for name in ("m.forge", "m.relay", "m"):
        ir.save(tmp_path / name)
        assert forge.load(tmp_path / name).fingerprint == ir.fingerprint
    with pytest.raises(OptionError, match=r"^load: 'shape' is not an option of Forge models; expected one of: none$"):
        forge.load(tmp_path / "m.forge", shape={})
    with pytest.raises(OptionError, match=r"^load: 'shap' is not an option of ONNX models; .*: shape, .*; did you mean shape$"):
        forge.load(DIGITS, shap={})


def test_a_folder_is_its_one_model(tmp_path: Path) -> None:
    with pytest.raises(ImportModelError, match=r"is a folder without a model; expected one of .*\.onnx, .*\.pt2, .* in it"):
        forge.load(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ImportModelError, match=r"is a folder with weights without a program, as transformers .*torch\.export"):
        forge.load(tmp_path)
    for name in ("a.onnx", "b.onnx"):
        (tmp_path / name).write_bytes(DIGITS.read_bytes())
        if name == "a.onnx":
            assert forge.load(tmp_path).output_count == 1
    with pytest.raises(ImportModelError, match=r"is a folder with 2 models; expected the path of one \(a\.onnx, b\.onnx\)$"):
        forge.load(tmp_path)


def test_folders_are_known_by_their_files(tmp_path: Path) -> None:
    magic = Magic(files=("p.poly", "more.txt"))
    forge.register_format(replace(FORMAT, name="folder", magic=(magic,), load=lambda model: polynomial.load(model / "p.poly")))
    try:
        (tmp_path / "p.poly").write_bytes(TEXT)
        (tmp_path / "more.txt").write_text("")
        check(forge.load(tmp_path))
    finally:
        forge.unregister_format("folder")


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name in names:
            file.writestr(name, b"")
    return stream.getvalue()


@pytest.mark.parametrize(("name", "contents", "kind", "advice"), [
    ("m.pth", b"\x80\x02}q\0.", "a Python pickle, which Forge never loads", "torch.export.save"),
    ("m.pt", archive("m/constants.pkl", "m/code/__torch__.py"), "a TorchScript archive", "torch.jit.load"),
    ("m.pt", archive("m/data.pkl", "m/data/0"), "a PyTorch checkpoint", "torch.export.save"),
    ("m.gguf", b"GGUF\x03", "a GGUF file .*, which Forge does not read", "ONNX"),
    ("m.ort", b"\x20\0\0\0ORTM", "a model in onnxruntime's ORT format", ".onnx file"),
    ("m.safetensors", b"\x08\0\0\0\0\0\0\0{}", "weights", "without a program"),
])  # fmt: skip
def test_models_of_other_kinds_are_named(name: str, contents: bytes, kind: str, advice: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(ImportModelError, match=rf"^load: .*{name}: is {kind}.*; expected a model \(.*\.onnx, .*\); .*{advice}"):
        forge.load(tmp_path / name)


def test_compiled_models_are_no_models(tmp_path: Path) -> None:
    forge.load(DIGITS).compile(output_path=tmp_path / "build")
    for path in (tmp_path / "build", tmp_path / "build" / "modelLibrary.so"):
        with pytest.raises(ImportModelError, match=r"is compiled; expected a model; forge\.Runtime runs it$"):
            forge.load(path)


@pytest.mark.parametrize("source", [None, 3, "", [DIGITS]], ids=repr)
def test_what_is_no_source(source: Any) -> None:
    with pytest.raises(OptionError, match=r"^load: got \w+; expected a path, bytes, or a model in memory \(.*ONNX: ModelProto; "):
        forge.load(source)


def test_objects_of_onnx() -> None:
    import onnx

    assert forge.load(onnx.load(DIGITS)).fingerprint == forge.load(DIGITS.read_bytes()).fingerprint


def test_objects_of_torch() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, 2)
    x = torch.ones(4, 3)
    exported = torch.export.export(layer, (x,))
    for source in (layer, torch.jit.trace(layer, x), exported, torch.fx.symbolic_trace(layer)):
        ir = forge.load(source, input_infos=[x]) if source is not exported else forge.load(source)
        np.testing.assert_allclose(ir.get_inference_function()(x.numpy()), layer(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_compile_is_one_call() -> None:
    x = np.zeros((2, 1, 8, 8), np.float32)
    expected = forge.load(DIGITS).get_inference_function("reference")(x)
    np.testing.assert_allclose(forge.compile(DIGITS)(x), expected, atol=1e-4)
    np.testing.assert_allclose(forge.compile(forge.load(DIGITS), opt_level=0)(x), expected, atol=1e-4)
    with pytest.raises(TypeError, match="did you mean opt_level"):
        forge.compile(DIGITS, optlevel=3)  # type: ignore[call-arg]


def test_names_are_listed() -> None:
    assert {"from_onnx", "from_torch", "load", "compile"} <= set(dir(forge))
    assert formats.names() == ["jax", "keras", "onnx", "stablehlo", "tensorflow", "tflite", "torch"]
    with pytest.raises(AttributeError, match="module 'forge' has no attribute 'from_nothing'"):
        forge.from_nothing  # type: ignore[attr-defined]  # noqa: B018
    known = "jax, keras, onnx, stablehlo, tensorflow, tflite, torch"
    with pytest.raises(ForgeError, match=f"format 'nothing': is not known; expected one of: {known}"):
        formats.find("nothing")


def test_loaders_bring_no_compiler() -> None:
    code = "import sys, forge; forge.load, forge.compile, forge.from_onnx; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "forge.loaders" in loaded and not {"forge.driver", "llvmlite", "onnx", "torch", "jax"} & {*loaded}
