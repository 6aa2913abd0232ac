"""The rows of the table, by topic."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Imports all modules of this package, which adds their rows."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
