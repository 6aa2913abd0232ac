"""The formats that models come in, and how the format of a model is recognized.

A door is a package with a ``FORMAT`` and a line in ``forge.frontends.PACKAGES``, or is given to ``forge.register_format``. All
else follows from that: ``forge.load``, ``forge.from_X`` and ``IRModule.from_X`` with their help, endings of files in every
verb, ``forge support X``, hints in errors, stubs for editors, and the page of formats.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from forge.errors import ImportModelError, OptionError
from forge.frontends import PACKAGES
from forge.frontends.model_files import HEAD_BYTES, directory_of, kind_of, kind_of_path, mapped_file

if TYPE_CHECKING:
    from forge.frontends.support import Support
    from forge.ir.graph import Module

@dataclass(frozen=True)
class Magic:
    """What contents of a format look like.

    Attributes:
        head: a regular expression that the first bytes match.
        entries: parts of names that the directory of a zip archive has, all of them.
        files: names that a folder has, all of them.
    """

    head: bytes = b""
    entries: tuple[bytes, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of models.

    Attributes:
        name: of the door: its loader is ``forge.from_NAME``.
        title: the format's name in texts.
        suffixes: endings of its files, ``.onnx``.
        load: the loader: the model first, then options. Its signature and docstring are those of ``forge.from_NAME``. An option
            ``freeze_params`` that is False keeps constants from being folded.
        magic: how contents are recognized; one of them is enough.
        objects: classes of the models that frameworks have in memory, as ``module:name``. They are looked for only in modules
            that are imported already.
        support: its converters, and what they cover; None: its models need none.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    load: Callable[..., Module]
    magic: tuple[Magic, ...] = ()
    objects: tuple[str, ...] = ()
    support: Callable[[], Support] | None = None

    @property
    def function(self) -> str:
        """The name of its loader, for messages."""
        return "forge.load" if self is SAVED else f"forge.from_{self.name}"

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the loader's options."""
        return tuple(inspect.signature(self.load).parameters)[1:]

    def has_object(self, source: object) -> bool:
        """Whether ``source`` is a model of a framework that this format knows."""
        for place in self.objects:
            module, _, name = place.partition(":")
            found = getattr(sys.modules.get(module), name, None)
            if isinstance(found, type) and isinstance(source, found):
                return True
        return False

    def has_contents(self, head: bytes, directory: bytes) -> bool:
        """Whether data that begin with ``head``, and have ``directory`` if they are a zip archive, look like this format."""
        return any(
            m.head and re.match(m.head, head, re.DOTALL) or m.entries and directory and all(e in directory for e in m.entries)
            for m in self.magic)

    def has_folder(self, folder: Path) -> bool:
        """Whether a folder looks like this format."""
        return any(m.files and all((folder / name).is_file() for name in m.files) for m in self.magic)


_registered: dict[str, Format] = {}


def register(added: Format) -> None:
    """Adds a format, or one in the place of another with its name.

    Raises:
        OptionError: its name is not one of a function, or an ending does not begin with a dot.
    """
    if not added.name.isidentifier():
        raise OptionError(f"register_format: name: got {added.name!r}; expected the rest of a function's name, as in from_onnx")
    wrong = [suffix for suffix in added.suffixes if not suffix.startswith(".")]
    if wrong:
        raise OptionError(f"register_format: suffixes: got {wrong[0]!r}; expected an ending with its dot, as in '.onnx'")
    _registered[added.name] = added


def unregister(name: str) -> None:
    """Takes a format out that `register` added."""
    _registered.pop(name, None)


def names() -> list[str]:
    """Names of the formats, sorted."""
    return sorted({*PACKAGES, *_registered})


def find(name: str) -> Format:
    """The format of a name.

    Raises:
        OptionError: there is none.
    """
    if name in _registered:
        return _registered[name]
    if name not in PACKAGES:
        raise OptionError(f"format {name!r}: is not known; expected one of: {', '.join(names())}")
    found: Format = importlib.import_module(PACKAGES[name]).FORMAT
    return found


def all_formats() -> list[Format]:
    return [find(name) for name in names()]


def _load_saved(path: Path) -> Module:
    from forge.ir.saved import serialize

    return serialize.load(path)


SAVED = Format(
    name="saved", title="Forge", suffixes=(".forge", ".relay", ".txt"), load=_load_saved,
    magic=(Magic(entries=(b"forge.json", b"module.relay")),))
"""Files of ``IRModule.save``; they are not a door: only ``forge.load`` reads them."""


def suffixes() -> list[str]:
    """Endings of the files that importers read."""
    return [suffix for f in all_formats() for suffix in f.suffixes]


def endings() -> str:
    """Endings of all files of models, for messages."""
    return ", ".join([*suffixes(), *SAVED.suffixes[:2]])


def by_suffix(path: Path) -> Format | None:
    """The format whose files end as ``path`` does; of importers only."""
    return next((f for f in all_formats() if path.suffix.lower() in f.suffixes), None)


