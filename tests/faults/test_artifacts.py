"""Artifacts that must not be run: each is refused before any of its code is loaded."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import forge
from forge.errors import ArtifactError, CpuFeatureError, ForgeError, PasswordError
from forge_runtime import artifact

E_MACHINE = 18
AARCH64 = 183


@pytest.fixture
def copy(digits_build: Path, tmp_path: Path) -> Path:
    """A copy of the compiled demo, to be damaged."""
    return Path(shutil.copytree(digits_build, tmp_path / "build"))


@pytest.fixture(scope="module")
def encrypted(digits: forge.IRModule, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("encrypted") / "build"
    digits.compile(output_path=build, encrypt_password="open sesame")
    return build


def edit(library: Path, change: Callable[[bytearray, int], None]) -> None:
    """Changes the file; ``change`` gets its bytes and where the metadata begin. The digest is computed anew."""
    content = bytearray(library.read_bytes())
    metadata = artifact.read_metadata(library)
    start = content.index(b"\x7fFORGEMD")
    change(content, start)
    library.write_bytes(content)
    with library.open("rb") as stream:
        file = artifact._File(stream.fileno(), str(library))
        digest = artifact._digest(file, start + artifact._DIGEST_OFFSET, artifact._weights_inside(file, metadata))
    content[start + 16 : start + 48] = digest
    library.write_bytes(content)


@pytest.mark.parametrize("where", [0.05, 0.3, 0.6, 0.9, 0.999])
def test_flipped_bit(copy: Path, where: float) -> None:
    library = copy / "modelLibrary.so"
    content = bytearray(library.read_bytes())
    content[int(len(content) * where)] ^= 1
    library.write_bytes(content)
    with pytest.raises(ArtifactError):
        forge.Runtime(copy)


def test_truncated(copy: Path) -> None:
    library = copy / "modelLibrary.so"
    library.write_bytes(library.read_bytes()[:-1000])
    with pytest.raises(ArtifactError, match="damaged"):
        forge.Runtime(copy)


def test_another_cpu(copy: Path) -> None:
    def ask_for_more(content: bytearray, start: int) -> None:
        place = content.index(b'"cpu_features":"', start) + len(b'"cpu_features":"')
        content[place : place + 3] = b"zzz"

    edit(copy / "modelLibrary.so", ask_for_more)
    with pytest.raises(CpuFeatureError, match="zzz"):
        forge.Runtime(copy)


def test_newer_format(copy: Path) -> None:
    def raise_version(content: bytearray, start: int) -> None:
        content[start + 8 : start + 12] = struct.pack("<I", 99)

    edit(copy / "modelLibrary.so", raise_version)
    with pytest.raises(ArtifactError, match="format is newer than this runtime; got version 99; expected at most 2; update"):
        forge.Runtime(copy)


def test_another_architecture(copy: Path) -> None:
    def change_machine(content: bytearray, start: int) -> None:
        content[E_MACHINE : E_MACHINE + 2] = struct.pack("<H", AARCH64)

    edit(copy / "modelLibrary.so", change_machine)
    with pytest.raises(ArtifactError, match="another architecture; got aarch64; expected x86_64"):
        forge.Runtime(copy)


def test_a_rewritten_digest_alone_is_no_fault(copy: Path) -> None:
    edit(copy / "modelLibrary.so", lambda content, start: None)
    assert forge.Runtime(copy).model_id == "digits"


@pytest.mark.parametrize("path", ["nowhere", "empty", "text.so"])
def test_no_artifact(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.so").write_text(json.dumps({"uuid": "x"}))
    with pytest.raises(ArtifactError, match=path):
        forge.Runtime(tmp_path / path)


def test_wrong_password(encrypted: Path) -> None:
    with pytest.raises(PasswordError, match="wrong password"):
        forge.Runtime(encrypted, password="open barley", key=encrypted / "modelLibrary.key")


@pytest.mark.parametrize("given", [{}, {"key": "modelLibrary.key"}])
def test_missing_password(encrypted: Path, given: dict[str, str]) -> None:
    with pytest.raises(PasswordError, match="encrypted; expected password="):
        forge.Runtime(encrypted, **given)


def test_missing_key(encrypted: Path, tmp_path: Path) -> None:
    (tmp_path / "alone.so").write_bytes((encrypted / "modelLibrary.so").read_bytes())
    with pytest.raises(PasswordError, match=r"modelLibrary\.key.*cannot be opened"):
        forge.Runtime(tmp_path / "alone.so", password="open sesame")


def test_key_of_another_model(encrypted: Path, digits: forge.IRModule, tmp_path: Path) -> None:
    digits.compile(output_path=tmp_path / "other", opt_level=1, encrypt_password="open sesame")
    with pytest.raises(PasswordError, match="another model"):
        forge.Runtime(encrypted, password="open sesame", key=tmp_path / "other" / "modelLibrary.key")


def test_key_that_does_not_exist(encrypted: Path) -> None:
    with pytest.raises(PasswordError, match="cannot be opened"):
        forge.Runtime(encrypted, password="open sesame", key=encrypted / "no.key")


def test_encrypted_file_that_was_changed(encrypted: Path, tmp_path: Path) -> None:
    build = Path(shutil.copytree(encrypted, tmp_path / "build"))
    content = bytearray((build / "modelLibrary.so").read_bytes())
    content[len(content) // 2] ^= 1
    (build / "modelLibrary.so").write_bytes(content)
    with pytest.raises(ForgeError, match="damaged or tampered with"):
        forge.Runtime(build, password="open sesame", key=build / "modelLibrary.key")
