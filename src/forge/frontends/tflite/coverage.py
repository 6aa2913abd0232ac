"""Which operators can be loaded: all builtin ones, and known custom ones."""

from __future__ import annotations

from pathlib import Path

from forge.frontends.support import CONVERTER, MISSING, Coverage, Use
from forge.frontends.tflite import converters
from forge.frontends.tflite.operators import used_operators
from forge.frontends.tflite.registry import REGISTRY
from forge.frontends.tflite.schema import BUILTIN_OPERATORS
from forge.frontends.tflite.sources import read

MARKERS = ("CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES")
"""Numbers of the schema that stand for no operator."""


def coverage() -> list[Coverage]:
    """By domain and name."""
    converters.load_all()
    found = {(row.domain, row.op): CONVERTER for row in REGISTRY.rows()}
    for key in [("", op) for op in BUILTIN_OPERATORS if op not in MARKERS] + list(REGISTRY.refused()):
        found.setdefault(key, MISSING)
    return [Coverage(domain, op, (), how) for (domain, op), how in sorted(found.items())]


def model_operators(path: Path) -> list[Use]:
    """Operators of the model in a file."""
    converters.load_all()
    return list(used_operators(read(path).model).values())
