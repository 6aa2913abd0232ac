"""What ``compile`` writes: whole or not at all, reproducible, self-contained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import forge
from examples.digits import demo
from forge.driver import artifact, compile_module
from forge.errors import OptionError, OutputExistsError
from forge_runtime import ArtifactError, include_directory
from forge_runtime import artifact as format_
from tests.driver.support import DIGITS, LIMIT, files, pictures, reference

pytestmark = pytest.mark.usefixtures("compile_cache")


def test_the_directory_and_its_parents_are_made(digits: forge.IRModule, tmp_path: Path) -> None:
    digits.compile(output_path=str(tmp_path / "a" / "b" / "build"))
    assert files(tmp_path) == ["a", "a/b", "a/b/build", "a/b/build/modelLibrary.so"]


def test_the_default_path(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    digits.compile(output_path=None)
    assert files(tmp_path) == ["compile_output", "compile_output/modelLibrary.so"]
    with pytest.raises(OutputExistsError, match="force_overwrite"):
        digits.compile()


def test_equal_inputs_give_equal_bytes(digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name, cached in (("a", "0"), ("b", "1"), ("c", "1")):
        monkeypatch.setenv("FORGE_CACHE", cached)
        digits.copy().compile(output_path=tmp_path / name, uuid="fixed")
    command = [sys.executable, "-m", "forge", "compile", str(DIGITS / "digits.onnx"), "-o", "d", "--uuid", "fixed"]
    other_order = {**os.environ, "PYTHONHASHSEED": "77", "FORGE_CACHE": "0"}
    subprocess.run(command, check=True, cwd=tmp_path, env=other_order, stdout=subprocess.DEVNULL)
    libraries = [(tmp_path / name / "modelLibrary.so").read_bytes() for name in "abcd"]
    assert libraries == [libraries[0]] * 4
    assert forge.Runtime(tmp_path / "a").metadata["created"] == "2023-11-14T22:13:20Z"


def test_a_random_uuid_each_time(digits: forge.IRModule, tmp_path: Path) -> None:
    for name in ("a", "b"):
        digits.compile(output_path=tmp_path / name)
    first, second = (forge.Runtime(tmp_path / name).model_id for name in ("a", "b"))
    assert first != second
    assert len(first) == 36


@pytest.mark.parametrize("epoch", ["tomorrow", "1e9", "9" * 30])
def test_a_wrong_epoch_is_refused(digits: forge.IRModule, tmp_path: Path, epoch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(OptionError, match="SOURCE_DATE_EPOCH"):
        digits.compile(output_path=tmp_path / "build")
    assert files(tmp_path) == []


def test_overwriting_replaces_our_files_and_no_others(digits: forge.IRModule, tmp_path: Path) -> None:
    build = tmp_path / "build"
    digits.compile(output_path=build, export_relay=True, export_metadata=True, uuid="old")
    (build / "notes.txt").write_text("mine")
    inode = build.stat().st_ino
    digits.compile(output_path=build, force_overwrite=True, uuid="new")
    assert files(build) == ["modelLibrary.so", "notes.txt"]
    assert build.stat().st_ino == inode
    assert forge.Runtime(build).model_id == "new"


def test_a_directory_through_a_link(digits: forge.IRModule, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    digits.compile(output_path=tmp_path / "link", force_overwrite=True)
    assert files(tmp_path / "real") == ["modelLibrary.so"]
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("weights", [None, "beside"])
def test_weights_beside_the_library(
    digits: forge.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str | None
) -> None:
    if weights is None:
        monkeypatch.setattr(artifact, "MAX_WEIGHTS_INSIDE", 1000)
    digits.compile(output_path=tmp_path / "build", weights=weights)
    library, name = files(tmp_path / "build")
    metadata = format_.read_metadata(tmp_path / "build")
    assert (library, name) == ("modelLibrary.so", f"modelWeights-{metadata['weights_digest'][:16]}.safetensors")
    compiled, x = compile_module(digits.mod), pictures()
    (block,) = safetensors.numpy.load((tmp_path / "build" / name).read_bytes()).values()
    assert block.tobytes() == compiled.weights.tobytes()
    np.testing.assert_array_equal(forge.Runtime(tmp_path / "build")(x), compiled.runtime()(x))
    digits.compile(output_path=tmp_path / "build", force_overwrite=True, weights="inside")
    assert files(tmp_path / "build") == ["modelLibrary.so"]


def test_artifacts_share_weights_by_a_link(digits: forge.IRModule, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for build, target in ((first, "llvm -mcpu=x86-64-v3"), (second, "llvm -mcpu=x86-64-v3 -mattr=-fma")):
        digits.compile(target, output_path=build, weights="beside")
    name = files(first)[1]
    assert files(second)[1] == name
    (second / name).unlink()
    (second / name).hardlink_to(first / name)
    x = pictures()
    np.testing.assert_allclose(forge.Runtime(second)(x), forge.Runtime(first)(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("damage", "message"), [
    ("remove", "cannot be opened: No such file or directory; it holds the weights of"), ("truncate", "truncated or damaged; got"),
    ("header", "its header is not one of weights"), ("weights", "its weights are not those that the metadata describe")])
def test_damaged_weights_beside_the_library(digits: forge.IRModule, tmp_path: Path, damage: str, message: str) -> None:
    digits.compile(output_path=tmp_path / "build", weights="beside")
    path = tmp_path / "build" / files(tmp_path / "build")[1]
    content = bytearray(path.read_bytes())
    content[{"header": 20}.get(damage, -5000)] ^= 1
    path.unlink()
    if damage != "remove":
        path.write_bytes(content[:-1] if damage == "truncate" else content)
    with pytest.raises(ArtifactError, match=message):
        forge.Runtime(tmp_path / "build")


def test_damaged_weights_inside_the_library(digits: forge.IRModule, tmp_path: Path) -> None:
    digits.compile(output_path=tmp_path / "build", weights="inside")
    path = tmp_path / "build" / "modelLibrary.so"
    content = bytearray(path.read_bytes())
    content[format_.read_metadata(path)["weights_offset"] + 5000] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="its weights are not those that the metadata describe"):
        forge.Runtime(path)


@pytest.mark.parametrize(("password", "shown"), [("", "''"), (5, "int"), (b"secret", "bytes")])
def test_a_password_that_is_none_is_not_shown(digits: forge.IRModule, tmp_path: Path, password: Any, shown: str) -> None:
    with pytest.raises(OptionError, match=f"^compile: encrypt_password: got {shown}; expected a text that is not empty"):
        digits.compile(output_path=tmp_path / "build", encrypt_password=password)


def test_weights_beside_the_library_are_not_encrypted(digits: forge.IRModule, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="weights beside and encrypt_password: got both"):
        digits.compile(output_path=tmp_path / "build", encrypt_password="secret", weights="beside")
    assert files(tmp_path) == []


def test_encryption_round_trip(digits: forge.IRModule, digits_build: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    digits.compile(output_path=build, encrypt_password="grün", uuid="digits")
    assert files(build) == ["modelLibrary.key", "modelLibrary.so"]
    assert (build / "modelLibrary.key").stat().st_mode & 0o777 == 0o600
    assert b"ELF" not in (build / "modelLibrary.so").read_bytes()[:4]
    x = pictures()
    runtime = forge.Runtime(build, password="grün", key=build / "modelLibrary.key")
    np.testing.assert_array_equal(runtime(x), forge.Runtime(digits_build)(x))
    digits.compile(output_path=build, force_overwrite=True)
    assert files(build) == ["modelLibrary.so"]


ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("forge", "llvmlite", "onnx", "ml_dtypes", "cryptography"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import numpy as np
from forge_runtime import Runtime
np.save(sys.argv[3], Runtime(sys.argv[1])(np.load(sys.argv[2])))
"""


