"""The converters of TFLite's builtin operators, and of custom ones (domain "custom"), by name.

Positional parameters are inputs; keyword-only ones the fields of the operator's options, with the schema's defaults; vectors are
tuples, enumerations their names. What an operator needs besides (tensors as the file declares them) the context has.

Quantized tensors are integers in the graph. A converter gets the numbers that they stand for, and what it gives is quantized,
unless it is marked: `moves` (elements are moved or compared, on the integers where all have the same quantization), or
`takes_integers` (it gets and gives the integers).
"""

from __future__ import annotations

from typing import TypeVar

from forge.frontends.converter import ConverterFunction
from forge.frontends.registry import Registry

CUSTOM = "custom"

REGISTRY = Registry(
    "tflite", domain_name="tflite",
    ignored=("pot_scale_int16", "quantized_bias_type", "quant_spec", "asymmetric_quantize_inputs", "validate_indices"))
converts = REGISTRY.converts
refuse = REGISTRY.refuse
register = REGISTRY.register
unregister = REGISTRY.unregister

F = TypeVar("F", bound=ConverterFunction)
_MOVES: set[ConverterFunction] = set()
_TAKE_INTEGERS: set[ConverterFunction] = set()


def moves(function: F) -> F:
    """Marks a converter that moves elements, or compares them with each other."""
    _MOVES.add(function)
    return function


def takes_integers(function: F) -> F:
    """Marks a converter that gets and gives the integers of quantized tensors."""
    _TAKE_INTEGERS.add(function)
    return function


def is_moving(function: ConverterFunction) -> bool:
    return function in _MOVES


def is_of_integers(function: ConverterFunction) -> bool:
    return function in _TAKE_INTEGERS
