"""The version of this package, which pyproject.toml reads here; the runtime's stands in its ``__init__.py``."""

__version__ = "0.7.0"
