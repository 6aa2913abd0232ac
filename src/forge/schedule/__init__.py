"""Generic loop nests for groups of tensor expressions: ``build``."""

from forge.schedule.build import build

__all__ = ["build"]
