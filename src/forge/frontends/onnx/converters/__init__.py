"""The converters, in folders as the operators in ``forge.ops``, those of other domains in folders of their own.

Importing a module adds its rows to the table.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages


def load_all() -> None:
    """Imports every module of converters."""
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
