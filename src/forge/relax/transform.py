"""Passes of Relax, by the names of the seed systems."""

from forge.transform import AttachExternModules

__all__ = ["AttachExternModules"]
