"""What ``forge.from_torch`` takes, as programs."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge.errors import ForgeError, ImportModelError, OpAttributeInvalid, OpNotImplemented, OptionError
from forge.frontends.convert import located
from forge.frontends.support import MISSING, Use
from forge.frontends.torch import input_infos as input_info
from forge.frontends.torch.archive import read_program
from forge.frontends.torch.custom import custom_converters
from forge.frontends.torch.exported import program_of, target_name
from forge.frontends.torch.importer import import_program, used_operators
from forge.frontends.torch.input_infos import InputInfo
from forge.frontends.torch.program import Program
from forge.ir.nodes import Module

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def load(
    model: Any, input_infos: Any = None, default_dtype: str = "float32", dynamic_shapes: Any = None, where: str = "from_torch"
) -> Program:
    """The program of a ``.pt2`` file, an exported program, a module, a trace or a graph module.

    The arguments are those of ``from_torch``.

    Raises:
        OptionError: an argument of the wrong kind; ImportModelError: the model is none of these, cannot be exported, or has other
        inputs.
    """
    infos: Sequence[InputInfo] | None = None if input_infos is None else input_info.parse(input_infos, where)
    if isinstance(model, str | os.PathLike):
        if dynamic_shapes is not None:
            raise OptionError(f"{where}: dynamic_shapes: got {dynamic_shapes!r}; expected None: a file has its own")
        program = read_program(Path(model))
    else:
        exported, infos = exported_program(model, infos, default_dtype, dynamic_shapes, where)
        program = supported_program(exported, where)
    _rename(program, infos, where)
    return program


def exported_program(
    model: Any, infos: Sequence[InputInfo] | None, default_dtype: str, dynamic_shapes: Any, where: str
) -> tuple[ExportedProgram, Sequence[InputInfo] | None]:
    """``model`` as torch exports it, with sizes as ``infos`` say, and its inputs; those of a trace are known without.

    Raises:
        OptionError: an argument that does not go with the model; ImportModelError: torch cannot export it.
    """
    import torch

    from forge.frontends.torch import traces

    if isinstance(model, torch.export.ExportedProgram):
        if dynamic_shapes is not None:
            raise OptionError(f"{where}: dynamic_shapes: got {dynamic_shapes!r}; expected None: an ExportedProgram has its own")
        return _unwrapped(model), infos
    if isinstance(model, torch.jit.ScriptFunction):
        raise ImportModelError(f"{where}: got a ScriptFunction; expected a module: trace one that calls the function")
    if not isinstance(model, torch.nn.Module):
        got = model.__name__ if isinstance(model, type) else type(model).__name__
        raise ImportModelError(f"{where}: got {got}; expected a trace, a module, an ExportedProgram, a GraphModule or a path")
    if isinstance(model, torch.jit.ScriptModule):
        infos = _infos_of_trace(model, infos, where)
        with located(where):
            model = traces.Replayed(model)
    if infos is None:
        raise OptionError(f"{where}: input_infos: got None for a module; expected example tensors, or {input_info.EXPECTED}")
    return _unwrapped(_exported(model, infos, default_dtype, dynamic_shapes, where)), infos


def _unwrapped(exported: ExportedProgram) -> ExportedProgram:
    """``exported`` with plain tensors in the place of weights that are several tensors in one, as quantised ones are."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if not any(map(is_traceable_wrapper_subclass, exported.state_dict.values())):
        return exported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exported.run_decompositions({})


