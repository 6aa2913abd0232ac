"""The name under which pickles of earlier versions find ``forge.ir.saved.serialize``."""

from forge.ir.saved.serialize import loads

__all__ = ["loads"]
