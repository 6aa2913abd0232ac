"""Reading and sealing ``modelLibrary.so`` without running any of it.

The metadata lies in the ELF section ``.forge.meta``, which the loader of the system ignores:

====== ===== ============================================================================
offset bytes content
====== ===== ============================================================================
0      8     magic ``\\x7fFORGEMD``
8      4     format version, little-endian
12     4     size of the JSON text, little-endian
16     32    SHA-256 of the file without its weights and with these 32 bytes set to zero
48     ...   JSON object, UTF-8
====== ===== ============================================================================

Weights are ``weights_size`` bytes at ``weights_offset`` of the library, or of the file ``weights_file`` next to it, a safetensors
file with one tensor. ``weights_digest`` is of them: the SHA-256 of the SHA-256s of their chunks, which several threads compute.
So any damaged byte of code, weights and metadata is found before code is loaded. That guards against damage, not against an
attacker, who could compute digests anew; for that, encrypt (``forge_runtime.encryption``).

In version 1, the digest is of the whole file, and weights in a file of their own are all of it, with SHA-256 ``weights_sha256``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from forge_runtime import encryption
from forge_runtime.errors import ArtifactError, PasswordError

FORMAT_VERSION = 2
WEIGHTS_CHUNK = 4 << 20
"""Bytes of weights that are read, or written, and hashed at once."""
LIBRARY_NAME = "modelLibrary.so"
KEY_NAME = "modelLibrary.key"
SECTION_NAME = ".forge.meta"

Metadata = dict[str, Any]
PathLike = str | os.PathLike[str]
T = TypeVar("T")

_MAGIC = b"\x7fFORGEMD"
_HEADER = struct.Struct("<8sII32s")
_DIGEST_OFFSET = 16
_DIGEST_SIZE = 32
_MAX_JSON = 64 << 20
_WEIGHTS_PAGE = 1 << 12
_CHUNK = 1 << 20

_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SHT_PROGBITS = 1
_ET_DYN = 3
_ELFCLASS64 = 2
_LITTLE_ENDIAN = 1
_MAX_SECTIONS = 0xFF00
_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le", 22: "s390x", 258: "loongarch64"}


class _ElfHeader(NamedTuple):
    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    program_offset: int
    section_offset: int
    flags: int
    header_size: int
    program_entry_size: int
    program_count: int
    section_entry_size: int
    section_count: int
    names_index: int


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


@dataclass(frozen=True)
class _File:
    """An open file, read with bounds checks; ``where`` names it in messages."""

    fd: int
    where: str

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def read(self, offset: int, size: int, what: str) -> bytes:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ArtifactError(
                f"{self.where}: truncated or damaged; {what} would end at byte {offset + size}, "
                f"the file has {self.size}; copy or compile it again"
            )
        data = b"".join(self.chunks(offset, size))
        if len(data) != size:
            raise ArtifactError(f"{self.where}: {what} changed while it was read; try again")
        return data

    def chunks(self, offset: int, size: int) -> Iterator[bytes]:
        """The bytes from ``offset`` on, fewer if the file ends before."""
        end = offset + size
        while offset < end:
            chunk = os.pread(self.fd, min(_CHUNK, end - offset), offset)
            if not chunk:
                return
            offset += len(chunk)
            yield chunk


def _elf_header(file: _File) -> _ElfHeader:
    if file.size < _ELF_HEADER.size or file.read(0, 4, "the ELF magic") != b"\x7fELF":
        raise ArtifactError(f"{file.where}: not a compiled model; expected {LIBRARY_NAME}, an ELF shared library that Forge made")
    header = _ElfHeader(*_ELF_HEADER.unpack(file.read(0, _ELF_HEADER.size, "the ELF header")))
    if header.ident[4] != _ELFCLASS64 or header.ident[5] != _LITTLE_ENDIAN or header.type != _ET_DYN:
        raise ArtifactError(f"{file.where}: not a model for this runtime; expected a 64-bit little-endian shared library")
    if header.section_entry_size != _SECTION_HEADER.size or not 0 < header.section_count < _MAX_SECTIONS:
        raise ArtifactError(f"{file.where}: damaged or stripped; it has no readable section table; compile it again")
    return header


def _sections(file: _File, header: _ElfHeader) -> list[_Section]:
    table = file.read(header.section_offset, header.section_count * _SECTION_HEADER.size, "the section table")
    return [_Section(*fields) for fields in _SECTION_HEADER.iter_unpack(table)]


def _section_names(file: _File, header: _ElfHeader, sections: list[_Section]) -> bytes:
    if header.names_index >= len(sections):
        raise ArtifactError(
            f"{file.where}: damaged; section name table {header.names_index} of {len(sections)}; compile it again"
        )
    names = sections[header.names_index]
    return file.read(names.offset, names.size, "the section names")


def _find_section(file: _File, header: _ElfHeader) -> _Section | None:
    sections = _sections(file, header)
    names = _section_names(file, header, sections)
    wanted = SECTION_NAME.encode() + b"\0"
    for section in sections:
        if names[section.name : section.name + len(wanted)] == wanted:
            return section
    return None


def _metadata_section(file: _File, header: _ElfHeader) -> _Section:
    section = _find_section(file, header)
    if section is None:
        raise ArtifactError(f"{file.where}: not a model that Forge compiled; it has no section {SECTION_NAME}")
    if section.size < _HEADER.size:
        raise ArtifactError(f"{file.where}: damaged; the metadata has {section.size} bytes; compile it again")
    return section


def _parse_json(file: _File, text: bytes) -> Metadata:
    try:
        metadata = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{file.where}: damaged; its metadata is not JSON ({error}); compile it again") from error
    if not isinstance(metadata, dict):
        raise ArtifactError(f"{file.where}: damaged; its metadata is not a JSON object; compile it again")
    return metadata


def _check_version(file: _File, version: object) -> None:
    if type(version) is not int or version < 1:
        raise ArtifactError(f"{file.where}: damaged; format version {version!r}; compile it again")
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"{file.where}: its format is newer than this runtime; got version {version}; "
            f"expected at most {FORMAT_VERSION}; update Forge's runtime"
        )


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "format_version": int,
    "uuid": str,
    "fingerprint": str,
    "created": str,
    "target": str,
    "cpu_features": str,
    "precision": str,
    "inputs": list,
    "outputs": list,
    "options": dict,
    "versions": dict,
    "weights_file": (str, type(None)),
    "weights_offset": int,
    "weights_size": int,
    "weights_digest": str,
    "weights_sha256": str,
}


def _check_fields(where: str, metadata: Mapping[str, Any]) -> None:
    for name, expected in _FIELDS.items():
        if name in metadata and not isinstance(metadata[name], expected):
            raise ArtifactError(f"{where}: metadata field {name!r}; got {metadata[name]!r:.100}; expected {expected}")
        _check_text(where, name, metadata.get(name))
    for tensor in (*metadata.get("inputs", ()), *metadata.get("outputs", ())):
        if not (isinstance(tensor, dict) and isinstance(tensor.get("name"), str) and isinstance(tensor.get("dtype"), str)):
            raise ArtifactError(f"{where}: metadata of a tensor; got {tensor!r:.100}; expected name, dtype and shape")
        _check_text(where, "name", tensor["name"])
        _check_text(where, "dtype", tensor["dtype"])


def _check_text(where: str, name: str, value: object) -> None:
    """JSON can hold lone surrogates, which cannot be encoded."""
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise ArtifactError(f"{where}: metadata field {name!r}; got {value!r:.100}, which is not valid text; compile it again")


def _read_metadata(file: _File) -> Metadata:
    section = _metadata_section(file, _elf_header(file))
    magic, version, json_size, digest = _HEADER.unpack(file.read(section.offset, _HEADER.size, "the metadata header"))
    if magic != _MAGIC:
        raise ArtifactError(f"{file.where}: damaged; its metadata does not begin as it should; compile it again")
    _check_version(file, version)
    if json_size > min(section.size - _HEADER.size, _MAX_JSON):
        raise ArtifactError(f"{file.where}: damaged; metadata of {json_size} bytes in {section.size}; compile it again")
    metadata = _parse_json(file, file.read(section.offset + _HEADER.size, json_size, "the metadata"))
    _check_version(file, metadata.get("format_version"))
    _check_fields(file.where, metadata)
    return {**metadata, "sha256": digest.hex()}


def read_metadata(path: PathLike, password: str | None = None, key: PathLike | None = None) -> Metadata:
    """The metadata of an artifact (a directory or the library itself), whatever machine it was compiled for.

    The field ``sha256`` is the digest the file claims; ``metadata_of`` compares it.

    Raises:
        ArtifactError: missing, damaged, no artifact, or of a newer format.
        PasswordError: encrypted, and password or key file are missing or wrong.
    """

    def read() -> Metadata:
        with opened(path, password, key) as (fd, where):
            return metadata_of(fd, where, verify=False)

    return unless_replaced(path, read)


def unless_replaced(path: PathLike, load: Callable[[], T]) -> T:
    """``load()``, repeated if it fails while the library at ``path`` is replaced.

    A library, its key file and its weights are opened one after the other: between them the artifact may be replaced.
    """
    while True:
        before = _identity(Path(path))
        try:
            return load()
        except (ArtifactError, PasswordError):
            if before == _identity(Path(path)):
                raise


def _identity(path: Path) -> tuple[int, ...] | None:
    """Differs when another library has replaced the one at ``path``."""
    try:
        found = os.stat(path / LIBRARY_NAME if path.is_dir() else path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def opened(path: PathLike, password: str | None = None, key: PathLike | None = None) -> Iterator[tuple[int, str]]:
    """A descriptor of the plain library at ``path`` or in the directory ``path``, and its name for messages.

    An encrypted library is decrypted into memory first. What the system refuses while it is open is an ArtifactError.
    """
    fd, where = _open_library(Path(path))
    try:
        if os.pread(fd, len(encryption.MAGIC), 0) == encryption.MAGIC:
            os.close(fd)
            fd = -1
            if password is None:
                raise PasswordError(f"{where}: encrypted; expected password=, and key= where its key file is not next to it")
            fd = encryption.decrypt_to_memfd(where, key_of(where) if key is None else key, password)
        elif password is not None or key is not None:
            raise ArtifactError(f"{where}: not encrypted; got a password or key; expected neither")
        yield fd, where
    except OSError as error:
        raise ArtifactError(f"{where}: cannot be read: {error.strerror or error}; expected a compiled model") from error
    finally:
        if fd >= 0:
            os.close(fd)


def key_of(path: PathLike) -> Path:
    """Where the key file of an encrypted artifact (a directory or the library itself) lies unless it was moved."""
    return Path(path) / KEY_NAME if os.path.isdir(path) else Path(path).with_name(KEY_NAME)


def _open_library(path: Path) -> tuple[int, str]:
    try:
        library = path / LIBRARY_NAME if path.is_dir() else path
        return _open_file(library, "expected a compiled model or its directory"), str(library)
    except OSError as error:
        reason = error.strerror or error
        raise ArtifactError(f"{str(path)!r:.200}: cannot be opened: {reason}; expected a compiled model") from error
    except ValueError as error:
        raise error if isinstance(error, ArtifactError) else ArtifactError(f"{path!r}: not a path: {error}") from error


def _open_file(path: Path, hint: str) -> int:
    """A read-only descriptor of a regular file; a pipe or device must not make us wait."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be opened: {error.strerror}; {hint}") from error
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise ArtifactError(f"{path}: not a regular file; {hint}")


