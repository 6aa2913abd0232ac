"""A backend of ``transformers.exporters``: the import of this package registers it under the name ``forge``.

    import forge.torch.transformers as hf

    exported = hf.ForgeExporter().export(model, inputs, hf.ForgeConfig(dynamic=True))
    outputs = exported(**inputs)
    exported.save_pretrained("exported")

`generation_model` makes a model with ``generate`` of what ``export_for_generation`` returns.
"""

from __future__ import annotations

try:
    from transformers.exporters import register_backend
    from transformers.exporters.auto import EXPORT_BACKENDS
except ImportError as error:
    raise ImportError("forge.torch.transformers: no transformers.exporters; install transformers 5.23 or later") from error

from forge.torch.transformers.config import FORMAT, ForgeConfig
from forge.torch.transformers.exporter import ForgeExporter
from forge.torch.transformers.generation import generation_model
from forge.torch.transformers.program import ForgeProgram
from forge.torch.transformers.runner import ForgeRunner

if FORMAT not in EXPORT_BACKENDS:
    register_backend(ForgeExporter, ForgeRunner)

__all__ = ["ForgeConfig", "ForgeExporter", "ForgeProgram", "ForgeRunner", "generation_model"]
