"""The converters of StableHLO and CHLO, of targets of custom calls and of composites, by domain and name.

Positional parameters are operands; keyword-only ones attributes, lists as tuples, with the format's defaults. What an operator
needs besides (regions, types of results) the context has.
"""

from __future__ import annotations

from forge.frontends.registry import Registry
from forge.frontends.stablehlo.module import Operation

CUSTOM_CALL = "custom_call"
COMPOSITE = "composite"
NO_PYTHON = (
    "it calls Python, which only the program that traced it has; leave out jax.debug.print, pure_callback, io_callback and "
    "checks of values (those of equinox: EQX_ON_ERROR=nan)")
"""Why callbacks of jax are refused."""

REGISTRY = Registry("stablehlo", domain_name="stablehlo", ignored=("result_accuracy",))
converts = REGISTRY.converts
refuse = REGISTRY.refuse
register = REGISTRY.register
unregister = REGISTRY.unregister


def key(operation: Operation) -> tuple[str, str]:
    """Domain and operator: of a custom call its target, of a composite its name."""
    if operation.name == "stablehlo.custom_call":
        return CUSTOM_CALL, str(operation.attributes.get("call_target_name", ""))
    if operation.name == "stablehlo.composite":
        name = str(operation.attributes.get("name", ""))
        return ("chlo", name.removeprefix("chlo.")) if name.startswith("chlo.") else (COMPOSITE, name)
    domain, _, op = operation.name.partition(".")
    return REGISTRY.canonical(domain), op