def _digest(file: _File, digest_offset: int, weights: tuple[int, int]) -> bytes:
    """Of the file without its ``weights`` (offset and size), which lie before the digest, whose own bytes count as zeros."""
    begin, size = weights
    digest = hashlib.sha256()
    for first, end in ((0, begin), (begin + size, digest_offset)):
        for chunk in file.chunks(first, end - first):
            digest.update(chunk)
    digest.update(bytes(_DIGEST_SIZE))
    for chunk in file.chunks(digest_offset + _DIGEST_SIZE, file.size - digest_offset - _DIGEST_SIZE):
        digest.update(chunk)
    return digest.digest()


def _weights_inside(file: _File, metadata: Mapping[str, Any]) -> tuple[int, int]:
    """Offset and size of the weights in the library that the file's own digest leaves out."""
    if metadata.get("weights_file") is not None or "weights_offset" not in metadata:
        return 0, 0
    offset, size = metadata["weights_offset"], metadata.get("weights_size", 0)
    if offset < 0 or size < 0 or offset + size > file.size:
        raise ArtifactError(f"{file.where}: damaged; {size} bytes of weights at {offset} of {file.size}; compile it again")
    return offset, size


def for_chunks(size: int, work: Callable[[memoryview, int], T]) -> list[T]:
    """What ``work`` returns for every chunk of ``size`` bytes of weights, in order.

    Args:
        work: called in several threads, with memory for a chunk and its offset in the weights.
    """
    memory = threading.local()

    def of_chunk(begin: int) -> T:
        if not hasattr(memory, "chunk"):
            memory.chunk = bytearray(min(size, WEIGHTS_CHUNK))
        return work(memoryview(memory.chunk)[: size - begin], begin)

    begins = range(0, size, WEIGHTS_CHUNK)
    if len(begins) < 2:
        return list(map(of_chunk, begins))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(of_chunk, begins))


