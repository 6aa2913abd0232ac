"""The exporter: transformers traces a model, Forge converts and compiles it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from transformers.exporters import DynamoExporter, ExportedModel, ExportFormat, ExportMetadata
from transformers.exporters.utils import _capture_forward, _map_leaf_tensors, get_leaf_tensors

import forge
from forge.errors import ForgeError
from forge.torch.transformers.config import FORMAT, ForgeConfig, compile_options
from forge.torch.transformers.program import LIBRARY, ForgeProgram, compile_together, program_of


class ForgeExporter(DynamoExporter):
    """Compiles models of transformers. All components of one export are functions of one library, over one set of weights.

    Example:

        exported = ForgeExporter().export(model, inputs, ForgeConfig(dynamic=True))
        outputs = exported(**inputs)
        exported.save_pretrained("exported")
    """

    export_format = FORMAT
    config_class = ForgeConfig
    program_suffix = ".json"
    program_prefix = "forge_"
    required_packages = ("torch",)
    tested_versions: Mapping[str, str] = MappingProxyType({})

    def export(self, model: Any, sample_inputs: MutableMapping[str, Any], config: Any) -> ExportedModel:
        """Exports the model as one component, called ``model``.

        Args:
            model: a ``PreTrainedModel``.
            sample_inputs: what ``model(**sample_inputs)`` takes.
            config: a `ForgeConfig`, or a dictionary of its fields.

        Raises:
            ImportModelError, OpNotImplemented: the model cannot be converted; CompileError: it cannot be compiled.
        """
        return _compiled(lambda: super(ForgeExporter, self).export(model, sample_inputs, config))

    def export_for_generation(
        self,
        model: Any,
        sample_inputs: MutableMapping[str, Any],
        config: Any,
        **options: Any,
    ) -> ExportedModel:
        """Exports the stages of ``model.generate(**sample_inputs)``, as functions of one library.

        Those of transformers are ``prefill`` and ``decode``; models with an encoder of their own get ``encoder``, too.

        Args:
            model, sample_inputs: as of ``transformers.exporters.HfExporter.export_for_generation``.
            config: a `ForgeConfig`, or one for each component by its name, equal in what they say of compilation.
            options: ``generation_config`` and ``multi_token_decode``, as there.

        Raises:
            ImportModelError, OpNotImplemented: a component cannot be converted; CompileError: it cannot be compiled;
            OptionError: options of compilation differ between components.
        """

        def export() -> ExportedModel:
            exported = super(ForgeExporter, self).export_for_generation(model, sample_inputs, config, **options)
            if getattr(model.config, "is_encoder_decoder", False) and "encoder" not in exported.components:
                inputs = _encoder_inputs(model, sample_inputs)
                chosen = config.get("encoder", ForgeConfig()) if isinstance(config, dict) else config
                exported.components["encoder"] = self._export_component(model.get_encoder(), inputs, chosen)
            return exported

        return _compiled(export)

    def export_program(
        self, model: Any, sample_inputs: MutableMapping[str, Any], config: Any
    ) -> tuple[ForgeProgram, ExportMetadata]:
        """One component, which is compiled at its first use.

        Raises:
            ImportModelError, OpNotImplemented: it cannot be converted.
        """
        traced = dataclasses.replace(config, export_format=ExportFormat.DYNAMO)  # whose quantizers change graphs of torch
        inputs: Any = _map_leaf_tensors(copy.deepcopy(dict(sample_inputs)), torch.Tensor.contiguous)  # torch compares strides
        exported, metadata = super().export_program(model, inputs, traced)
        metadata.packages["forge"] = forge.__version__
        return program_of(exported, _leaf_names(inputs), compile_options(config)), metadata

    @classmethod
    def save_program(cls, program: ForgeProgram, path: str | Path) -> None:
        """Writes what says how the program is called to ``path``, and the library next to it."""
        program.save(Path(path))

    @classmethod
    def load_program(cls, path: str | Path) -> ForgeProgram:
        """Reads a program; nothing is compiled.

        Raises:
            ArtifactError: a file is missing or damaged.
        """
        return ForgeProgram.load(Path(path))

    @classmethod
    def program_files(cls, filename: str) -> list[str]:
        """The description of a component and the library, which components share."""
        return [filename, LIBRARY]


def _leaf_names(inputs: MutableMapping[str, Any]) -> list[str]:
    """Names of the inputs that are not constants: where they lie in what the model takes."""
    return [name for key, value in inputs.items() for name in get_leaf_tensors({key: value})]


def _encoder_inputs(model: Any, inputs: MutableMapping[str, Any]) -> dict[str, Any]:
    """What ``generate`` calls the encoder with."""
    config = copy.deepcopy(model.generation_config)
    config.max_new_tokens = config.min_new_tokens = 1
    with _capture_forward(model.get_encoder()) as calls:
        model.generate(**copy.deepcopy(dict(inputs)), generation_config=config)
    return dict(calls[0])


def _compiled(export: Callable[[], ExportedModel]) -> ExportedModel:
    """What ``export`` returns, compiled; an error of Forge reaches the caller as it is, with a note on the component."""
    try:
        with torch.no_grad():
            exported = export()
    except RuntimeError as error:
        if not isinstance(error.__cause__, ForgeError):
            raise
        error.__cause__.add_note(str(error))
        raise error.__cause__ from None
    compile_together({name: component.program for name, component in exported.components.items()})
    return exported
