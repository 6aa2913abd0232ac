"""The smallest model of each family of timm, with images of the size that it declares."""

from __future__ import annotations

import torch

from tests.model_zoo import families, vision_operators
from tests.model_zoo.ready import Ready, line

vision_operators.declare()

import timm  # noqa: E402


def names() -> list[str]:
    found = {name: module for module in timm.list_modules() for name in timm.list_models(module=module)}
    return families.smallest(found, lambda name: timm.create_model(name))


def ready(name: str) -> tuple[Ready | None, str]:
    """A model that runs, or the reason why none does."""
    try:
        torch.manual_seed(0)
        model = timm.create_model(name).eval()
    except Exception as error:  # noqa: BLE001 - models raise anything
        return None, f"no model: {line(error)}"
    shape = model.pretrained_cfg.get("input_size", (3, 224, 224))
    return families.tried(model, {"x": torch.randn(1, *shape)}, name)
