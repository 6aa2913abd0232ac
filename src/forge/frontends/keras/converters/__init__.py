"""The converters, by what they compute. Importing a module adds its rows to the table."""

from __future__ import annotations

from forge.frontends.rows import import_all


def load_all() -> None:
    """Imports every module of converters."""
    import_all(__path__, __name__)
