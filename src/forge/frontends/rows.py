"""Imports the modules of a package of converters, which add their rows to the format's table."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import walk_packages


def import_all(path: Iterable[str], package: str) -> None:
    """Imports every module below ``package``, whose folders are ``path``."""
    for module in walk_packages(path, f"{package}."):
        import_module(module.name)
