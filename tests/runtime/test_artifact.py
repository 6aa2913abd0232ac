"""Artifacts: sealing, reading without loading, and every way a file can be wrong."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge_runtime import ArtifactError, InputError, Runtime, artifact, read_metadata
from forge_runtime.__main__ import main
from tests.runtime.building import Build, metadata

E_MACHINE, E_SHOFF, E_SHNUM = 18, 40, 60


@pytest.fixture
def library(build: Build) -> Path:
    return build("identity") / artifact.LIBRARY_NAME


def patch(path: Path, offset: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[offset : offset + len(data)] = data
    path.write_bytes(content)


def header_offset(path: Path) -> int:
    return path.read_bytes().rindex(b"\x7fFORGEMD")


def runs(path: Path) -> bool:
    return bool(Runtime(path)(np.array([5], np.float32)).tolist() == [5])


def test_metadata_comes_back(build: Build) -> None:
    folder = build("identity", options={"opt_level": 3}, created="2026-01-01")
    content = read_metadata(folder)
    assert content["format_version"] == artifact.FORMAT_VERSION
    assert content["options"] == {"opt_level": 3} and content["uuid"] == "0000-test"
    assert content == Runtime(folder).metadata
    without = bytearray((folder / artifact.LIBRARY_NAME).read_bytes())
    offset = without.rindex(b"\x7fFORGEMD") + 16
    without[offset : offset + 32] = bytes(32)
    assert content["sha256"] == hashlib.sha256(without).hexdigest()


@pytest.mark.parametrize("variable", ["abc", "0", "-1", "2.5", " 2"])
def test_a_variable_that_is_no_number_of_threads(library: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv("FORGE_NUM_THREADS", variable)
    with pytest.raises(InputError, match=f"FORGE_NUM_THREADS: got {variable!r}; expected a whole number from 1 on"):
        Runtime(library)
    Runtime(library, num_threads=1)


def test_directory_and_file_are_the_same(library: Path) -> None:
    assert runs(library) and runs(library.parent)


def test_sealing_is_deterministic_and_kept_by_strip(linked: Callable[..., Path], tmp_path: Path) -> None:
    copies = [tmp_path / name for name in ("a.so", "b.so")]
    for copy in copies:
        shutil.copy(linked("identity"), copy)
        artifact.seal(copy, metadata(b=1, a=2))
    assert copies[0].read_bytes() == copies[1].read_bytes()
    readelf = subprocess.run(["readelf", "-SW", copies[0]], capture_output=True, text=True, check=True)
    assert ".forge.meta" in readelf.stdout and not readelf.stderr


def test_sealed_twice(library: Path) -> None:
    with pytest.raises(ArtifactError, match="sealed already"):
        artifact.seal(library, metadata())


def test_sealing_checks_types(linked: Callable[..., Path], tmp_path: Path) -> None:
    copy = tmp_path / "a.so"
    shutil.copy(linked("identity"), copy)
    with pytest.raises(ArtifactError, match="metadata field 'uuid'; got 7"):
        artifact.seal(copy, metadata(uuid=7))
    with pytest.raises(ArtifactError, match="metadata of a tensor"):
        artifact.seal(copy, metadata(inputs=["x"]))


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"modelLibrary.so: cannot be opened: No such file"):
        Runtime(tmp_path)
    with pytest.raises(ArtifactError, match="not a path"):
        Runtime(tmp_path / "a\0b")


@pytest.mark.parametrize("path", ["/proc/self/mem", "x" * 5000, "\ud800"], ids=["unreadable", "long", "surrogate"])
def test_what_the_system_refuses_is_an_artifact_error(path: str) -> None:
    with pytest.raises(ArtifactError, match=r"cannot be read: Input/output error|File name too long|not a path"):
        Runtime(path)


@pytest.mark.parametrize("field", ["cpu_features", "weights_file", "uuid"])
def test_halves_of_surrogate_pairs_are_no_metadata(build: Build, field: str) -> None:
    folder = build("identity", **{field: "+" * 7})
    library = folder / artifact.LIBRARY_NAME
    content = library.read_bytes().replace(b'"' + b"+" * 7 + b'"', b'"+\\udcff"')
    library.write_bytes(content)
    with pytest.raises(ArtifactError, match=f"metadata field '{field}'; got .*, which is not valid text"):
        Runtime(folder, verify=False)


def test_pipe_does_not_make_us_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ArtifactError, match="not a regular file"):
            Runtime(path)


@pytest.mark.parametrize("content", [b"", b"x", b"PK\x03\x04" + bytes(100), b"\x7fELF", b"\x7fELF" + bytes(200)])
def test_not_a_library(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / artifact.LIBRARY_NAME
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"not a (compiled model|model for this runtime)"):
        Runtime(path)


def test_library_that_forge_did_not_make(linked: Callable[..., Path]) -> None:
    with pytest.raises(ArtifactError, match=r"it has no section \.forge\.meta"):
        Runtime(linked("identity"))


def test_another_architecture(library: Path) -> None:
    machine = 183 if read_machine(library) != 183 else 62
    patch(library, E_MACHINE, struct.pack("<H", machine))
    reseal(library)
    with pytest.raises(ArtifactError, match=r"compiled for another architecture; got (aarch64|x86_64); expected"):
        Runtime(library)
    assert read_metadata(library)["uuid"] == "0000-test"


def read_machine(path: Path) -> int:
    return int(struct.unpack_from("<H", path.read_bytes(), E_MACHINE)[0])


def reseal(path: Path) -> None:
    """Makes the digest right again after a deliberate change."""
    offset = header_offset(path) + 16
    patch(path, offset, bytes(32))
    patch(path, offset, hashlib.sha256(path.read_bytes()).digest())


def test_newer_format(library: Path) -> None:
    patch(library, header_offset(library) + 8, struct.pack("<I", 3))
    with pytest.raises(ArtifactError, match="newer than this runtime; got version 3; expected at most 2; update Forge's runtime"):
        Runtime(library)


def replace_json(path: Path, text: bytes) -> None:
    """Writes other JSON in the place of the old, which must be longer."""
    offset = header_offset(path)
    patch(path, offset + 12, struct.pack("<I", len(text)) + bytes(32) + text)
    reseal(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff\xff", "not JSON"),
        (b"[" * 50, "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "format version None"),
        (b'{"format_version":true}', "format version True"),
        (b'{"format_version":9}', "got version 9"),
        (b'{"format_version":1,"uuid":3}', "field 'uuid'"),
        (b'{"format_version":1,"inputs":[3]}', "metadata of a tensor"),
    ],
)
def test_metadata_of_the_wrong_form(library: Path, text: bytes, message: str) -> None:
    replace_json(library, text)
    with pytest.raises(ArtifactError, match=message):
        Runtime(library)


def test_deeply_nested_metadata(build: Build) -> None:
    path = build("identity", filler="x" * 200_000) / artifact.LIBRARY_NAME
    replace_json(path, b"[" * 150_000)
    with pytest.raises(ArtifactError, match="not JSON"):
        read_metadata(path)


def test_every_truncation_is_found(library: Path) -> None:
    content = library.read_bytes()
    for size in {*range(200), *range(0, len(content), 1 + len(content) // 150), *range(len(content) - 100, len(content))}:
        library.write_bytes(content[:size])
        with pytest.raises(ArtifactError):
            Runtime(library)


def test_every_flipped_bit_is_found(library: Path) -> None:
    content = library.read_bytes()
    offsets = random.Random(1).sample(range(len(content)), 400)
    for offset in {
        *range(64),
        *range(len(content) - 64, len(content)),
        *range(header_offset(library), header_offset(library) + 80),
        *offsets,
    }:
        patch(library, offset, bytes([content[offset] ^ 1 << offset % 8]))
        with pytest.raises(ArtifactError):
            Runtime(library)
        library.write_bytes(content)
    assert runs(library)


@settings(max_examples=150)
@given(data=st.data())
def test_reading_hostile_files_never_crashes(library: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Headers and section tables full of extreme numbers end in an ArtifactError or in metadata."""
    content = bytearray(library.read_bytes())
    table = struct.unpack_from("<Q", content, E_SHOFF)[0]
    for _ in range(data.draw(st.integers(1, 6))):
        where = data.draw(st.one_of(st.integers(0, 63), st.integers(table, len(content) - 8), st.integers(0, len(content) - 8)))
        value = data.draw(st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]), st.integers(0, 2**64 - 1)))
        width = data.draw(st.sampled_from([1, 2, 4, 8]))
        content[where : where + width] = (value & (256**width - 1)).to_bytes(width, "little")
    hostile = tmp_path / "hostile.so"
    hostile.write_bytes(content)
    try:
        assert isinstance(read_metadata(hostile), dict)
    except ArtifactError as error:
        assert str(hostile) in str(error)


