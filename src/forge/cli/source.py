"""What the verbs share: models from paths, arrays from files, passwords, progress, texts."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer

from forge import dims, knobs
from forge.cli import structures
from forge.dims import Dim
from forge.driver.feeds import Spec, random_inputs
from forge.errors import InputError, OptionError, PasswordError
from forge.files import replacing
from forge.frontends import formats
from forge.loaders import load
from forge.module import IRModule
from forge.progress import Progress, shown
from forge.samples import read_arrays
from forge_runtime import Runtime
from forge_runtime.artifact import KEY_NAME, LIBRARY_NAME, key_of

Report = Progress
progress = shown

T = TypeVar("T")

InputOption = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="FILE", help="[NAME=]FILE.npy or FILE.npz; else random."),
]
DimOption = Annotated[list[str] | None, typer.Option(metavar="NAME=SIZE", help="Size of a symbolic dimension; else 1.")]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=SIZE,...", help="Shape of an input (ONNX, StableHLO); an empty SIZE keeps it."),
]
FunctionOption = Annotated[
    str | None, typer.Option("--function", metavar="NAME", help="One function of a model that has several; else the first.")
]


def load_model(path: Path, shapes: Sequence[str] | None, report: Report, function: str | None = None) -> IRModule:
    """The model in ``path``: a format with an importer, ``.forge`` or the text form (``.relay``, ``.txt``, weights next to it).

    Args:
        path: the file.
        shapes: what ``--shape`` gave.
        report: of `progress`.
        function: what ``--function`` gave: only this one.

    Raises:
        ImportModelError: there is no such file, it cannot be read, or its ending names no format.
        OptionError: it is compiled already, ``shapes`` has another form or is for another format, or there is no such function.
    """
    if is_artifact(path):
        raise OptionError(f"{path}: is compiled; expected a model; 'forge compile --export-relay' keeps the text")
    found, _ = formats.recognize(path, "")
    option = next((name for name in ("shape", "input_info") if name in found.options), None)
    if shapes and option is None:
        raise OptionError(f"--shape {shapes[0]}: {path} has its shapes; expected a file of ONNX or StableHLO")
    report("load", 0, 1)
    loaded = load(path, **({option: parse_shapes(shapes)} if shapes and option else {}))
    report("load", 1, 1)
    if function is None:
        return loaded
    if function not in loaded.functions:
        raise OptionError(f"--function {function}: {path} has no such function; expected one of: {', '.join(loaded.functions)}")
    return loaded.function(function)


def is_artifact(path: Path) -> bool:
    """Whether ``path`` is a compiled model: a folder with one, or a shared library."""
    return path.suffix == ".so" or (path / LIBRARY_NAME).exists()


def open_artifact(path: Path, key: Path | None, opened: Callable[..., T]) -> T:
    """What ``opened`` (`Runtime`, `read_metadata`) makes of a compiled model.

    Raises:
        OptionError: it is encrypted, and the key file or the password is missing; ArtifactError: it cannot be loaded.
    """
    if key is None:
        try:
            return opened(path)
        except PasswordError as error:
            if not key_of(path).exists():
                raise OptionError(f"{path}: is encrypted; got no {KEY_NAME} next to it; pass --key FILE") from error
    return opened(path, password=password(), key=key)


def open_runtime(
    path: Path, key: Path | None, report: Report, shapes: Sequence[str] | None = None, function: str | None = None
) -> Runtime:
    """The runtime of (a function of) a compiled model, or of a model compiled in memory.

    Raises:
        OptionError: ``key`` or ``shapes`` is for the other kind, or as `open_artifact` and `load_model` say.
    """
    if is_artifact(path):
        if shapes:
            raise OptionError(f"--shape {shapes[0]}: {path} is compiled; expected an .onnx file")
        runtime = open_artifact(path, key, Runtime)
        return runtime if function is None else runtime[function]
    if key is not None:
        raise OptionError(f"--key: {path} is not compiled; expected an encrypted artifact")
    from forge.driver import compile_module

    return compile_module(load_model(path, shapes, report, function).mod, progress=report).runtime()


def password(confirm: bool = False) -> str:
    """FORGE_PASSWORD, or what the user types.

    Raises:
        OptionError: nobody can be asked.
    """
    if knobs.PASSWORD.text:
        return knobs.PASSWORD.text
    if not sys.stdin.isatty():
        raise OptionError(f"password: got none, and nobody to ask; set {knobs.PASSWORD.name} or run in a terminal")
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=confirm))


def load_arrays(items: Sequence[str] | None, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Arrays from ``FILE.npy``, ``NAME=FILE.npy`` or ``FILE.npz`` (names inside), for inputs ``names`` in order.

    Raises:
        OptionError: a file cannot be read, or a name is not an input.
    """
    arrays: dict[str, np.ndarray] = {}
    for item in items or ():
        name, _, file = ("", "", item) if Path(item).is_file() else item.rpartition("=")
        content = _read_arrays(Path(file))
        if isinstance(content, dict):
            arrays |= content
            continue
        free = [n for n in names if n not in arrays]
        if not name and not free:
            raise OptionError(f"--input {item}: got more files than inputs; expected {', '.join(names)}")
        arrays[name or free[0]] = content
    unknown = [n for n in arrays if n not in names and structures.base(n) not in names]
    if unknown:
        raise OptionError(f"--input: {unknown[0]!r} is not an input of the model; expected one of: {', '.join(names)}")
    return arrays


