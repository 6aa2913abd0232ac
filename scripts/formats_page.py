"""Writes ``docs/reference/formats.md`` and ``api/loaders.rst``: the formats of models, from what their doors register."""

from __future__ import annotations

import inspect

from forge.frontends import formats
from forge.frontends.formats import SAVED, Format

HEADING = """# Formats of models

`forge.load(model)` finds out which format a model has, and calls its loader with the options that it is given; `forge compile`,
`run`, `bench` and the other verbs do the same with files. What it is given may be

- a path: a file is known by its contents, or by its ending where these do not tell; a folder by the names of its files, or by the
  one model in it;
- the contents of a file, as bytes or an open binary file;
- a model of a framework that the program has imported already.

Where several formats fit, or none, an error says what was tried; call the loader of the format then. Each loader is also a class
method of `IRModule`.

| format | loader | endings | models in memory |
| --- | --- | --- | --- |
"""
OWN = """
Formats of your own become as good as these by `forge.register_format(forge.Format(...))`: [extending](../guides/extending.md)
has an example.
"""

LOADERS = """Loaders of formats
==================

.. currentmodule:: forge

:doc:`/reference/formats` says how formats are recognized.

"""
METHODS = """As class methods
----------------

"""


def formats_page() -> str:
    """The text of the page."""
    doors = formats.all_formats()
    rows = "".join(_row(door) for door in [*doors, SAVED])
    return f"{HEADING}{rows}{OWN}{''.join(_section(door) for door in doors)}"


def loaders_page() -> str:
    """The page of the interface reference about loaders."""
    functions = "".join(f".. autofunction:: from_{name}\n\n" for name in formats.names())
    methods = "".join(f".. automethod:: IRModule.from_{name}\n   :no-index:\n\n" for name in formats.names())
    return f"{LOADERS}{functions}{METHODS}{methods}".rstrip("\n") + "\n"


def _row(door: Format) -> str:
    objects = ", ".join(f"`{place.replace(':', '.')}`" for place in door.objects)
    return f"| {door.title} | `{door.function}` | {', '.join(f'`{s}`' for s in door.suffixes)} | {objects} |\n"


def _section(door: Format) -> str:
    text = inspect.getdoc(door.load) or ""
    signature = inspect.signature(door.load).replace(return_annotation=inspect.Signature.empty)
    call = f"{door.function}({', '.join(_parameter(p) for p in signature.parameters.values())})"
    return f"\n## {door.title}\n\n```text\n{call}\n\n{text.rstrip()}\n```\n"


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.default is not inspect.Parameter.empty:
        return f"{parameter.name}={parameter.default!r}"
    return str(parameter.replace(annotation=inspect.Parameter.empty))
