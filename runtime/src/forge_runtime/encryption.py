"""Encrypted artifacts: AES-256-GCM, opened with a key file and a password, decrypted into memory only.

Encrypted file: header, then chunks of ``CHUNK_SIZE`` plain bytes (the last may be shorter, and ends the file), each
followed by its 16-byte tag. The random data key is used for one file only, so a chunk's number serves as its nonce. A
chunk is authenticated together with the header, its number and whether it is the last: chunks cannot be changed,
swapped, dropped, appended or taken from another file unnoticed.

Key file: the data key, encrypted with a key that scrypt derives from the password; useless without the password. While one
artifact takes the place of another it holds two such records, one for either file.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from forge_runtime.errors import ArtifactError, PasswordError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CHUNK_SIZE = 1 << 20
SCRYPT_LOG2_COST = 17
"""128 MiB and a few tenths of a second for each guess at the password."""

_VERSION = 1
_TAG_SIZE = 16
MAGIC = b"FORGEENC"
_FILE_HEADER = struct.Struct("<8sII16s")
_KEY_MAGIC = b"FORGEKEY"
_KEY_HEADER = struct.Struct("<8sII16s16s12s")
_KEY_SIZE = 32
_KEY_RECORD = _KEY_HEADER.size + _KEY_SIZE + _TAG_SIZE
_MAX_LOG2_COST = 19
_MAX_KEY_FILE = 2 * _KEY_RECORD
_MAX_CHUNK = 1 << 28
_MFD_EXEC = 0x10
_NEEDS_CRYPTOGRAPHY = "encrypted models need the package cryptography, which is not installed; pip install cryptography"


def _aesgcm(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise ArtifactError(_NEEDS_CRYPTOGRAPHY) from error
    return AESGCM(key)


def _password_key(password: str, salt: bytes, log2_cost: int) -> bytes:
    try:
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
    except ImportError as error:
        raise ArtifactError(_NEEDS_CRYPTOGRAPHY) from error
    return Scrypt(salt=salt, length=_KEY_SIZE, n=1 << log2_cost, r=8, p=1).derive(password.encode(errors="surrogatepass"))


def _nonce(index: int) -> bytes:
    return index.to_bytes(12, "little")


def _associated(header: bytes, index: int, last: bool) -> bytes:
    return header + struct.pack("<QB", index, last)


def _rechunk(source: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Pieces of exactly ``CHUNK_SIZE`` bytes, and whether one is the last; only the last may be shorter, or empty."""
    buffer = bytearray()
    for piece in source:
        for start in range(0, len(piece), CHUNK_SIZE):
            buffer += piece[start : start + CHUNK_SIZE]
            if len(buffer) > CHUNK_SIZE:
                yield bytes(buffer[:CHUNK_SIZE]), False
                del buffer[:CHUNK_SIZE]
    yield bytes(buffer), True


def encrypt_file(
    source: Iterable[bytes],
    out_path: str | os.PathLike[str],
    key_path: str | os.PathLike[str],
    password: str,
    *,
    log2_cost: int = SCRYPT_LOG2_COST,
) -> None:
    """Writes the bytes of ``source`` encrypted to ``out_path``, and the key that opens them to ``key_path`` (mode 600).

    Args:
        source: pieces of any size.
        out_path: overwritten; written in place, so pass a temporary name and rename.
        key_path: overwritten.
        password: not empty; any Unicode text.
        log2_cost: scrypt's N is two to this number (recorded in the key file).

    Raises:
        PasswordError: the password is empty.
    """
    if not password:
        raise PasswordError("encryption: the password is empty; expected at least one character")
    identity, key = secrets.token_bytes(16), secrets.token_bytes(_KEY_SIZE)
    header = _FILE_HEADER.pack(MAGIC, _VERSION, CHUNK_SIZE, identity)
    cipher = _aesgcm(key)
    with open(out_path, "wb") as out:
        out.write(header)
        for index, (chunk, last) in enumerate(_rechunk(source)):
            out.write(cipher.encrypt(_nonce(index), chunk, _associated(header, index, last)))
    write_private(Path(key_path), _wrap_key(key, identity, password, log2_cost))


def _wrap_key(key: bytes, identity: bytes, password: str, log2_cost: int) -> bytes:
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    header = _KEY_HEADER.pack(_KEY_MAGIC, _VERSION, log2_cost, identity, salt, nonce)
    return header + _aesgcm(_password_key(password, salt, log2_cost)).encrypt(nonce, key, header)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only this user may read."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)


