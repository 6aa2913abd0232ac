"""Functions in C and C++ that models call: objects and sources, which are linked into the model."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from forge import external
from forge.codegen.link import find_compiler
from forge.codegen.processes import remedy
from forge.codegen.user_objects import check_object, load
from forge.dims import Dim, DimExpr
from forge.errors import CompileError, OptionError, ToolchainError
from forge.ir.nodes import Value
from forge.nn.nested import flattened, rebuilt
from forge.nn.tensor import Tensor
from forge.nn.tracing import Context, tracing
from forge.target import Target
from forge_runtime.debugging import CALL

_HEADERS = Path(__file__).with_name("include")
_ENCODING = ("utf-8", "surrogateescape")
_C, _CUDA = ("c",), ("cu", "cuda")
_FORMATS = (*_C, "cpp", "cc", "cxx", *_CUDA)


class ExternModule:
    """Functions that are linked into a model; a subclass says what their object code is.

    ``module["my_func"](a, b)`` in a method calls one: it gets the arguments (tensors, integers, sizes, floats and texts) and then
    the results, which it fills.

    Args:
        symbols: by name of a function: what its results are. A function of the arguments that returns one or several
            `Tensor.placeholder`.
        link_options: options of the linker, such as ``-lopenblas``, for libraries that the functions need. The model then needs
            them, too, where it runs.
        is_pure: results depend on the arguments alone: equal calls become one, and one whose results nothing reads none.

    Raises:
        OptionError: there is no function, or a name is none that C can have.
    """

    def __init__(
        self, symbols: Mapping[str, Callable[..., Any]], *, link_options: Sequence[str] = (), is_pure: bool = False
    ) -> None:
        if not isinstance(symbols, Mapping) or not symbols or not all(callable(f) for f in symbols.values()):
            raise OptionError("ExternModule: symbols: expected functions that infer results, by name")
        wrong = next((name for name in symbols if not external.is_name(name)), None)
        if wrong is not None:
            raise OptionError(f"ExternModule: symbols: got {wrong!r}; expected names of C that do not begin with forge_")
        self.symbols = dict(symbols)
        self.link_options = _options("link_options", link_options)
        self.is_pure = is_pure
        external.remember(self)

    @property
    def names(self) -> list[str]:
        """The names of its functions."""
        return list(self.symbols)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """What adds a call of a function to the method that is traced.

        Raises:
            OptionError: the module has no such function.
        """
        if name not in self.symbols:
            known = ", ".join(self.symbols)
            raise OptionError(f"{type(self).__name__}: {name!r} is not a function of it; expected one of: {known}")

        def call(*arguments: Any) -> Any:
            add_extern(self)
            return extern(name, arguments, self.symbols[name](*arguments))

        return call

    def object_code(self, target: Target) -> bytes:
        raise NotImplementedError(f"{type(self).__name__}.object_code")

    def load(self) -> Any:
        """The functions in this process, as ``ctypes`` has them: ``module.load().my_func``.

        Raises:
            ToolchainError: there is no compiler or linker; CompileError: it refuses the code.
        """
        return load(external.LinkedCode((self.object_code(_host()),), tuple(self.symbols), tuple(self.link_options)), _host())

    def function(self, name: str) -> Any:
        """One of them."""
        return getattr(self.load(), name)


class ObjectModule(ExternModule):
    """Functions of an object file.

    Args:
        symbols, link_options, is_pure: as of `ExternModule`.
        filepath: the file, position-independent code for the machine that models are compiled for.

    Raises:
        OptionError: there is no such file.
    """

    def __init__(
        self, symbols: Mapping[str, Callable[..., Any]], filepath: str | Path, *, link_options: Sequence[str] = (),
        is_pure: bool = False,
    ) -> None:
        super().__init__(symbols, link_options=link_options, is_pure=is_pure)
        if not isinstance(filepath, str | Path):
            raise OptionError(f"ObjectModule: filepath: got {type(filepath).__name__}; expected a path")
        self.filepath = Path(filepath)
        if not self.filepath.is_file():
            raise OptionError(f"ObjectModule: filepath: there is no file {filepath}")

    def object_code(self, target: Target) -> bytes:
        where = f"ObjectModule {self.filepath}"
        try:
            code = self.filepath.read_bytes()
        except OSError as error:
            raise CompileError(f"{where}: cannot be read: {error}") from error
        check_object(code, self.symbols, target, where)
        return code


class SourceModule(ExternModule):
    """Functions in C or C++, which the system's compiler compiles when a model is.

    ``#include <forge/extern.h>`` describes functions of C, ``<tvm/runtime/packed_func.h>`` has ``TVM_DLL_EXPORT_TYPED_FUNC``.

    Args:
        symbols, link_options, is_pure: as of `ExternModule`.
        source_code: the text, or the path of a file.
        source_format: "c", "cpp", or "cu" where ``nvcc`` is installed.
        compile_options: by default those of `get_compile_options`.
        compiler: by default that of `find_compiler`: ``$CC``, ``$CXX``, the system's, or Zig's.
        output_format: only "obj".

    Raises:
        OptionError: an argument does not fit.
    """

    def __init__(
        self,
        symbols: Mapping[str, Callable[..., Any]],
        source_code: str | Path,
        source_format: str,
        compile_options: Sequence[str] | None = None,
        compiler: str | None = None,
        output_format: str = "obj",
        *,
        link_options: Sequence[str] = (),
        is_pure: bool = False,
    ) -> None:
        super().__init__(symbols, link_options=link_options, is_pure=is_pure)
        if source_format not in _FORMATS:
            raise OptionError(f"SourceModule: source_format: got {source_format!r}; expected one of: {', '.join(_FORMATS)}")
        if output_format != "obj":
            raise OptionError(f"SourceModule: output_format: got {output_format!r}; expected 'obj'")
        self.source_code = _text(source_code)
        self.source_format = source_format
        chosen = self.get_compile_options(source_format) if compile_options is None else compile_options
        self.compile_options = _options("compile_options", chosen)
        self.compiler = compiler
        if source_format in _CUDA and not link_options:
            self.link_options = _cuda_libraries()
        self._objects: dict[str, bytes] = {}

    @staticmethod
    def tvm_home() -> Path:
        """The folder whose ``include`` has the headers: ``$TVM_HOME``, else Forge's own.

        Raises:
            OptionError: ``$TVM_HOME`` has no ``include``.
        """
        chosen = os.environ.get("TVM_HOME")
        home = Path(chosen) if chosen else _HEADERS.parent
        if not (home / "include").is_dir():
            raise OptionError(f"SourceModule.tvm_home: TVM_HOME: got {chosen!r}; expected a folder with 'include'; unset it")
        return home

    @staticmethod
    def get_includes(tvm_pkg: Sequence[str] | None = None) -> list[Path]:
        """Folders of headers: Forge's, and those of ``tvm_pkg`` under ``3rdparty`` of `tvm_home`."""
        home = SourceModule.tvm_home()
        extra = [home / "3rdparty" / name for name in tvm_pkg or ()]
        return [_HEADERS, *([home / "include"] if home / "include" != _HEADERS else []), *extra]

    @staticmethod
    def get_compile_options(source_format: str, tvm_pkg: Sequence[str] | None = None) -> list[str]:
        """Options of the compiler: ``-O3``, the standard, and the folders of `get_includes`.

        Raises:
            OptionError: an unknown format.
        """
        if source_format not in _FORMATS:
            raise OptionError(f"get_compile_options: got {source_format!r}; expected one of: {', '.join(_FORMATS)}")
        position = ["-Xcompiler=-fPIC"] if source_format in _CUDA else ["-fPIC"]
        includes = [option for folder in SourceModule.get_includes(tvm_pkg) for option in ("-I", str(folder))]
        return [*includes, "-c", "-O3", "-std=c11" if source_format in _C else "-std=c++17", *position]

    def object_code(self, target: Target) -> bytes:
        key = f"{target.triple} {target.features}"
        if key not in self._objects:
            with tempfile.TemporaryDirectory(prefix="forge-extern-") as folder:
                built = Path(folder, "code.o")
                self.compile(built, target)
                code = built.read_bytes()
            check_object(code, self.symbols, target, f"SourceModule of {', '.join(self.symbols)}")
            self._objects[key] = code
        return self._objects[key]

    def compile(self, output_path: str | Path, target: Target | None = None) -> None:
        """Writes the object file.

        Raises:
            ToolchainError: there is no compiler; CompileError: it refuses the source, and says why.
        """
        wanted = target or _host()
        with tempfile.TemporaryDirectory(prefix="forge-extern-") as folder:
            ending = "cu" if self.source_format in _CUDA else "c" if self.source_format in _C else "cpp"
            source = Path(folder, f"source.{ending}")
            source.write_bytes(self.source_code.encode(*_ENCODING))
            command = [*self._compiler(wanted), *self.compile_options, str(source), "-o", str(output_path)]
            _run(command, "compile", f"SourceModule: the compiler refuses the source of {', '.join(self.symbols)}")

    def _compiler(self, wanted: Target) -> list[str]:
        if self.compiler is not None or self.source_format in _CUDA:
            name = self.compiler or "nvcc"
            found = shutil.which(name)
            if found is None:
                raise ToolchainError(f"SourceModule: compiler {name!r} is not installed; expected it on PATH")
            return [found]
        compiler = find_compiler(wanted)
        if self.source_format in _C:
            return compiler
        return _cpp(compiler)


