"""Shared libraries, with the system's C compiler driver as linker."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from forge.codegen import runtime_objects
from forge.codegen.elf import Data, machine_of, write_data_object
from forge.codegen.entry import WEIGHTS_SYMBOL
from forge.codegen.processes import remedy
from forge.errors import CompileError, ToolchainError

WEIGHTS_SECTION = ".forge.weights"
PAGE = 4096

_RUNTIME_FLAGS = ("-O2", "-std=c11", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections")
_LINK_FLAGS = ("-shared", "-fPIC", "-Wl,--gc-sections", "-Wl,-z,noexecstack", "-Wl,-z,now", "-Wl,--no-undefined",
               "-Wl,--build-id=none", "-s")
_COMPILER_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")
_LIBRARIES = ("-lm", "-lpthread")


def find_compiler() -> list[str]:
    """The command of the C compiler: ``$CC``, which may have options, else cc, gcc or clang.

    Raises:
        ToolchainError: there is none.
    """
    try:
        chosen = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise ToolchainError(f"link: CC: got {os.environ['CC']!r}: {error}; expected a command") from error
    names = chosen[:1] or ["cc", "gcc", "clang"]
    for name in names:
        found = shutil.which(name)
        if found:
            return [found, *chosen[1:]]
    raise ToolchainError(f"link: no C compiler; looked for {', '.join(names)} on PATH; install one, such as the package 'gcc' "
                         "or 'clang', or set CC; running in this process (get_inference_function) needs none")


def link_library(objects: Sequence[bytes], weights: Data | None, runtime_sources: Path, out: Path,
                 scratch: Path | None = None) -> None:
    """Writes the shared library ``out`` from object files, weights and the C runtime.

    ``weights`` become symbol ``forge_weights``, aligned to a page. ``out`` appears complete or not at all. Its metadata are
    added by ``forge_runtime.artifact.seal``. ``scratch``: where to put intermediate files.

    Raises:
        ToolchainError: no C compiler, or it failed.
        OSError: ``out`` cannot be written.
    """
    compiler = find_compiler()
    with tempfile.TemporaryDirectory(prefix="forge-link-", dir=scratch) as folder:
        work = Path(folder)
        runtime = _runtime_objects(compiler, runtime_sources, work)
        inputs = [_write(work / f"kernel{i}.o", code) for i, code in enumerate(objects)]
        if weights is not None and len(weights):
            inputs.append(work / "weights.o")
            write_data_object(inputs[-1], weights, WEIGHTS_SYMBOL, WEIGHTS_SECTION, PAGE, machine_of(objects[0]))
        built = work / "library.so"
        _run([*compiler, *_LINK_FLAGS, "-o", str(built), *map(str, inputs), *map(str, runtime), *_LIBRARIES], "link the library")
        _replace(out, built)


def _write(path: Path, data: Data) -> Path:
    path.write_bytes(data)
    return path


def _runtime_objects(compiler: list[str], sources: Path, work: Path) -> list[Path]:
    """Objects of the C runtime in ``work``, from a cache keyed by sources, compiler and flags, or compiled."""
    found = sorted(sources.glob("forge_*.c"))
    if not found:
        raise CompileError(f"link: no runtime sources in {sources}; expected forge_*.c; reinstall Forge")
    key = _digest(compiler, sources)
    objects = [work / f"{source.stem}.o" for source in found]
    for source, built in zip(found, objects):
        code = runtime_objects.load(key, source.stem)
        if code is None:
            _run([*compiler, *_RUNTIME_FLAGS, "-c", str(source), "-o", str(built)], f"compile {source.name}")
            runtime_objects.store(key, source.stem, built.read_bytes())
        else:
            built.write_bytes(code)
    return objects


def _digest(compiler: list[str], sources: Path) -> str:
    """Of all that the runtime's objects depend on."""
    surroundings = tuple(os.environ.get(name) for name in _COMPILER_VARIABLES)
    program = os.stat(compiler[0])
    described = _description(tuple(compiler), surroundings, program.st_ino, program.st_mtime_ns, program.st_size)
    digest = hashlib.sha256(repr((compiler, described, surroundings, _RUNTIME_FLAGS)).encode())
    for path in sorted([*sources.glob("forge_*.c"), *sources.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:32]


@cache
def _description(compiler: tuple[str, ...], surroundings: tuple[str | None, ...], *program: int) -> str:
    """A compiler's version and default target, as it reports them; asked once per process and program."""
    return _run([*compiler, "-v"], "report its version")


def _run(command: list[str], purpose: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        hint = remedy(error, "set CC to a working C compiler")
        raise ToolchainError(f"link: {command[0]} could not {purpose}: {error}; {hint}") from error
    if done.returncode:
        raise ToolchainError(f"link: {command[0]} failed to {purpose} (exit status {done.returncode}): "
                             f"{done.stderr.strip()[-2000:]}")
    return done.stdout + done.stderr


def _replace(out: Path, built: Path) -> None:
    """Moves ``built`` to ``out`` in one step, also between file systems."""
    out.parent.mkdir(parents=True, exist_ok=True)
    os.chmod(built, 0o755)
    if os.stat(built).st_dev == os.stat(out.parent).st_dev:
        os.replace(built, out)
        return
    descriptor, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    os.close(descriptor)
    try:
        shutil.copyfile(built, name)
        os.chmod(name, 0o755)
        os.replace(name, out)
    finally:
        Path(name).unlink(missing_ok=True)
