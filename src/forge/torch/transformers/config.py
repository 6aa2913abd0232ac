"""The options of an export: those of transformers for ``torch.export``, and those of a compilation."""

from __future__ import annotations

import dataclasses
from typing import Any

from transformers.exporters import DynamoConfig

from forge.options import CompileOptions, OutputOptions, options_of

FORMAT = "forge"
"""The name of the backend."""

OPTIONS = tuple(o for o in options_of(CompileOptions) + options_of(OutputOptions) if o.name not in (
    "output_path", "force_overwrite", "export_relay", "export_metadata", "uuid", "encrypt_password"))
"""Those of ``IRModule.compile`` but for the ones that say where an artifact goes and what lies next to it."""


_DOCUMENTATION = """How a model of transformers is exported and compiled.

    All fields of ``transformers.exporters.DynamoConfig`` (``dynamic``, ``dynamic_shapes``, ``strict``, ``quantizer`` ...), and of
    ``IRModule.compile``:

    Args:
{}
    Raises:
        OptionError: a value that an option cannot have.
    """


def _check(self: Any) -> None:
    for option in OPTIONS:
        value = getattr(self, option.python)
        if value == [] and option.default == ():  # JSON has no tuples
            setattr(self, option.python, ())
        option.check("ForgeConfig", value)


def compile_options(config: Any) -> dict[str, Any]:
    """The options that ``config`` sets, as arguments of ``IRModule.compile``; the others follow ``forge.PassContext``."""
    values = {option.python: getattr(config, option.python) for option in OPTIONS}
    return {option.python: values[option.python] for option in OPTIONS if values[option.python] != option.default}


ForgeConfig: Any = dataclasses.make_dataclass(
    "ForgeConfig",
    [("export_format", str, FORMAT), *((o.python, Any, o.default) for o in OPTIONS)],
    bases=(DynamoConfig,),
    namespace={
        "__module__": __name__,
        "__post_init__": _check,
        "__doc__": _DOCUMENTATION.format("".join(f"        {o.python}: {o.text}\n" for o in OPTIONS)),
    },
)