def weights_digest(size: int, fill: Callable[[memoryview, int], None]) -> str:
    """The SHA-256 of the SHA-256s of the chunks of ``size`` bytes of weights.

    Args:
        fill: called in several threads, with memory of a chunk and its offset in the weights; puts the bytes there.
    """

    def digest(chunk: memoryview, begin: int) -> bytes:
        fill(chunk, begin)
        return hashlib.sha256(chunk).digest()

    return hashlib.sha256(b"".join(for_chunks(size, digest))).hexdigest()


def _check_digest(file: _File, offset: int, metadata: Mapping[str, Any]) -> None:
    def read(chunk: memoryview, begin: int) -> None:
        done = 0
        while done < len(chunk):
            count = os.preadv(file.fd, [chunk[done:]], offset + begin + done)
            if not count:
                raise ArtifactError(f"{file.where}: its weights changed while they were read; try again")
            done += count

    got = weights_digest(metadata.get("weights_size", 0), read)
    if got != metadata.get("weights_digest"):
        raise ArtifactError(
            f"{file.where}: damaged; its weights are not those that the metadata describe; copy or compile it again"
        )


def metadata_of(fd: int, where: str, verify: bool = True) -> Metadata:
    """The metadata of an open artifact; with ``verify``, after its SHA-256 was found right.

    Raises:
        ArtifactError: as ``read_metadata``, or a byte of the file is not what was written.
    """
    file = _File(fd, where)
    metadata = _read_metadata(file)
    if not verify:
        return metadata
    section = _metadata_section(file, _elf_header(file))
    weights = _weights_inside(file, metadata)
    got = _digest(file, section.offset + _DIGEST_OFFSET, weights).hex()
    if got != metadata["sha256"]:
        raise ArtifactError(
            f"{where}: damaged; its SHA-256 is {got[:16]}..., the metadata says {metadata['sha256'][:16]}...; "
            "copy or compile it again"
        )
    if weights[1]:
        _check_digest(file, weights[0], metadata)
    return metadata