def _read_arrays(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    try:
        return read_arrays(path)
    except InputError as error:
        raise OptionError(f"--input {error}") from error


def require_inputs(arrays: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raises OptionError where an input is missing."""
    missing = [n for n in names if n not in arrays]
    if missing:
        raise OptionError(f"input {missing[0]!r} is missing; pass --input {missing[0]}=FILE.npy (inputs: {', '.join(names)})")


def make_inputs(specs: Sequence[Spec], given: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, Any]:
    """All inputs: those ``given`` (elements of sequences one by one), the others as ``random_inputs`` makes them."""
    bases = {*given, *map(structures.base, given)}
    made = random_inputs([s for s in specs if s[0] not in bases], sizes)
    return structures.gather({**made, **given}, [s[0] for s in specs], [s[1] for s in specs])


def feed_of(
    specs: Sequence[Spec], inputs: Sequence[str] | None, sizes: Sequence[str] | None, states: Sequence[Spec] = ()
) -> dict[str, Any]:
    """All inputs and states of a model: what ``--input`` gave, else random ones of the sizes that ``--dim`` gave.

    Sizes that only states have are 0 unless they are given.
    """
    wanted = parse_sizes(sizes)
    own = _symbols(states) - _symbols(specs)
    given = load_arrays(inputs, [name for name, _, _ in [*specs, *states]])
    return make_inputs([*specs, *states], given, {**dict.fromkeys(sorted(own), 0), **wanted})


def _symbols(specs: Sequence[Spec]) -> set[str]:
    extents = [d for _, _, shape in specs for d in shape if d is not None]
    return {s for d in extents for s in ([d] if isinstance(d, str) else dims.symbols(d))}


def parse_sizes(items: Sequence[str] | None) -> dict[str, int]:
    """``NAME=SIZE`` options.

    Raises:
        OptionError: an item has another form.
    """
    sizes = {}
    for item in items or ():
        name, _, size = item.partition("=")
        if not name or not (size.isascii() and size.isdigit()):
            raise OptionError(f"--dim {item}: expected NAME=SIZE, as in batch=8")
        sizes[name] = int(size)
    return sizes


def parse_shapes(items: Sequence[str] | None) -> dict[str, tuple[str | int | None, ...]]:
    """``NAME=SIZE,SIZE,...`` options; the shape of a name without sizes is ().

    Raises:
        OptionError: an item has another form.
    """
    shapes: dict[str, tuple[str | int | None, ...]] = {}
    for item in items or ():
        name, equals, sizes = item.rpartition("=")
        if not name or not equals:
            raise OptionError(f"--shape {item}: expected NAME=SIZE,SIZE,..., as in x=1,3,224,224 or x=batch,,224,224")
        parts = [part.strip() for part in sizes.split(",")] if sizes else []
        shapes[name] = tuple(int(part) if part.isascii() and part.isdigit() else part or None for part in parts)
    return shapes


def check_output(path: Path, force: bool) -> None:
    """Checks that a file can be written, before the work begins.

    Raises:
        OptionError: the folder does not exist, or the file does and ``force`` is off.
    """
    if path.is_dir():
        raise OptionError(f"{path}: is a folder; expected the name of a file")
    if not path.parent.is_dir():
        raise OptionError(f"{path}: there is no folder {path.parent}; create it first")
    if path.exists() and not force:
        raise OptionError(f"{path}: exists; pass --force to replace it")


def write_text(path: Path, text: str) -> None:
    """Writes a file, whole or not at all."""
    with replacing(path) as stream:
        stream.write(text.encode())


def say(text: str) -> None:
    """One line, never wrapped."""
    typer.echo(text)


def count_text(count: int, noun: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def shape_text(shape: Sequence[Dim | str | None]) -> str:
    return "(" + ", ".join(str(d) for d in shape) + ")"


def print_json(content: Any) -> None:
    """One JSON document on standard output; numbers that are not finite are null."""
    json.dump(_finite(content), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def bytes_text(size: int) -> str:
    """``size`` in a unit that people read."""
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"