def is_encrypted(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins as an encrypted artifact does."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _check_version(where: str, version: int) -> None:
    if version > _VERSION:
        raise ArtifactError(
            f"{where}: encryption format {version} is newer than this runtime's {_VERSION}; update Forge's runtime"
        )


def _unwrap_key(key_path: Path, identity: bytes, password: str) -> bytes:
    try:
        content = key_path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PasswordError(f"{str(key_path)!r:.200}: cannot be opened: {reason}; expected the model's key file") from error
    records = _key_records(content)
    if not records:
        raise PasswordError(f"{key_path}: not a key file, or damaged; expected the file written next to the encrypted model")
    for header in records:
        _check_version(str(key_path), _KEY_HEADER.unpack(header)[1])
    header = next((h for h in records if _KEY_HEADER.unpack(h)[3] == identity), b"")
    if not header:
        raise PasswordError(f"{key_path}: this key file belongs to another model")
    _, _, log2_cost, _, salt, nonce = _KEY_HEADER.unpack(header)
    if not 1 <= log2_cost <= _MAX_LOG2_COST:
        raise PasswordError(f"{key_path}: damaged; scrypt cost 2**{log2_cost}; expected at most 2**{_MAX_LOG2_COST}")
    return _decrypt_key(key_path, _password_key(password, salt, log2_cost), nonce, records[header], header)


def _key_records(content: bytes) -> dict[bytes, bytes]:
    """The wrapped keys of a key file by their headers; empty where it is none."""
    records = [content[k : k + _KEY_RECORD] for k in range(0, min(len(content), _MAX_KEY_FILE), _KEY_RECORD)]
    if len(content) > _MAX_KEY_FILE or not all(len(r) == _KEY_RECORD and r.startswith(_KEY_MAGIC) for r in records):
        return {}
    return {record[: _KEY_HEADER.size]: record[_KEY_HEADER.size :] for record in records}


def joined_keys(new: Path, old: Path, library: Path) -> bytes:
    """The contents of a key file that opens what the file ``new`` opens, and ``library`` as well, if ``old`` does."""
    try:
        records = _key_records(old.read_bytes())
        with library.open("rb") as file:
            _, identity = _read_header(file, str(library))
    except (OSError, ArtifactError):
        return new.read_bytes()
    return new.read_bytes() + b"".join(h + wrapped for h, wrapped in records.items() if _KEY_HEADER.unpack(h)[3] == identity)


def _decrypt_key(key_path: Path, password_key: bytes, nonce: bytes, wrapped: bytes, header: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        return _aesgcm(password_key).decrypt(nonce, wrapped, header)
    except InvalidTag as error:
        raise PasswordError(f"{key_path}: wrong password, or a damaged key file") from error


def _plain_chunks(file: BinaryIO, header: bytes, cipher: AESGCM, where: str) -> Iterator[bytes]:
    from cryptography.exceptions import InvalidTag

    sealed_size = _FILE_HEADER.unpack(header)[2] + _TAG_SIZE
    index, sealed = 0, file.read(sealed_size)
    while True:
        following = file.read(sealed_size)
        try:
            yield cipher.decrypt(_nonce(index), sealed, _associated(header, index, not following))
        except (InvalidTag, ValueError) as error:
            raise ArtifactError(f"{where}: damaged or tampered with, near byte {index * sealed_size}; copy it again") from error
        if not following:
            return
        index, sealed = index + 1, following


def _read_header(file: BinaryIO, where: str) -> tuple[bytes, bytes]:
    header = file.read(_FILE_HEADER.size)
    if len(header) != _FILE_HEADER.size or not header.startswith(MAGIC):
        raise ArtifactError(f"{where}: not an encrypted model, or truncated")
    _, version, chunk_size, identity = _FILE_HEADER.unpack(header)
    _check_version(where, version)
    if not 0 < chunk_size <= _MAX_CHUNK:
        raise ArtifactError(f"{where}: damaged; chunks of {chunk_size} bytes; copy it again")
    return header, identity


def decrypt(path: str | os.PathLike[str], key_path: str | os.PathLike[str], password: str) -> Iterator[bytes]:
    """The plain bytes of an encrypted file, chunk by chunk, each authenticated before it is yielded.

    Only when the iterator ends is the file known to be whole: use nothing of it before.

    Raises:
        PasswordError: wrong password or key file.
        ArtifactError: damaged, truncated or tampered with.
    """
    where = str(path)
    with open(path, "rb") as file:
        header, identity = _read_header(file, where)
        cipher = _aesgcm(_unwrap_key(Path(key_path), identity, password))
        yield from _plain_chunks(file, header, cipher, where)


def _open_memory() -> int:
    try:
        return os.memfd_create("forge-model", os.MFD_CLOEXEC | _MFD_EXEC)
    except OSError:
        return os.memfd_create("forge-model", os.MFD_CLOEXEC)


def decrypt_to_memfd(path: str | os.PathLike[str], key_path: str | os.PathLike[str], password: str) -> int:
    """A descriptor of anonymous memory that holds the whole plain file; the plain text never touches a disk.

    Raises:
        PasswordError: wrong password or key file.
        ArtifactError: damaged, truncated or tampered with.
    """
    fd = _open_memory()
    try:
        with os.fdopen(os.dup(fd), "wb") as memory:
            memory.writelines(decrypt(path, key_path, password))
    except BaseException:
        os.close(fd)
        raise
    return fd
