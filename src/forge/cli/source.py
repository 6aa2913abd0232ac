"""What the verbs share: models from paths, arrays from files, progress, tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import ForgeError, ImportModelError
from forge.ir.nodes import Value
from forge.module import IRModule, load

Report = Callable[[str, int, int], None]


def load_model(path: Path) -> IRModule:
    """The model in ``path``: ``.onnx``, ``.forge`` or the text form (``.relay``, ``.txt``).

    Raises:
        ImportModelError: there is no such file, or its ending names no format.
    """
    if not path.is_file():
        raise ImportModelError(f"{path}: no such file; expected a model (.onnx, .forge, .relay)")
    if path.suffix == ".onnx":
        import forge

        return forge.from_onnx(path)
    if path.suffix == ".forge":
        return load(path)
    if path.suffix in (".relay", ".txt"):
        return IRModule(path.read_text(encoding="utf-8"))
    raise ImportModelError(f"{path}: unknown kind of model {path.suffix!r}; expected .onnx, .forge or .relay")


def is_artifact(path: Path) -> bool:
    """Whether ``path`` is a compiled model: a directory or a shared library."""
    return path.is_dir() or path.suffix == ".so"


def load_arrays(items: Sequence[str], names: Sequence[str]) -> dict[str, np.ndarray]:
    """Arrays from ``FILE.npy``, ``NAME=FILE.npy`` or ``FILE.npz`` (names inside), for inputs ``names`` in order.

    Raises:
        ForgeError: a file cannot be read, or a name is no input.
    """
    arrays: dict[str, np.ndarray] = {}
    free = list(names)
    for item in items:
        name, _, file = item.rpartition("=")
        content = _read_array(Path(file))
        if isinstance(content, dict):
            arrays |= content
            continue
        if not name and not free:
            raise ForgeError(f"--input {item}: got more files than inputs; expected {list(names)}")
        arrays[name or free[0]] = content
        free = [n for n in free if n not in arrays]
    unknown = [n for n in arrays if n not in names]
    if unknown:
        raise ForgeError(f"--input: {unknown[0]!r} is no input of the model; expected one of: {', '.join(names)}")
    return arrays


def _read_array(path: Path) -> Any:
    try:
        content = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise ForgeError(f"--input {path}: no such file") from error
    except (ValueError, OSError, EOFError) as error:
        raise ForgeError(f"--input {path}: not an array file ({error}); expected .npy or .npz without pickled objects") from error
    return dict(content) if isinstance(content, np.lib.npyio.NpzFile) else content


def random_inputs(values: Sequence[Value], sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs that fit the types: normal floats, integers 0 or 1; symbols get ``sizes`` (default 1)."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for value in values:
        shape = [dims.evaluate(d, _Sizes(sizes)) for d in value.shape]
        if dtypes.is_float(value.dtype) or dtypes.is_complex(value.dtype):
            arrays[value.name] = rng.standard_normal(shape).astype(dtypes.numpy_dtype(value.dtype))
        else:
            arrays[value.name] = rng.integers(0, 2, shape).astype(dtypes.numpy_dtype(value.dtype))
    return arrays


class _Sizes(dict[str, Dim]):
    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, 1)


def parse_sizes(items: Sequence[str]) -> dict[str, int]:
    """``NAME=SIZE`` options.

    Raises:
        ForgeError: an item has another form.
    """
    sizes = {}
    for item in items:
        name, _, size = item.partition("=")
        if not name or not size.isdigit():
            raise ForgeError(f"--dim {item}: expected NAME=SIZE, as in batch=8")
        sizes[name] = int(size)
    return sizes


@contextmanager
def progress(console: Console, quiet: bool) -> Iterator[Report]:
    """A progress bar on standard error; ``report(phase, done, total)`` moves it."""
    if quiet:
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


def table(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    """A table in the house style; columns in ``right`` are right-aligned."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left")
    return made


def shape_text(shape: Sequence[Dim | str]) -> str:
    return "(" + ", ".join(str(d) for d in shape) + ")"


def print_json(content: Any) -> None:
    """One JSON document on standard output."""
    json.dump(content, sys.stdout, indent=2)
    sys.stdout.write("\n")


def bytes_text(size: int) -> str:
    """``size`` in a unit that people read."""
    value = float(size)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"
