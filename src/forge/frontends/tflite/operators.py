"""Which operators a model has, and which of them can be loaded."""

from __future__ import annotations

from forge.frontends.support import CONVERTER, MISSING, Use
from forge.frontends.tflite.model import TfliteModel
from forge.frontends.tflite.registry import REGISTRY


def used_operators(model: TfliteModel) -> dict[tuple[str, str], Use]:
    """Operators of all subgraphs, in order of first use."""
    found: dict[tuple[str, str], Use] = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            key = operator.domain, operator.name
            if key not in found:
                how = MISSING if REGISTRY.lookup(*key, operator.version) is None else CONVERTER
                first = next((graph.tensors[n].name for n in operator.outputs if n >= 0), operator.name)
                found[key] = Use(*key, 0, how, first)
            found[key].count += 1
    return found