def test_the_artifact_runs_without_the_compiler(digits: forge.IRModule, digits_build: Path, tmp_path: Path) -> None:
    x = pictures()
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", ALONE, str(digits_build), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    subprocess.run(command, check=True, cwd=tmp_path)
    expected = reference(digits, x)[0]
    assert np.abs(np.load(tmp_path / "y.npy") - expected).max() <= LIMIT * np.abs(expected).max()


def test_the_library_needs_the_system_only(digits_build: Path) -> None:
    listed = subprocess.run(["ldd", str(digits_build / "modelLibrary.so")], capture_output=True, text=True, check=True).stdout
    names = {line.split()[0].rsplit("/", 1)[-1].split(".")[0] for line in listed.splitlines()}
    assert names <= {"linux-vdso", "libm", "libc", "libpthread", "ld-linux-x86-64"}


def test_a_c_program_computes_what_python_does(digits_build: Path, tmp_path: Path) -> None:
    program, library = tmp_path / "classify", digits_build / "modelLibrary.so"
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-Wall", "-Werror", "-I", str(include_directory()), f"-Wl,-rpath,{digits_build}", "-o", str(program)]
    subprocess.run([*compiler, str(DIGITS / "main.c"), str(library), *flags], check=True)
    images, labels = demo.load_pictures()
    images.tofile(tmp_path / "pictures")
    threads = {**os.environ, "FORGE_NUM_THREADS": "2"}
    subprocess.run([program, tmp_path / "pictures", tmp_path / "logits"], check=True, env=threads)
    logits = np.fromfile(tmp_path / "logits", np.float32).reshape(-1, 10)
    np.testing.assert_array_equal(logits, forge.Runtime(digits_build)(images))
    assert (logits.argmax(1) == labels).mean() >= demo.MIN_ACCURACY


def test_a_c_program_is_told_what_is_wrong(digits_build: Path, tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text(r'''
#include <stdio.h>
#include "forge_runtime.h"
int main(void) {
  float pictures[64] = {0};
  forge_tensor image = {.data = pictures, .dtype = FORGE_FLOAT32, .ndim = 4, .shape = {1, 1, 4, 16}}, logits = {0};
  forge_error error;
  int status = forge_run(forge_model_get(), &image, &logits, NULL, &error);
  printf("%d %s\n", status, error.message);
  return 0;
}''')
    library, compiler = digits_build / "modelLibrary.so", os.environ.get("CC", "cc").split()
    flags = ["-I", str(include_directory()), f"-Wl,-rpath,{digits_build}", "-o", str(tmp_path / "wrong")]
    subprocess.run([*compiler, str(source), str(library), *flags], check=True)
    printed = subprocess.run([tmp_path / "wrong"], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("1 ")
    assert "image" in printed


def test_layouts_in_the_metadata(tmp_path: Path) -> None:
    forge.IRModule("""
    def @main(%image: Tensor[(1, 4, 6, 6), float32], %tokens: Tensor[(2, 3, 4), float32], %w: Tensor[(4, 4, 1, 1), float32]) {
      %0 = nn.relu(%image);
      %1 = nn.conv2d(%0, %w);
      %2 = nn.relu(%1);
      %3 = nn.softmax(%tokens);
      (%2, %3)
    }""").compile(output_path=tmp_path / "build")
    runtime = forge.Runtime(tmp_path / "build")
    assert runtime.input_layouts == ["NCHW", "", ""]
    assert runtime.output_layouts == ["NCHW", ""]
