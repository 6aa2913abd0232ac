"""The smallest model of each family of torchvision, with images of a size that it takes."""

from __future__ import annotations

from typing import Any

import torch

from tests.model_zoo import families, vision_operators
from tests.model_zoo.ready import Ready, line

vision_operators.declare()

import torchvision  # noqa: E402

PARTS = "torchvision.models."
VIDEO, FLOW, DETECTION, QUANTIZED = (PARTS + part for part in ("video", "optical_flow", "detection", "quantization"))


def names() -> list[str]:
    """Those of detection end in operators that have no kernel here, and quantized ones take other weights."""
    found = {name: torchvision.models.get_model_builder(name).__module__ for name in torchvision.models.list_models()}
    kept = {name: module for name, module in found.items() if not module.startswith((DETECTION, QUANTIZED))}
    return families.smallest(kept, made)


def made(name: str) -> Any:
    """A model without trained weights; those that segment images would load those of their backbones."""
    segments = "segmentation" in torchvision.models.get_model_builder(name).__module__
    return torchvision.models.get_model(name, weights=None, **{"weights_backbone": None} if segments else {})


def ready(name: str) -> tuple[Ready | None, str]:
    """A model that runs, or the reason why none does."""
    module = torchvision.models.get_model_builder(name).__module__
    shape = (3, 64, 64) if "segmentation" in module else (3, 299, 299) if "inception" in name else (3, 224, 224)
    if module.startswith(VIDEO):
        shape = (3, 16, 112, 112) if "mvit" not in name and "swin" not in name else (3, 16, 224, 224)
    try:
        torch.manual_seed(0)
        model = made(name).eval()
    except Exception as error:  # noqa: BLE001 - models raise anything
        return None, f"no model: {line(error)}"
    pair = ("image1", "image2") if module.startswith(FLOW) else ("x",)
    shape = (3, 128, 128) if len(pair) == 2 else shape
    return families.tried(model, {arg: torch.randn(1, *shape) for arg in pair}, type(model).__name__)
