"""The backends that come with Forge; importing this package registers them. What a backend is: ``forge.backend``."""

from forge.backends.cpu import CPU

__all__ = ["CPU"]
