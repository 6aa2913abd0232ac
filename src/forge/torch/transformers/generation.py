"""``generate`` by compiled components: a model of the exported class without weights, which calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import transformers
from transformers.exporters import ExportedModel

from forge.errors import InputError, OptionError
from forge.torch.transformers.runner import ForgeRunner

STAGES = ("prefill", "decode")
_SAYS_NOTHING = ("use_cache", "return_dict", "logits_to_keep")
"""Arguments of models that change nothing in what ``generate`` reads."""


def generation_model(exported: ExportedModel) -> Any:
    """A model whose ``generate`` runs the components of ``exported``; it has all that ``generate`` of transformers has.

    It is of the class that was exported, but without weights. Batch, lengths and kind of cache are as exported: a static cache
    needs the ``generation_config`` of the export, which ``exported`` keeps.

    Args:
        exported: what ``ForgeExporter.export_for_generation`` returned, or ``ExportedModel.from_pretrained`` of it.

    Raises:
        OptionError: it has no components ``prefill`` and ``decode``, or no configuration, or its class is not of transformers.
    """
    runners: dict[str, Any] = exported.runners
    if not set(STAGES) <= set(runners) or exported.config is None:
        raise OptionError(f"generation_model: got components {[*runners]}; expected prefill and decode, and a configuration")
    name = str(exported.components["prefill"].metadata.architecture)
    base: Any = getattr(transformers, name, None)
    if base is None:
        raise OptionError(f"generation_model: transformers has no class {name!r}; call exported.runners[...] instead")

    @functools.wraps(base.forward)
    def forward(self: Any, **kwargs: Any) -> Any:
        return _call(_stage(runners, kwargs), kwargs)

    made: Any = type(f"Forge{name}", (base,), {"forward": forward, "device": property(lambda self: torch.device("cpu"))})
    with torch.device("meta"):
        model: Any = made._from_config(exported.config, dtype=exported.dtype)
    if exported.generation_config is not None:
        model.generation_config = exported.generation_config
    if "encoder" in runners:
        encoder = model.get_encoder()
        encoder.forward = functools.wraps(encoder.forward)(_caller(runners["encoder"]))
    return model.eval()


def _caller(runner: ForgeRunner) -> Callable[..., Any]:
    return lambda **kwargs: _call(runner, kwargs)


def _stage(runners: dict[str, Any], kwargs: dict[str, Any]) -> ForgeRunner:
    """The component that takes the cache as it is now: before the first tokens, it has other tensors than later."""
    for name in STAGES:
        runner: ForgeRunner = runners[name]
        if runner.takes(kwargs):
            return runner
    raise InputError("generate: the cache is of another kind than those with which prefill and decode were exported")


def _call(runner: ForgeRunner, kwargs: dict[str, Any]) -> Any:
    """Calls a component with what it was exported with.

    Raises:
        InputError: an argument says what the component does not know of.
    """
    names = runner.argument_names
    given = {name: value for name, value in kwargs.items() if value is not None or name in runner.metadata.in_constants}
    for name in [n for n in given if n not in names]:
        value = given.pop(name)
        is_ones = name.endswith("attention_mask") and isinstance(value, torch.Tensor) and value.dim() == 2 and bool(value.all())
        if not (name in _SAYS_NOTHING or value is False or is_ones):
            example = "something is masked" if name.endswith("attention_mask") else f"{name} is given"
            raise InputError(f"{runner.where}: got {name}; expected {names}; export it with an example in which {example}")
    if "attention_mask" in names and "attention_mask" not in given and "input_ids" in given:
        tokens, cache = given["input_ids"], given.get("past_key_values")
        past = 0 if cache is None else int(cache.get_seq_length())
        given["attention_mask"] = torch.ones(tokens.shape[0], past + tokens.shape[1], dtype=torch.int64)
    return runner(**given)