def recognize(source: object, where: str = "load") -> tuple[Format, object]:
    """The format of a model, and what its loader is to be given.

    Args:
        source: a path, bytes, or an object of a framework. A file is known by its contents, or by its ending; a folder by the
            names of its files, or by the one model in it.
        where: names the caller at the beginning of messages, or is empty.

    Raises:
        ImportModelError: there is no such file, or several formats or none of them fit: what was tried is said.
        OptionError: ``source`` is nothing that any format knows.
    """
    formats = [*all_formats(), SAVED]
    if isinstance(source, bytes | bytearray | memoryview):
        source = bytes(source)
        fitting = by_contents(source, formats)
        place = _place(where, f"{len(source)} bytes")
        return _one(fitting, place) if fitting else _unknown(source, place, formats), source
    if isinstance(source, str | os.PathLike) and str(source):
        path = Path(source)
        place = _place(where, str(path))
        return _of_folder(path, place, formats) if path.is_dir() else (_of_file(path, place, formats), path)
    fitting = [f for f in formats if f.has_object(source)]
    if not fitting:
        classes = {f.title: dict.fromkeys(place.rpartition(":")[2] for place in f.objects) for f in formats if f.objects}
        known = "; ".join(f"{title}: {', '.join(found)}" for title, found in classes.items())
        got = _place(where, f"got {type(source).__name__}")
        advice = ""
        if callable(source):
            tracers = ", ".join(f"forge.from_{f.name}" for f in formats if not (f.suffixes or f.magic or f.objects))
            advice = f"; a function needs examples of its arguments: {tracers}"
        raise OptionError(f"{got}; expected a path, bytes, or a model in memory ({known}){advice}")
    return _one(fitting, _place(where, type(source).__name__)), source


def _place(where: str, subject: str) -> str:
    return f"{where}: {subject}" if where else subject


def by_contents(data: bytes | memoryview, formats: Sequence[Format]) -> list[Format]:
    """Those of ``formats`` that data look like."""
    head, directory = bytes(data[:HEAD_BYTES]), directory_of(data)
    return [f for f in formats if f.has_contents(head, directory)]


def refuse_other_formats(data: bytes | memoryview, where: str, expected: str, name: str) -> None:
    """Raises ImportModelError for data of a kind that the format ``name`` does not read; ``expected`` says what it reads."""
    fitting = by_contents(data, [*all_formats(), SAVED])
    if any(f.name == name for f in fitting):
        return
    if fitting:
        raise ImportModelError(f"{where}: got a model of {fitting[0].title}; expected {expected}; use {fitting[0].function}")
    if (kind := kind_of(data)) is not None:
        raise ImportModelError(f"{where}: got {kind[0]}; expected {expected}; {kind[1]}")


def _of_file(path: Path, where: str, formats: Sequence[Format]) -> Format:
    if not path.exists():
        raise ImportModelError(f"{where}: no such file; expected a model ({endings()})")
    data = mapped_file(path, "model", sys.maxsize, "")
    fitting = by_contents(data, formats)
    ending = next((f for f in formats if path.suffix.lower() in f.suffixes), None)
    if ending in fitting or ending is not None and not fitting:
        return ending
    return _one(fitting, where) if fitting else _unknown(data, where, formats, path)


def _of_folder(path: Path, where: str, formats: Sequence[Format]) -> tuple[Format, Path]:
    fitting = [f for f in formats if f.has_folder(path)]
    if fitting:
        return _one(fitting, where), path
    known = [suffix for f in formats if f is not SAVED for suffix in f.suffixes]
    found = sorted(p for p in path.iterdir() if p.is_file() and p.suffix.lower() in known)
    if len(found) == 1:
        return _of_file(found[0], f"{where}/{found[0].name}", formats), found[0]
    if found:
        names = ", ".join(p.name for p in found[:5])
        raise ImportModelError(f"{where}: is a folder with {len(found)} models; expected the path of one ({names})")
    kind = kind_of_path(path)
    if kind is not None:
        raise ImportModelError(f"{where}: is a folder with {kind[0]}; expected a model ({endings()}); {kind[1]}")
    raise ImportModelError(
        f"{where}: is a folder without a model; expected one of {endings()} in it; compiled models are modelLibrary.so")


def _one(fitting: Sequence[Format], where: str) -> Format:
    if len(fitting) > 1:
        titles, functions = (" and ".join(texts) for texts in zip(*((f.title, f.function) for f in fitting)))
        raise ImportModelError(f"{where}: looks like a model of {titles}; expected one format; say which: {functions}")
    return fitting[0]


def _unknown(data: bytes | memoryview, where: str, formats: Sequence[Format], path: Path | None = None) -> NoReturn:
    kind = kind_of(data) or (kind_of_path(path) if path is not None else None)
    if kind is not None:
        raise ImportModelError(f"{where}: is {kind[0]}; expected a model ({endings()}); {kind[1]}")
    tried = f"its first bytes, {bytes(data[:8])!r}, which begin no model of {', '.join(f.title for f in formats if f.magic)}"
    if path is not None:
        tried = f"its ending, {path.suffix!r}, which is none of {endings()}; {tried}"
    functions = ", ".join(f.function for f in formats if f is not SAVED)
    raise ImportModelError(f"{where}: is of no known format; tried {tried}; if you know its format, call its loader: {functions}")
