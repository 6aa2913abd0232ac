"""The architectures of transformers, one class for each type of model."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import torch

from tests.model_zoo import configs, inputs, vision_operators
from tests.model_zoo.families import perturb
from tests.model_zoo.ready import Ready, line

vision_operators.declare()

import transformers  # noqa: E402
from transformers import CONFIG_MAPPING, PreTrainedModel  # noqa: E402
from transformers.models.auto import modeling_auto as auto  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES, model_type_to_module_name  # noqa: E402

PREFERRED = ("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "CAUSAL_LM")
"""Heads that are taken with the model; of others the model alone, where it has a class."""

def names() -> list[str]:
    return sorted(CONFIG_MAPPING_NAMES)


def model_class(name: str) -> Any:
    """The class of a type of model.

    Raises:
        LookupError: There is none.
        ImportError: It needs a package that is not installed.
    """
    tables = {k.removesuffix("_MAPPING_NAMES").removeprefix("MODEL_FOR_"): v for k, v in vars(auto).items()
              if k.startswith("MODEL_") and k.endswith("_MAPPING_NAMES")}
    module = importlib.import_module(f"transformers.models.{model_type_to_module_name(name)}")
    for table in (*PREFERRED, "MODEL", *tables):
        found = tables[table].get(name)
        found = found[0] if isinstance(found, list | tuple) else found
        found = found and getattr(module, found, None) or getattr(transformers, found or "", None)
        if found and (table not in PREFERRED or found.config_class is CONFIG_MAPPING[name]):
            return found
    wanted = CONFIG_MAPPING[name]
    for part in [p for p in dir(module) if p.startswith("modeling_")]:
        code = importlib.import_module(f"{module.__name__}.{part}")
        for value in vars(code).values():
            if not (isinstance(value, type) and issubclass(value, PreTrainedModel) and value.__module__ == code.__name__):
                continue
            if value.config_class is wanted and not value.__name__.endswith("PreTrainedModel"):
                return value
    raise LookupError("a part of other models without a class of its own")


def built(name: str, size: configs.Size) -> Any:
    """A model with seeded weights, in evaluation mode."""
    config = configs.tiny(CONFIG_MAPPING[name], size)
    made = model_class(name)
    torch.manual_seed(0)
    model = made(config).eval().float()
    perturb(model)
    for part in model.modules():
        if hasattr(getattr(part, "config", None), "use_cache"):
            part.config.use_cache = False
    return model


def parameters(name: str, size: configs.Size) -> int:
    """Parameters that the model would have."""
    with torch.device("meta"):
        return sum(p.numel() for p in model_class(name)(configs.tiny(CONFIG_MAPPING[name], size)).parameters())


TRIED = (*((size, inputs.FORMS[:2]) for size in configs.SIZES[:5]), *((size, inputs.FORMS) for size in configs.SIZES))
"""Sizes with forms of inputs, in this order: the least that a model must have comes after all that it may take."""
LARGEST = 30_000_000
"""Parameters of a model that is still tried."""


def ready(name: str) -> tuple[Ready | None, str]:
    """The first form of a model that runs, or the reason why none does."""
    first = ""
    for size, forms in TRIED:
        try:
            if parameters(name, size) > LARGEST:
                first = first or "no model: too large"
                continue
            model = built(name, size)
        except Exception as error:  # noqa: BLE001 - transformers raises anything
            first = first or f"{'no class' if isinstance(error, LookupError) else 'no model'}: {line(error)}"
            continue
        for form in forms:
            try:
                given = prepared(model, inputs.make(model, form))
                with torch.no_grad():
                    model(**given)
            except Exception as error:  # noqa: BLE001
                first = f"no eager: {line(error)}" if not first.startswith("no eager") else first
                continue
            return Ready(model, given, f"{type(model).__name__} /{size[0]}{'h' if size[1] else ''} {', '.join(given)}"), ""
    return None, first


def prepared(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The inputs, with those that transformers itself computes before an export."""
    from transformers.exporters.utils import precompute_export_inputs

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        given = dict(given)
        precompute_export_inputs(model, given)
    return given