def check_machine(fd: int, where: str) -> None:
    """Refuses a library of another architecture than this process's.

    Raises:
        ArtifactError: it names both.
    """
    machine = _elf_header(_File(fd, where)).machine
    name = _MACHINES.get(machine, f"ELF machine {machine}")
    if name != platform.machine():
        raise ArtifactError(
            f"{where}: compiled for another architecture; got {name}; expected {platform.machine()}; compile it for this machine"
        )


def check_weights_name(name: str, where: str) -> None:
    """Refuses names that could lead out of the artifact's folder."""
    if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise ArtifactError(f"{where}: weights file {name!r}; expected a plain file name next to the library")


def weights_header(size: int) -> bytes:
    """The beginning of a safetensors file whose one tensor is ``size`` bytes of weights, which follow at a page."""
    tensor = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    text = json.dumps({"weights": tensor}, separators=(",", ":")).encode().ljust(_WEIGHTS_PAGE - 8)
    return len(text).to_bytes(8, "little") + text


def open_weights(library: str, metadata: Metadata, check: bool) -> int | None:
    """A descriptor of the weights next to the library; None where the weights are inside it.

    Raises:
        ArtifactError: missing, of the wrong size, or (``check``) not the weights that the metadata describe.
    """
    name = metadata.get("weights_file")
    if name is None:
        return None
    check_weights_name(name, library)
    path = Path(library).parent / name
    fd = _open_file(path, f"it holds the weights of {library}; copy it there, or compile again")
    try:
        _check_weights(_File(fd, str(path)), metadata, check)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_weights(file: _File, metadata: Metadata, check: bool) -> None:
    offset, size = metadata.get("weights_offset", 0), metadata.get("weights_size")
    if size is None or offset < 0 or file.size != offset + size:
        expected = "some" if size is None else offset + size
        raise ArtifactError(
            f"{file.where}: truncated or damaged; got {file.size} bytes; expected {expected}; copy or compile it again"
        )
    if check and "weights_digest" in metadata:
        if file.read(0, offset, "the header") != weights_header(size):
            raise ArtifactError(f"{file.where}: damaged; its header is not one of weights; copy or compile it again")
        _check_digest(file, offset, metadata)
    elif check:
        digest = hashlib.sha256()
        for chunk in file.chunks(0, file.size):
            digest.update(chunk)
        if digest.hexdigest() != metadata.get("weights_sha256"):
            raise ArtifactError(f"{file.where}: damaged; its SHA-256 is not what the metadata says; copy or compile it again")