def test_extreme_section_counts(library: Path) -> None:
    for count in (0, 0xFFFF):
        patch(library, E_SHNUM, struct.pack("<H", count))
        with pytest.raises(ArtifactError, match="no readable section table"):
            read_metadata(library)


@pytest.fixture
def external(build: Build, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An artifact as the first version of the format had them."""
    monkeypatch.setattr(artifact, "FORMAT_VERSION", 1)
    weights = np.array([1, 2, 3, 4], np.float32).tobytes()
    folder = build(
        "rows", inside=False, weights_file="weights.bin", weights_size=16, weights_sha256=hashlib.sha256(weights).hexdigest()
    )
    (folder / "weights.bin").write_bytes(weights)
    monkeypatch.undo()
    assert read_metadata(folder)["format_version"] == 1
    return folder


def call_rows(model: Runtime) -> list[Any]:
    outputs = model(np.zeros((1, 4), np.float32), np.zeros((1, 1), np.float32), np.zeros(3, np.int64))
    return list(outputs[0][0])


@pytest.mark.parametrize("copy", [False, True])
def test_weights_beside_the_library(external: Path, copy: bool) -> None:
    model = Runtime(external, copy_weights=copy)
    assert call_rows(model) == [1, 2, 3, 4]
    mapped = "weights.bin" in Path("/proc/self/maps").read_text()
    assert mapped is not copy


def test_damaged_weights(external: Path) -> None:
    path = external / "weights.bin"
    patch(path, 3, b"\x7f")
    with pytest.raises(ArtifactError, match=r"weights.bin: damaged; its SHA-256"):
        Runtime(external)
    assert call_rows(Runtime(external, verify=False))[0] != 1
    path.write_bytes(bytes(15))
    with pytest.raises(ArtifactError, match=r"got 15 bytes; expected 16"):
        Runtime(external, verify=False)
    path.unlink()
    with pytest.raises(ArtifactError, match="it holds the weights of"):
        Runtime(external)


@pytest.mark.parametrize("name", ["../weights.bin", "/etc/passwd", "..", "", "a/b", "a\0b"])
def test_weights_cannot_lie_elsewhere(build: Build, name: str) -> None:
    with pytest.raises(ArtifactError, match="expected a plain file name next to the library"):
        Runtime(build("rows", inside=False, weights_file=name, weights_size=16, weights_sha256=""))


def test_library_without_its_weights(build: Build) -> None:
    with pytest.raises(ArtifactError, match="its weights are not loaded"):
        call_rows(Runtime(build("rows", inside=False)))


def test_new_library_at_the_same_path(build: Build, linked: Callable[..., Path]) -> None:
    """The system's loader remembers libraries by path; a model that was compiled again must not be mistaken for the old one."""
    folder = build("identity")
    old = Runtime(folder)
    other = folder / "other.so"
    shutil.copy(linked("negate"), other)
    artifact.seal(other, metadata())
    os.replace(other, folder / artifact.LIBRARY_NAME)
    assert Runtime(folder).name == "negate" and old.name == "identity"


def test_models_come_and_go(build: Build) -> None:
    paths = [build(name) for name in ("identity", "negate", "nonzero")]
    kept = []
    for round_ in range(30):
        path = paths[round_ % 3]
        model = Runtime(path)
        assert model.name == path.name.split("-")[0]
        if round_ % 7 == 0:
            kept.append(model)
    assert [model.name for model in kept] == ["identity", "negate", "nonzero", "identity", "negate"]


def test_descriptors_are_closed(build: Build) -> None:
    path = build("identity")
    Runtime(path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        Runtime(path)
        with pytest.raises(ArtifactError):
            Runtime(path, password="x", key="y")
    assert len(os.listdir("/proc/self/fd")) == before


def test_command_line(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(library.parent)]) == 0
    assert json.loads(capsys.readouterr().out) == read_metadata(library)
    assert main(["info", str(library.parent / "nothing")]) == 1
    assert "error: " in capsys.readouterr().err
    command = [sys.executable, "-m", "forge_runtime", "info", str(library)]
    printed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert printed["format_version"] == artifact.FORMAT_VERSION