def _exported(
    model: torch.nn.Module, infos: Sequence[InputInfo], default_dtype: str, dynamic: Any, where: str
) -> ExportedProgram:
    import torch

    arguments = input_info.examples(infos, default_dtype)
    by_name = isinstance(infos, input_info.Named)
    if dynamic is None:
        dynamic = input_info.dynamic_shapes(infos)
        dynamic = dict(zip((i.name for i in infos), dynamic)) if by_name else dynamic
        if not by_name and any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(model.forward).parameters.values()):
            dynamic = _for_variadic(model, dynamic)
    args, kwargs = ((), dict(zip((i.name for i in infos), arguments))) if by_name else (arguments, None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.export(model, args, kwargs, dynamic_shapes=dynamic, strict=False)
    except ForgeError:
        raise
    except Exception as error:  # the model's own code, which may raise anything, runs here
        sizes = ", ".join(f"{n or '?'}: {i.shape}" for info in infos for n, i in info.leaves())
        raise ImportModelError(
            f"{where}: torch.export failed for inputs {sizes}; expected a model that it takes: change it, fix the sizes that it "
            f"fixes, or give example tensors and dynamic_shapes; got {type(error).__name__}: {error}"
        ) from error


def _for_variadic(model: torch.nn.Module, dynamic: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes of ``forward(self, *arguments)``, which torch takes as one tuple after those of the other parameters."""
    kinds = [p.kind for p in inspect.signature(model.forward).parameters.values()]
    first = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*dynamic[:first], tuple(dynamic[first:]))


def _infos_of_trace(script: Any, infos: Sequence[InputInfo] | None, where: str) -> Sequence[InputInfo]:
    """What is said of a trace's inputs, completed by what it was made with."""
    from forge.frontends.torch import traces

    count, traced = traces.input_count(script), traces.traced_inputs(script)
    if infos is None:
        if traced is None:
            raise OptionError(f"{where}: input_infos: got None, and the module does not say its shapes; {input_info.EXPECTED}")
        return traced
    if isinstance(infos, input_info.Named):
        infos = list(infos)
    if len(infos) != count:
        known = "" if traced is None else ": " + ", ".join(f"{i.name} {_traced_shape(i)}" for i in traced)
        raise ImportModelError(f"{where}: input_infos: got {len(infos)} inputs; the trace has {count}{known}")
    return [input_info.completed(info, traced[k] if traced else None, where) for k, info in enumerate(infos)]


def _traced_shape(info: InputInfo) -> str:
    return ", ".join(f"{leaf.dtype}{list(leaf.shape or ())}" for _, leaf in info.leaves())


def supported_program(exported: ExportedProgram, where: str = "from_torch") -> Program:
    """The program; what has no converter is taken apart by torch's own decompositions, as far as it has them."""
    program = program_of(exported, where)
    missing = {f"{use.domain or 'aten'}.{use.op}" for use in used_operators(program) if use.how == MISSING}
    return program_of(decomposed(exported, missing), where) if missing else program


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


def import_model(
    model: Any,
    input_infos: Any = None,
    custom_convert_map: Mapping[str, Any] | None = None,
    default_dtype: str = "float32",
    use_parser_friendly_name: bool = False,
    *,
    keep_params_as_input: bool = False,
    dynamic_shapes: Any = None,
    otherwise: Otherwise | None = None,
    decompose: bool = True,
    where: str = "from_torch",
) -> Module:
    """Converts a PyTorch model; everything is as of ``IRModule.from_torch``.

    ``otherwise`` makes the module of an exported program that cannot be converted, of its inputs and of the error. Without
    ``decompose``, what has no converter is refused.
    """
    with custom_converters(custom_convert_map, where):
        if isinstance(model, str | os.PathLike):
            program = load(model, input_infos, default_dtype, dynamic_shapes, where)
            try:
                return _converted(program, use_parser_friendly_name, keep_params_as_input)
            except OpNotImplemented as error:
                if type(error) is not OpNotImplemented:
                    raise
                raise OpNotImplemented(f"{error}; or save exported.run_decompositions(), which has fewer operators") from error
        infos = None if input_infos is None else input_info.parse(input_infos, where)
        exported, infos_ = exported_program(model, infos, default_dtype, dynamic_shapes, where)
        try:
            program = supported_program(exported, where) if decompose else program_of(exported, where)
        except UNCONVERTED as error:
            if otherwise is None:
                raise
            return otherwise(exported, infos_, error)
        _rename(program, infos_, where)
        try:
            return _converted(program, use_parser_friendly_name, keep_params_as_input)
        except UNCONVERTED as error:
            if otherwise is None:
                raise
            return otherwise(exported, infos_, error)


UNCONVERTED = (ImportModelError, OpNotImplemented, OpAttributeInvalid)
"""Errors of models, not of arguments."""

Otherwise = Callable[["ExportedProgram", Sequence[InputInfo] | None, ForgeError], Module]


def _converted(program: Program, plain_names: bool, keep_params_as_input: bool) -> Module:
    if plain_names:
        rename_weights(program)
    return import_program(program, keep_params_as_input)


def _rename(program: Program, infos: Sequence[InputInfo] | None, where: str) -> None:
    if infos is not None:
        input_info.rename(program, infos, where)


def rename_weights(program: Program) -> None:
    """Names of weights without dots: ``layer.weight`` is ``layer_weight``."""
    taken = {item.label for item in program.inputs}
    for name, weight in program.weights.items():
        label = weight.label.replace(".", "_")
        while label in taken:
            label += "_"
        taken.add(label)
        program.weights[name] = replace(weight, label=label)


def model_operators(path: Path) -> list[Use]:
    """The operators that a file uses, and what loads each."""
    return used_operators(load(path))