def _cpp(compiler: list[str]) -> list[str]:
    """The C++ compiler beside one of C."""
    if Path(compiler[0]).name == "zig":
        return [compiler[0], "c++", *compiler[2:]]
    chosen = os.environ.get("CXX")
    path = Path(compiler[0])
    beside = [path.name.replace(c, cpp) for c, cpp in (("gcc", "g++"), ("clang", "clang++"), ("cc", "c++")) if c in path.name]
    for name in [chosen] if chosen else [*beside, "c++", "g++", "clang++"]:
        found = shutil.which(name) or shutil.which(str(path.with_name(name)))
        if found:
            return [found, *compiler[1:]]
    raise ToolchainError("SourceModule: no C++ compiler; install one, such as the package 'g++', or set CXX")


def _options(what: str, given: Sequence[str]) -> list[str]:
    if isinstance(given, str) or not all(isinstance(option, str) for option in given):
        raise OptionError(f"ExternModule: {what}: got {given!r}; expected a list of texts")
    return list(given)


def _cuda_libraries() -> list[str]:
    """Options for CUDA's runtime library, which is where ``nvcc`` says."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return []
    command = [nvcc, "--dryrun", "-x", "cu", os.devnull]
    said = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stderr
    lines = (line.partition("LIBRARIES=") for line in said.splitlines())
    folders = next((shlex.split(rest) for _, found, rest in lines if found), [])
    return [*folders, "-lcudart_static", "-ldl", "-lrt"]


def _host() -> Target:
    return Target.parse("llvm")


def _text(source: str | Path) -> str:
    if not isinstance(source, str | Path):
        raise OptionError(f"SourceModule: source_code: got {type(source).__name__}; expected a text, or the path of a file")
    path = Path(source)
    if _is_file(path):
        return path.read_bytes().decode(*_ENCODING)
    if isinstance(source, Path):
        raise OptionError(f"SourceModule: source_code: there is no file {path}")
    return source


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a text that is too long for a path
        return False


def _run(command: list[str], purpose: str, refused: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise ToolchainError(f"extern: {command[0]} could not {purpose}: {error}; {remedy(error, 'set CC')}") from error
    if done.returncode:
        raise CompileError(f"{refused or 'extern: the compiler failed to ' + purpose}: {done.stderr.strip()[:2000]}")


def extern(name: str, args: Sequence[Any], out: Any) -> Any:
    """Calls a function when the model runs, which fills what it gets after its arguments.

    Args:
        name: of a function of a module that `add_extern` was called with, else of one that is registered in the process that runs
            the model (``forge.register_func``, in C ``forge_register``).
        args: tensors, integers, sizes, floats and texts; tuples and lists of them count as their parts. A registered function
            gets sizes as arrays of rank 0.
        out: `Tensor.placeholder`, or several, nested: what the results are.

    Returns:
        Tensors, nested as ``out``.

    Raises:
        OptionError: an argument is something else, or the call is outside of an export.
    """
    known = tracing("extern").extern_modules
    call, module = _Call(name, args, out), next((module for module in known if name in module.names), None)
    return call.registered() if module is None else call.linked(module)


class _Call:
    """A call of a function in the method that is traced."""

    def __init__(self, name: str, args: Sequence[Any], out: Any) -> None:
        self.g = Context(name)
        self.name = name
        self.arguments = [x.item() if isinstance(x, np.generic) else x for x in flattened(list(args))[0]]
        results, self.structure = flattened(out)
        wrong = next((x for x in self.arguments if not isinstance(x, Tensor | DimExpr | int | float | str)), None)
        if wrong is not None:
            raise OptionError(f"extern: {name!r}: got {type(wrong).__name__}; expected tensors, numbers, sizes and texts")
        wrong = next((r for r in results if not isinstance(r, Tensor)), None)
        if not results or wrong is not None:
            raise OptionError(f"extern: {name!r}: out: got {type(wrong).__name__}; expected Tensor.placeholder, or several")
        self.types = {"shapes": tuple(r.shape for r in results), "dtypes": tuple(r.dtype for r in results)}

    def linked(self, module: ExternModule) -> Any:
        """Of a function of ``module``, which is linked into the model."""
        sizes: list[Dim] = [x for x in self.arguments if isinstance(x, DimExpr)]
        numbers = iter(range(len(sizes)))
        listed = [{"size": next(numbers)} if isinstance(x, DimExpr) else _plain(x) for x in self.arguments]
        operands = [self.g.value(x) for x in self.arguments if isinstance(x, Tensor)]
        operator = "call_extern_pure" if module.is_pure else "call_extern"
        return self._results(operator, operands, self.name, arguments=json.dumps(listed), sizes=tuple(sizes))

    def registered(self) -> Any:
        """Of a function that is registered where the model runs."""
        operands = [self.g.value(x) for x in self.arguments if isinstance(x, Tensor | DimExpr)]
        if len(operands) == len(self.arguments):
            return self._results("call_registered", operands, self.name)
        listed = [None if isinstance(x, DimExpr) else _plain(x) for x in self.arguments]
        call = json.dumps({"function": self.name, "arguments": listed}).encode()
        return self._results("call_registered", [self.g.constant(np.frombuffer(call, np.uint8)), *operands], CALL)

    def _results(self, operator: str, operands: Sequence[Value], function: str, **attributes: Any) -> Any:
        values = self.g.multi(operator, *operands, function=function, **self.types, **attributes)
        return rebuilt(list(self.g.tensors(values)), self.structure)


def _plain(argument: Any) -> Any:
    """What stands for an argument in the list of them."""
    return None if isinstance(argument, Tensor) else int(argument) if isinstance(argument, bool) else argument


def add_extern(mod: ExternModule) -> None:
    """Makes the functions of ``mod`` part of the module that is exported. Calling one does so, too.

    Raises:
        OptionError: the call is outside of an export, or another module has a function of the same name.
    """
    known = tracing("add_extern").extern_modules
    if any(mod is other for other in known):
        return
    clash = next((name for other in known for name in mod.symbols if name in other.names), None)
    if clash is not None:
        raise OptionError(f"add_extern: two modules have the function {clash!r}; expected one")
    known.append(mod)