def seal(path: PathLike, metadata: Mapping[str, Any]) -> None:
    """Appends ``metadata`` and the SHA-256 of the whole file to a freshly linked library.

    Args:
        path: an ELF64 shared library without metadata; changed in place, so seal before renaming it.
        metadata: a JSON object; ``format_version`` is set, ``sha256`` computed. The weights that ``weights_offset`` and
            ``weights_digest`` describe need not be in the file yet.

    Raises:
        ArtifactError: not such a library, sealed already, or a field has the wrong type.
    """
    where = str(path)
    content = {**metadata, "format_version": FORMAT_VERSION}
    content.pop("sha256", None)
    _check_fields(where, content)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    with open(path, "r+b") as stream:
        file = _File(stream.fileno(), where)
        payload_offset = _append_section(file, _HEADER.pack(_MAGIC, FORMAT_VERSION, len(text), bytes(_DIGEST_SIZE)) + text)
        digest_offset = payload_offset + _DIGEST_OFFSET
        os.pwrite(file.fd, _digest(file, digest_offset, _weights_inside(file, content)), digest_offset)


def _append_section(file: _File, payload: bytes) -> int:
    """Adds an unloaded section, whose payload, names and table go to the end of the file; returns its offset."""
    header = _elf_header(file)
    if _find_section(file, header) is not None:
        raise ArtifactError(f"{file.where}: sealed already; link it again")
    sections = _sections(file, header)
    old_names = _section_names(file, header, sections)
    names = old_names + SECTION_NAME.encode() + b"\0"
    payload_offset = _aligned(file.size)
    names_offset = payload_offset + len(payload)
    table_offset = _aligned(names_offset + len(names))
    sections[header.names_index] = sections[header.names_index]._replace(offset=names_offset, size=len(names))
    sections.append(_Section(len(old_names), _SHT_PROGBITS, 0, 0, payload_offset, len(payload), 0, 0, 8, 0))
    tail = (payload + names).ljust(table_offset - payload_offset, b"\0")
    table = b"".join(_SECTION_HEADER.pack(*section) for section in sections)
    _write(file.fd, tail + table, payload_offset)
    _write(file.fd, _ELF_HEADER.pack(*header._replace(section_offset=table_offset, section_count=len(sections))), 0)
    return payload_offset


def _aligned(offset: int) -> int:
    return (offset + 7) & ~7


def _write(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
