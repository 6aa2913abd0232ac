"""What PyTorch users call: ``torch.compile(model, backend="forge")``, `compile_module`, exporters of transformers.

Nothing is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from forge.optional import warn_if_untested

warn_if_untested("torch", "forge.torch")  # an older one may lack what the modules below import

_HOMES = {
    "CompiledModule": "modules",
    "compile_module": "modules",
    "dynamo_capture_subgraphs": "dynamo",
    "refresh": "weights",
    "relax_dynamo": "dynamo",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"forge.torch.{_HOMES[name]}"), name)


__all__ = ["CompiledModule", "compile_module", "dynamo_capture_subgraphs", "refresh", "relax_dynamo"]
