"""Encrypted artifacts: they open with key file and password, and with nothing else."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from forge_runtime import ArtifactError, PasswordError, Runtime, artifact, encryption
from tests.runtime.building import Build

PASSWORD = "correct horse Ä"
CHUNK = encryption.CHUNK_SIZE
SEALED = CHUNK + 16
HEADER = 32


class Sealed(NamedTuple):
    path: Path
    key: Path


def pieces(content: bytes) -> Iterator[bytes]:
    yield from (content[i : i + 700_001] for i in range(0, len(content), 700_001))


@pytest.fixture
def encrypt(tmp_path: Path) -> Callable[..., Sealed]:
    def make(content: bytes, name: str = "model") -> Sealed:
        sealed = Sealed(tmp_path / f"{name}.so", tmp_path / f"{name}.key")
        encryption.encrypt_file(pieces(content), sealed.path, sealed.key, PASSWORD, log2_cost=4)
        return sealed

    return make


def opened(sealed: Sealed, password: str = PASSWORD) -> bytes:
    fd = encryption.decrypt_to_memfd(sealed.path, sealed.key, password)
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return file.read()


def content_of(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5])
def test_round_trip(encrypt: Callable[..., Sealed], size: int) -> None:
    content = content_of(size)
    sealed = encrypt(content)
    assert opened(sealed) == content
    assert encryption.is_encrypted(sealed.path) and not encryption.is_encrypted(sealed.key)
    assert size < 32 or content[:32] not in sealed.path.read_bytes()
    assert stat.S_IMODE(sealed.key.stat().st_mode) == 0o600


def test_equal_content_is_encrypted_differently(encrypt: Callable[..., Sealed]) -> None:
    one, two = encrypt(b"abc", "one"), encrypt(b"abc", "two")
    assert one.path.read_bytes()[HEADER:] != two.path.read_bytes()[HEADER:]


def test_runtime_opens_encrypted_artifact(build: Build, encrypt: Callable[..., Sealed]) -> None:
    library = build("identity") / artifact.LIBRARY_NAME
    sealed = encrypt(library.read_bytes())
    os.replace(sealed.path, library)
    for path in (library, library.parent):
        model = Runtime(path, password=PASSWORD, key=sealed.key)
        assert model(np.array([4], np.float32)).tolist() == [4] and model.model_id == "0000-test"
        assert artifact.read_metadata(path, PASSWORD, sealed.key) == model.metadata
    for arguments in ({}, {"key": sealed.key}):
        with pytest.raises(PasswordError, match="encrypted; expected password=, and key= where its key file is not next to it"):
            Runtime(library, **arguments)
    with pytest.raises(PasswordError, match=r"modelLibrary\.key.*cannot be opened: No such file"):
        Runtime(library, password=PASSWORD)
    os.replace(sealed.key, library.with_name("modelLibrary.key"))
    for path in (library, library.parent):
        assert Runtime(path, password=PASSWORD)(np.array([4], np.float32)).tolist() == [4]


def test_password_for_a_plain_artifact(build: Build) -> None:
    with pytest.raises(ArtifactError, match="not encrypted; got a password or key"):
        Runtime(build("identity"), password="x", key="y")


@pytest.mark.parametrize("password", ["", "correct horse", "correct horse ä", "CORRECT HORSE Ä"])
def test_wrong_password(encrypt: Callable[..., Sealed], password: str) -> None:
    with pytest.raises(PasswordError, match="wrong password, or a damaged key file"):
        opened(encrypt(b"abc"), password)


def test_empty_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PasswordError, match="the password is empty"):
        encryption.encrypt_file([b"abc"], tmp_path / "a", tmp_path / "b", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", ["ciphers.aead", "kdf.scrypt"])
def test_a_missing_package_is_named(encrypt: Callable[..., Sealed], monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    sealed = encrypt(b"content")
    monkeypatch.setitem(sys.modules, f"cryptography.hazmat.primitives.{module}", None)
    with pytest.raises(ArtifactError, match=r"cryptography, which is not installed; pip install cryptography$"):
        opened(sealed)


def test_wrong_key_file(encrypt: Callable[..., Sealed], tmp_path: Path) -> None:
    one, two = encrypt(b"abc", "one"), encrypt(b"abc", "two")
    with pytest.raises(PasswordError, match="belongs to another model"):
        opened(Sealed(one.path, two.key))
    with pytest.raises(PasswordError, match="not a key file"):
        opened(Sealed(one.path, one.path))
    with pytest.raises(PasswordError, match="cannot be opened"):
        opened(Sealed(one.path, tmp_path / "nothing"))
    with pytest.raises(PasswordError, match="cannot be opened: embedded null byte"):
        opened(Sealed(one.path, Path("a\0b")))
    with pytest.raises(PasswordError, match="wrong password"):
        opened(one, "\udc80")


def test_every_damaged_byte_of_the_key_file(encrypt: Callable[..., Sealed]) -> None:
    sealed = encrypt(b"abc")
    content = sealed.key.read_bytes()
    for offset in range(len(content)):
        if 12 <= offset < 16:
            continue
        damaged = bytearray(content)
        damaged[offset] ^= 1
        sealed.key.write_bytes(damaged)
        with pytest.raises((PasswordError, ArtifactError)):
            opened(sealed)
    for size in range(len(content)):
        sealed.key.write_bytes(content[:size])
        with pytest.raises(PasswordError):
            opened(sealed)


@pytest.mark.parametrize("cost", [0, 5, 21, 2**32 - 1])
def test_damaged_cost(encrypt: Callable[..., Sealed], cost: int) -> None:
    sealed = encrypt(b"abc")
    content = sealed.key.read_bytes()
    sealed.key.write_bytes(content[:12] + cost.to_bytes(4, "little") + content[16:])
    with pytest.raises(PasswordError):
        opened(sealed)


@pytest.mark.parametrize("offset", [0, 8, 12, 16, 31, HEADER, HEADER + 5, HEADER + SEALED - 1, HEADER + SEALED, -1])
def test_damaged_byte(encrypt: Callable[..., Sealed], offset: int) -> None:
    sealed = encrypt(content_of(2 * CHUNK + 10))
    damaged = bytearray(sealed.path.read_bytes())
    damaged[offset] ^= 0x10
    sealed.path.write_bytes(damaged)
    with pytest.raises(ArtifactError):
        opened(sealed)


def chunks_of(sealed: Sealed) -> tuple[bytes, list[bytes]]:
    content = sealed.path.read_bytes()
    return content[:HEADER], [content[i : i + SEALED] for i in range(HEADER, len(content), SEALED)]


@pytest.mark.parametrize(
    "order",
    [(0, 1), (0,), (), (1, 0, 2), (0, 2), (0, 1, 1, 2), (0, 1, 2, 2), (2,), (1, 2)],
    ids=lambda order: "-".join(map(str, order)) or "none",
)
def test_chunks_cannot_be_moved(encrypt: Callable[..., Sealed], order: tuple[int, ...]) -> None:
    sealed = encrypt(content_of(3 * CHUNK))
    header, chunks = chunks_of(sealed)
    assert len(chunks) == 3
    sealed.path.write_bytes(header + b"".join(chunks[i] for i in order))
    with pytest.raises(ArtifactError, match="damaged or tampered with"):
        opened(sealed)


def test_chunks_of_another_file(encrypt: Callable[..., Sealed]) -> None:
    one, two = encrypt(content_of(2 * CHUNK), "one"), encrypt(content_of(2 * CHUNK), "two")
    (header, chunks), (_, others) = chunks_of(one), chunks_of(two)
    one.path.write_bytes(header + chunks[0] + others[1])
    with pytest.raises(ArtifactError, match="damaged or tampered with"):
        opened(one)


@pytest.mark.parametrize("size", [0, 7, 8, 31, 32, 40, 32 + 16 + 2])
def test_truncation(encrypt: Callable[..., Sealed], size: int) -> None:
    sealed = encrypt(b"abc")
    sealed.path.write_bytes(sealed.path.read_bytes()[:size])
    with pytest.raises(ArtifactError):
        opened(sealed)


def test_newer_format(encrypt: Callable[..., Sealed]) -> None:
    sealed = encrypt(b"abc")
    content = sealed.path.read_bytes()
    sealed.path.write_bytes(content[:8] + b"\2\0\0\0" + content[12:])
    with pytest.raises(ArtifactError, match="encryption format 2 is newer than this runtime's 1"):
        opened(sealed)


def test_failed_decryption_leaves_no_descriptor(encrypt: Callable[..., Sealed]) -> None:
    sealed = encrypt(b"abc")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(PasswordError):
            opened(sealed, "wrong")
    assert len(os.listdir("/proc/self/fd")) == before
