"""What ``forge.from_torch`` takes, as programs."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.support import MISSING, Use
from forge.frontends.torch.archive import read_program
from forge.frontends.torch.exported import program_of, target_name
from forge.frontends.torch.importer import import_program, used_operators
from forge.frontends.torch.program import Program
from forge.ir.nodes import Module

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def load(model: Any, input_infos: Any = None) -> Program:
    """The program of a ``.pt2`` file, an exported program, a module with example inputs, ...

    Raises:
        ImportModelError: it is none of these.
    """
    if isinstance(model, str | os.PathLike):
        return read_program(Path(model))
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return supported_program(model)
    if isinstance(model, torch.nn.Module):
        return supported_program(torch.export.export(model, tuple(input_infos)))
    raise ImportModelError(f"from_torch: got {type(model).__name__}; expected an ExportedProgram, a module or a path")


def supported_program(exported: ExportedProgram) -> Program:
    """The program; what has no converter is taken apart by torch's own decompositions, as far as it has them."""
    program = program_of(exported)
    missing = {f"{use.domain or 'aten'}.{use.op}" for use in used_operators(program) if use.how == MISSING}
    return program_of(decomposed(exported, missing)) if missing else program


def decomposed(exported: ExportedProgram, targets: set[str]) -> ExportedProgram:
    """``exported`` with the operators called ``targets`` taken apart, and what they consist of that has no converter, too."""
    import torch
    from torch._decomp import core_aten_decompositions

    from forge.frontends.torch.importer import lookup

    known = {**torch.export.default_decompositions(), **core_aten_decompositions()}
    table = {op: function for op, function in known.items() if target_name(op) in targets or lookup(target_name(op)) is None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exported.run_decompositions(table)


def import_model(model: Any, input_infos: Any = None) -> Module:
    """Converts a PyTorch model; everything is as of ``IRModule.from_torch``."""
    try:
        return import_program(load(model, input_infos))
    except OpNotImplemented as error:
        if type(error) is OpNotImplemented and isinstance(model, str | os.PathLike):
            raise OpNotImplemented(f"{error}; or save exported.run_decompositions(), which has fewer operators") from error
        raise


def model_operators(path: Path) -> list[Use]:
    """The operators that a file uses, and what loads each."""
    return used_operators(load(path))
