"""The rows of the table, by topic."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Imports all modules of this package, which adds their rows."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
