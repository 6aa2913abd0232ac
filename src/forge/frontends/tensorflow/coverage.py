"""Which operators can be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forge.frontends.support import CONVERTER, MISSING, Coverage, Use
from forge.frontends.tensorflow import converters
from forge.frontends.tensorflow.operators import used_operators
from forge.frontends.tensorflow.registry import REGISTRY
from forge.frontends.tensorflow.sources import read


def coverage() -> Sequence[Coverage]:
    """By name."""
    converters.load_all()
    found = {row.op: CONVERTER for row in REGISTRY.rows()} | {"Const": CONVERTER}
    for _, op in REGISTRY.refused():
        found.setdefault(op, MISSING)
    return [Coverage("", op, (), how) for op, how in sorted(found.items())]


def model_operators(path: Path) -> list[Use]:
    """Operators of the model in a file or folder."""
    converters.load_all()
    return used_operators(read(path))
