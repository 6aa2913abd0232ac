"""What the sweeps over torchvision and timm share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from tests.model_zoo.ready import NOISE, Ready, line


def smallest(modules: Mapping[str, str], make: Callable[[str], Any]) -> list[str]:
    """Of the names with the same module, the one whose model has the fewest parameters."""
    found: dict[str, tuple[int, str]] = {}
    for name, module in modules.items():
        size = _parameters(partial(make, name))
        found[module] = min(found.get(module, (size, name)), (size, name))
    return sorted(name for _, name in found.values())


def _parameters(make: Callable[[], Any]) -> int:
    """How many a model has; some compute with their weights as they are made."""
    for device in ("meta", "cpu"):
        try:
            with torch.device(device):
                return sum(p.numel() for p in make().parameters())
        except Exception:  # noqa: BLE001 - models raise anything
            continue
    return 1 << 60


def perturb(model: Any) -> None:
    """Adds noise to every parameter, so that none is zero and no two experts are chosen with equal scores."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * NOISE)


def tried(model: Any, given: dict[str, Any], recipe: str) -> tuple[Ready | None, str]:
    """The model if it runs, else the reason; the inputs are its first ones."""
    perturb(model)
    names = list(inspect.signature(model.forward).parameters)[: len(given)]
    inputs = dict(zip(names, given.values()))
    try:
        with torch.no_grad():
            model(**inputs)
    except Exception as error:  # noqa: BLE001 - models raise anything
        return None, f"no eager: {line(error)}"
    return Ready(model, inputs, f"{recipe} {', '.join('x'.join(map(str, t.shape)) for t in inputs.values())}"), ""
