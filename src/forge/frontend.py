"""The loaders, as a module of their own; ``forge.from_onnx`` and so on are the same functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge.loaders import __getattr__, load

if TYPE_CHECKING:
    from forge.module.doors import *  # noqa: F403 - the loaders

__all__ = ["__getattr__", "load"]
