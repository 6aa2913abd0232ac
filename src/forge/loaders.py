"""The loaders: models of other formats as ``IRModule``. Each is also a class method of it, called ``from_`` and the format."""

from __future__ import annotations

from collections.abc import Callable

from forge.module import IRModule

from_onnx = IRModule.from_onnx
from_torch = IRModule.from_torch


def loader(name: str) -> Callable[..., IRModule]:
    """That of a format."""
    found: Callable[..., IRModule] = getattr(IRModule, f"from_{name}")
    return found


__all__ = ["from_onnx", "from_torch", "loader"]
