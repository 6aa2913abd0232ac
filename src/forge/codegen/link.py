"""Shared libraries, with the system's C compiler driver as linker."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from forge.codegen import object_store
from forge.codegen.elf import Layout, machine_of, reserving_object, with_weights
from forge.codegen.entry import WEIGHTS_SYMBOL
from forge.codegen.objects import cpp_library, definitions, renamed, undefined_symbols
from forge.codegen.processes import remedy
from forge.errors import CompileError, ToolchainError
from forge.external import LINKED, LinkedCode
from forge.target import Target

WEIGHTS_SECTION = ".forge.weights"

_RUNTIME_FLAGS = ("-O2", "-std=c11", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections")
_LINK_FLAGS: tuple[str, ...] = ("-shared", "-fPIC", "-Wl,--gc-sections", "-Wl,-z,noexecstack", "-Wl,-z,now", "-Wl,--no-undefined",
               "-Wl,--build-id=none", "-s")
_COMPILER_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")
_LIBRARIES: tuple[str, ...] = ("-lm", "-lpthread")
EXTERNAL_FLAGS = ("-Wl,--no-undefined", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,-Bsymbolic")
"""Of a library of the user's functions, whose calls of one another stay inside."""

_NO_CODE = LinkedCode()
_EXPORTS = "{ global: forge_*; local: *; };"
"""What a library shows of itself where functions of the user's are in it: nothing of another library takes their place."""


def find_compiler(target: Target) -> list[str]:
    """The command of the C compiler, which may have options.

    For this machine's architecture: ``$CC``, else cc, gcc or clang. For another: ``$CC`` if it makes code for that, else a
    compiler on PATH whose name begins with the triple, else Zig's of the package ziglang.

    Raises:
        ToolchainError: there is none.
    """
    try:
        chosen = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise ToolchainError(f"link: CC: got {os.environ['CC']!r}: {error}; expected a command") from error
    names = chosen[:1] or (["cc", "gcc", "clang"] if target.is_of_host else [])
    found = next((path for path in map(shutil.which, names) if path), None)
    if names and found is None:
        raise ToolchainError(f"link: no C compiler; looked for {', '.join(names)} on PATH; install one, such as the package "
                             "'gcc' or 'clang', or set CC; running in this process (get_inference_function) needs none")
    if found and (target.is_of_host or _architecture((found, *chosen[1:])) in target.architecture.names):
        return [found, *chosen[1:]]
    return _cross_compiler(target)


def _cross_compiler(target: Target) -> list[str]:
    names = [f"{triple}-{name}" for triple in dict.fromkeys((target.triple, f"{target.arch}-linux-{_abi(target)}"))
             for name in ("gcc", "clang")]
    found = next((path for path in map(shutil.which, names) if path), None)
    if found:
        return [found]
    package = None if _abi(target) == "android" else importlib.util.find_spec("ziglang")
    if package is not None and package.origin:
        return [str(Path(package.origin).with_name("zig")), "cc", "-target", f"{target.arch}-linux-{_abi(target)}"]
    remedy = ("install Android's native development kit, and set CC to its compiler" if _abi(target) == "android" else
              "pip install ziglang brings Zig's; or install a cross compiler such as "
              f"'gcc-{target.arch}-linux-gnu', or set CC to one")
    raise ToolchainError(f"link: no C compiler for {target.triple}; looked at CC ({os.environ.get('CC') or 'not set'}), and for "
                         f"{', '.join(names)} on PATH; {remedy}")


def _abi(target: Target) -> str:
    """The last part of the usual triples for Linux."""
    return next((name for name in ("android", "musl") if name in target.triple), "gnu")


@cache
def _architecture(compiler: tuple[str, ...]) -> str:
    """The first part of the triple that a compiler makes code for, as it says itself."""
    return run([*compiler, "-dumpmachine"], "report its architecture").partition("-")[0]


def page_size(target: Target) -> int:
    """The largest that a machine of the target's architecture may have; weights are at the second page of a library."""
    return target.architecture.page


