"""The converters, in folders as the operators in ``forge.ops``. Importing a module adds its rows to the table."""

from __future__ import annotations

from forge.frontends.rows import import_all


def load_all() -> None:
    import_all(__path__, __name__)
