"""Object files of the user's functions: what they must be, and how they come into this process.

This process gets them as a shared library that the system's linker makes: it runs what initializes variables, and knows
thread-local ones, exceptions and other libraries, as a program that is linked with them does.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from forge import external
from forge.codegen.elf import is_relocatable, machine_of
from forge.codegen.link import EXTERNAL_FLAGS, external_libraries, find_compiler, run
from forge.codegen.objects import Definition, definitions
from forge.errors import CompileError, ToolchainError
from forge.target import Target

_loaded: dict[str, ctypes.CDLL] = {}
"""By the digest of the objects and options; for as long as the process runs, whose threads may be in their code."""


def check_object(code: bytes, functions: Iterable[str], target: Target, where: str) -> None:
    """Checks that an object file is one for ``target`` and has these functions.

    Raises:
        CompileError: it is none, is damaged, is for another machine, or lacks a function.
    """
    if not is_relocatable(code):
        raise CompileError(f"{where}: is not an ELF object file; expected one of 64 bits, as 'cc -c -fPIC' makes it")
    if machine_of(code) != target.architecture.elf_machine:
        got, wanted = machine_of(code), target.architecture.elf_machine
        raise CompileError(f"{where}: is for another machine (number {got} of ELF); expected one for {target.triple} ({wanted}); "
                           "compile it for that, or choose another target")
    found = _definitions(code, where)
    for name in functions:
        if name not in found:
            raise CompileError(f"{where}: has no function {name!r}; export it: in C without 'static', in C++ with "
                               "TVM_DLL_EXPORT_TYPED_FUNC; leave out '-flto'")
        if not found[name].is_visible:
            raise CompileError(f"{where}: function {name!r} is hidden; give it default visibility")
        if found[name].is_data:
            raise CompileError(f"{where}: {name!r} is a variable; expected a function")
    own = next(filter(external.is_reserved, found), None)
    if own is not None:
        raise CompileError(f"{where}: defines {own!r}; expected neither main nor a name that begins with forge_; rename it")


def _definitions(code: bytes, where: str) -> dict[str, Definition]:
    try:
        return definitions(code)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise CompileError(f"{where}: the object file is damaged ({error}); compile it again") from error


def check_together(objects: Sequence[bytes]) -> None:
    """Checks that object files, each of which is one, can be linked into one library.

    Raises:
        CompileError: two define the same symbol.
    """
    seen: set[str] = set()
    for code in objects:
        strong = {name for name, definition in definitions(code).items() if definition.is_strong}
        if clash := sorted(strong & seen):
            raise CompileError(f"call_extern: two external modules define {clash[0]!r}; make it static in one, or rename it")
        seen |= strong


def load(code: external.LinkedCode, target: Target) -> ctypes.CDLL:
    """The functions in this process, as ``ctypes`` has them. Equal objects are loaded once, and stay.

    Raises:
        ToolchainError: there is no linker; CompileError: it refuses them, or they cannot be loaded.
    """
    parts = (*code.objects, *(option.encode() for option in code.options))
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    if digest not in _loaded:
        _loaded[digest] = _load(code, target)
    return _loaded[digest]


def _load(code: external.LinkedCode, target: Target) -> ctypes.CDLL:
    compiler = find_compiler(target)
    with tempfile.TemporaryDirectory(prefix="forge-extern-") as folder:
        inputs = [Path(folder, f"code{k}.o") for k in range(len(code.objects))]
        for path, data in zip(inputs, code.objects):
            path.write_bytes(data)
        library = Path(folder, "code.so")
        command = [*compiler, "-shared", *EXTERNAL_FLAGS, "-o", str(library), *map(str, inputs), *external_libraries(code)]
        names = ", ".join(code.functions)
        try:
            run(command, f"link {names}")
            return ctypes.CDLL(str(library))
        except ToolchainError as error:
            raise CompileError(f"call_extern: {error}; define what is missing in one of the external modules") from error
        except OSError as error:
            raise CompileError(f"call_extern: this process cannot load {names}: {error}; install the library that is missing, or "
                               "set TMPDIR to a folder whose files may be executed") from error


def addresses(code: external.LinkedCode, target: Target) -> dict[str, int]:
    """Where the functions are in this process, by their names in the model's code.

    Raises:
        As `load`.
    """
    if not code.functions:
        return {}
    library = load(code, target)
    found = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in code.functions}
    return {external.LINKED + name: address for name, address in found.items()}
