"""Which layers and operations of Keras can be loaded."""

from __future__ import annotations

from pathlib import Path

from forge.frontends.keras import converters
from forge.frontends.keras.names import LAYERS, OPERATIONS
from forge.frontends.keras.registry import REGISTRY
from forge.frontends.keras.sources import read
from forge.frontends.keras.tree import MODELS, OPS, Layer
from forge.frontends.support import CONVERTER, FUNCTION, MISSING, Coverage, Use


def coverage() -> list[Coverage]:
    """By domain and name."""
    converters.load_all()
    found = {(row.domain, row.op): CONVERTER for row in REGISTRY.rows()}
    known = [*(("", name) for name in LAYERS), *((OPS, name) for name in OPERATIONS)]
    for key in (*known, *REGISTRY.refused()):
        found.setdefault(key, MISSING)
    return [Coverage(domain, op, (), how) for (domain, op), how in sorted(found.items())]


def used_layers(model: Layer) -> dict[tuple[str, str], Use]:
    """Layers and operations of a model, in order."""
    converters.load_all()
    found: dict[tuple[str, str], Use] = {}
    for layer in model.walk():
        key = layer.domain, layer.class_name
        if key not in found:
            how = CONVERTER if REGISTRY.lookup(*key, 1) is not None else FUNCTION if layer.is_model else MISSING
            found[key] = Use(*key, 0, how, layer.name)
        found[key].count += 1
    return {key: use for key, use in found.items() if key[1] not in (*MODELS, "InputLayer") or use.how == MISSING}


def model_operators(path: Path) -> list[Use]:
    """Layers and operations of the model in a file."""
    return list(used_layers(read(path).model).values())
