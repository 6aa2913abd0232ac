"""Samples of a model's inputs, from what users have: arrays, files, data sets and their loaders.

An array stands for one sample where it has exactly the shape of its input. For more of them, it has one axis more, in front; or a
first axis that is a multiple of the input's where that is a number. A batch whose size is a symbol is cut into parts of ``ROWS``
rows. The first axis may be missing where it is 1 or a symbol, as in the items of a data set.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.errors import InputError

Spec = tuple[str, str, Sequence[Dim | str | None]]
"""Name, dtype and shape of an input; a text is the name of a symbol, None a size that is computed from symbols."""

Sample = dict[str, Any]
"""Arrays by name of input; lists for sequences."""

Report = Callable[[int, int], None]

ROWS = 32
"""Of a batch whose size is a symbol: rows that are one sample."""

_OBJECTS = ("sequence", "optional")


def samples(
    source: Any, specs: Sequence[Spec], *, where: str = "data", finite: bool = True, report: Report | None = None
) -> Iterator[Sample]:
    """The samples in ``source``, one by one, each with an array for every input.

    Args:
        source: an array for a model of one input; a tuple of arrays for its inputs in order; a dictionary by name; a list, a
            generator, a loader or a data set (``__len__`` and ``__getitem__``) of such; the path of a .npy or .npz, or of a
            folder of them: one for each input, by name, or samples in the order of the names. Tensors are what ``np.asarray``
            makes of them. Of ``(input, label)``, a model of one input takes the first.
        specs: of the inputs.
        where: what messages begin with.
        finite: whether NaN and infinity are refused.
        report: called with the number of samples that were used, and the number in all; 0 if that is not known.

    Raises:
        InputError: there is no sample; or one has a wrong name, type, shape or number, or lacks an input; the message names it.
    """
    reader = _Reader(list(specs), where, finite, report or (lambda done, total: None))
    for entry in reader.entries(source):
        yield from reader.split(entry)
    if not reader.count:
        raise InputError(f"{where}: got no sample; expected one or more, for {reader.listed}")


@dataclass
class _Reader:
    specs: list[Spec]
    where: str
    finite: bool
    report: Report
    count: int = 0
    entries_left: int | None = None

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.specs]

    @property
    def listed(self) -> str:
        return ", ".join(self.names) or "no input"

    def entries(self, source: Any) -> Iterator[Sample]:
        """Values by name, of one sample or of several stacked."""
        if isinstance(source, str | PathLike):
            yield from self._from_path(Path(source))
        elif isinstance(source, tuple | Mapping) or hasattr(source, "__array__"):
            self.entries_left = 1
            yield self._entry(source)
        elif hasattr(source, "__getitem__") and hasattr(source, "__len__"):
            self.entries_left = len(source)
            yield from (self._entry(source[k]) for k in range(len(source)))
        elif isinstance(source, Iterable):
            yield from map(self._entry, source)
        else:
            kinds = "arrays, tuples or dictionaries of arrays, an iterable of such, or the path of .npy and .npz files"
            raise InputError(f"{self.where}: got {type(source).__name__}; expected {kinds}")

    def _entry(self, item: Any) -> Sample:
        if isinstance(item, Mapping):
            return dict(item)
        names = self.names
        if not isinstance(item, tuple | list):
            if len(names) != 1:
                expected = f"a tuple of {len(names)} arrays, or arrays by name: {self.listed}"
                raise InputError(f"{self.where}: sample {self.count}: got {type(item).__name__}; expected {expected}")
            return {names[0]: item}
        if len(names) == 1 and item:
            return {names[0]: item[0]}
        if len(item) != len(names):
            expected = f"{len(names)} arrays: {self.listed}"
            raise InputError(f"{self.where}: sample {self.count}: got {len(item)} arrays; expected {expected}")
        return dict(zip(names, item))

    def _from_path(self, path: Path) -> Iterator[Sample]:
        if not path.is_dir():
            self.entries_left = 1
            yield self._file(path)
            return
        files = sorted(p for p in path.iterdir() if p.suffix in (".npy", ".npz"))
        if not files:
            raise InputError(f"{self.where}: {path}: got no .npy or .npz file; expected one or more, for {self.listed}")
        if len(self.names) > 1 and {p.stem for p in files if p.suffix == ".npy"} == set(self.names) == {p.stem for p in files}:
            self.entries_left = 1
            yield {p.stem: self._read(p) for p in files}
            return
        self.entries_left = len(files)
        yield from map(self._file, files)

    def _read(self, path: Path) -> np.ndarray | dict[str, np.ndarray]:
        try:
            return read_arrays(path)
        except InputError as error:
            raise InputError(f"{self.where}: {error}") from error

    def _file(self, path: Path) -> Sample:
        content = self._read(path)
        return content if isinstance(content, dict) else self._entry(content)

    def split(self, entry: Sample) -> Iterator[Sample]:
        """The samples in an entry."""
        self._check_names(entry)
        parts = {name: self._parts(spec, entry[name]) for name, spec in zip(self.names, self.specs)}
        longest = max(parts, key=lambda name: len(parts[name]), default="")
        count = len(parts[longest]) if parts else 1
        for name, own in parts.items():
            if len(own) not in (1, count):
                expected = f"{count}, as {longest!r} has, or one for all"
                raise InputError(f"{self.where}: input {name!r}: got {len(own)} samples; expected {expected}")
        if self.entries_left is not None:
            self.entries_left -= 1
        total = 0 if self.entries_left is None else self.count + count + self.entries_left
        if not self.count:
            self.report(0, total)
        for k in range(count):
            sizes: dict[str, int] = {}
            yield {name: self._checked(spec, parts[name], k if len(parts[name]) > 1 else 0, sizes)
                   for name, spec in zip(self.names, self.specs)}
            self.count += 1
            self.report(self.count, total)

    def _check_names(self, entry: Sample) -> None:
        names = self.names
        unknown = next((name for name in entry if name not in names), None)
        missing = next((name for name in names if name not in entry), None)
        if unknown is not None:
            raise InputError(f"{self.where}: {unknown!r} is not an input of the model; expected {self.listed}")
        if missing is not None:
            got = ", ".join(map(str, entry)) or "nothing"
            raise InputError(f"{self.where}: input {missing!r} is missing; got {got}; expected {self.listed}")

    def _parts(self, spec: Spec, given: Any) -> Any:
        name, dtype, shape = spec
        if dtype in _OBJECTS:
            return [given]
        array = self._array(name, given)
        rank, first = len(shape), _first(shape)
        if array.ndim == rank + 1:
            return array
        if array.ndim == rank - 1 and (first == 1 or isinstance(first, str)):
            return [array[np.newaxis]]
        if array.ndim != rank:
            raise self._misfit(spec, array)
        if isinstance(first, int) and 0 < first < len(array) and len(array) % first == 0:
            return _Rows(array, first)
        if isinstance(first, str) and first == self._batch() and len(array) > ROWS:
            return _Rows(array, ROWS)
        return [array]

    def _array(self, name: str, given: Any) -> np.ndarray:
        try:
            tensor = given.detach().cpu() if hasattr(given, "detach") else given
            return np.asarray(tensor)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{self.where}: input {name!r}: got {type(given).__name__}; expected an array ({error})") from error

    def _batch(self) -> str | None:
        """The symbol that is the first axis of inputs, one of them of rank 2 or more, and occurs nowhere else."""
        leading = {_first(shape) for _, _, shape in self.specs}
        others = {s for _, _, shape in self.specs for d in shape[1:] for s in _symbols(d)}
        found = [s for s in leading if isinstance(s, str) and s not in others]
        has_rows = any(len(shape) > 1 and _first(shape) in found for _, _, shape in self.specs)
        return found[0] if len(found) == 1 and has_rows else None

    def _checked(self, spec: Spec, parts: Sequence[Any], number: int, sizes: dict[str, int]) -> Any:
        name, dtype, shape = spec
        if dtype in _OBJECTS:
            return parts[number]
        array = np.asarray(parts[number])
        if array.ndim != len(shape) or not all(_fits(d, size, sizes) for d, size in zip(shape, array.shape)):
            raise self._misfit(spec, array)
        converted = self._converted(name, dtype, array)
        if self.finite and (dtypes.is_float(dtype) or dtypes.is_complex(dtype)) and not np.isfinite(converted).all():
            place = tuple(int(k) for k in np.argwhere(~np.isfinite(converted))[0])
            problem = f"got {array[place]} at {place}; expected finite numbers of {dtype}"
            raise InputError(f"{self.where}: input {name!r}: sample {self.count}: {problem}")
        return converted

    def _converted(self, name: str, dtype: str, array: np.ndarray) -> np.ndarray:
        try:
            given = dtypes.canonical(array.dtype)
        except TypeError:
            given = str(array.dtype)
        if not _converts(given, dtype, array):
            raise InputError(f"{self.where}: input {name!r}: sample {self.count}: got {given}; expected {dtype}")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array, dtypes.numpy_dtype(dtype)).reshape(array.shape)

    def _misfit(self, spec: Spec, array: np.ndarray) -> InputError:
        name, _, shape = spec
        expected = f"{_text(shape)}, or samples of that shape along one more axis"
        got = f"sample {self.count}: got shape {_text(array.shape)}"
        return InputError(f"{self.where}: input {name!r}: {got}; expected {expected}")


class _Rows(Sequence[np.ndarray]):
    """Parts of an array, of ``size`` rows each; views."""

    def __init__(self, array: np.ndarray, size: int) -> None:
        self.array, self.size = array, size

    def __len__(self) -> int:
        return -(-len(self.array) // self.size)

    def __getitem__(self, number: Any) -> Any:
        return self.array[number * self.size : (number + 1) * self.size]


def read_arrays(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """The array of a .npy, which is mapped, or those of a .npz by name.

    Raises:
        InputError: there is no such file, or it is no such.
    """
    try:
        content = np.load(path, mmap_mode="r" if path.suffix == ".npy" else None, allow_pickle=False)
        if isinstance(content, np.lib.npyio.NpzFile):
            with content:
                return dict(content)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: no array file ({error}); expected .npy or .npz without pickled objects") from error
    array: np.ndarray = content
    return array


def _converts(given: str, wanted: str, array: np.ndarray) -> bool:
    """Whether numbers of one type are those of another, but for rounding of real ones."""
    is_whole = given == "bool" or dtypes.is_integer(given)
    if given == wanted:
        return True
    if dtypes.is_float(wanted):
        return is_whole or dtypes.is_float(given)
    if dtypes.is_complex(wanted):
        return is_whole or dtypes.is_float(given) or dtypes.is_complex(given)
    if not dtypes.is_integer(wanted) or not is_whole:
        return False
    low, high = dtypes.integer_range(wanted)
    return array.size == 0 or low <= int(array.min()) and int(array.max()) <= high


def _first(shape: Sequence[Dim | str | None]) -> int | str | None:
    """The first size: a number, the name of a symbol, or None for anything else."""
    first = shape[0] if shape else None
    return first if isinstance(first, int | str) or first is None else dims.symbol_name(first)


def _symbols(dim: Dim | str | None) -> list[str]:
    return [dim] if isinstance(dim, str) else [] if dim is None else dims.symbols(dim)


def _fits(dim: Dim | str | None, size: int, sizes: dict[str, int]) -> bool:
    """Whether ``dim`` can be ``size``; notes the size of a symbol."""
    if dim is None:
        return True
    wanted = dims.substitute(dims.symbol(dim) if isinstance(dim, str) else dim, sizes)
    if isinstance(wanted, int):
        return wanted == size
    solution = dims.solve(wanted, size)
    if solution is not None:
        sizes.setdefault(*solution)
    return solution is not None or len(dims.symbols(wanted)) > 1


def _text(shape: Sequence[Dim | str | None]) -> str:
    return "(" + ", ".join("?" if d is None else str(d) for d in shape) + ("," if len(shape) == 1 else "") + ")"
