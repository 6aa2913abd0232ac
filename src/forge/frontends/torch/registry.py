"""The converters of PyTorch's operators, by namespace and overload: ``converts("add.Tensor", "add.Scalar")``.

Parameters have the names of the operator's schema. Positional ones are its tensors, and numbers that may be tensors elsewhere;
keyword-only ones are the rest, with the schema's defaults.
"""

from __future__ import annotations

from forge.frontends.registry import Registry

_IGNORED = ("layout", "device", "pin_memory", "memory_format", "non_blocking", "generator", "implicit")
REGISTRY = Registry("torch", domain_name="aten", ignored=_IGNORED)
converts = REGISTRY.converts
register = REGISTRY.register
unregister = REGISTRY.unregister


def key(target: str) -> tuple[str, str]:
    """Domain and operator of a step's target; in-place variants are those of the operator itself."""
    domain, _, op = target.partition(".")
    return ("" if domain == "aten" else domain), op
