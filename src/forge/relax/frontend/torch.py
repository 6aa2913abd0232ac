"""The loaders of PyTorch models in the calling forms of Relax."""

from typing import Any

from forge.relax import detach_params, from_exported_program, from_fx

_OF_DYNAMO = ("dynamo_capture_subgraphs", "relax_dynamo")


def __getattr__(name: str) -> Any:
    """What needs torch is imported when it is asked for."""
    if name not in _OF_DYNAMO:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from forge.torch import dynamo

    return getattr(dynamo, name)


__all__ = ["detach_params", "dynamo_capture_subgraphs", "from_exported_program", "from_fx", "relax_dynamo"]  # noqa: F822