def link_library(objects: Sequence[bytes], weights_size: int, target: Target, runtime_sources: Path,
                 scratch: Path | None = None, external: LinkedCode = _NO_CODE) -> Layout:
    """The shared library of object files and the C runtime, without the bytes of the weights: `Layout` says where they go.

    They become symbol ``forge_weights``, aligned to a page. Metadata are added by ``forge_runtime.artifact.seal``.
    ``scratch``: where to put intermediate files. ``external``: functions of the user's.

    Raises:
        CompileError: functions of the user's take names that the rest of the library uses.
        ToolchainError: no C compiler, or it failed.
        OSError: intermediate files cannot be written.
    """
    compiler = find_compiler(target)
    with tempfile.TemporaryDirectory(prefix="forge-link-", dir=scratch) as folder:
        work = Path(folder)
        runtime = _runtime_objects(compiler, runtime_sources, work)
        inputs = [*(_write(work / f"kernel{i}.o", code) for i, code in enumerate(objects)), *runtime]
        libraries, flags, purpose = _LIBRARIES, _LINK_FLAGS, "link the library"
        if external.objects:
            codes = _with_linked_names(external)
            _check_names(codes, [*objects, *(path.read_bytes() for path in runtime)])
            inputs += [_write(work / f"external{i}.o", code) for i, code in enumerate(codes)]
            libraries = external_libraries(external)
            flags = (*flags, f"-Wl,--version-script={_write(work / 'exports.map', _EXPORTS.encode())}")
            purpose = f"link the library with {', '.join(external.functions)}"
        if weights_size:  # the last, so that linkers that keep the order have nothing after it
            reserving = reserving_object(weights_size, WEIGHTS_SYMBOL, WEIGHTS_SECTION, page_size(target), machine_of(objects[0]))
            inputs.append(_write(work / "weights.o", reserving))
        built = work / "library.so"
        run([*compiler, *flags, "-o", str(built), *map(str, inputs), *libraries], purpose)
        return with_weights(built.read_bytes(), WEIGHTS_SECTION)


def external_libraries(code: LinkedCode) -> tuple[str, ...]:
    """Options for the libraries that functions of the user's may need."""
    return ("-Wl,--as-needed", *own_libraries(code), *_LIBRARIES)


def own_libraries(code: LinkedCode) -> list[str]:
    """Options for the libraries that other models do not need: C++'s, and those that the user names."""
    cpp = cpp_library(*code.objects)
    return [*code.options, *([] if cpp is None else [f"-l{cpp}"])]


def _with_linked_names(external: LinkedCode) -> list[bytes]:
    codes = list(external.objects)
    for name in external.functions:
        codes = [renamed(code, name, LINKED + name) for code in codes]
    return codes


def _check_names(external: Sequence[bytes], others: Sequence[bytes]) -> None:
    defined = {name for code in external for name in definitions(code) if not name.startswith(LINKED)}
    if clash := sorted(defined & undefined_symbols(*others)):
        raise CompileError(f"call_extern: an external module defines {clash[0]!r}, which the rest of the model calls; make it "
                           "static, or rename it")


def _write(path: Path, data: bytes) -> Path:
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
        code = object_store.RUNTIME.load(key, source.stem)
        if code is None:
            run([*compiler, *_RUNTIME_FLAGS, "-c", str(source), "-o", str(built)], f"compile {source.name}")
            object_store.RUNTIME.store(key, source.stem, built.read_bytes())
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
    return run([*compiler, "-v"], "report its version")


def run(command: list[str], purpose: str) -> str:
    """What a command prints.

    Raises:
        ToolchainError: it could not be started, or failed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        hint = remedy(error, "set CC to a working C compiler")
        raise ToolchainError(f"link: {command[0]} could not {purpose}: {error}; {hint}") from error
    if done.returncode:
        raise ToolchainError(f"link: {command[0]} failed to {purpose} (exit status {done.returncode}): "
                             f"{done.stderr.strip()[-2000:]}")
    return done.stdout + done.stderr
