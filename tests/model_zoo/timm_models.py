"""The smallest model of each family of timm, with images of the size that it declares."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from tests.model_zoo import families, vision_operators
from tests.model_zoo.ready import Ready, line

vision_operators.declare()

import timm  # noqa: E402


def names() -> list[str]:
    found = {name: module for module in timm.list_modules() for name in timm.list_models(module=module)}
    return families.smallest({name: module for name, module in found.items() if name in _likely(found)}, timm.create_model)


def _likely(modules: Mapping[str, str]) -> set[str]:
    """Three names of each module, those first that say of themselves that they are small."""
    small = re.compile("atto|femto|pico|nano|xxs|tiny|mini|small|18|(_|-)(xs|s|t|b?0)(_|$)")
    return {name for module in set(modules.values()) for name in sorted(
        (n for n, m in modules.items() if m == module), key=lambda n: (not small.search(n), len(n), n))[:3]}


def ready(name: str) -> tuple[Ready | None, str]:
    """A model that runs, or the reason why none does."""
    try:
        torch.manual_seed(0)
        model = timm.create_model(name).eval()
    except Exception as error:  # noqa: BLE001 - models raise anything
        return None, f"no model: {line(error)}"
    shape = model.pretrained_cfg.get("input_size", (3, 224, 224))
    return families.tried(model, {"x": torch.randn(1, *shape)}, name)
