"""The converters of TensorFlow's operators, by name.

Positional parameters are inputs; keyword-only ones are attributes with TensorFlow's defaults, which files leave out; attributes
that are element types are given to converters that list them. Names of outputs are said here where there are several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from forge.frontends.converter import ConverterFunction
from forge.frontends.registry import Registry

REGISTRY = Registry(
    "tensorflow", domain_name="tensorflow",
    ignored=(
        "N", "allowed_devices", "config", "config_proto", "container", "cudnn_on_gpu", "debug_name", "executor_type",
        "explicit_paddings", "grad_a", "grad_b", "is_stateless", "num_original_outputs", "output_shapes", "parallel_iterations",
        "shape", "shared_name", "use_cudnn_on_gpu", "use_locking", "use_node_name_sharing", "validate_indices", "validate_shape"))
refuse = REGISTRY.refuse
register = REGISTRY.register
unregister = REGISTRY.unregister

OUTPUTS: dict[str, list[tuple[str, str]]] = {}
"""Outputs of operators that have several: names, and attributes that say how many each of them stands for, or ""."""

F = TypeVar("F", bound=ConverterFunction)
_TAKE_HANDLES: set[ConverterFunction] = set()


def converts(*ops: str, outputs: str = "") -> Callable[[F], F]:
    """Decorator: the function converts operators ``ops``.

    Args:
        outputs: their names where there are several, as in ``"values indices"``; ``parts*N`` are as many as the attribute says.
    """
    for op in ops:
        if outputs:
            OUTPUTS[op] = [(name, attribute) for name, _, attribute in (text.partition("*") for text in outputs.split())]
    return REGISTRY.converts(*ops)


def takes_handles(function: F) -> F:
    """Marks a converter that gets what leads to variables, tables and lists as it is, and may give such."""
    _TAKE_HANDLES.add(function)
    return function


def is_of_handles(function: ConverterFunction) -> bool:
    return function in _TAKE_HANDLES
