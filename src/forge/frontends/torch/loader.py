"""What ``forge.from_torch`` takes, as programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forge.errors import ImportModelError
from forge.frontends.support import Use
from forge.frontends.torch.exported import program_of
from forge.frontends.torch.importer import import_program, used_operators
from forge.frontends.torch.program import Program
from forge.ir.nodes import Module


def load(model: Any, input_infos: Any = None) -> Program:
    """The program of an exported program, a module with example inputs, ...

    Raises:
        ImportModelError: it is none of these.
    """
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return program_of(model)
    if isinstance(model, torch.nn.Module):
        return program_of(torch.export.export(model, tuple(input_infos)))
    raise ImportModelError(f"from_torch: got {type(model).__name__}; expected an ExportedProgram, a module or a path")


def import_model(model: Any, input_infos: Any = None) -> Module:
    """Converts a PyTorch model; everything is as of ``IRModule.from_torch``."""
    return import_program(load(model, input_infos))


def model_operators(path: Path) -> list[Use]:
    """The operators that a file uses, and what loads each."""
    return used_operators(load(path))
