"""What the verbs share: models from paths, arrays from files, passwords, progress, tables."""

from __future__ import annotations

import json
import math
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from forge import knobs
from forge.cli import structures
from forge.dims import Dim
from forge.driver.feeds import Spec, random_inputs
from forge.errors import ImportModelError, OptionError, PasswordError
from forge.lowering.objects import described
from forge.module import IRModule, load
from forge_runtime import Runtime

Report = Callable[[str, int, int], None]

PIPE_WIDTH = 200


def load_model(path: Path) -> IRModule:
    """The model in ``path``: ``.onnx``, ``.forge`` or the text form (``.relay``, ``.txt``).

    Raises:
        ImportModelError: there is no such file, it cannot be read, or its ending names no format.
    """
    if not path.is_file():
        raise ImportModelError(f"{path}: no such file; expected a model (.onnx, .forge, .relay) or a compiled one")
    if path.suffix == ".onnx":
        from forge.loaders import from_onnx

        return from_onnx(path)
    if path.suffix == ".forge":
        return load(path)
    if path.suffix not in (".relay", ".txt"):
        raise ImportModelError(f"{path}: unknown kind of model {path.suffix!r}; expected .onnx, .forge or .relay")
    try:
        return IRModule(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ImportModelError(f"{path}: not a text file ({error}); expected a module's text in UTF-8") from error


def is_artifact(path: Path) -> bool:
    """Whether ``path`` is a compiled model: a directory or a shared library."""
    return path.is_dir() or path.suffix == ".so"


def open_artifact(path: Path, key: Path | None) -> Runtime:
    """The runtime of a compiled model.

    Raises:
        OptionError: it is encrypted, and ``key`` or the password is missing; ArtifactError: it cannot be loaded.
    """
    try:
        return Runtime(path) if key is None else Runtime(path, password=password(), key=key)
    except PasswordError as error:
        if key is None:
            raise OptionError(f"{path}: is encrypted; pass --key FILE, its key file") from error
        raise


def open_runtime(path: Path, key: Path | None, report: Report) -> Runtime:
    """The runtime of a compiled model, or of a model compiled in memory."""
    if is_artifact(path):
        return open_artifact(path, key)
    if key is not None:
        raise OptionError(f"--key: {path} is not compiled; expected an encrypted artifact")
    from forge.driver import compile_module

    report("load", 0, 1)
    module = load_model(path)
    report("load", 1, 1)
    return compile_module(module.mod, progress=report).runtime()


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


def load_arrays(items: Sequence[str], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Arrays from ``FILE.npy``, ``NAME=FILE.npy`` or ``FILE.npz`` (names inside), for inputs ``names`` in order.

    Raises:
        OptionError: a file cannot be read, or a name is no input.
    """
    arrays: dict[str, np.ndarray] = {}
    for item in items:
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
        raise OptionError(f"--input: {unknown[0]!r} is no input of the model; expected one of: {', '.join(names)}")
    return arrays


def _read_arrays(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    try:
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.lib.npyio.NpzFile):
            with content:
                return dict(content)
    except FileNotFoundError as error:
        raise OptionError(f"--input {path}: no such file") from error
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise OptionError(f"--input {path}: no array file ({error}); expected .npy or .npz without pickled objects") from error
    return np.asarray(content)


def require_inputs(arrays: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raises OptionError where an input is missing."""
    missing = [n for n in names if n not in arrays]
    if missing:
        raise OptionError(f"input {missing[0]!r} is missing; pass --input {missing[0]}=FILE.npy (inputs: {', '.join(names)})")


def specs_of(module: IRModule) -> list[Spec]:
    """What the inputs of a module are."""
    specs: list[Spec] = []
    for value in module.input_nodes:
        dtype, shape = described(value)
        specs.append((value.name, dtype, shape or ()))
    return specs


def make_inputs(specs: Sequence[Spec], given: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, Any]:
    """All inputs: those ``given`` (elements of sequences one by one), the others as ``random_inputs`` makes them."""
    bases = {*given, *map(structures.base, given)}
    made = random_inputs([s for s in specs if s[0] not in bases], sizes)
    return structures.gather({**made, **given}, [s[0] for s in specs], [s[1] for s in specs])


def parse_sizes(items: Sequence[str]) -> dict[str, int]:
    """``NAME=SIZE`` options.

    Raises:
        OptionError: an item has another form.
    """
    sizes = {}
    for item in items:
        name, _, size = item.partition("=")
        if not name or not (size.isascii() and size.isdigit()):
            raise OptionError(f"--dim {item}: expected NAME=SIZE, as in batch=8")
        sizes[name] = int(size)
    return sizes


@contextmanager
def progress(quiet: bool = False) -> Iterator[Report]:
    """A progress bar on standard error where that is a terminal; ``report(phase, done, total)`` moves it."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda phase, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        yield report


def console() -> Console:
    """Standard output; wide where it is no terminal, so that nothing is cut off."""
    made = Console(highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(highlight=False, width=PIPE_WIDTH)


def say(text: str) -> None:
    """One line, never wrapped."""
    console().print(text, soft_wrap=True, markup=False)


def table(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    """A table in the house style; columns in ``right`` are right-aligned."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def shape_text(shape: Sequence[Dim | str]) -> str:
    return "(" + ", ".join(str(d) for d in shape) + ")"


def print_json(content: Any) -> None:
    """One JSON document on standard output; what is no finite number is null."""
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
